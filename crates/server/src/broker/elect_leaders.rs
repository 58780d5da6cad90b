//! ElectLeaders (43), versions 0-2.
//!
//! Difference from Kafka: done when answered, so the request's timeout never matters. Each partition has one log
//! and a leader that runs, so an unclean election is never needed.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::elect_leaders_request::ElectLeadersRequest;
use sharemark_protocol::messages::elect_leaders_response::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use sharemark_protocol::{ErrorCode, NodeId, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// The types of elections.
mod election {
    /// The first of the replicas shall lead.
    pub(super) const PREFERRED: i8 = 0;
    /// Any replica shall lead where none does.
    pub(super) const UNCLEAN: i8 = 1;
}

/// Why no leader is elected, in Kafka's words.
type Refusal = (ErrorCode, String);

impl Broker {
    pub(super) fn handle_elect_leaders(&mut self, now: Now, origin: &Origin, request: &ElectLeadersRequest) {
        let names_all = request.topic_partitions.is_none();
        let asked: Vec<(String, Vec<i32>)> = match &request.topic_partitions {
            Some(topics) => {
                topics.iter().map(|topic| (topic.topic.to_string(), topic.partitions.clone())).collect()
            }
            None => self
                .cluster
                .topics()
                .map(|topic| (topic.name.to_string(), (0..).take(topic.partitions.len()).collect()))
                .collect(),
        };
        let refused = if !authorize(&origin.principal, Operation::Alter, Resource::Cluster) {
            Some((
                ErrorCode::ClusterAuthorizationFailed,
                ErrorCode::ClusterAuthorizationFailed.name().to_owned(),
            ))
        } else if !matches!(request.election_type, election::PREFERRED | election::UNCLEAN) {
            let text = format!("Unknown election type {}", request.election_type);
            Some((ErrorCode::InvalidRequest, text))
        } else {
            None
        };
        let is_preferred = request.election_type == election::PREFERRED;
        let mut results = Vec::with_capacity(asked.len());
        for (topic, partitions) in asked {
            let mut told = Vec::with_capacity(partitions.len());
            for partition_id in partitions {
                let outcome = match &refused {
                    Some(refusal) => Err(refusal.clone()),
                    None => self.elect(now, &topic, partition_id, is_preferred),
                };
                let (error, message) = match outcome {
                    Ok(()) => (ErrorCode::None, None),
                    Err((ErrorCode::ElectionNotNeeded, _)) if names_all => continue,
                    Err((error, text)) => (error, Some(text.into())),
                };
                told.push(PartitionResult { partition_id, error_code: error.code(), error_message: message });
            }
            results.push(ReplicaElectionResult { topic: topic.into(), partition_result: told });
        }
        let response = ElectLeadersResponse {
            throttle_time_ms: 0,
            error_code: refused.map_or(ErrorCode::None, |(error, _)| error).code(),
            replica_election_results: results,
        };
        self.answer(origin, ResponseMessage::ElectLeaders(response));
    }

    fn elect(&mut self, now: Now, topic: &str, partition: i32, is_preferred: bool) -> Result<(), Refusal> {
        let (at, preferred) = self.decide_election(topic, partition, is_preferred)?;
        self.move_leader(now, at, preferred);
        Ok(())
    }

    fn decide_election(
        &self,
        topic_name: &str,
        partition: i32,
        is_preferred: bool,
    ) -> Result<(TopicIdPartition, NodeId), Refusal> {
        let unknown = |text| Err((ErrorCode::UnknownTopicOrPartition, text));
        let Some(topic) = self.cluster.topic_named(topic_name) else {
            return unknown(format!("No such topic as {topic_name}"));
        };
        let at = TopicIdPartition { topic_id: topic.id, partition };
        let Some(found) = self.cluster.partition(at) else {
            return unknown(format!("No such partition as {topic_name}-{partition}"));
        };
        let preferred = found.replicas[0];
        if !is_preferred || found.leader == preferred {
            let text = "Leader election not needed for topic partition.";
            return Err((ErrorCode::ElectionNotNeeded, text.to_owned()));
        }
        if !self.cluster.running.contains(&preferred) {
            let text = "The preferred leader was not available.";
            return Err((ErrorCode::PreferredLeaderNotAvailable, text.to_owned()));
        }
        Ok((at, preferred))
    }
}
