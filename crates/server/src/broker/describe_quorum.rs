//! DescribeQuorum (55), versions 0-2.
//!
//! Differences from Kafka: the process keeps the cluster's state itself, so all nodes are voters that know the
//! same; the offset counts the changes of topics and features; no node has a listener for controllers.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_quorum_request::DescribeQuorumRequest;
use sharemark_protocol::messages::describe_quorum_response::{
    DescribeQuorumResponse, Node, PartitionData, ReplicaState, TopicData,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::CLUSTER_METADATA;
use super::input::{Now, Origin};

/// The epoch of the controller, which never changes.
const CONTROLLER_EPOCH: i32 = 1;

impl Broker {
    pub(super) fn handle_describe_quorum(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &DescribeQuorumRequest,
    ) {
        let no_text = Some("".into());
        let response = if !authorize(&origin.principal, Operation::Describe, Resource::Cluster) {
            DescribeQuorumResponse {
                error_code: ErrorCode::ClusterAuthorizationFailed.code(),
                ..DescribeQuorumResponse::default()
            }
        } else if is_about_metadata(request) {
            let nodes = self.cluster.nodes.iter();
            DescribeQuorumResponse {
                error_message: no_text,
                topics: vec![TopicData {
                    topic_name: CLUSTER_METADATA.into(),
                    partitions: vec![self.describe_metadata(now)],
                }],
                nodes: nodes.map(|id| Node { node_id: id.get(), listeners: Vec::new() }).collect(),
                ..DescribeQuorumResponse::default()
            }
        } else {
            DescribeQuorumResponse {
                error_message: no_text,
                topics: unknown_partitions(request),
                ..DescribeQuorumResponse::default()
            }
        };
        self.answer(origin, ResponseMessage::DescribeQuorum(response));
    }

    fn describe_metadata(&self, now: Now) -> PartitionData {
        let offset = self.cluster.change_count();
        let voters = self.cluster.nodes.iter().map(|id| ReplicaState {
            replica_id: id.get(),
            replica_directory_id: [0; 16],
            log_end_offset: offset,
            last_fetch_timestamp: now.clock.ms(),
            last_caught_up_timestamp: now.clock.ms(),
        });
        PartitionData {
            partition_index: 0,
            error_message: Some("".into()),
            leader_id: self.controller().get(),
            leader_epoch: CONTROLLER_EPOCH,
            high_watermark: offset,
            current_voters: voters.collect(),
            ..PartitionData::default()
        }
    }
}

/// Returns whether a request asks for the one partition of the metadata, and for nothing else.
fn is_about_metadata(request: &DescribeQuorumRequest) -> bool {
    match &*request.topics {
        [topic] => match &*topic.partitions {
            [partition] => *topic.topic_name == *CLUSTER_METADATA && partition.partition_index == 0,
            _ => false,
        },
        _ => false,
    }
}

fn unknown_partitions(request: &DescribeQuorumRequest) -> Vec<TopicData> {
    let unknown = |partition_index| PartitionData {
        partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        error_message: Some("This server does not host this topic-partition.".into()),
        ..PartitionData::default()
    };
    let topics = request.topics.iter().map(|topic| TopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic.partitions.iter().map(|partition| unknown(partition.partition_index)).collect(),
    });
    topics.collect()
}
