//! TxnShareAcknowledge in the shapes of two earlier drafts of KIP-1289, read as the request of key 95.
//!
//! Kafka 4.4 has given their keys to other requests. So what the keys mean depends on the listener, and they are not in
//! the table of APIs.

use bytes::Bytes;

use crate::codec::{DecodeError, Message, Reader};
use crate::messages::request_header::RequestHeader;
use crate::messages::txn_share_acknowledge_k93_request as k93;
use crate::messages::txn_share_acknowledge_request as k95;

/// The version of the header that a draft's request has: both drafts are flexible.
const HEADER_VERSION: i16 = 2;
/// The only version.
const VERSION: i16 = 0;
/// The type of an offset without a record, which came with key 95.
const GAP: i8 = 0;
/// No draft has this type.
const NO_TYPE: i8 = -1;

/// An earlier draft of KIP-1289. It answers as key 95 does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TxnShareDraft {
    /// The first one: key 93, with one acknowledge type for each range.
    K93,
    /// The one between: key 94, in the shape of key 95.
    K94,
}

impl TxnShareDraft {
    /// The drafts in ascending order of their keys.
    pub const ALL: [Self; 2] = [Self::K93, Self::K94];

    /// Returns the number on the wire.
    pub const fn key(self) -> i16 {
        match self {
            Self::K93 => 93,
            Self::K94 => 94,
        }
    }

    /// Reads a whole request frame, without the length in front of it.
    ///
    /// These drafts know accept and reject alone. What they call 0 is no gap, so it comes out as a type that nobody
    /// knows.
    ///
    /// # Errors
    ///
    /// If the version is not 0, the bytes are no such request, or some are left over.
    pub fn decode_request(
        self,
        frame: &Bytes,
    ) -> Result<(RequestHeader, k95::TxnShareAcknowledgeRequest), DecodeError> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(HEADER_VERSION, &mut reader)?;
        if header.request_api_version != VERSION {
            return Err(DecodeError::UnsupportedVersion);
        }
        let mut request = match self {
            Self::K93 => widened(k93::TxnShareAcknowledgeK93Request::decode(VERSION, &mut reader)?),
            Self::K94 => k95::TxnShareAcknowledgeRequest::decode(VERSION, &mut reader)?,
        };
        reader.finish()?;
        forget_gaps(&mut request);
        Ok((header, request))
    }
}

/// Turns the one type of each range into a list of one.
fn widened(request: k93::TxnShareAcknowledgeK93Request) -> k95::TxnShareAcknowledgeRequest {
    let batch = |batch: k93::AcknowledgementBatch| k95::AcknowledgementBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        acknowledge_types: vec![batch.acknowledge_type],
    };
    let partition = |partition: k93::AcknowledgePartition| k95::AcknowledgePartition {
        partition_index: partition.partition_index,
        acknowledgement_batches: partition.acknowledgement_batches.into_iter().map(batch).collect(),
    };
    let topic = |topic: k93::AcknowledgeTopic| k95::AcknowledgeTopic {
        topic_id: topic.topic_id,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    k95::TxnShareAcknowledgeRequest {
        transactional_id: request.transactional_id,
        group_id: request.group_id,
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
        member_id: request.member_id,
        member_epoch: request.member_epoch,
        topics: request.topics.into_iter().map(topic).collect(),
    }
}

fn forget_gaps(request: &mut k95::TxnShareAcknowledgeRequest) {
    let partitions = request.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    let batches = partitions.flat_map(|partition| &mut partition.acknowledgement_batches);
    for acknowledge_type in batches.flat_map(|batch| &mut batch.acknowledge_types) {
        if *acknowledge_type == GAP {
            *acknowledge_type = NO_TYPE;
        }
    }
}

#[cfg(test)]
mod tests;
