//! AlterPartitionReassignments (45), versions 0-1.
//!
//! Difference from Kafka: done when answered, since there is one log whatever the number of replicas; so there is
//! never one to be cancelled, and the request's timeout never matters. Replicas of which none runs are refused, where
//! Kafka would wait for one of them.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition,
};
use sharemark_protocol::messages::alter_partition_reassignments_response::{
    AlterPartitionReassignmentsResponse, ReassignablePartitionResponse, ReassignableTopicResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// Why a partition is not reassigned, in Kafka's words.
type Refusal = (ErrorCode, Option<String>);

impl Broker {
    pub(super) fn handle_alter_partition_reassignments(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AlterPartitionReassignmentsRequest,
    ) {
        let allowed = authorize(&origin.principal, Operation::Alter, Resource::Cluster);
        let mut responses = Vec::new();
        for topic in request.topics.iter().filter(|_| allowed) {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let outcome =
                    self.decide_reassignment(&topic.name, asked, request.allow_replication_factor_change);
                let (error, message) = match outcome {
                    Ok((at, replicas)) => {
                        self.reassign(now, at, replicas);
                        (ErrorCode::None, None)
                    }
                    Err((error, text)) => (error, text.map(Into::into)),
                };
                partitions.push(ReassignablePartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: error.code(),
                    error_message: message,
                });
            }
            responses.push(ReassignableTopicResponse { name: topic.name.clone(), partitions });
        }
        let (error, message) = match (allowed, request.topics.is_empty()) {
            (false, _) => (ErrorCode::ClusterAuthorizationFailed, None),
            (true, true) => (ErrorCode::None, Some("".into())),
            (true, false) => (ErrorCode::None, None),
        };
        let response = AlterPartitionReassignmentsResponse {
            throttle_time_ms: 0,
            allow_replication_factor_change: request.allow_replication_factor_change,
            error_code: error.code(),
            error_message: message,
            responses,
        };
        self.answer(origin, ResponseMessage::AlterPartitionReassignments(response));
    }

    fn decide_reassignment(
        &self,
        topic_name: &str,
        asked: &ReassignablePartition,
        count_may_change: bool,
    ) -> Result<(TopicIdPartition, Vec<NodeId>), Refusal> {
        let unknown = |text| Err((ErrorCode::UnknownTopicOrPartition, Some(text)));
        let Some(topic) = self.cluster.topic_named(topic_name) else {
            return unknown(format!("Unable to find a topic named {topic_name}."));
        };
        let at = TopicIdPartition { topic_id: topic.id, partition: asked.partition_index };
        let Some(partition) = self.cluster.partition(at) else {
            return unknown(format!("Unable to find partition {topic_name}:{}.", asked.partition_index));
        };
        let Some(ids) = &asked.replicas else { return Err((ErrorCode::NoReassignmentInProgress, None)) };
        let invalid = |text| Err((ErrorCode::InvalidReplicaAssignment, Some(text)));
        if ids.is_empty() {
            return invalid("The manual partition assignment includes an empty replica list.".to_owned());
        }
        let mut sorted: Vec<i32> = ids.clone();
        sorted.sort_unstable();
        let mut seen = BTreeSet::new();
        for id in sorted {
            if !seen.insert(id) {
                let text =
                    format!("The manual partition assignment includes the broker {id} more than once.");
                return invalid(text);
            }
            if !self.cluster.nodes.contains(&NodeId::new(id)) {
                return invalid(format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                ));
            }
        }
        if !count_may_change && ids.len() != partition.replicas.len() {
            let text = format!(
                "The replication factor is changed from {} to {}",
                partition.replicas.len(),
                ids.len()
            );
            return Err((ErrorCode::InvalidReplicationFactor, Some(text)));
        }
        let replicas: Vec<NodeId> = ids.iter().map(|&id| NodeId::new(id)).collect();
        if !replicas.iter().any(|node| self.cluster.running.contains(node)) {
            return invalid("None of the brokers of the manual partition assignment is running.".to_owned());
        }
        Ok((at, replicas))
    }

    fn reassign(&mut self, now: Now, at: TopicIdPartition, replicas: Vec<NodeId>) {
        let Some(partition) = self.cluster.partition_mut(at) else { return };
        let stays = replicas.contains(&partition.leader);
        partition.replicas.clone_from(&replicas);
        let next = replicas.into_iter().find(|node| self.cluster.running.contains(node));
        if let (false, Some(next)) = (stays, next) {
            self.move_leader(now, at, next);
        }
    }
}
