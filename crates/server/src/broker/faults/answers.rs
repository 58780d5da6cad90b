//! Answers that say nothing but an error, for requests that a fault refuses.

mod odd;

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};

use self::odd::{
    refused_add_partitions, refused_delete_topics, refused_find_coordinator, refused_log_dirs,
    refused_markers, refused_offset_fetch, refused_quotas,
};
use super::super::metadata;

/// Matches requests whose answers have one error for all of it.
macro_rules! whole {
    ($request:expr, $error:expr, $($name:ident: $module:ident::$response:ident,)*) => {
        match $request {
            $(RequestMessage::$name(_) => Some(ResponseMessage::$name(m::$module::$response {
                error_code: $error.code(),
                ..Default::default()
            })),)*
            _ => None,
        }
    };
}

/// An answer with the error for each thing that the request names.
macro_rules! each {
    ($error:expr, $name:ident, $module:ident::$response:ident.$list:ident,
     $item:ident { $($field:ident: $value:expr),* } for $one:pat in $all:expr) => {{
        use m::$module::{$item, $response};
        let $list = $all.map(|$one| $item {
            error_code: $error.code(),
            $($field: $value,)*
            ..$item::default()
        });
        ResponseMessage::$name($response { $list: $list.collect(), ..$response::default() })
    }};
}

/// An answer with the error for each partition that the request names.
macro_rules! each_partition {
    ($error:expr, $name:ident, $module:ident::$response:ident.$list:ident,
     $topic:ident { $($key:ident),* }.$inner:ident, $partition:ident { $($field:ident: $value:expr),* }
     for $one:ident in $all:expr, $part:ident in $parts:expr) => {{
        use m::$module::{$partition, $response, $topic};
        let $list = $all.iter().map(|$one| $topic {
            $($key: $one.$key.clone(),)*
            $inner: $parts.iter().map(|$part| $partition {
                error_code: $error.code(),
                $($field: $value,)*
                ..$partition::default()
            }).collect(),
            ..$topic::default()
        });
        ResponseMessage::$name($response { $list: $list.collect(), ..$response::default() })
    }};
}

/// Returns the answer to a request that is refused with `error`: for all of it where its answer has a place for that,
/// else for each thing that it names.
pub(super) fn refusal(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    refused_whole(request, error)
        .or_else(|| refused_by_partition(request, error))
        .or_else(|| refused_by_share_partition(request, error))
        .or_else(|| refused_by_name(request, error))
        .or_else(|| refused_by_resource(request, error))
}

