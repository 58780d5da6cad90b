//! What is written of a share partition: changes that wait for it, and lapses that do not.

use sharemark_protocol::{ErrorCode, NodeId, Offset, OffsetRange, SharePartitionKey};
use sharemark_share_coordinator::{
    Change, SharePartitionConfig, StateBatch, StatePlan, TransitionId, WriteState,
};

use super::super::Broker;
use super::super::crossing::{Call, Crossing};
use super::super::input::Now;
use super::super::operations::OperationId;
use super::coordinator_error;

/// What goes on when a write of share state is done.
#[derive(Clone, Debug)]
pub(in super::super) enum AfterWrite {
    /// Nothing: what is written is never taken back.
    Nothing,
    /// Lapsed records that are dead letters now are copied.
    CopyDeadLetters,
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
        /// What it rejects, if that is to be copied.
        rejected: Vec<OffsetRange>,
    },
}

impl Broker {
    /// Puts the records of a plan in transition and has their states written; nothing if it stores nothing.
    ///
    /// Returns whether a write is under way, after which `operation` will hear.
    pub(in super::super) fn store_plan(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        config: &SharePartitionConfig,
        plan: &StatePlan,
        operation: Option<(OperationId, usize, Vec<OffsetRange>)>,
    ) -> bool {
        if plan.batches().is_empty() {
            // Renewals alone are not stored.
            self.change_share_partition(node, key, |partition| {
                ((), partition.apply(now.clock, config, plan))
            });
            return false;
        }
        let Some((transition, epochs)) = self.change_share_partition(node, key, |partition| {
            let id = partition.hold(now.clock, config, plan);
            ((id, (partition.state_epoch(), partition.leader_epoch())), Change::default())
        }) else {
            return false;
        };
        let start_offset = plan.start_offset();
        #[cfg(feature = "plants")]
        let start_offset = match self.share_partition(node, key) {
            Some(partition) => self.planted_start(partition, start_offset),
            None => start_offset,
        };
        let write = WriteState {
            key: key.clone(),
            state_epoch: Some(epochs.0),
            leader_epoch: Some(epochs.1),
            start_offset: Some(start_offset),
            delivery_complete_count: i32::try_from(plan.delivery_complete_count()).ok(),
            batches: plan.batches().to_vec(),
        };
        let then = match operation {
            Some((operation, index, rejected)) => {
                AfterWrite::Answer { transition, operation, index, rejected }
            }
            None => AfterWrite::Transition(transition),
        };
        self.cross_to_write(node, write, then);
        true
    }

    /// Has a change stored by the share coordinator.
    pub(in super::super) fn cross_to_write(&mut self, from: NodeId, write: WriteState, then: AfterWrite) {
        // Without a share coordinator it is refused like anything that is sent to a node that is none.
        let to = self.share_state_leader(from, &write.key).map_or(from, |(_, leader)| leader);
        self.crossings.push_back(Crossing { from, to, call: Call::WriteShareState { write, then } });
    }

    /// Goes on at the leader when the share coordinator has stored what was asked, or has not.
    pub(in super::super) fn complete_write_state(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        then: AfterWrite,
        outcome: Result<(), ErrorCode>,
    ) {
        let (transition, answer) = match then {
            AfterWrite::Nothing => (None, None),
            AfterWrite::CopyDeadLetters => {
                self.archiving.insert((node, key.clone()));
                (None, None)
            }
            AfterWrite::Transition(transition) => (Some(transition), None),
            AfterWrite::Answer { transition, operation, index, rejected } => {
                if let Some(node) = self.nodes.get_mut(&node).filter(|_| outcome.is_ok()) {
                    node.dead_letters.note_rejected(key, rejected);
                }
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

    pub(in super::super) fn end_transition(
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
        let archiving = self.change_share_partition(node, key, |partition| {
            put_off_copies(partition.fail(&config, transition, &mut lapsed))
        });
        if !lapsed.is_empty() {
            self.write_lapsed(node, key, start, lapsed, archiving == Some(true));
        }
    }

    /// Has the states of lapsed records written, without waiting for it.
    fn write_lapsed(
        &mut self,
        node: NodeId,
        key: &SharePartitionKey,
        start_offset: Option<Offset>,
        batches: Vec<StateBatch>,
        archiving: bool,
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
        let then = if archiving { AfterWrite::CopyDeadLetters } else { AfterWrite::Nothing };
        self.cross_to_write(node, write, then);
    }

    /// Lets the locks lapse that have run out, at every node.
    pub(in super::super) fn expire_share_locks(&mut self, now: Now) {
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
        let archiving = self.change_share_partition(node, key, |partition| {
            put_off_copies(partition.expire(now.clock, &config, &mut lapsed))
        });
        if !lapsed.is_empty() {
            let lapsed_count: i64 = lapsed.iter().map(|batch| batch.range.offset_count()).sum();
            self.count_at(node, key, |figures| {
                figures.lock_timeouts += u64::try_from(lapsed_count).unwrap_or(0)
            });
            self.write_lapsed(node, key, start, lapsed, archiving == Some(true));
        }
    }
}

/// Returns a change whose dead letters are copied only once it is stored, and whether there are any.
const fn put_off_copies(change: Change) -> (bool, Change) {
    (change.archiving, Change { archiving: false, ..change })
}
