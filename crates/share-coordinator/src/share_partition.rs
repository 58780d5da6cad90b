//! The share partition: the lock table of one group's view of one partition, at the partition's leader.
//!
//! Offsets from the start offset up to the end offset are in flight. What was acquired or loaded together
//! is one tracked batch; it has one state until a part of it is treated apart, then one state per offset,
//! packed into eight bytes. Offsets between two batches were never acquired (holes in the stored state).
//!
//! Every change that must be stored goes through three steps: a `decide_*` checks all of it and fills a
//! [`StatePlan`]; the caller stores the plan's batches; then [`SharePartition::apply`] makes the change.
//! When the store answers in a later step, [`SharePartition::hold`] puts the records in transition, and
//! [`SharePartition::complete`] or [`SharePartition::fail`] ends that.

mod acknowledge;
mod acquire;
mod batches;
mod config;
mod expire;
mod invariants;
mod load;
mod locks;
mod log_start;
mod members;
mod owners;
mod plan;
mod resolve;
mod stage;
mod transition;
mod view;
mod word;

use std::collections::BTreeMap;

use sharemark_protocol::{LeaderEpoch, Offset, StateEpoch, Timestamp};

use self::batches::Batches;
use self::locks::Locks;
use self::members::Members;
use self::owners::Owners;
use crate::StateBatch;

pub use self::acquire::{AcquireMode, AcquireRequest, AcquiredRange, FetchedBatch, FetchedRun};
pub use self::config::SharePartitionConfig;
pub use self::plan::StatePlan;
pub use self::resolve::ResolvedRange;
pub use self::stage::StageRules;
pub use self::transition::TransitionId;
pub use self::view::RecordRun;

/// The records of one partition as one share group sees them, and who has locked which.
#[derive(Clone, Debug)]
pub struct SharePartition {
    state_epoch: StateEpoch,
    leader_epoch: LeaderEpoch,
    /// The lowest offset that is not done with.
    start: i64,
    /// The start offset that the next write carries. What an acquisition archives moves `start` alone: as in
    /// Kafka, it shows in the count of finished deliveries first, and in the start of the write after that.
    told_start: i64,
    /// The offset after the highest one that was ever acquired.
    next: i64,
    /// The lowest offset that may be tracked anew. It stays behind when the log start moves, since a record
    /// batch that straddles the log start is delivered whole.
    floor: i64,
    /// Whether locks and changes below the start may be left, since the log start moved.
    log_start_moved: bool,
    /// The lowest offset that may be acquired: available, in a hole, or `next`.
    first_available: i64,
    /// How many offsets at or above `start` are final.
    final_count: i64,
    batches: Batches,
    locks: Locks,
    members: Members,
    owners: Owners,
    transitions: BTreeMap<TransitionId, Vec<StateBatch>>,
    next_transition: u64,
    /// Rises with each change, so that no plan is applied to a state it was not made for.
    version: u64,
}

/// What a change did that matters to those who wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use = "parked fetches wait for it"]
pub struct Change {
    /// Records became acquirable.
    pub freed_records: bool,
    /// The start offset moved, so a full window has room again.
    pub moved_start: bool,
    /// Records wait for their dead-letter copy: see [`SharePartition::archiving`].
    pub archiving: bool,
}

impl Change {
    /// Returns whether parked fetches of this share partition should look again.
    pub const fn wakes_fetches(self) -> bool {
        self.freed_records || self.moved_start
    }
}

impl SharePartition {
    /// Returns the generation of the state.
    pub const fn state_epoch(&self) -> StateEpoch {
        self.state_epoch
    }

    /// Returns the epoch of the leader that this lock table belongs to.
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Returns the lowest offset that is not done with.
    pub fn start_offset(&self) -> Offset {
        offset(self.start)
    }

    /// Returns the start offset that a write carries now, and how many offsets above it are final.
    pub fn to_store(&self) -> (Offset, i64) {
        (offset(self.told_start), self.final_count + self.start - self.told_start)
    }

    /// Returns the offset after the highest one that was ever acquired.
    pub fn next_offset(&self) -> Offset {
        offset(self.next)
    }

    /// Returns how many offsets at or above the start offset are acknowledged or archived.
    pub const fn delivery_complete_count(&self) -> i64 {
        self.final_count
    }

    /// Returns how many offsets the window holds: from the start offset to the last acquired one.
    pub const fn in_flight_count(&self) -> i64 {
        self.next - self.start
    }

    /// Returns the offset at which to read the log: the first that may be acquired, else the next new one.
    pub fn fetch_offset(&self) -> Offset {
        offset(self.first_available)
    }

    /// Returns whether a fetch could acquire anything if the log has it.
    pub const fn can_acquire(&self, config: &SharePartitionConfig) -> bool {
        self.first_available < self.next || self.in_flight_count() < config.record_locks_max
    }

