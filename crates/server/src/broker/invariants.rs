//! What holds between any two inputs, and what an observer may see. Tests and the simulator ask after each step.

use std::collections::BTreeSet;

use sharemark_protocol::{NodeId, Offset, SharePartitionKey, Timestamp, TopicIdPartition};
use sharemark_share_coordinator::{ReadState, RecordRun, RecordState, SharePartition, StateBatch};
use sharemark_txn_coordinator::TxnCoordinatorShard;

use super::Broker;
use super::cluster::{CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE};
use super::input::{ConnectionId, Now};
use super::node::Node;
use super::parked::{Parked, Wait};
use super::share_partitions::SharePartitionSlot;

impl Broker {
    /// Returns the connections whose request waits for something.
    pub fn waiting_connections(&self) -> BTreeSet<ConnectionId> {
        self.nodes.values().flat_map(|node| node.parked.connections()).collect()
    }

    /// Returns the share partition of a group in a partition of `topic`, if its leader serves it.
    pub fn observe_share_partition(
        &self,
        group_id: &str,
        topic: &str,
        partition: i32,
    ) -> Option<&SharePartition> {
        let at = TopicIdPartition { topic_id: self.cluster.topic_named(topic)?.id, partition };
        let leader = self.cluster.partition(at)?.leader;
        self.share_partition(leader, &super::share_partitions::share_key(&group_id.into(), at))
    }

    /// Returns the share partition that a node serves, whether or not it still leads it.
    pub fn observe_share_partition_at(
        &self,
        node: NodeId,
        key: &SharePartitionKey,
    ) -> Option<&SharePartition> {
        self.share_partition(node, key)
    }

    /// Checks what must hold between any two inputs.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check_invariants(&self) {
        assert!(self.crossings.is_empty(), "a step carries out all its crossings");
        assert!(self.archiving.is_empty(), "a step begins the copies of its dead letters");
        assert!(self.changed.is_empty(), "a step wakes whoever waits for what it changed");
        assert!(self.owing.is_empty() && self.overgrown.is_empty(), "a step leaves no work behind");
        self.cluster.check_invariants();
        for node in self.nodes.values() {
            check_node(node, self.faults.is_quiet());
        }
        for (id, node) in &self.nodes {
            if node.old_view.is_some() {
                continue; // It does not know what has changed.
            }
            for parked in node.parked.iter() {
                self.check_waits(*id, parked);
            }
            for (key, slot) in &node.share_partitions {
                match slot {
                    SharePartitionSlot::Active { .. } | SharePartitionSlot::Loading { .. }
                        if !self.faults.is_quiet() => {} // Its change or its state may be under way.
                    SharePartitionSlot::Active { partition, .. } => {
                        self.check_stored(*id, key, partition);
                        check_dead_letters(node, key, partition);
                    }
                    SharePartitionSlot::Loading { .. } => {
                        panic!("a state is loaded in the step that asks for it")
                    }
                    SharePartitionSlot::Failed(_) => {}
                }
            }
        }
    }

    /// Checks that who waits has nothing to get.
    fn check_waits(&self, node: NodeId, parked: &Parked) {
        let is_ready = match &parked.wait {
            Wait::Fetch(wait) => self.is_fetch_ready(&parked.origin, wait),
            Wait::ShareFetch(wait) => self.is_share_fetch_ready(node, wait),
            // Its group holds what it waits for, and checks it.
            Wait::ClassicGroup | Wait::Time(_) => false,
        };
        assert!(!is_ready, "whoever waits is woken by what it waits for: {parked:?}");
    }

    /// Checks that whoever took over an internal partition now would know what its leader knows.
    ///
    /// # Panics
    ///
    /// If that is not so.
    pub fn check_replay_equals_live(&self, now: Now) {
        for (name, check) in [
            (CONSUMER_OFFSETS, Self::check_group_replay as fn(&Self, Now, TopicIdPartition, &Node)),
            (TRANSACTION_STATE, Self::check_txn_replay),
            (SHARE_GROUP_STATE, Self::check_share_replay),
        ] {
            let Some(topic) = self.cluster.topic_named(name) else { continue };
            for (partition, index) in topic.partitions.iter().zip(0..) {
                let at = TopicIdPartition { topic_id: topic.id, partition: index };
                if let Some(node) = self.nodes.get(&partition.leader) {
                    check(self, now, at, node);
                }
            }
        }
    }

    fn check_group_replay(&self, _now: Now, at: TopicIdPartition, node: &Node) {
        let replayed = self.replayed_group_shard(at);
        let live = node.groups.get(&at.partition);
        let is_same = live.is_some_and(|live| live.is_same_state(&replayed));
        assert!(is_same, "replay of {CONSUMER_OFFSETS} equals live: {replayed:?} {live:?}");
    }

    fn check_txn_replay(&self, now: Now, at: TopicIdPartition, node: &Node) {
        let live = node.transactions.get(&at.partition);
        let epoch = live.map(TxnCoordinatorShard::coordinator_epoch).unwrap_or_default();
        let replayed = self.replayed_txn_shard(now, at, epoch);
        let is_same = live.is_some_and(|live| live.is_same_state(&replayed));
        assert!(is_same, "replay of {TRANSACTION_STATE} equals live: {replayed:?} {live:?}");
    }

    fn check_share_replay(&self, _now: Now, at: TopicIdPartition, node: &Node) {
        let replayed = self.replayed_share_shard(at);
        let live = node.share_states.get(&at.partition);
        let is_same = live.is_some_and(|live| live.is_same_state(&replayed));
        assert!(is_same, "replay of {SHARE_GROUP_STATE} equals live: {replayed:?} {live:?}");
    }

    /// Checks that what is stored of a share partition agrees with the copy of its leader.
    fn check_stored(&self, node: NodeId, key: &SharePartitionKey, partition: &SharePartition) {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let leader = self.cluster.partition(at).map(|partition| partition.leader);
        assert!(leader == Some(node), "only its leader serves a share partition");
        let Some(stored) = self.stored_state(Timestamp::from_ms(0), node, key) else {
            panic!("what is served was read once");
        };
        if stored.state_epoch == partition.state_epoch() {
            check_copy(partition, &stored, self.faults.is_unsure());
        }
    }
}

