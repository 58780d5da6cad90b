//! What the requests of groups have in common: their shard, its records, its deadlines.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_group_coordinator::{
    GroupCoordinatorShard, GroupRecord, InitialiseShareStates, Refusal, ShareGroupConfig, TopicPartitions,
};
use sharemark_protocol::{
    CoordinatorRecord, ErrorCode, NodeId, SharePartitionKey, StrBytes, Timestamp, TopicId, TopicIdPartition,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::CONSUMER_OFFSETS;
use super::coordinators::record_offset;
use super::crossing::Call;
use super::input::{Now, Origin};
use super::operations::OperationId;
use super::ticks::REFUSED_BACKOFF_MS;

/// Judges whether `origin` may see the topics that a member subscribes to.
///
/// # Errors
///
/// - `TopicAuthorizationFailed` if it may not see one of them.
pub(super) fn decide_subscribed_topics(origin: &Origin, names: Option<&[StrBytes]>) -> Result<(), Refusal> {
    let mut names = names.into_iter().flatten();
    if names.all(|name| authorize(&origin.principal, Operation::Describe, Resource::Topic(name))) {
        return Ok(());
    }
    Err(Refusal::of(ErrorCode::TopicAuthorizationFailed))
}

impl Broker {
    /// Judges whether the cluster has share groups and `origin` may do `operation` on this one.
    ///
    /// # Errors
    ///
    /// - `UnsupportedVersion` if `share.version` is 0.
    /// - `GroupAuthorizationFailed` if `origin` may not.
    pub(super) fn decide_share_group(
        &self,
        origin: &Origin,
        group_id: &str,
        operation: Operation,
    ) -> Result<(), ErrorCode> {
        if self.cluster.features.share_version() < 1 {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if !authorize(&origin.principal, operation, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        Ok(())
    }

    /// Returns the shard of a group at `node`, with its partition.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node leads the partition, or the topic does not exist yet.
    pub(super) fn group_shard(
        &self,
        node: NodeId,
        group_id: &str,
    ) -> Result<(TopicIdPartition, &GroupCoordinatorShard), ErrorCode> {
        let at = self.decide_coordinator(node, CONSUMER_OFFSETS, group_id)?;
        let shard = self.nodes.get(&node).and_then(|node| node.groups.get(&at.partition));
        Ok((at, shard.ok_or(ErrorCode::CoordinatorLoadInProgress)?))
    }

    pub(super) fn group_shard_mut(
        &mut self,
        node: NodeId,
        at: TopicIdPartition,
    ) -> Option<&mut GroupCoordinatorShard> {
        self.nodes.get_mut(&node)?.groups.get_mut(&at.partition)
    }

    /// Appends what a group shard has decided, and replays it.
    ///
    /// # Errors
    ///
    /// - What the log refuses; nothing has changed then.
    pub(super) fn commit_group_records(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        records: &[GroupRecord],
    ) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let encoded: Vec<CoordinatorRecord> = records.iter().map(GroupRecord::encode).collect();
        let base = self.append_records(now, node, at, &encoded, None)?;
        if let Some(shard) = self.group_shard_mut(node, at) {
            for (index, record) in records.iter().enumerate() {
                shard.replay(record_offset(base, index), record);
            }
        }
        Ok(())
    }

    /// Returns what applies to a share group, from the broker's and its own configuration.
    pub(super) fn share_group_config(&self, group_id: &str) -> ShareGroupConfig {
        let own = self.cluster.configs.share_group(group_id);
        let broker = self.cluster.configs.broker();
        ShareGroupConfig {
            assignment_interval_ms: i64::from(own.assignment_interval_ms),
            heartbeat_interval_ms: own.heartbeat_interval_ms,
            session_timeout_ms: i64::from(own.session_timeout_ms),
            max_size: usize::try_from(broker.group_share_max_size).unwrap_or(0),
            initialize_retry_interval_ms: i64::from(broker.group_share_initialize_retry_interval_ms),
        }
    }

    /// Asks the share coordinators to initialise share partitions; returns how many are asked. `then` is the request
    /// that waits for them, if one does.
    pub(super) fn cross_to_initialise(
        &mut self,
        from: NodeId,
        wanted: &InitialiseShareStates,
        then: Option<OperationId>,
    ) -> usize {
        let calls = self.calls_to_initialise(from, wanted, then);
        self.cross_later(from, calls)
    }

    /// Returns the calls that initialise share partitions: one to each node that leads some of their states.
    pub(super) fn calls_to_initialise(
        &self,
        from: NodeId,
        wanted: &InitialiseShareStates,
        then: Option<OperationId>,
    ) -> Vec<(NodeId, Call)> {
        let mut by_node: std::collections::BTreeMap<NodeId, InitialiseShareStates> =
            std::collections::BTreeMap::new();
        for topic in &wanted.topics {
            for (partition, start_offset) in &topic.partitions {
                let key = SharePartitionKey {
                    group_id: wanted.group_id.clone(),
                    topic_id: topic.topic_id,
                    partition: *partition,
                };
                let Some((_, leader)) = self.share_state_leader(from, &key) else { continue };
                let states = by_node.entry(leader).or_insert_with(|| InitialiseShareStates {
                    group_id: wanted.group_id.clone(),
                    state_epoch: wanted.state_epoch,
                    topics: Vec::new(),
                });
                match states.topics.last_mut().filter(|last| last.topic_id == topic.topic_id) {
                    Some(last) => {
                        last.partitions.insert(*partition, *start_offset);
                    }
                    None => states.topics.push(sharemark_group_coordinator::InitialiseTopic {
                        topic_id: topic.topic_id,
                        partitions: [(*partition, *start_offset)].into(),
                    }),
                }
            }
        }
        by_node.into_iter().map(|(to, states)| (to, Call::InitialiseShareStates { states, then })).collect()
    }

    /// Goes on at the group coordinator when a share coordinator has initialised what it was asked to, or not.
    pub(super) fn complete_initialise(
        &mut self,
        now: Now,
        node: NodeId,
        group_id: &Arc<str>,
        done: &TopicPartitions,
        failed: &TopicPartitions,
    ) {
        // A refused append leaves the partitions initialising, and the next heartbeat asks again. Each of the two
        // records replaces the group's whole list, so the second is decided on what the first has made of it.
        if let Ok((at, shard)) = self.group_shard(node, group_id)
            && !done.is_empty()
        {
            let records = shard.decide_states_initialised(group_id, done);
            let _refused = self.commit_group_records(now, node, at, &records);
        }
        if let Ok((at, shard)) = self.group_shard(node, group_id)
            && !failed.is_empty()
        {
            let records = shard.decide_states_not_initialised(group_id, failed);
            let _refused = self.commit_group_records(now, node, at, &records);
        }
    }

    /// Creates an internal topic unless it is there, and returns whether it did.
    ///
    /// # Errors
    ///
    /// - `CoordinatorNotAvailable` if `node`, which wants it, is cut off, or the topic may not be created.
    pub(super) fn ensure_internal_topic(
        &mut self,
        now: Now,
        node: NodeId,
        name: &str,
    ) -> Result<bool, ErrorCode> {
        if self.cluster.topic_named(name).is_some() {
            return Ok(false);
        }
        if self.is_cut_off(node) || self.auto_create_topic(now, name).is_err() {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        Ok(true)
    }

    /// Returns when the next member's session runs out.
    pub(super) fn group_timeout(&self) -> Option<Timestamp> {
        // What is due at a node that is cut off could not be written.
        let shards = self.connected().flat_map(|(_, node)| node.groups.values());
        let due = shards.filter_map(GroupCoordinatorShard::poll_timeout).min();
        due.map(|due| due.max(self.expiry_from))
    }

    /// Removes the members whose session has run out.
    pub(super) fn expire_group_members(&mut self, now: Now) {
        if now.clock < self.expiry_from {
            return;
        }
        let Some(topic_id) = self.cluster.topic_named(CONSUMER_OFFSETS).map(|topic| topic.id) else { return };
        let led: Vec<(NodeId, i32)> = self
            .connected()
            .flat_map(|(id, node)| node.groups.keys().map(move |partition| (id, *partition)))
            .collect();
        let config = self.classic_group_config();
        for (node, partition) in led {
            let at = TopicIdPartition { topic_id, partition };
            while let Some(expired) = self
                .nodes
                .get(&node)
                .and_then(|node| node.groups.get(&partition))
                .and_then(|shard| shard.decide_expired(now.clock, &self.cluster, &config))
            {
                if self.commit_group_records(now, node, at, &expired.records).is_err() {
                    self.expiry_from = now.clock.plus_ms(REFUSED_BACKOFF_MS);
                    break;
                }
                if let Some(plan) = expired.downgraded {
                    self.apply_classic_plan(node, at, plan);
                }
            }
            self.expire_classic_groups(now, node, at);
        }
    }

    /// Deletes offsets that have expired, and groups of which nothing is left.
    pub(super) fn expire_offsets(&mut self, now: Now) {
        let minutes = i64::from(self.cluster.configs.broker().offsets_retention_minutes);
        self.commit_in_every_group_shard(now, |shard| {
            shard.decide_expired_offsets(now.clock, minutes * 60_000)
        });
    }

    /// Deletes the offsets that groups have committed for a topic that is gone.
    pub(super) fn forget_offsets_of_topic(&mut self, now: Now, topic: &Arc<str>, id: TopicId) {
        self.commit_in_every_group_shard(now, |shard| shard.decide_offsets_of_deleted(topic, id));
    }

    /// Has each group shard decide something, appends it and replays it.
    fn commit_in_every_group_shard(
        &mut self,
        now: Now,
        decide: impl Fn(&GroupCoordinatorShard) -> Vec<GroupRecord>,
    ) {
        let Some(topic_id) = self.cluster.topic_named(CONSUMER_OFFSETS).map(|topic| topic.id) else { return };
        let mut decided: Vec<(NodeId, i32, Vec<GroupRecord>)> = Vec::new();
        for (id, node) in self.connected() {
            decided.extend(node.groups.iter().map(|(index, shard)| (id, *index, decide(shard))));
        }
        for (node, partition, records) in decided {
            // What is refused is decided anew when the same comes up again.
            let at = TopicIdPartition { topic_id, partition };
            let _refused = self.commit_group_records(now, node, at, &records);
        }
    }

    /// Tells every group and share coordinator that topics are gone.
    pub(super) fn forget_topics_in_coordinators(&mut self, now: Now, deleted: &BTreeSet<TopicId>) {
        self.commit_in_every_group_shard(now, |shard| shard.decide_topics_deleted(deleted));
        self.delete_share_states_of_topics(now, deleted);
    }
}
