//! Share partitions at their leader: loaded at the first fetch, changed through plans whose states are written to
//! the share coordinator, a crossing, and dropped when nobody fetches or a fence says so.

mod writes;

use std::sync::Arc;

use sharemark_log::{Isolation, OffsetQuery};
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, NodeId, Offset, SharePartitionKey, Timestamp, TopicIdPartition,
};
use sharemark_share_coordinator::{
    Change, ClosedSession, ReadState, SharePartition, SharePartitionConfig, StatePlan,
};

pub(super) use self::writes::AfterWrite;

use super::Broker;
use super::crossing::{Call, Crossing};
use super::input::{ConnectionId, Now};
use super::metrics::SharePartitionFigures;
use crate::config::{AbortTarget, AutoOffsetReset};

/// A share partition at the node that leads its partition.
#[derive(Clone, Debug)]
pub(super) enum SharePartitionSlot {
    /// Its state is being read.
    Loading {
        /// Since when, in real time.
        since: Timestamp,
    },
    /// Its state could not be read; the next fetch tells and tries again.
    Failed(ErrorCode),
    /// It is served.
    Active {
        /// The lock table.
        partition: Box<SharePartition>,
        /// Where it stands among the deadlines of its node.
        deadline: Option<Timestamp>,
        /// What it has counted.
        figures: Box<SharePartitionFigures>,
    },
}

impl Broker {
    /// Returns what a share partition of a group obeys.
    pub(super) fn share_partition_config(&self, group_id: &str) -> SharePartitionConfig {
        let group = self.cluster.configs.share_group(group_id);
        SharePartitionConfig {
            lock_duration_ms: i64::from(group.record_lock_duration_ms),
            delivery_count_limit: i16::try_from(group.delivery_count_limit).unwrap_or(i16::MAX),
            record_locks_max: i64::from(group.partition_max_record_locks),
            renew_enabled: group.renew_acknowledge_enable,
            dead_letter_queue: 2 <= self.cluster.features.share_version() && group.dlq_topic_name.is_some(),
            throttles_redelivery: true,
            abort_restores_lock: self.cluster.configs.broker().share_txn_abort_target()
                == AbortTarget::Acquired,
        }
    }

    /// Returns an active share partition.
    pub(super) fn share_partition(&self, node: NodeId, key: &SharePartitionKey) -> Option<&SharePartition> {
        match self.nodes.get(&node)?.share_partitions.get(key)? {
            SharePartitionSlot::Active { partition, .. } => Some(partition),
            SharePartitionSlot::Loading { .. } | SharePartitionSlot::Failed(_) => None,
        }
    }

    /// Returns whether the state of a share partition is being loaded.
    pub(super) fn is_loading(&self, node: NodeId, key: &SharePartitionKey) -> bool {
        let slot = self.nodes.get(&node).and_then(|node| node.share_partitions.get(key));
        matches!(slot, Some(SharePartitionSlot::Loading { .. }))
    }

    /// Changes an active share partition, notes its next deadline, and wakes who waits for what became free.
    pub(super) fn change_share_partition<T>(
        &mut self,
        node: NodeId,
        key: &SharePartitionKey,
        change: impl FnOnce(&mut SharePartition) -> (T, Change),
    ) -> Option<T> {
        let id = node;
        let node = self.nodes.get_mut(&id)?;
        let SharePartitionSlot::Active { partition, deadline, .. } = node.share_partitions.get_mut(key)?
        else {
            return None;
        };
        let (outcome, change) = change(partition);
        debug_assert!({
            partition.check_invariants();
            true
        });
        let next = partition.poll_timeout();
        if *deadline != next {
            if let Some(before) = deadline.take() {
                node.share_deadlines.remove(&(before, key.clone()));
            }
            if let Some(next) = next {
                node.share_deadlines.insert((next, key.clone()));
            }
            *deadline = next;
        }
        if change.wakes_fetches() {
            self.changed.insert(TopicIdPartition { topic_id: key.topic_id, partition: key.partition });
        }
        if change.archiving {
            self.archiving.insert((id, key.clone()));
        }
        Some(outcome)
    }

    /// Begins to load a share partition: asks the share coordinator for its state.
    pub(super) fn load_share_partition(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        leader_epoch: LeaderEpoch,
    ) {
        let slot = match self.share_state_leader(node, key) {
            Some((_, to)) => {
                let call = Call::ReadShareState { key: key.clone(), leader_epoch };
                self.crossings.push_back(Crossing { from: node, to, call });
                SharePartitionSlot::Loading { since: now.real }
            }
            // There is no state at all: nobody ever joined a share group.
            None => SharePartitionSlot::Failed(ErrorCode::UnknownServerError),
        };
        if let Some(node) = self.nodes.get_mut(&node) {
            node.share_partitions.insert(key.clone(), slot);
        }
    }

