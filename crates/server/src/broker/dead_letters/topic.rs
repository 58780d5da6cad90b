//! Where a group's dead letters go: the topic that its configuration names, made if the broker may.

use sharemark_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use sharemark_protocol::{ErrorCode, NodeId, SharePartitionKey, TopicIdPartition};

use super::super::Broker;
use super::super::input::Now;

impl Broker {
    /// Returns the partition of the dead-letter topic for a share partition, and its leader. A topic that is missing
    /// is created, if the broker's configuration lets it.
    ///
    /// # Errors
    ///
    /// - `InvalidConfig` if the group names no topic, one that takes no dead letters, one whose name does not begin as
    ///   the broker wants it, or one that is missing and may not be created.
    /// - What the creation of a topic is refused with.
    pub(super) fn dead_letter_place(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
    ) -> Result<(TopicIdPartition, NodeId), ErrorCode> {
        let name = self.decide_dead_letter_topic(&key.group_id)?;
        if self.cluster.topic_named(&name).is_none() {
            self.create_dead_letter_topic(now, &name)?;
        }
        let topic = self.cluster.topic_named(&name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let count = i32::try_from(topic.partitions.len()).map_err(|_| ErrorCode::InvalidPartitions)?;
        // A topic has a partition.
        let at = TopicIdPartition { topic_id: topic.id, partition: key.partition.rem_euclid(count) };
        Ok((at, self.leader_seen_by(node, at).ok_or(ErrorCode::UnknownTopicOrPartition)?))
    }

    fn decide_dead_letter_topic(&self, group_id: &str) -> Result<std::sync::Arc<str>, ErrorCode> {
        let group = self.cluster.configs.share_group(group_id);
        let broker = self.cluster.configs.broker();
        let name = group.dlq_topic_name.clone().ok_or(ErrorCode::InvalidConfig)?;
        let may_be_used = match self.cluster.topic_named(&name) {
            Some(_) => self.cluster.configs.topic(&name).dlq_group_enable,
            None => broker.dlq_auto_create_topics_enable,
        };
        let is_named_well = !name.starts_with("__") && name.starts_with(&*broker.dlq_topic_name_prefix);
        if may_be_used && is_named_well { Ok(name) } else { Err(ErrorCode::InvalidConfig) }
    }

    fn create_dead_letter_topic(&mut self, now: Now, name: &str) -> Result<(), ErrorCode> {
        let config =
            |name: &str, value: &str| CreatableTopicConfig { name: name.into(), value: Some(value.into()) };
        let wanted = CreatableTopic {
            name: name.into(),
            num_partitions: -1,
            replication_factor: -1,
            configs: vec![
                config("errors.deadletterqueue.group.enable", "true"),
                config("message.timestamp.type", "CreateTime"),
            ],
            ..CreatableTopic::default()
        };
        self.create_own_topic(now, &wanted)
    }
}
