//! The share coordinator's side of the crossings that read, write and initialise the state of share partitions.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_group_coordinator::{DeleteShareStates, InitialiseShareStates, TopicPartitions};
use sharemark_protocol::{
    CoordinatorRecord, ErrorCode, LeaderEpoch, NodeId, SharePartitionKey, TopicId, TopicIdPartition,
};
use sharemark_share_coordinator::{
    InitializeState, ReadState, ShareCoordinatorShard, StateRecord, WriteState,
};

use super::Broker;
use super::cluster::SHARE_GROUP_STATE;
use super::coordinators::record_offset;
use super::faults::NotInitialised;
use super::input::Now;

impl Broker {
    /// Returns the partition of `__share_group_state` that keeps a share partition's state, and its leader as `node`
    /// sees it.
    pub(super) fn share_state_leader(
        &self,
        node: NodeId,
        key: &SharePartitionKey,
    ) -> Option<(TopicIdPartition, NodeId)> {
        let topic = self.cluster.topic_named(SHARE_GROUP_STATE)?;
        let count = i32::try_from(topic.partitions.len()).ok()?;
        let at = TopicIdPartition { topic_id: topic.id, partition: key.state_partition(count) };
        Some((at, self.leader_seen_by(node, at)?))
    }

    /// Returns the shard that keeps a share partition's state at `node`.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node leads it.
    pub(super) fn share_state_shard(
        &self,
        node: NodeId,
        key: &SharePartitionKey,
    ) -> Result<(TopicIdPartition, &ShareCoordinatorShard), ErrorCode> {
        let (at, leader) = self.share_state_leader(node, key).ok_or(ErrorCode::NotCoordinator)?;
        if leader != node {
            return Err(ErrorCode::NotCoordinator);
        }
        let shard = self.nodes.get(&node).and_then(|node| node.share_states.get(&at.partition));
        Ok((at, shard.ok_or(ErrorCode::CoordinatorLoadInProgress)?))
    }

    pub(super) fn share_state_shard_mut(
        &mut self,
        node: NodeId,
        at: TopicIdPartition,
    ) -> Option<&mut ShareCoordinatorShard> {
        self.nodes.get_mut(&node)?.share_states.get_mut(&at.partition)
    }

