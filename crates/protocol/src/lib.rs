//! Kafka's words: ids, offsets, ranges, error codes, messages and their codecs, the table of served APIs.

pub mod apis;
mod codec;
mod coordinator_record;
mod error_code;
mod frame;
mod generated;
mod ids;
mod keys;
mod offset;
mod records;
mod str_bytes;
mod timestamp;
mod txn_share_draft;

pub use apis::{APIS, Api, ApiKey, Listed};
pub use codec::{DecodeError, Message, MessageCodec, NEVER_FLEXIBLE, Reader, Writer};
pub use coordinator_record::CoordinatorRecord;
pub use error_code::ErrorCode;
pub use frame::{decode_request, decode_request_header, decode_response, encode_request, encode_response};
pub use ids::{LeaderEpoch, MemberEpoch, NodeId, Producer, ProducerEpoch, ProducerId, StateEpoch, TopicId};
pub use keys::{
    SharePartitionKey, TopicIdPartition, TopicPartition, coordinator_partition, java_string_hash,
};
pub use offset::{Offset, OffsetRange};
pub use records::Records;
pub use str_bytes::StrBytes;
pub use timestamp::Timestamp;
pub use txn_share_draft::TxnShareDraft;

/// The messages, one module for each, generated from Kafka's schemas and ours.
pub mod messages {
    pub use crate::generated::*;
}
