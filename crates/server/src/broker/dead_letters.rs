//! The dead-letter queue of share groups (KIP-1191), `share.version` 2 and later.
//!
//! Records that are rejected, or were delivered too often, wait as ARCHIVING once that is stored. Then their leader
//! has them copied to the group's dead-letter topic, a crossing to the leader there (`dlq.write`), and archives them,
//! whether the copy could be made or not.

mod copy;
mod queue;
mod topic;

use sharemark_log::batch::CheckedBatch;
use sharemark_protocol::{ErrorCode, NodeId, Offset, OffsetRange, SharePartitionKey, TopicIdPartition};
use sharemark_share_coordinator::{AcknowledgeType, AcknowledgementBatch, StatePlan, WriteState};

pub(super) use self::queue::{DeadLetterId, DeadLetters};

use super::Broker;
use super::crossing::{Call, Crossing};
use super::input::Now;
use super::share_partitions::AfterWrite;

/// How often a copy is tried.
const ATTEMPTS_MAX: u32 = 5;
/// The wait before the second attempt; it doubles from one to the next.
const RETRY_BACKOFF_MS: i64 = 1_000;

/// Copies for one partition of a dead-letter topic.
#[derive(Clone, Debug)]
pub(super) struct WriteDeadLetters {
    /// The partition of the dead-letter topic.
    at: TopicIdPartition,
    /// The copies.
    batch: CheckedBatch,
    /// The last offset of the source partition that is among them.
    last: Offset,
    /// What goes on then.
    then: DeadLetterId,
}

impl WriteDeadLetters {
    /// Returns the partition of the dead-letter topic.
    pub(super) const fn place(&self) -> TopicIdPartition {
        self.at
    }
}

impl Broker {
    /// Begins to copy what waits for it in a share partition, and is not being copied yet.
    pub(super) fn begin_dead_letters(&mut self, now: Now, node: NodeId, key: &SharePartitionKey) {
        let limit = self.share_partition_config(&key.group_id).delivery_count_limit;
        let Some(partition) = self.share_partition(node, key) else { return };
        let mut waiting = Vec::new();
        partition.archiving(&mut waiting);
        let epochs = (partition.state_epoch(), partition.leader_epoch());
        let Some(state) = self.nodes.get_mut(&node) else { return };
        let begun = state.dead_letters.begin(key, epochs, &waiting, limit);
        for id in begun {
            self.send_dead_letters(now, node, id);
        }
    }

    /// Has the next copies of a run written, or gives them up.
    fn send_dead_letters(&mut self, now: Now, node: NodeId, id: DeadLetterId) {
        let Some(letter) = self.nodes.get(&node).and_then(|node| node.dead_letters.get(id)).cloned() else {
            return;
        };
        let place = self.dead_letter_place(now, node, &letter.key);
        let Ok((at, to)) = place else {
            // The group's configuration allows no copy, as good as one that could not be written.
            self.finish_dead_letters(now, node, id);
            return;
        };
        let (batch, last) = self.copy_dead_letters(now, at, &letter);
        let write = WriteDeadLetters { at, batch, last, then: id };
        self.count(node, |figures| {
            figures.count_dead_letters(&letter.key.group_id, |counts| counts.produce_requests += 1);
        });
        let call = Call::WriteDeadLetters(Box::new(write));
        self.crossings.push_back(Crossing { from: node, to, call });
    }