    /// Goes on at the leader with the state that the share coordinator has told, or has not.
    pub(super) fn complete_read_state(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        leader_epoch: LeaderEpoch,
        read: Result<ReadState, ErrorCode>,
    ) {
        let is_waiting = self.nodes.get(&node).and_then(|node| node.share_partitions.get(key));
        let Some(SharePartitionSlot::Loading { since }) = is_waiting else { return }; // Dropped meanwhile.
        let load_time_ms = now.real.ms_since(*since);
        // A late completion of a write by an earlier table must not be taken for one by this.
        self.share_loads += 1;
        let first_transition = self.share_loads << 32;
        let loaded = read.map_err(coordinator_error).and_then(|state| {
            let mut partition = self.load_stored(now, key, &state, leader_epoch)?;
            partition.number_transitions_from(first_transition);
            Ok(partition)
        });
        if loaded.as_ref().is_ok_and(|partition| partition.loaded_change().archiving) {
            self.archiving.insert((node, key.clone()));
        }
        let slot = match loaded {
            Ok(partition) => SharePartitionSlot::Active {
                partition: Box::new(partition),
                deadline: None,
                figures: Box::new(SharePartitionFigures::new()),
            },
            Err(error) => SharePartitionSlot::Failed(error),
        };
        if let Some(node) = self.nodes.get_mut(&node) {
            if matches!(slot, SharePartitionSlot::Active { .. }) {
                node.figures.partition_load_time_ms.observe(load_time_ms, 1);
            }
            node.share_partitions.insert(key.clone(), slot);
        }
        self.changed.insert(TopicIdPartition { topic_id: key.topic_id, partition: key.partition });
    }

    /// Returns the share partition that a stored state stands for.
    fn load_stored(
        &self,
        now: Now,
        key: &SharePartitionKey,
        state: &ReadState,
        leader_epoch: LeaderEpoch,
    ) -> Result<SharePartition, ErrorCode> {
        let start = match state.start_offset {
            Some(start) => start,
            None => self.reset_offset(now, key)?,
        };
        SharePartition::load(state, start, leader_epoch)
    }

    /// Returns a share partition as its leader would load it now, if a state of it is stored. Nothing changes by it.
    pub(super) fn stored_share_partition(
        &self,
        now: Now,
        leader: NodeId,
        key: &SharePartitionKey,
        leader_epoch: LeaderEpoch,
    ) -> Option<SharePartition> {
        let state = self.stored_state(now.clock, leader, key)?;
        self.load_stored(now, key, &state, leader_epoch).ok()
    }

    /// Returns what the share coordinator stores of a share partition, if it does.
    pub(super) fn stored_state(
        &self,
        now: Timestamp,
        leader: NodeId,
        key: &SharePartitionKey,
    ) -> Option<ReadState> {
        let (_, coordinator) = self.share_state_leader(leader, key)?;
        let (_, shard) = self.share_state_shard(coordinator, key).ok()?;
        Some(shard.decide_read(key, None, now).ok()?.state)
    }

    /// Changes what an active share partition has counted.
    pub(super) fn count_at(
        &mut self,
        node: NodeId,
        key: &SharePartitionKey,
        count: impl FnOnce(&mut SharePartitionFigures),
    ) {
        let slot = self.nodes.get_mut(&node).and_then(|node| node.share_partitions.get_mut(key));
        if let Some(SharePartitionSlot::Active { figures, .. }) = slot {
            count(figures);
        }
    }

    /// Returns where a share partition starts that has no stored start: by the group's reset policy.
    ///
    /// # Errors
    ///
    /// - `OffsetNotAvailable` if the policy asks for records younger than any there are.
    fn reset_offset(&self, now: Now, key: &SharePartitionKey) -> Result<Offset, ErrorCode> {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let log = &self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?.log;
        match self.cluster.configs.share_group(&key.group_id).auto_offset_reset {
            AutoOffsetReset::Latest => Ok(log.high_watermark()),
            AutoOffsetReset::Earliest => Ok(log.log_start()),
            AutoOffsetReset::ByDurationMs(duration_ms) => {
                let since = now.clock.plus_ms(-duration_ms);
                log.find_offset(OffsetQuery::AtOrAfter(since), Isolation::ReadUncommitted)
                    .map(|found| found.offset)
                    .ok_or(ErrorCode::OffsetNotAvailable)
            }
        }
    }

