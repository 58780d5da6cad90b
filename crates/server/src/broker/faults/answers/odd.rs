//! Refusals of requests whose answers have a shape of their own.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{ErrorCode, StrBytes, TopicId};

pub(super) fn refused_find_coordinator(
    request: &m::find_coordinator_request::FindCoordinatorRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
    let coordinators = request.coordinator_keys.iter().map(|key| Coordinator {
        key: key.clone(),
        node_id: -1,
        port: -1,
        error_code: error.code(),
        ..Coordinator::default()
    });
    ResponseMessage::FindCoordinator(FindCoordinatorResponse {
        error_code: error.code(),
        node_id: -1,
        port: -1,
        coordinators: coordinators.collect(),
        ..FindCoordinatorResponse::default()
    })
}

pub(super) fn refused_offset_fetch(
    request: &m::offset_fetch_request::OffsetFetchRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::offset_fetch_response::{OffsetFetchResponse, OffsetFetchResponseGroup};
    let groups = request.groups.iter().map(|group| OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        error_code: error.code(),
        ..OffsetFetchResponseGroup::default()
    });
    ResponseMessage::OffsetFetch(OffsetFetchResponse {
        error_code: error.code(),
        groups: groups.collect(),
        ..OffsetFetchResponse::default()
    })
}

pub(super) fn refused_delete_topics(
    request: &m::delete_topics_request::DeleteTopicsRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
    let refused = |name: Option<StrBytes>, topic_id| DeletableTopicResult {
        name,
        topic_id,
        error_code: error.code(),
        ..DeletableTopicResult::default()
    };
    let named = request.topic_names.iter().map(|name| refused(Some(name.clone()), TopicId::default()));
    let topics = request.topics.iter().map(|topic| refused(topic.name.clone(), topic.topic_id));
    ResponseMessage::DeleteTopics(DeleteTopicsResponse {
        responses: named.chain(topics).collect(),
        ..DeleteTopicsResponse::default()
    })
}

pub(super) fn refused_log_dirs(
    request: &m::alter_replica_log_dirs_request::AlterReplicaLogDirsRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::alter_replica_log_dirs_response::{
        AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
    };
    let topics = request.dirs.iter().flat_map(|dir| &dir.topics);
    let results = topics.map(|topic| AlterReplicaLogDirTopicResult {
        topic_name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| AlterReplicaLogDirPartitionResult {
                partition_index: *partition,
                error_code: error.code(),
            })
            .collect(),
    });
    ResponseMessage::AlterReplicaLogDirs(AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..AlterReplicaLogDirsResponse::default()
    })
}

pub(super) fn refused_add_partitions(
    request: &m::add_partitions_to_txn_request::AddPartitionsToTxnRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnTopicResult,
    };
    let topics = request.v3_and_below_topics.iter().map(|topic| AddPartitionsToTxnTopicResult {
        name: topic.name.clone(),
        results_by_partition: topic
            .partitions
            .iter()
            .map(|partition| AddPartitionsToTxnPartitionResult {
                partition_index: *partition,
                partition_error_code: error.code(),
            })
            .collect(),
    });
    ResponseMessage::AddPartitionsToTxn(AddPartitionsToTxnResponse {
        error_code: error.code(),
        results_by_topic_v3_and_below: topics.collect(),
        ..AddPartitionsToTxnResponse::default()
    })
}

pub(super) fn refused_markers(
    request: &m::write_txn_markers_request::WriteTxnMarkersRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
        WriteTxnMarkersResponse,
    };
    let partition =
        |index: &i32| WritableTxnMarkerPartitionResult { partition_index: *index, error_code: error.code() };
    let markers = request.markers.iter().map(|marker| WritableTxnMarkerResult {
        producer_id: marker.producer_id,
        topics: marker
            .topics
            .iter()
            .map(|topic| WritableTxnMarkerTopicResult {
                name: topic.name.clone(),
                partitions: topic.partition_indexes.iter().map(partition).collect(),
            })
            .collect(),
    });
    ResponseMessage::WriteTxnMarkers(WriteTxnMarkersResponse { markers: markers.collect() })
}

pub(super) fn refused_quotas(
    request: &m::alter_client_quotas_request::AlterClientQuotasRequest,
    error: ErrorCode,
) -> ResponseMessage {
    use m::alter_client_quotas_response::{AlterClientQuotasResponse, EntityData, EntryData};
    let entries = request.entries.iter().map(|entry| EntryData {
        error_code: error.code(),
        entity: entry
            .entity
            .iter()
            .map(|it| EntityData { entity_type: it.entity_type.clone(), entity_name: it.entity_name.clone() })
            .collect(),
        ..EntryData::default()
    });
    ResponseMessage::AlterClientQuotas(AlterClientQuotasResponse {
        entries: entries.collect(),
        ..AlterClientQuotasResponse::default()
    })
}
