//! CreateTopics (19), versions 2-7.
//!
//! Differences from Kafka: done when answered, so the request's timeout never matters; any node answers.

use std::collections::BTreeMap;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use sharemark_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::CLUSTER_METADATA;
use super::input::{Now, Origin};
use super::topics::check_topic_name;
use crate::config::{AlterError, AlterOperation, ConfigChange, ConfigResource};

/// Why a topic was not created: the error and Kafka's sentence for it.
type Refusal = (ErrorCode, String);

/// How many partitions one request may create.
pub(super) const PARTITIONS_PER_REQUEST_MAX: usize = 10_000;

/// What has been decided about a topic that may be created.
struct TopicPlan {
    partition_count: usize,
    replica_count: usize,
    assignment: Option<Vec<Vec<NodeId>>>,
    configs: ConfigChange,
}

impl Broker {
    pub(super) fn handle_create_topics(&mut self, now: Now, origin: &Origin, request: &CreateTopicsRequest) {
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for topic in &request.topics {
            *named.entry(&topic.name).or_default() += 1;
        }
        let too_many = self.decide_partition_total(request).err();
        let mut topics = Vec::with_capacity(named.len());
        for topic in &request.topics {
            match named.remove(&*topic.name) {
                None => {} // Its first mention has been answered.
                Some(_) if too_many.is_some() => {
                    topics.extend(too_many.clone().map(|refusal| refused(&topic.name, refusal)));
                }
                Some(1) => topics.push(self.create_one(now, origin, topic, request.validate_only)),
                Some(_) => {
                    topics.push(refused(
                        &topic.name,
                        (ErrorCode::InvalidRequest, "Duplicate topic name.".into()),
                    ));
                }
            }
        }
        self.answer(
            origin,
            ResponseMessage::CreateTopics(CreateTopicsResponse { throttle_time_ms: 0, topics }),
        );
    }

    fn create_one(
        &mut self,
        now: Now,
        origin: &Origin,
        topic: &CreatableTopic,
        validate_only: bool,
    ) -> CreatableTopicResult {
        let plan = match self.decide_create_topic(origin, topic) {
            Ok(plan) => plan,
            Err(refusal) => return refused(&topic.name, refusal),
        };
        let mut created = CreatableTopicResult {
            name: topic.name.clone(),
            error_code: ErrorCode::None.code(),
            error_message: None,
            num_partitions: i32::try_from(plan.partition_count).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(plan.replica_count).unwrap_or(i16::MAX),
            ..CreatableTopicResult::default()
        };
        self.cluster.configs.replay(&plan.configs);
        created.configs = Some(self.created_configs(origin, &plan.configs.resource));
        if validate_only {
            self.cluster.configs.replay_removal(&plan.configs.resource);
        } else {
            created.topic_id = self.create_planned(now, &topic.name, plan);
        }
        created
    }

    fn decide_create_topic(&self, origin: &Origin, topic: &CreatableTopic) -> Result<TopicPlan, Refusal> {
        let name = &*topic.name;
        if !authorize(&origin.principal, Operation::Create, Resource::Topic(name)) {
            return Err((ErrorCode::TopicAuthorizationFailed, "Authorization failed.".into()));
        }
        self.decide_new_topic(topic)
    }

    /// Creates a topic that the broker itself wants, as if it had asked for it by a request.
    ///
    /// # Errors
    ///
    /// - What such a request is refused with.
    pub(super) fn create_own_topic(&mut self, now: Now, topic: &CreatableTopic) -> Result<(), ErrorCode> {
        let plan = self.decide_new_topic(topic).map_err(|(error, _)| error)?;
        self.cluster.configs.replay(&plan.configs);
        self.create_planned(now, &topic.name, plan);
        Ok(())
    }

    fn create_planned(&mut self, now: Now, name: &str, plan: TopicPlan) -> TopicId {
        let assignment = match plan.assignment {
            Some(assignment) => assignment,
            None => self.cluster.place(plan.partition_count, plan.replica_count),
        };
        self.create_topic(now, name.into(), assignment)
    }

