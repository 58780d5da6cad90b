//! What requests about topics have in common: names, authorized operations, creation and removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_log::{StorageChange, StorageWrite};
use sharemark_protocol::{ErrorCode, NodeId, TopicId, TopicIdPartition};

use super::Broker;
use super::cluster::{self, Topic};
use super::create_topics::PARTITIONS_PER_REQUEST_MAX;
use super::input::Now;
use crate::config::{ConfigChange, ConfigResource, ConfigValue, NewTopic};

/// The operations that a topic knows, as bits of Kafka's ACL operations.
pub(super) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The operations that a cluster knows, as bits of Kafka's ACL operations.
pub(super) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// The operations that a group knows, as bits of Kafka's ACL operations.
pub(super) const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;
/// What stands in an answer when nobody asked for the operations.
pub(super) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Returns what is wrong with a topic's name, in Kafka's words.
pub(super) fn check_topic_name(name: &str) -> Result<(), String> {
    const LENGTH_MAX: usize = 249;
    if name.is_empty() {
        return Err("Topic name is invalid: the empty string is not allowed".into());
    }
    if name == "." || name == ".." {
        return Err(format!("Topic name is invalid: '{name}' is not allowed"));
    }
    if LENGTH_MAX < name.len() {
        return Err(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
        ));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

/// Gathers what is told of partitions by topic, in the order in which the topics first come.
pub(super) fn by_topic<T>(told: impl IntoIterator<Item = (TopicIdPartition, T)>) -> Vec<(TopicId, Vec<T>)> {
    // A look-up, since a request may name as many topics as its frame holds.
    let mut index_of: BTreeMap<TopicId, usize> = BTreeMap::new();
    let mut topics: Vec<(TopicId, Vec<T>)> = Vec::new();
    for (at, data) in told {
        let index = *index_of.entry(at.topic_id).or_insert(topics.len());
        match topics.get_mut(index) {
            Some((_, partitions)) => partitions.push(data),
            None => topics.push((at.topic_id, vec![data])),
        }
    }
    topics
}

impl Broker {
    /// Returns the topic beside which there can be none of this name: metric names take dots for underscores, so two
    /// such topics would share their metrics.
    pub(super) fn colliding_topic(&self, name: &str) -> Option<&Topic> {
        if !name.contains(['.', '_']) {
            return None;
        }
        let flattened = name.replace('.', "_");
        self.cluster.topics().find(|other| other.name.replace('.', "_") == flattened)
    }

    /// Creates a topic that is missed, with the broker's defaults.
    ///
    /// # Errors
    ///
    /// - `InvalidTopicException` if Kafka allows no topic of that name, or not beside those that there are.
    /// - `UnknownTopicOrPartition` for the name that only controllers know, and if the broker's default is more
    ///   partitions than may be created at once.
    pub(super) fn auto_create_topic(&mut self, now: Now, name: &str) -> Result<TopicId, ErrorCode> {
        if check_topic_name(name).is_err() || self.colliding_topic(name).is_some() {
            return Err(ErrorCode::InvalidTopicException);
        }
        if name == cluster::CLUSTER_METADATA {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        let settings = self.cluster.configs.broker();
        let partition_count = match name {
            cluster::CONSUMER_OFFSETS => settings.offsets_topic_num_partitions,
            cluster::TRANSACTION_STATE => settings.transaction_state_log_num_partitions,
            cluster::SHARE_GROUP_STATE => settings.share_state_topic_num_partitions,
            _ => settings.num_partitions,
        };
        let partition_count = usize::try_from(partition_count).unwrap_or(0);
        if PARTITIONS_PER_REQUEST_MAX < partition_count {
            return Err(ErrorCode::UnknownTopicOrPartition); // Kafka's controller refuses it later, unheard.
        }
        if let Some(change) = self.internal_topic_config(name) {
            self.cluster.configs.replay(&change);
        }
        let assignment = self.cluster.place(partition_count, self.default_replica_count());
        Ok(self.create_topic(now, name.into(), assignment))
    }

    /// Returns what Kafka sets on an internal topic when it creates it.
    fn internal_topic_config(&self, name: &str) -> Option<ConfigChange> {
        let settings = self.cluster.configs.broker();
        let text = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let values = match name {
            cluster::CONSUMER_OFFSETS => vec![
                text("cleanup.policy", "compact"),
                text("compression.type", "producer"),
                text("segment.bytes", &settings.offsets_topic_segment_bytes.to_string()),
            ],
            cluster::TRANSACTION_STATE => vec![
                text("cleanup.policy", "compact"),
                text("compression.type", "uncompressed"),
                text("min.insync.replicas", "1"),
                text("segment.bytes", &settings.transaction_state_log_segment_bytes.to_string()),
                text("unclean.leader.election.enable", "false"),
            ],
            cluster::SHARE_GROUP_STATE => vec![
                text("cleanup.policy", "delete"),
                text("compression.type", "producer"),
                text("min.insync.replicas", "1"),
                text("retention.ms", "-1"),
                text("segment.bytes", &settings.share_state_topic_segment_bytes.to_string()),
            ],
            _ => return None,
        };
        Some(ConfigChange { resource: ConfigResource::Topic(name.into()), values })
    }

    /// Returns how many replicas a partition gets when nobody says: `default.replication.factor`, as far as there
    /// are nodes.
    pub(super) fn default_replica_count(&self) -> usize {
        let factor = match self.cluster.configs.start().value("default.replication.factor") {
            Some(ConfigValue::Number(factor)) => usize::try_from(factor).unwrap_or(1),
            Some(_) | None => 1,
        };
        factor.clamp(1, self.cluster.running.len().max(1))
    }

    /// Creates a topic whose name, configuration and assignment have been judged.
    pub(super) fn create_topic(&mut self, now: Now, name: Arc<str>, assignment: Vec<Vec<NodeId>>) -> TopicId {
        let id = self.random.topic_id();
        self.cluster.create_topic(id, name, assignment);
        self.load_coordinators(now, id);
        id
    }

    /// Deletes a topic: its records go, and so does what nodes keep about it.
    pub(super) fn delete_topic(&mut self, now: Now, id: TopicId) -> Option<Topic> {
        let topic = self.cluster.delete_topic(id)?;
        for partition in topic.partitions.iter().zip(0..).map(|(_, index)| index) {
            let at = TopicIdPartition { topic_id: id, partition };
            self.writes.push(StorageWrite { partition: at, change: StorageChange::Drop });
            // Whoever waits for this partition is answered now.
            self.changed.insert(at);
        }
        self.forget_share_partitions_of(id);
        self.unload_coordinators(&topic.name);
        self.forget_topics_in_coordinators(now, &[id].into());
        self.forget_offsets_of_topic(now, &topic.name, id);
        Some(topic)
    }

    /// Creates a topic that the command line asks for.
    pub(super) fn create_configured_topic(&mut self, now: Now, topic: &NewTopic) {
        let values = topic.configs.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        let resource = ConfigResource::Topic(topic.name.as_str().into());
        self.cluster.configs.replay(&ConfigChange { resource, values });
        let count = topic.partitions.unwrap_or(self.cluster.configs.broker().num_partitions);
        let replica_count = self.default_replica_count();
        let assignment = self.cluster.place(usize::try_from(count).unwrap_or(1), replica_count);
        if self.cluster.topic_named(&topic.name).is_none() {
            self.create_topic(now, topic.name.as_str().into(), assignment);
        }
    }
}
