//! Share partitions at their leader: loaded at the first fetch, changed through plans whose states are written to
//! the share coordinator, a crossing, and dropped when nobody fetches or a fence says so.

use std::sync::Arc;

use sharemark_log::{Isolation, OffsetQuery};
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, NodeId, Offset, SharePartitionKey, Timestamp, TopicIdPartition,
};
use sharemark_share_coordinator::{
    Change, ClosedSession, ReadState, SharePartition, SharePartitionConfig, StatePlan, TransitionId,
    WriteState,
};

use super::Broker;
use super::crossing::{Call, Crossing};
use super::input::{ConnectionId, Now};
use super::metrics::SharePartitionFigures;
use super::operations::OperationId;
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

/// What goes on when a write of share state is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterWrite {
    /// Nothing: a lapse is never taken back.
    Nothing,
    /// The records leave their transition.
    Transition(TransitionId),
    /// The records leave their transition, and a request hears of it.
    Answer {
        /// The transition.
        transition: TransitionId,
        /// The request.
        operation: OperationId,
        /// Which of its partitions.
        index: usize,
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
            // Nothing copies records yet; without a copy to wait for they are archived at once.
            dead_letter_queue: false,
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

    /// Changes an active share partition, notes its next deadline, and wakes who waits for what became free.
    pub(super) fn change_share_partition<T>(
        &mut self,
        node: NodeId,
        key: &SharePartitionKey,
        change: impl FnOnce(&mut SharePartition) -> (T, Change),
    ) -> Option<T> {
        let node = self.nodes.get_mut(&node)?;
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
        let slot = match self.share_state_leader(key) {
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
            let start = match state.start_offset {
                Some(start) => start,
                None => self.reset_offset(now, key)?,
            };
            let mut partition = SharePartition::load(&state, start, leader_epoch)?;
            partition.number_transitions_from(first_transition);
            Ok(partition)
        });
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

    /// Puts the records of a plan in transition and has their states written; nothing if it stores nothing.
    ///
    /// Returns whether a write is under way, after which `operation` will hear.
    pub(super) fn store_plan(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        plan: &StatePlan,
        operation: Option<(OperationId, usize)>,
    ) -> bool {
        let config = self.share_partition_config(&key.group_id);
        if plan.batches().is_empty() {
            // Renewals alone are not stored.
            self.change_share_partition(node, key, |partition| {
                ((), partition.apply(now.clock, &config, plan))
            });
            return false;
        }
        let Some((transition, epochs)) = self.change_share_partition(node, key, |partition| {
            let id = partition.hold(now.clock, &config, plan);
            ((id, (partition.state_epoch(), partition.leader_epoch())), Change::default())
        }) else {
            return false;
        };
        let write = WriteState {
            key: key.clone(),
            state_epoch: Some(epochs.0),
            leader_epoch: Some(epochs.1),
            start_offset: Some(plan.start_offset()),
            delivery_complete_count: i32::try_from(plan.delivery_complete_count()).ok(),
            batches: plan.batches().to_vec(),
        };
        let then = match operation {
            Some((operation, index)) => AfterWrite::Answer { transition, operation, index },
            None => AfterWrite::Transition(transition),
        };
        self.cross_to_write(node, write, then);
        true
    }

    fn cross_to_write(&mut self, from: NodeId, write: WriteState, then: AfterWrite) {
        // Without a share coordinator it is refused like anything that is sent to a node that is none.
        let to = self.share_state_leader(&write.key).map_or(from, |(_, leader)| leader);
        self.crossings.push_back(Crossing { from, to, call: Call::WriteShareState { write, then } });
    }

    /// Goes on at the leader when the share coordinator has stored what was asked, or has not.
    pub(super) fn complete_write_state(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        then: AfterWrite,
        outcome: Result<(), ErrorCode>,
    ) {
        let (transition, answer) = match then {
            AfterWrite::Nothing => (None, None),
            AfterWrite::Transition(transition) => (Some(transition), None),
            AfterWrite::Answer { transition, operation, index } => {
                (Some(transition), Some((operation, index)))
            }
        };
        if let Some(transition) = transition {
            self.end_transition(now, node, key, transition, outcome);
        }
        if matches!(outcome, Err(ErrorCode::FencedStateEpoch | ErrorCode::FencedLeaderEpoch)) {
            self.drop_share_partition(node, key);
        }
        if let Some((operation, index)) = answer {
            self.note_acknowledged(now, node, operation, index, outcome.map_err(coordinator_error));
        }
    }

    pub(super) fn end_transition(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        transition: TransitionId,
        outcome: Result<(), ErrorCode>,
    ) {
        if outcome.is_ok() {
            self.change_share_partition(node, key, |partition| {
                ((), partition.complete(now.clock, transition))
            });
            return;
        }
        let config = self.share_partition_config(&key.group_id);
        let mut lapsed = Vec::new();
        let start = self.share_partition(node, key).map(|partition| partition.to_store().0);
        self.change_share_partition(node, key, |partition| {
            ((), partition.fail(&config, transition, &mut lapsed))
        });
        if !lapsed.is_empty() {
            self.write_lapsed(node, key, start, lapsed);
        }
    }

    /// Has the states of lapsed records written, without waiting for it.
    fn write_lapsed(
        &mut self,
        node: NodeId,
        key: &SharePartitionKey,
        start_offset: Option<Offset>,
        batches: Vec<sharemark_share_coordinator::StateBatch>,
    ) {
        let Some(partition) = self.share_partition(node, key) else { return };
        // The start before the lapse, as in every write, and what was final above that.
        let moved = start_offset.map_or(0, |start| partition.start_offset().since(start));
        let write = WriteState {
            key: key.clone(),
            state_epoch: Some(partition.state_epoch()),
            leader_epoch: Some(partition.leader_epoch()),
            start_offset,
            delivery_complete_count: i32::try_from(partition.delivery_complete_count() + moved).ok(),
            batches,
        };
        self.cross_to_write(node, write, AfterWrite::Nothing);
    }

    /// Forgets a share partition; the next fetch loads it anew.
    pub(super) fn drop_share_partition(&mut self, node: NodeId, key: &SharePartitionKey) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        if let Some(SharePartitionSlot::Active { deadline: Some(deadline), .. }) =
            node.share_partitions.remove(key)
        {
            node.share_deadlines.remove(&(deadline, key.clone()));
        }
        self.changed.insert(TopicIdPartition { topic_id: key.topic_id, partition: key.partition });
    }

    /// Lets the locks lapse that have run out, at every node.
    pub(super) fn expire_share_locks(&mut self, now: Now) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            while let Some((deadline, key)) =
                self.nodes.get(&id).and_then(|node| node.share_deadlines.first()).cloned()
            {
                if now.clock < deadline {
                    break;
                }
                self.expire_locks_of(now, id, &key);
            }
        }
    }

    fn expire_locks_of(&mut self, now: Now, node: NodeId, key: &SharePartitionKey) {
        let config = self.share_partition_config(&key.group_id);
        let start = self.share_partition(node, key).map(|partition| partition.to_store().0);
        let mut lapsed = Vec::new();
        self.change_share_partition(node, key, |partition| {
            ((), partition.expire(now.clock, &config, &mut lapsed))
        });
        if !lapsed.is_empty() {
            let lapsed_count: i64 = lapsed.iter().map(|batch| batch.range.offset_count()).sum();
            self.count_at(node, key, |figures| {
                figures.lock_timeouts += u64::try_from(lapsed_count).unwrap_or(0)
            });
            self.write_lapsed(node, key, start, lapsed);
        }
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
                self.store_plan(now, node, &key, &plan, None);
            }
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
        let Some(state) = self.nodes.get(&node) else { return };
        if state.share_sessions.has_sessions(group_id) {
            return; // One was opened meanwhile.
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