    /// Forgets a share partition; the next fetch loads it anew.
    pub(super) fn drop_share_partition(&mut self, node: NodeId, key: &SharePartitionKey) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        if let Some(SharePartitionSlot::Active { deadline: Some(deadline), .. }) =
            node.share_partitions.remove(key)
        {
            node.share_deadlines.remove(&(deadline, key.clone()));
        }
        node.dead_letters.forget(key);
        self.changed.insert(TopicIdPartition { topic_id: key.topic_id, partition: key.partition });
    }

    /// Releases what a member holds in the partitions of its session, which has ended.
    pub(super) fn release_session(&mut self, now: Now, node: NodeId, closed: &ClosedSession) {
        let config = self.share_partition_config(&closed.key.group_id);
        let mut plan = StatePlan::new();
        for partition in &closed.partitions {
            let key = share_key(&closed.key.group_id, *partition);
            let Some(active) = self.share_partition(node, &key) else { continue };
            active.decide_release(&closed.key.member_id, &config, &mut plan);
            if !plan.is_empty() {
                self.store_plan(now, node, &key, &config, &plan, None);
            }
            #[cfg(feature = "plants")]
            self.release_planted(now, node, &key);
        }
    }

    /// Ends the share sessions that a connection has opened.
    pub(super) fn close_share_sessions_of(&mut self, now: Now, connection: ConnectionId) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            let Some(node) = self.nodes.get_mut(&id) else { continue };
            let closed =
                node.share_sessions.close_connection(sharemark_share_coordinator::ConnectionId(connection.0));
            for session in &closed.sessions {
                self.release_session(now, id, session);
            }
            for group_id in &closed.emptied_groups {
                self.crossings.push_back(Crossing {
                    from: id,
                    to: id,
                    call: Call::ForgetShareGroup(group_id.clone()),
                });
            }
        }
    }

    /// Forgets the share partitions of a group that has no session at a node any more.
    pub(super) fn forget_share_group(&mut self, node: NodeId, group_id: &Arc<str>) {
        let Some(state) = self.nodes.get_mut(&node) else { return };
        if state.share_sessions.has_sessions(group_id) || state.dead_letters.puts_off_forgetting(group_id) {
            return; // One was opened meanwhile, or copies are still to be made.
        }
        if self.faults.puts_off_forgetting(node, group_id) {
            return;
        }
        let keys: Vec<SharePartitionKey> =
            state.share_partitions.keys().filter(|key| key.group_id == *group_id).cloned().collect();
        for key in keys {
            self.drop_share_partition(node, &key);
        }
    }

    /// Forgets every share partition, since all their stored states are gone.
    pub(super) fn drop_all_share_partitions(&mut self) {
        for node in self.nodes.values_mut() {
            node.share_deadlines.clear();
            node.dead_letters.clear();
            let gone = std::mem::take(&mut node.share_partitions).into_keys();
            self.changed.extend(
                gone.map(|key| TopicIdPartition { topic_id: key.topic_id, partition: key.partition }),
            );
        }
    }

    /// Ends every share session, and forgets every share partition with its locks: share groups are turned off.
    pub(super) fn end_all_share_sessions(&mut self) {
        for node in self.nodes.values_mut() {
            node.share_sessions.clear();
        }
        self.drop_all_share_partitions();
    }

    /// Forgets the share partitions of a deleted topic, at every node.
    pub(super) fn forget_share_partitions_of(&mut self, topic_id: sharemark_protocol::TopicId) {
        let gone: Vec<(NodeId, SharePartitionKey)> = self
            .nodes
            .iter()
            .flat_map(|(id, node)| {
                let keys = node.share_partitions.keys().filter(move |key| key.topic_id == topic_id);
                keys.map(move |key| (*id, key.clone()))
            })
            .collect();
        for (node, key) in gone {
            self.drop_share_partition(node, &key);
        }
    }
}

/// Names the share partition of a group in a partition.
pub(super) fn share_key(group_id: &Arc<str>, at: TopicIdPartition) -> SharePartitionKey {
    SharePartitionKey { group_id: group_id.clone(), topic_id: at.topic_id, partition: at.partition }
}

/// Returns what a client is told when the share coordinator refuses its leader.
pub(super) const fn coordinator_error(error: ErrorCode) -> ErrorCode {
    if matches!(
        error,
        ErrorCode::FencedStateEpoch | ErrorCode::FencedLeaderEpoch | ErrorCode::NotLeaderOrFollower
    ) {
        return ErrorCode::NotLeaderOrFollower;
    }
    if matches!(
        error,
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress
    ) {
        return ErrorCode::CoordinatorNotAvailable;
    }
    if matches!(error, ErrorCode::GroupIdNotFound | ErrorCode::UnknownTopicOrPartition) {
        return error;
    }
    // Kafka hides every other code.
    ErrorCode::UnknownServerError
}