    /// Appends copies at the leader of the dead-letter topic's partition.
    ///
    /// # Errors
    ///
    /// - `NotLeaderOrFollower` if another node leads it.
    /// - What the log refuses, as from any producer.
    pub(super) fn write_dead_letters(
        &mut self,
        now: Now,
        node: NodeId,
        write: &WriteDeadLetters,
    ) -> Result<(), ErrorCode> {
        let leader = self.leader_seen_by(node, write.at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if leader != node {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let mut record_errors = Vec::new();
        self.append_produced(now, node, write.at, write.batch.clone(), true, &mut record_errors).map(drop)
    }

    /// Goes on at the share partition's leader when copies are written, or are not.
    pub(super) fn complete_dead_letters(
        &mut self,
        now: Now,
        node: NodeId,
        write: &WriteDeadLetters,
        outcome: Result<(), ErrorCode>,
    ) {
        let id = write.then;
        let Some(state) = self.nodes.get_mut(&node) else { return };
        let Some(letter) = state.dead_letters.get_mut(id) else { return };
        let group_id = letter.key.group_id.clone();
        match outcome {
            Ok(()) => {
                let written = u64::try_from(write.last.since(letter.left.first()) + 1).unwrap_or(0);
                state.figures.count_dead_letters(&group_id, |counts| counts.records += written);
                letter.attempts = 0;
                match OffsetRange::new(write.last.plus(1), letter.left.last()) {
                    Some(left) => {
                        letter.left = left;
                        self.send_dead_letters(now, node, id);
                    }
                    None => self.finish_dead_letters(now, node, id),
                }
            }
            Err(error) => {
                letter.attempts += 1;
                if is_retriable(error) && letter.attempts < ATTEMPTS_MAX {
                    let wait_ms = RETRY_BACKOFF_MS << (letter.attempts - 1);
                    state.dead_letters.retry_at(now.clock.plus_ms(wait_ms), id);
                } else {
                    state.figures.count_dead_letters(&group_id, |counts| counts.failed_produce_requests += 1);
                    self.finish_dead_letters(now, node, id);
                }
            }
        }
    }

    /// Archives a run whose copies are written or given up.
    fn finish_dead_letters(&mut self, now: Now, node: NodeId, id: DeadLetterId) {
        let Some(state) = self.nodes.get_mut(&node) else { return };
        let Some((letter, forget_group)) = state.dead_letters.finish(id) else { return };
        let config = self.share_partition_config(&letter.key.group_id);
        let mut plan = StatePlan::new();
        let archived = self.change_share_partition(node, &letter.key, |partition| {
            let is_same = (partition.state_epoch(), partition.leader_epoch()) == letter.epochs;
            match partition.decide_archive(letter.range, &mut plan) {
                // Like a lapse it is never taken back: a write that fails leaves it to the next leader.
                Ok(()) if is_same => (true, partition.apply(now.clock, &config, &plan)),
                Ok(()) | Err(_) => (false, sharemark_share_coordinator::Change::default()),
            }
        });
        if archived == Some(true) {
            let write = WriteState {
                key: letter.key.clone(),
                state_epoch: Some(letter.epochs.0),
                leader_epoch: Some(letter.epochs.1),
                start_offset: Some(plan.start_offset()),
                delivery_complete_count: i32::try_from(plan.delivery_complete_count()).ok(),
                batches: plan.batches().to_vec(),
            };
            self.cross_to_write(node, write, AfterWrite::Nothing);
        }
        if forget_group {
            let call = Call::ForgetShareGroup(letter.key.group_id);
            self.crossings.push_back(Crossing { from: node, to: node, call });
        }
    }

    /// Tries copies again whose wait is over, at every node.
    pub(super) fn retry_dead_letters(&mut self, now: Now) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in ids {
            while let Some(letter) =
                self.nodes.get_mut(&node).and_then(|node| node.dead_letters.pop_due(now.clock))
            {
                self.send_dead_letters(now, node, letter);
            }
        }
    }
}

/// Returns whether a copy is tried again after this error: the leader moved, or was not reached.
const fn is_retriable(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::NetworkException | ErrorCode::RequestTimedOut)
}

/// Returns the offsets that a request rejects, in runs.
pub(super) fn rejected_ranges(batches: &[AcknowledgementBatch<'_>]) -> Vec<OffsetRange> {
    let mut rejected = Vec::new();
    let mut push = |first: i64, last: i64| {
        let range = Offset::new(first).zip(Offset::new(last));
        rejected.extend(range.and_then(|(first, last)| OffsetRange::new(first, last)));
    };
    let is_reject = |id: i8| id == AcknowledgeType::Reject.id();
    for batch in batches {
        match *batch.types {
            [only] if is_reject(only) => push(batch.first_offset, batch.last_offset),
            [_] => {}
            _ => {
                let each = batch.types.iter().zip(batch.first_offset..);
                each.filter(|(id, _)| is_reject(**id)).for_each(|(_, offset)| push(offset, offset));
            }
        }
    }
    rejected
}