    /// Returns the last offset that a fetch could acquire, or `None` if the log decides.
    ///
    /// When the window is full only what lies inside it can be acquired, so reading further is in vain.
    pub fn last_acquirable_offset(&self, config: &SharePartitionConfig) -> Option<Offset> {
        if self.in_flight_count() < config.record_locks_max {
            return None;
        }
        Offset::new(self.next - 1)
    }

    /// Returns when the next lock ends, or an earlier time.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.locks.next_deadline_ms().map(Timestamp::from_ms)
    }

    /// Settles after a change that the next write tells of.
    #[inline(always)]
    fn settle_and_tell(&mut self, search_from: i64) -> bool {
        let moved = self.settle(search_from);
        self.told_start = self.start;
        moved
    }

    /// Moves the start offset past what is final and brings the derived positions up to date.
    ///
    /// `search_from` is an offset below which nothing is acquirable.
    #[inline(always)]
    fn settle(&mut self, search_from: i64) -> bool {
        if let Some(front) = self.batches.front()
            && front.first() <= self.start
            && !self.log_start_moved
            && self.next <= search_from
        {
            let until = front.final_until(self.start);
            if until <= front.last() {
                // The common case: the lowest batch stays, and nothing is acquirable inside the window.
                let moved = self.start < until;
                self.final_count -= until - self.start;
                self.start = until;
                self.floor = self.floor.max(until);
                self.first_available = search_from;
                self.version += 1;
                self.rebuild_overgrown_locks();
                return moved;
            }
        }
        self.settle_all(search_from)
    }

    /// Settles after an acquisition, which makes nothing final.
    #[inline]
    fn settle_acquired(&mut self, search_from: i64) {
        self.first_available = self.find_available(search_from.max(self.start));
        self.version += 1;
        self.rebuild_overgrown_locks();
    }

    #[inline(never)]
    fn settle_all(&mut self, search_from: i64) -> bool {
        let old_start = self.start;
        while let Some(front) = self.batches.front() {
            if front.last() < self.start {
                // Below the log start: kept only for locks and changes that are still to end.
                if front.final_until(front.first()) <= front.last() {
                    break;
                }
                self.batches.pop_front();
                continue;
            }
            if self.start < front.first() {
                break; // A hole was never acquired.
            }
            let until = front.final_until(self.start);
            self.final_count -= until - self.start;
            self.start = until;
            if until <= front.last()
                || (self.log_start_moved && front.final_until(front.first()) <= front.last())
            {
                break;
            }
            self.batches.pop_front();
        }
        if self.log_start_moved {
            self.skip_stuck_front();
            self.log_start_moved = self.batches.front().is_some_and(|front| front.first() < self.start);
        }
        let moved = old_start < self.start;
        if moved {
            self.floor = self.floor.max(self.start);
        }
        match self.batches.front() {
            Some(front) => self.locks.drop_below(front.first()),
            None => {
                self.floor = self.next;
                self.locks.drop_below(i64::MAX);
            }
        }
        self.first_available = self.find_available(search_from.max(self.start));
        self.rebuild_overgrown_locks();
        self.version += 1;
        moved
    }

    /// Moves the start offset although batches below it are still locked.
    fn skip_stuck_front(&mut self) {
        let Some(front) = self.batches.front() else { return };
        if self.start <= front.last() {
            return;
        }
        let mut index = self.batches.find(self.start);
        while let Some(batch) = self.batches.get(index).filter(|batch| batch.first() <= self.start) {
            let until = batch.final_until(self.start);
            self.final_count -= until - self.start;
            self.start = until;
            if until <= batch.last() {
                break;
            }
            index += 1;
        }
    }

    /// Returns the first offset at or above `from` that may be acquired.
    fn find_available(&self, from: i64) -> i64 {
        if self.next <= from {
            return from;
        }
        let mut cursor = from;
        let mut index = self.batches.find(from);
        while let Some(batch) = self.batches.get(index) {
            if cursor < batch.first() {
                return cursor; // A hole.
            }
            if let Some(available) = batch.first_available(cursor) {
                return available;
            }
            cursor = batch.last() + 1;
            index += 1;
        }
        self.next.max(cursor)
    }

    #[inline]
    fn rebuild_overgrown_locks(&mut self) {
        if self.locks.is_overgrown(self.in_flight_count()) {
            self.rebuild_locks();
        }
    }

    #[inline(never)]
    fn rebuild_locks(&mut self) {
        let Some(base_ms) = self.locks.next_deadline_ms() else { return };
        let in_flight_count = self.in_flight_count();
        self.locks.rebuild(in_flight_count, |note| {
            self.batches.each_run(i64::MIN, i64::MAX, |first, last, word| {
                if word.state() == crate::RecordState::Acquired && !word.is_lapsed() {
                    note(word.deadline_ms(base_ms), first, last);
                }
            });
        });
    }
}

/// Returns the offset with this number; positions of a share partition are never negative.
fn offset(raw: i64) -> Offset {
    Offset::ZERO.plus(raw)
}

#[cfg(test)]
mod tests;
