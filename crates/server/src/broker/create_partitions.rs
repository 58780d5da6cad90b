//! CreatePartitions (37), versions 0-3.
//!
//! Differences from Kafka: done when answered, so the request's timeout never matters; any node answers.

use std::collections::BTreeMap;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::create_partitions_request::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use sharemark_protocol::messages::create_partitions_response::{
    CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use sharemark_protocol::{ErrorCode, NodeId, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::create_topics::PARTITIONS_PER_REQUEST_MAX;
use super::input::{Now, Origin};

/// Why partitions are not added: the error and Kafka's sentence for it.
type Refusal = (ErrorCode, String);

/// What has been decided about partitions that may be added.
struct PartitionsPlan {
    topic_id: TopicId,
    added: usize,
    replica_count: usize,
    assignment: Option<Vec<Vec<NodeId>>>,
}

impl Broker {
    pub(super) fn handle_create_partitions(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &CreatePartitionsRequest,
    ) {
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for topic in &request.topics {
            *named.entry(&topic.name).or_default() += 1;
        }
        let too_many = self.decide_added_total(request).err();
        let mut results = Vec::with_capacity(named.len());
        for topic in &request.topics {
            let outcome = match (named.remove(&*topic.name), &too_many) {
                (None, _) => continue, // Its first mention has been answered.
                (Some(_), Some(refusal)) => Err(refusal.clone()),
                (Some(1), None) => self.decide_create_partitions(origin, topic),
                (Some(_), None) => Err((ErrorCode::InvalidRequest, "Duplicate topic name.".into())),
            };
            let (error, text) = match outcome {
                Ok(plan) => {
                    if !request.validate_only {
                        self.create_partitions(now, plan);
                    }
                    (ErrorCode::None, None)
                }
                Err((error, text)) => (error, Some(text)),
            };
            results.push(CreatePartitionsTopicResult {
                name: topic.name.clone(),
                error_code: error.code(),
                error_message: text.map(Into::into),
            });
        }
        let response = CreatePartitionsResponse { throttle_time_ms: 0, results };
        self.answer(origin, ResponseMessage::CreatePartitions(response));
    }

    /// Judges how many partitions a request would create; one of too many creates none.
    fn decide_added_total(&self, request: &CreatePartitionsRequest) -> Result<(), Refusal> {
        let added = |asked: &CreatePartitionsTopic| {
            let current = self.cluster.topic_named(&asked.name)?.partitions.len();
            usize::try_from(asked.count).ok()?.checked_sub(current)
        };
        let total = request.topics.iter().filter_map(added).fold(0, usize::saturating_add);
        if PARTITIONS_PER_REQUEST_MAX < total {
            let text = "Excessively large number of additional partitions per request.";
            return Err((ErrorCode::PolicyViolation, text.into()));
        }
        Ok(())
    }

    fn create_partitions(&mut self, now: Now, plan: PartitionsPlan) {
        let assignment = match plan.assignment {
            Some(assignment) => assignment,
            None => self.cluster.place(plan.added, plan.replica_count),
        };
        self.cluster.add_partitions(plan.topic_id, assignment);
        self.load_coordinators(now, plan.topic_id);
    }

    fn decide_create_partitions(
        &self,
        origin: &Origin,
        asked: &CreatePartitionsTopic,
    ) -> Result<PartitionsPlan, Refusal> {
        let name = &*asked.name;
        if !authorize(&origin.principal, Operation::Alter, Resource::Topic(name)) {
            return Err((ErrorCode::TopicAuthorizationFailed, "Topic authorization failed.".into()));
        }
        let Some(topic) = self.cluster.topic_named(name) else {
            let text = "This server does not host this topic-partition.";
            return Err((ErrorCode::UnknownTopicOrPartition, text.into()));
        };
        let current = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        if asked.count == current {
            let text = format!("Topic already has {current} partition(s).");
            return Err((ErrorCode::InvalidPartitions, text));
        }
        if asked.count < current {
            let text = format!(
                "The topic {name} currently has {current} partition(s); {} would not be an increase.",
                asked.count
            );
            return Err((ErrorCode::InvalidPartitions, text));
        }
        let added = usize::try_from(asked.count - current).unwrap_or(usize::MAX);
        let replica_count = topic.partitions[0].replicas.len();
        let assignment = match &asked.assignments {
            None => None,
            Some(assignments) if assignments.len() != added => {
                let text = format!(
                    "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
                    assignments.len()
                );
                return Err((ErrorCode::InvalidReplicaAssignment, text));
            }
            Some(assignments) => {
                let replicas: Result<Vec<_>, _> =
                    assignments.iter().map(|assigned| self.decide_replicas(&assigned.broker_ids)).collect();
                Some(replicas?)
            }
        };
        Ok(PartitionsPlan { topic_id: topic.id, added, replica_count, assignment })
    }
}