fn refused_whole(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    whole!(
        request, error,
        AddOffsetsToTxn: add_offsets_to_txn_response::AddOffsetsToTxnResponse,
        AddShareAcksToTxn: add_share_acks_to_txn_response::AddShareAcksToTxnResponse,
        AlterPartitionReassignments: alter_partition_reassignments_response::AlterPartitionReassignmentsResponse,
        AlterShareGroupOffsets: alter_share_group_offsets_response::AlterShareGroupOffsetsResponse,
        ApiVersions: api_versions_response::ApiVersionsResponse,
        ConsumerGroupHeartbeat: consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse,
        DeleteShareGroupOffsets: delete_share_group_offsets_response::DeleteShareGroupOffsetsResponse,
        DescribeAcls: describe_acls_response::DescribeAclsResponse,
        DescribeClientQuotas: describe_client_quotas_response::DescribeClientQuotasResponse,
        DescribeCluster: describe_cluster_response::DescribeClusterResponse,
        DescribeLogDirs: describe_log_dirs_response::DescribeLogDirsResponse,
        DescribeQuorum: describe_quorum_response::DescribeQuorumResponse,
        DescribeUserScramCredentials: describe_user_scram_credentials_response::DescribeUserScramCredentialsResponse,
        ElectLeaders: elect_leaders_response::ElectLeadersResponse,
        EndTxn: end_txn_response::EndTxnResponse,
        Heartbeat: heartbeat_response::HeartbeatResponse,
        InitProducerId: init_producer_id_response::InitProducerIdResponse,
        JoinGroup: join_group_response::JoinGroupResponse,
        LeaveGroup: leave_group_response::LeaveGroupResponse,
        ListConfigResources: list_config_resources_response::ListConfigResourcesResponse,
        ListGroups: list_groups_response::ListGroupsResponse,
        ListPartitionReassignments: list_partition_reassignments_response::ListPartitionReassignmentsResponse,
        ListTransactions: list_transactions_response::ListTransactionsResponse,
        OffsetDelete: offset_delete_response::OffsetDeleteResponse,
        SaslAuthenticate: sasl_authenticate_response::SaslAuthenticateResponse,
        SaslHandshake: sasl_handshake_response::SaslHandshakeResponse,
        SeedTxnShareAcknowledge: seed_txn_share_acknowledge_response::SeedTxnShareAcknowledgeResponse,
        ShareAcknowledge: share_acknowledge_response::ShareAcknowledgeResponse,
        ShareFetch: share_fetch_response::ShareFetchResponse,
        ShareGroupHeartbeat: share_group_heartbeat_response::ShareGroupHeartbeatResponse,
        SyncGroup: sync_group_response::SyncGroupResponse,
        TxnShareAcknowledge: txn_share_acknowledge_response::TxnShareAcknowledgeResponse,
        UnregisterBroker: unregister_broker_response::UnregisterBrokerResponse,
        UpdateFeatures: update_features_response::UpdateFeaturesResponse,
    )
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others name no partitions")]
#[expect(clippy::needless_update, reason = "some of these structures have no other fields")]
fn refused_by_partition(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    let answer = match request {
        RequestMessage::Produce(request) => each_partition!(
            error, Produce, produce_response::ProduceResponse.responses,
            TopicProduceResponse { name, topic_id }.partition_responses,
            PartitionProduceResponse { index: part.index, base_offset: -1 }
            for topic in request.topic_data, part in topic.partition_data),
        RequestMessage::Fetch(request) => each_partition!(
            error, Fetch, fetch_response::FetchResponse.responses,
            FetchableTopicResponse { topic, topic_id }.partitions,
            PartitionData { partition_index: part.partition, high_watermark: -1 }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::ListOffsets(request) => each_partition!(
            error, ListOffsets, list_offsets_response::ListOffsetsResponse.topics,
            ListOffsetsTopicResponse { name }.partitions,
            ListOffsetsPartitionResponse { partition_index: part.partition_index }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::OffsetCommit(request) => each_partition!(
            error, OffsetCommit, offset_commit_response::OffsetCommitResponse.topics,
            OffsetCommitResponseTopic { name, topic_id }.partitions,
            OffsetCommitResponsePartition { partition_index: part.partition_index }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::TxnOffsetCommit(request) => each_partition!(
            error, TxnOffsetCommit, txn_offset_commit_response::TxnOffsetCommitResponse.topics,
            TxnOffsetCommitResponseTopic { name, topic_id }.partitions,
            TxnOffsetCommitResponsePartition { partition_index: part.partition_index }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::DeleteRecords(request) => each_partition!(
            error, DeleteRecords, delete_records_response::DeleteRecordsResponse.topics,
            DeleteRecordsTopicResult { name }.partitions,
            DeleteRecordsPartitionResult { partition_index: part.partition_index, low_watermark: -1 }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::OffsetForLeaderEpoch(request) => each_partition!(
            error, OffsetForLeaderEpoch, offset_for_leader_epoch_response::OffsetForLeaderEpochResponse.topics,
            OffsetForLeaderTopicResult { topic }.partitions,
            EpochEndOffset { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::DescribeProducers(request) => each_partition!(
            error, DescribeProducers, describe_producers_response::DescribeProducersResponse.topics,
            TopicResponse { name }.partitions,
            PartitionResponse { partition_index: *part }
            for topic in request.topics, part in topic.partition_indexes),
        RequestMessage::AlterReplicaLogDirs(request) => refused_log_dirs(request, error),
        RequestMessage::AddPartitionsToTxn(request) => refused_add_partitions(request, error),
        RequestMessage::WriteTxnMarkers(request) => refused_markers(request, error),
        _ => return None,
    };
    Some(answer)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others name no share partitions by their topics' ids"
)]
#[expect(clippy::needless_update, reason = "some of these structures have no other fields")]
fn refused_by_share_partition(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    let answer = match request {
        RequestMessage::InitializeShareGroupState(request) => each_partition!(
            error, InitializeShareGroupState,
            initialize_share_group_state_response::InitializeShareGroupStateResponse.results,
            InitializeStateResult { topic_id }.partitions, PartitionResult { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::ReadShareGroupState(request) => each_partition!(
            error, ReadShareGroupState, read_share_group_state_response::ReadShareGroupStateResponse.results,
            ReadStateResult { topic_id }.partitions, PartitionResult { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::WriteShareGroupState(request) => each_partition!(
            error, WriteShareGroupState, write_share_group_state_response::WriteShareGroupStateResponse.results,
            WriteStateResult { topic_id }.partitions, PartitionResult { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::DeleteShareGroupState(request) => each_partition!(
            error, DeleteShareGroupState,
            delete_share_group_state_response::DeleteShareGroupStateResponse.results,
            DeleteStateResult { topic_id }.partitions, PartitionResult { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        RequestMessage::ReadShareGroupStateSummary(request) => each_partition!(
            error, ReadShareGroupStateSummary,
            read_share_group_state_summary_response::ReadShareGroupStateSummaryResponse.results,
            ReadStateSummaryResult { topic_id }.partitions, PartitionResult { partition: part.partition }
            for topic in request.topics, part in topic.partitions),
        _ => return None,
    };
    Some(answer)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others name no topics, groups or transactional ids")]
fn refused_by_name(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    let answer = match request {
        RequestMessage::FindCoordinator(request) => refused_find_coordinator(request, error),
        RequestMessage::OffsetFetch(request) => refused_offset_fetch(request, error),
        RequestMessage::Metadata(request) => ResponseMessage::Metadata(metadata::refused(request, error)),
        RequestMessage::DeleteTopics(request) => refused_delete_topics(request, error),
        RequestMessage::DescribeTopicPartitions(request) => each!(
            error, DescribeTopicPartitions,
            describe_topic_partitions_response::DescribeTopicPartitionsResponse.topics,
            DescribeTopicPartitionsResponseTopic { name: Some(topic.name.clone()) }
            for topic in request.topics.iter()),
        RequestMessage::CreateTopics(request) => each!(
            error, CreateTopics, create_topics_response::CreateTopicsResponse.topics,
            CreatableTopicResult { name: topic.name.clone() } for topic in request.topics.iter()),
        RequestMessage::CreatePartitions(request) => each!(
            error, CreatePartitions, create_partitions_response::CreatePartitionsResponse.results,
            CreatePartitionsTopicResult { name: topic.name.clone() } for topic in request.topics.iter()),
        RequestMessage::DescribeGroups(request) => each!(
            error, DescribeGroups, describe_groups_response::DescribeGroupsResponse.groups,
            DescribedGroup { group_id: group.clone() } for group in request.groups.iter()),
        RequestMessage::ConsumerGroupDescribe(request) => each!(
            error, ConsumerGroupDescribe, consumer_group_describe_response::ConsumerGroupDescribeResponse.groups,
            DescribedGroup { group_id: group.clone() } for group in request.group_ids.iter()),
        RequestMessage::ShareGroupDescribe(request) => each!(
            error, ShareGroupDescribe, share_group_describe_response::ShareGroupDescribeResponse.groups,
            DescribedGroup { group_id: group.clone() } for group in request.group_ids.iter()),
        RequestMessage::DescribeShareGroupOffsets(request) => each!(
            error, DescribeShareGroupOffsets,
            describe_share_group_offsets_response::DescribeShareGroupOffsetsResponse.groups,
            DescribeShareGroupOffsetsResponseGroup { group_id: group.group_id.clone() }
            for group in request.groups.iter()),
        RequestMessage::DeleteGroups(request) => each!(
            error, DeleteGroups, delete_groups_response::DeleteGroupsResponse.results,
            DeletableGroupResult { group_id: group.clone() } for group in request.groups_names.iter()),
        RequestMessage::DescribeTransactions(request) => each!(
            error, DescribeTransactions,
            describe_transactions_response::DescribeTransactionsResponse.transaction_states,
            TransactionState { transactional_id: id.clone() } for id in request.transactional_ids.iter()),
        _ => return None,
    };
    Some(answer)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the others name no resources, entities or users")]
fn refused_by_resource(request: &RequestMessage, error: ErrorCode) -> Option<ResponseMessage> {
    let answer = match request {
        RequestMessage::DescribeConfigs(request) => each!(
            error, DescribeConfigs, describe_configs_response::DescribeConfigsResponse.results,
            DescribeConfigsResult { resource_type: it.resource_type, resource_name: it.resource_name.clone() }
            for it in request.resources.iter()),
        RequestMessage::AlterConfigs(request) => each!(
            error, AlterConfigs, alter_configs_response::AlterConfigsResponse.responses,
            AlterConfigsResourceResponse {
                resource_type: it.resource_type, resource_name: it.resource_name.clone()
            } for it in request.resources.iter()),
        RequestMessage::IncrementalAlterConfigs(request) => each!(
            error, IncrementalAlterConfigs,
            incremental_alter_configs_response::IncrementalAlterConfigsResponse.responses,
            AlterConfigsResourceResponse {
                resource_type: it.resource_type, resource_name: it.resource_name.clone()
            } for it in request.resources.iter()),
        RequestMessage::CreateAcls(request) => each!(
            error, CreateAcls, create_acls_response::CreateAclsResponse.results,
            AclCreationResult {} for _ in request.creations.iter()),
        RequestMessage::DeleteAcls(request) => each!(
            error, DeleteAcls, delete_acls_response::DeleteAclsResponse.filter_results,
            DeleteAclsFilterResult {} for _ in request.filters.iter()),
        RequestMessage::AlterClientQuotas(request) => refused_quotas(request, error),
        RequestMessage::AlterUserScramCredentials(request) => {
            let deleted = request.deletions.iter().map(|it| &it.name);
            each!(
                error, AlterUserScramCredentials,
                alter_user_scram_credentials_response::AlterUserScramCredentialsResponse.results,
                AlterUserScramCredentialsResult { user: name.clone() }
                for name in deleted.chain(request.upsertions.iter().map(|it| &it.name)))
        }
        _ => return None,
    };
    Some(answer)
}

#[cfg(test)]
mod tests;
