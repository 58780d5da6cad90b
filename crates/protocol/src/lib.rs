//! Kafka's words: ids, offsets, ranges, error codes, messages and their codecs, the table of served APIs.

mod coordinator_record;
mod error_code;
mod ids;
mod keys;
mod offset;
mod timestamp;

pub use coordinator_record::CoordinatorRecord;
pub use error_code::ErrorCode;
pub use ids::{
    LeaderEpoch, MemberEpoch, NodeId, Producer, ProducerEpoch, ProducerId, StateEpoch, TopicId,
};
pub use keys::{SharePartitionKey, TopicIdPartition, TopicPartition, coordinator_partition, java_string_hash};
pub use offset::{Offset, OffsetRange};
pub use timestamp::Timestamp;