    /// Appends what a share shard has decided as one plain batch, and replays it.
    ///
    /// # Errors
    ///
    /// - What the log refuses; nothing has changed then.
    pub(super) fn commit_state_records(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        records: &[StateRecord],
    ) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        #[cfg(feature = "plants")]
        let records = &self.planted_records(records)[..];
        let encoded: Vec<CoordinatorRecord> = records.iter().map(StateRecord::encode).collect();
        let base = self.append_records(now, node, at, &encoded, None)?;
        if let Some(shard) = self.share_state_shard_mut(node, at) {
            for (index, record) in records.iter().enumerate() {
                shard.replay(record_offset(base, index), record);
            }
        }
        Ok(())
    }

    /// Tells a leader the state of a share partition, and notes a newer leader.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node keeps it.
    /// - What the shard or the log refuses.
    pub(super) fn read_share_state(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        leader_epoch: LeaderEpoch,
    ) -> Result<ReadState, ErrorCode> {
        let (at, shard) = self.share_state_shard(node, key)?;
        let decision = shard.decide_read(key, Some(leader_epoch), now.clock)?;
        let records: Vec<StateRecord> = decision.record.into_iter().collect();
        self.commit_state_records(now, node, at, &records)?;
        Ok(decision.state)
    }

    /// Stores what a leader has changed.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node keeps it.
    /// - What the shard or the log refuses.
    pub(super) fn write_share_state(
        &mut self,
        now: Now,
        node: NodeId,
        write: &WriteState,
    ) -> Result<(), ErrorCode> {
        let (at, shard) = self.share_state_shard(node, &write.key)?;
        let record = shard.decide_write(write, now.clock)?;
        self.commit_state_records(now, node, at, std::slice::from_ref(&record))
    }

    /// Initialises share partitions at `node`, and sorts them into those that are done and those that are not. What
    /// `is_repeated` may have been done before.
    pub(super) fn initialise_share_states(
        &mut self,
        now: Now,
        node: NodeId,
        wanted: &InitialiseShareStates,
        is_repeated: bool,
    ) -> (TopicPartitions, NotInitialised) {
        let (mut done, mut failed) = (TopicPartitions::new(), NotInitialised::new());
        let mut by_shard: BTreeMap<TopicIdPartition, Vec<StateRecord>> = BTreeMap::new();
        for topic in &wanted.topics {
            for (&partition, &start_offset) in &topic.partitions {
                let key = SharePartitionKey {
                    group_id: wanted.group_id.clone(),
                    topic_id: topic.topic_id,
                    partition,
                };
                let initialize =
                    InitializeState { key: key.clone(), state_epoch: wanted.state_epoch, start_offset };
                let decided = self.share_state_shard(node, &key).and_then(|(at, shard)| {
                    let is_done = is_repeated && shard.has_outrun(&initialize);
                    let record = || shard.decide_initialize(&initialize, now.clock);
                    Ok((at, if is_done { None } else { Some(record()?) }))
                });
                match decided {
                    Ok((at, Some(record))) => by_shard.entry(at).or_default().push(record),
                    Ok((_, None)) => drop(done.entry(topic.topic_id).or_default().insert(partition)),
                    Err(error) => drop(failed.entry(topic.topic_id).or_default().insert(partition, error)),
                }
            }
        }
        for (at, records) in by_shard {
            let outcome = self.commit_state_records(now, node, at, &records);
            for SharePartitionKey { topic_id, partition, .. } in records.iter().map(|record| &record.key) {
                match outcome {
                    Ok(()) => drop(done.entry(*topic_id).or_default().insert(*partition)),
                    Err(error) => drop(failed.entry(*topic_id).or_default().insert(*partition, error)),
                }
            }
        }
        (done, failed)
    }

    /// Removes a stored state; one that is not there is fine.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node keeps it.
    /// - What the log refuses.
    pub(super) fn delete_share_state(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
    ) -> Result<(), ErrorCode> {
        let (at, shard) = self.share_state_shard(node, key)?;
        let records: Vec<StateRecord> = shard.decide_delete(key).into_iter().collect();
        self.commit_state_records(now, node, at, &records)
    }

    /// Removes stored states of a group; stops at the first that cannot be.
    ///
    /// # Errors
    ///
    /// - As [`Self::delete_share_state`].
    pub(super) fn delete_share_states(
        &mut self,
        now: Now,
        node: NodeId,
        states: &DeleteShareStates,
    ) -> Result<(), ErrorCode> {
        for (topic_id, partitions) in &states.partitions {
            for partition in partitions {
                let key = SharePartitionKey {
                    group_id: states.group_id.clone(),
                    topic_id: *topic_id,
                    partition: *partition,
                };
                self.delete_share_state(now, node, &key)?;
            }
        }
        Ok(())
    }

    /// Removes the stored states of deleted topics.
    pub(super) fn delete_share_states_of_topics(&mut self, now: Now, deleted: &BTreeSet<TopicId>) {
        let Some(topic_id) = self.cluster.topic_named(SHARE_GROUP_STATE).map(|topic| topic.id) else {
            return;
        };
        let mut decided: Vec<(NodeId, i32, Vec<StateRecord>)> = Vec::new();
        for (id, node) in self.connected() {
            for (index, shard) in &node.share_states {
                let mut records = Vec::new();
                shard.decide_delete_topics(deleted, &mut records);
                decided.push((id, *index, records));
            }
        }
        for (node, partition, records) in decided {
            let _refused =
                self.commit_state_records(now, node, TopicIdPartition { topic_id, partition }, &records);
        }
    }
}