/// Checks that every record that waits for its copy is being copied.
fn check_dead_letters(node: &Node, key: &SharePartitionKey, partition: &SharePartition) {
    let mut waiting = Vec::new();
    partition.archiving(&mut waiting);
    for offset in waiting.iter().flat_map(|(range, _)| range.offsets()) {
        let is_under_way = node.dead_letters.ranges_of(key).any(|range| range.contains(offset));
        assert!(is_under_way, "what waits for its copy is being copied: {offset} of {key:?}");
    }
}

fn check_node(node: &Node, is_quiet: bool) {
    assert!(!is_quiet || node.operations.count() == 0, "no request waits for a crossing");
    node.parked.check_invariants();
    node.fetch_sessions.check_invariants();
    node.share_sessions.check_invariants();
    for shard in node.groups.values() {
        shard.check_invariants();
    }
    for shard in node.transactions.values() {
        shard.check_invariants();
    }
    for shard in node.share_states.values() {
        shard.check_invariants();
    }
    let mut deadlines = BTreeSet::new();
    for (key, slot) in &node.share_partitions {
        if let SharePartitionSlot::Active { partition, deadline, .. } = slot {
            partition.check_invariants();
            assert!(*deadline == partition.poll_timeout(), "the next lock to end is noted");
            deadlines.extend(deadline.map(|deadline| (deadline, key.clone())));
        }
    }
    assert!(deadlines == node.share_deadlines, "each lock is found when it ends");
}

/// Checks the copy of a leader against the stored state, with no write under way. More may be stored than it knows if it
/// has given up a write without knowing its outcome.
fn check_copy(partition: &SharePartition, stored: &ReadState, is_unsure: bool) {
    let start = partition.start_offset();
    assert!(stored.start_offset <= Some(start), "the stored start follows that of the leader");
    let mut runs = Vec::new();
    partition.records(Timestamp::from_ms(0), &mut runs);
    for run in runs.iter().filter(|run| start <= run.range.first()) {
        assert!(!run.in_transition, "a change is stored in the step that makes it");
        for offset in run.range.offsets() {
            let stored_here = stored_at(stored, offset);
            let is_free = matches!(run.state, RecordState::Available | RecordState::Acquired);
            let may_be_more = is_unsure
                && is_free
                && stored_here.is_some_and(|batch| batch.delivery_count <= run.delivery_count);
            let agrees = may_be_more || agrees(run, stored_here);
            assert!(agrees, "stored and live agree at {offset}: {run:?} {stored:?}");
        }
    }
    for batch in stored.batches.iter().filter(|batch| start <= batch.range.first()) {
        for offset in batch.range.offsets() {
            let is_tracked = runs.iter().any(|run| run.range.contains(offset));
            assert!(is_tracked, "what is stored is tracked: {batch:?} {runs:?}");
        }
    }
}

fn stored_at(stored: &ReadState, offset: Offset) -> Option<&StateBatch> {
    let index = stored.batches.partition_point(|batch| batch.range.last() < offset);
    stored.batches.get(index).filter(|batch| batch.range.contains(offset))
}

/// Returns whether a record may be stored like that.
fn agrees(run: &RecordRun<'_>, stored: Option<&StateBatch>) -> bool {
    let state = stored.map(|batch| batch.state);
    match run.state {
        // Acquiring stores nothing.
        RecordState::Available | RecordState::Acquired => {
            matches!(state, None | Some(RecordState::Available))
        }
        RecordState::Acknowledged => state == Some(RecordState::Acknowledged),
        // What was never to be delivered is archived without being stored.
        RecordState::Archived => {
            matches!(state, None | Some(RecordState::Available | RecordState::Archived))
        }
        RecordState::Archiving => state == Some(RecordState::Archiving),
        RecordState::TxPending => stored.is_some_and(|batch| batch.staged == run.staged),
    }
}
