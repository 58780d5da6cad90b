//! Answers that say nothing but an error, for requests that a fault refuses.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ApiKey, ErrorCode};

/// Returns whether an error can be answered for requests of this API.
pub(super) const fn can_refuse(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::EndTxn
            | ApiKey::Fetch
            | ApiKey::FindCoordinator
            | ApiKey::InitProducerId
            | ApiKey::Produce
            | ApiKey::ShareAcknowledge
            | ApiKey::ShareFetch
            | ApiKey::ShareGroupHeartbeat
            | ApiKey::TxnShareAcknowledge
    )
}

/// Returns the answer to a request that is refused with `error`, if one can be made.
pub(super) fn refusal(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    let error_code = error.code();
    macro_rules! whole {
        ($name:ident, $module:ident, $response:ident) => {
            ResponseMessage::$name(m::$module::$response { error_code, ..Default::default() })
        };
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "most requests are not refused by faults: can_refuse")]
    let answer = match request {
        RequestMessage::EndTxn(_) => whole!(EndTxn, end_txn_response, EndTxnResponse),
        RequestMessage::Fetch(request) => ResponseMessage::Fetch(refused_fetch(request, error)),
        RequestMessage::FindCoordinator(request) => {
            ResponseMessage::FindCoordinator(refused_find_coordinator(request, error))
        }
        RequestMessage::InitProducerId(_) => {
            whole!(InitProducerId, init_producer_id_response, InitProducerIdResponse)
        }
        RequestMessage::Produce(request) => ResponseMessage::Produce(refused_produce(request, error)),
        RequestMessage::ShareAcknowledge(_) => {
            whole!(ShareAcknowledge, share_acknowledge_response, ShareAcknowledgeResponse)
        }
        RequestMessage::ShareFetch(_) => whole!(ShareFetch, share_fetch_response, ShareFetchResponse),
        RequestMessage::ShareGroupHeartbeat(_) => {
            whole!(ShareGroupHeartbeat, share_group_heartbeat_response, ShareGroupHeartbeatResponse)
        }
        RequestMessage::TxnShareAcknowledge(_) => {
            whole!(TxnShareAcknowledge, txn_share_acknowledge_response, TxnShareAcknowledgeResponse)
        }
        _ => return None,
    };
    Some(answer)
}

fn refused_produce(
    request: &m::produce_request::ProduceRequest,
    error: ErrorCode,
) -> m::produce_response::ProduceResponse {
    use m::produce_response::{PartitionProduceResponse, ProduceResponse, TopicProduceResponse};
    let topics = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|partition| PartitionProduceResponse {
                index: partition.index,
                error_code: error.code(),
                base_offset: -1,
                ..PartitionProduceResponse::default()
            })
            .collect(),
    });
    ProduceResponse { responses: topics.collect(), ..ProduceResponse::default() }
}

fn refused_fetch(
    request: &m::fetch_request::FetchRequest,
    error: ErrorCode,
) -> m::fetch_response::FetchResponse {
    use m::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
    let topics = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| PartitionData {
                partition_index: partition.partition,
                error_code: error.code(),
                high_watermark: -1,
                ..PartitionData::default()
            })
            .collect(),
    });
    FetchResponse { responses: topics.collect(), ..FetchResponse::default() }
}

fn refused_find_coordinator(
    request: &m::find_coordinator_request::FindCoordinatorRequest,
    error: ErrorCode,
) -> m::find_coordinator_response::FindCoordinatorResponse {
    use m::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
    let coordinators = request.coordinator_keys.iter().map(|key| Coordinator {
        key: key.clone(),
        node_id: -1,
        port: -1,
        error_code: error.code(),
        ..Coordinator::default()
    });
    FindCoordinatorResponse {
        error_code: error.code(),
        node_id: -1,
        port: -1,
        coordinators: coordinators.collect(),
        ..FindCoordinatorResponse::default()
    }
}
