//! TxnShareAcknowledge as a client of an earlier draft sends it.

use sharemark_protocol::messages as m;

use m::txn_share_acknowledge_k93_request::{self as k93, TxnShareAcknowledgeK93Request};
use m::txn_share_acknowledge_request::{self as stage, TxnShareAcknowledgeRequest};
use m::txn_share_acknowledge_response::TxnShareAcknowledgeResponse;

use super::arguments::CommandError;
use super::session::Session;
use crate::client::TxnShareAcknowledgeK94Request;

/// Sends a request in the form that `dialect` names, and returns its answer.
pub(super) fn call(
    session: &mut Session<'_>,
    dialect: &str,
    request: TxnShareAcknowledgeRequest,
) -> Result<TxnShareAcknowledgeResponse, CommandError> {
    match dialect {
        "k95" => session.call(&request, 0),
        "k94" => session.call(&TxnShareAcknowledgeK94Request(request), 0),
        "k93" => session.call(&narrowed(request)?, 0),
        other => Err(format!("no dialect is called `{other}`")),
    }
}

/// Turns the list of types of each range into its one type.
fn narrowed(request: TxnShareAcknowledgeRequest) -> Result<TxnShareAcknowledgeK93Request, CommandError> {
    let batch = |batch: stage::AcknowledgementBatch| {
        let [acknowledge_type] = batch.acknowledge_types[..] else {
            return Err("key 93 has one type for each range".to_owned());
        };
        let (first_offset, last_offset) = (batch.first_offset, batch.last_offset);
        Ok(k93::AcknowledgementBatch { first_offset, last_offset, acknowledge_type })
    };
    let partition = |partition: stage::AcknowledgePartition| {
        let acknowledgement_batches = partition.acknowledgement_batches.into_iter().map(batch);
        Ok::<_, CommandError>(k93::AcknowledgePartition {
            partition_index: partition.partition_index,
            acknowledgement_batches: acknowledgement_batches.collect::<Result<_, _>>()?,
        })
    };
    let topic = |topic: stage::AcknowledgeTopic| {
        let partitions = topic.partitions.into_iter().map(partition).collect::<Result<_, _>>()?;
        Ok::<_, CommandError>(k93::AcknowledgeTopic { topic_id: topic.topic_id, partitions })
    };
    Ok(TxnShareAcknowledgeK93Request {
        transactional_id: request.transactional_id,
        group_id: request.group_id,
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
        member_id: request.member_id,
        member_epoch: request.member_epoch,
        topics: request.topics.into_iter().map(topic).collect::<Result<_, _>>()?,
    })
}