    fn decide_new_topic(&self, topic: &CreatableTopic) -> Result<TopicPlan, Refusal> {
        let name = &*topic.name;
        if name == CLUSTER_METADATA {
            let text = "Creation of internal topic __cluster_metadata is prohibited.";
            return Err((ErrorCode::TopicAuthorizationFailed, text.into()));
        }
        check_topic_name(name).map_err(|text| (ErrorCode::InvalidTopicException, text))?;
        if self.cluster.topic_named(name).is_some() {
            return Err((ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
        }
        if let Some(other) = self.colliding_topic(name) {
            let text = format!("Topic '{name}' collides with existing topic: {}", other.name);
            return Err((ErrorCode::InvalidTopicException, text));
        }
        let configs = self.decide_topic_configs(topic)?;
        let (partition_count, replica_count, assignment) = self.decide_placement(topic)?;
        Ok(TopicPlan { partition_count, replica_count, assignment, configs })
    }

    fn decide_topic_configs(&self, topic: &CreatableTopic) -> Result<ConfigChange, Refusal> {
        let mut operations = Vec::with_capacity(topic.configs.len());
        for config in &topic.configs {
            let Some(value) = &config.value else {
                let text = format!("Null value not supported for topic configs: {}", &*config.name);
                return Err((ErrorCode::InvalidConfig, text));
            };
            operations.push((config.name.to_string(), AlterOperation::Set(value.to_string())));
        }
        let resource = ConfigResource::Topic((&*topic.name).into());
        let refused = |error: AlterError| (error.code(), error.to_string());
        self.cluster.configs.decide_alter(&resource, &operations).map_err(refused)
    }

    #[expect(clippy::type_complexity, reason = "used once, by the caller above")]
    fn decide_placement(
        &self,
        topic: &CreatableTopic,
    ) -> Result<(usize, usize, Option<Vec<Vec<NodeId>>>), Refusal> {
        if !topic.assignments.is_empty() {
            let assignment = self.decide_assignment(topic)?;
            return Ok((assignment.len(), assignment[0].len(), Some(assignment)));
        }
        let replicas = match topic.replication_factor {
            -1 => Some(self.default_replica_count()),
            factor => usize::try_from(factor).ok().filter(|count| *count != 0),
        };
        let Some(replicas) = replicas else {
            let text = "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err((ErrorCode::InvalidReplicationFactor, text.into()));
        };
        let count = match topic.num_partitions {
            -1 => self.cluster.configs.broker().num_partitions,
            count => count,
        };
        let Some(partitions) = usize::try_from(count).ok().filter(|count| *count != 0) else {
            let text = "Number of partitions was set to an invalid non-positive value.";
            return Err((ErrorCode::InvalidPartitions, text.into()));
        };
        let node_count = self.cluster.running.len();
        if node_count < replicas {
            let text = format!(
                "Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} cannot be reached because only {node_count} broker(s) are registered."
            );
            return Err((ErrorCode::InvalidReplicationFactor, text));
        }
        Ok((partitions, replicas, None))
    }

    /// Judges how many partitions a request would create; one of too many creates none.
    fn decide_partition_total(&self, request: &CreateTopicsRequest) -> Result<(), Refusal> {
        let default = self.cluster.configs.broker().num_partitions;
        let count = |topic: &CreatableTopic| match topic.num_partitions {
            _ if !topic.assignments.is_empty() => topic.assignments.len(),
            -1 => usize::try_from(default).unwrap_or(0),
            count => usize::try_from(count).unwrap_or(0),
        };
        let total = request.topics.iter().map(count).fold(0, usize::saturating_add);
        if PARTITIONS_PER_REQUEST_MAX < total {
            let text = "Excessively large number of partitions per request.";
            return Err((ErrorCode::PolicyViolation, text.into()));
        }
        Ok(())
    }

    fn decide_assignment(&self, topic: &CreatableTopic) -> Result<Vec<Vec<NodeId>>, Refusal> {
        if topic.replication_factor != -1 {
            let text =
                "A manual partition assignment was specified, but replication factor was not set to -1.";
            return Err((ErrorCode::InvalidRequest, text.into()));
        }
        if topic.num_partitions != -1 {
            let text = "A manual partition assignment was specified, but numPartitions was not set to -1.";
            return Err((ErrorCode::InvalidRequest, text.into()));
        }
        let mut by_index = BTreeMap::new();
        for assigned in &topic.assignments {
            let replicas = self.decide_replicas(&assigned.broker_ids)?;
            if by_index.insert(assigned.partition_index, replicas).is_some() {
                let text = format!(
                    "Found multiple manual partition assignments for partition {}",
                    assigned.partition_index
                );
                return Err((ErrorCode::InvalidReplicaAssignment, text));
            }
        }
        let consecutive = by_index.keys().copied().eq(0..i32::try_from(by_index.len()).unwrap_or(i32::MAX));
        if !consecutive {
            let text = "partitions should be a consecutive 0-based integer sequence";
            return Err((ErrorCode::InvalidReplicaAssignment, text.into()));
        }
        let assignment: Vec<Vec<NodeId>> = by_index.into_values().collect();
        let uneven = assignment.iter().any(|replicas| replicas.len() != assignment[0].len());
        if uneven {
            let text =
                "The manual partition assignment includes partitions with different numbers of replicas.";
            return Err((ErrorCode::InvalidReplicaAssignment, text.into()));
        }
        Ok(assignment)
    }

    /// Judges the replicas that a request names for one partition.
    pub(super) fn decide_replicas(&self, broker_ids: &[i32]) -> Result<Vec<NodeId>, Refusal> {
        if broker_ids.is_empty() {
            let text = "The manual partition assignment includes an empty replica list.";
            return Err((ErrorCode::InvalidReplicaAssignment, text.into()));
        }
        let mut replicas = Vec::with_capacity(broker_ids.len());
        for &id in broker_ids {
            let node = NodeId::new(id);
            if !self.cluster.nodes.contains(&node) {
                let text = format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                );
                return Err((ErrorCode::InvalidReplicaAssignment, text));
            }
            if replicas.contains(&node) {
                let text =
                    format!("The manual partition assignment includes the broker {id} more than once.");
                return Err((ErrorCode::InvalidReplicaAssignment, text));
            }
            replicas.push(node);
        }
        Ok(replicas)
    }

    fn created_configs(&self, origin: &Origin, resource: &ConfigResource) -> Vec<CreatableTopicConfigs> {
        let described = self.cluster.configs.describe(origin.node, resource, None).into_iter();
        described
            .map(|entry| CreatableTopicConfigs {
                name: entry.name.into(),
                value: entry.value.map(Into::into),
                read_only: entry.read_only,
                config_source: entry.source.wire_id(),
                is_sensitive: entry.sensitive,
            })
            .collect()
    }
}

fn refused(name: &str, (error, text): Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.into(),
        error_code: error.code(),
        error_message: Some(text.into()),
        configs: Some(Vec::new()),
        ..CreatableTopicResult::default()
    }
}
