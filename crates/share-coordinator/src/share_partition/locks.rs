//! When acquisition locks end.

use std::collections::VecDeque;

use super::word::Word;
use crate::RecordState;

/// Where to look for locks that end in `deadline_ms..=until_ms`: all of them lie in `first..=last`.
///
/// The deadlines themselves are in the records, so a record that was acknowledged, or locked anew, needs no
/// change here: what is found with a deadline outside of those times, or none, is passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Lock {
    /// No lock of this entry ends sooner.
    deadline_ms: i64,
    /// No lock of this entry ends later.
    until_ms: i64,
    first: i64,
    last: i64,
}

impl Lock {
    /// Returns where to look for locks that all end at `deadline_ms`.
    pub(super) const fn new(deadline_ms: i64, first: i64, last: i64) -> Self {
        Self { deadline_ms, until_ms: deadline_ms, first, last }
    }

    /// Returns the lowest offset to look at.
    pub(super) const fn first(&self) -> i64 {
        self.first
    }

    /// Returns the highest offset to look at.
    pub(super) const fn last(&self) -> i64 {
        self.last
    }

    /// Returns when `word`'s lock ends if this entry is about it, in transition or not.
    #[inline]
    pub(super) fn deadline_of(&self, word: Word) -> Option<i64> {
        let deadline_ms = word.deadline_ms(self.deadline_ms);
        (word.state() == RecordState::Acquired && deadline_ms <= self.until_ms).then_some(deadline_ms)
    }

    /// Returns the entry without what ends before `deadline_ms`, and about other offsets.
    pub(super) const fn rest(&self, deadline_ms: i64, first: i64, last: i64) -> Self {
        Self { deadline_ms, until_ms: self.until_ms, first, last }
    }

    /// Returns the entry with what ends before `deadline_ms` put off until then.
    pub(super) fn put_off(&self, deadline_ms: i64) -> Self {
        Self { deadline_ms, until_ms: self.until_ms.max(deadline_ms), ..*self }
    }

    /// Returns one entry for both.
    pub(super) fn joined_to(self, other: Option<Self>) -> Self {
        other.map_or(self, |other| self.joined(&other))
    }

    fn joined(self, other: &Self) -> Self {
        Self {
            deadline_ms: self.deadline_ms.min(other.deadline_ms),
            until_ms: self.until_ms.max(other.until_ms),
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

/// The ends of all locks of a share partition, soonest first.
///
/// There is one entry per time, not per record. Where the times are many for the records in flight, neighbours share an
/// entry, so that what a record costs has a bound.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    queue: VecDeque<Lock>,
}

/// One entry for so many offsets in flight is what a rebuild leaves at most.
const OFFSETS_PER_ENTRY: i64 = 16;
/// So many entries are always allowed after a rebuild.
const REBUILT_LEN_MIN: usize = 2;
/// More entries are never kept by a rebuild.
const REBUILT_LEN_MAX: usize = 1_024;

impl Locks {
    /// Notes where records are locked until when.
    ///
    /// Locks of one share partition last equally long unless a config changed, so this is a push at the end.
    #[inline]
    pub(super) fn push(&mut self, lock: Lock) {
        match self.queue.back_mut() {
            Some(back) if back.deadline_ms <= lock.deadline_ms && lock.until_ms <= back.until_ms => {
                *back = back.joined(&lock);
            }
            Some(back) if lock.deadline_ms <= back.until_ms => self.insert(lock),
            _ => self.queue.push_back(lock),
        }
    }

    /// Joins a lock to all whose times meet its own, or puts it between the others.
    fn insert(&mut self, lock: Lock) {
        let low = self.queue.partition_point(|other| other.until_ms < lock.deadline_ms);
        let high = self.queue.partition_point(|other| other.deadline_ms <= lock.until_ms);
        if low == high {
            self.queue.insert(low, lock);
            return;
        }
        self.queue[low] = self.queue.range(low..high).fold(lock, Lock::joined);
        self.queue.drain(low + 1..high);
    }

    /// Returns when the next lock ends, or an earlier time at which none does any more.
    pub(super) fn next_deadline_ms(&self) -> Option<i64> {
        self.queue.front().map(|lock| lock.deadline_ms)
    }

    /// Removes one entry with locks that have ended by `now_ms`. Call until it returns `None`.
    ///
    /// What of it ends later has to be pushed again.
    pub(super) fn pop_expired(&mut self, now_ms: i64) -> Option<Lock> {
        if now_ms < self.next_deadline_ms()? {
            return None;
        }
        self.queue.pop_front()
    }

    /// Puts back what is left of the entry that was removed last.
    pub(super) fn push_rest(&mut self, rest: Lock) {
        self.queue.push_front(rest);
    }

    /// Drops what ends next as long as it lies below `offset`, the lowest one that is still tracked.
    #[inline]
    pub(super) fn drop_below(&mut self, offset: i64) {
        while self.queue.front().is_some_and(|lock| lock.last < offset) {
            self.queue.pop_front();
        }
    }

    /// Returns whether there are too many entries for so many offsets in flight.
    #[inline]
    pub(super) fn is_overgrown(&self, in_flight_count: i64) -> bool {
        2 * REBUILT_LEN_MIN < self.queue.len() && 2 * rebuilt_len(in_flight_count) < self.queue.len()
    }

    /// Narrows all entries to the locks that there are, which `each` gives to its argument as deadline, first and last
    /// offset, and joins neighbours if that is not enough.
    pub(super) fn rebuild(&mut self, in_flight_count: i64, each: impl FnOnce(&mut dyn FnMut(i64, i64, i64))) {
        // Their times stay disjoint, so the latest one is enough to find an entry by.
        for lock in &mut self.queue {
            *lock = Lock { deadline_ms: i64::MAX, until_ms: lock.until_ms, first: i64::MAX, last: i64::MIN };
        }
        let mut index = 0;
        each(&mut |deadline_ms, first, last| {
            let is_right = |index: usize| {
                let is_after = index == 0 || self.queue[index - 1].until_ms < deadline_ms;
                is_after && self.queue.get(index).is_some_and(|lock| deadline_ms <= lock.until_ms)
            };
            if !is_right(index) {
                index = self.queue.partition_point(|lock| lock.until_ms < deadline_ms);
            }
            let found = self.queue.get_mut(index);
            assert!(found.is_some(), "every lock has an entry");
            if let Some(lock) = found {
                *lock = lock.joined(&Lock { deadline_ms, until_ms: lock.until_ms, first, last });
            }
        });
        self.queue.retain(|lock| lock.first <= lock.last);
        self.join_neighbours(self.queue.len().div_ceil(rebuilt_len(in_flight_count)));
    }

    /// Makes one entry of each `group_len` neighbours.
    fn join_neighbours(&mut self, group_len: usize) {
        if group_len <= 1 {
            return;
        }
        let groups = self.queue.len().div_ceil(group_len);
        for group in 0..groups {
            let begin = group * group_len;
            let end = self.queue.len().min(begin + group_len);
            self.queue[group] = self.queue.range(begin + 1..end).fold(self.queue[begin], Lock::joined);
        }
        self.queue.truncate(groups);
    }

    /// Returns whether a lock of `first..=last` that ends at `deadline_ms` will be found.
    pub(super) fn covers(&self, deadline_ms: i64, first: i64, last: i64) -> bool {
        let index = self.queue.partition_point(|lock| lock.until_ms < deadline_ms);
        self.queue
            .get(index)
            .is_some_and(|lock| lock.deadline_ms <= deadline_ms && lock.first <= first && last <= lock.last)
    }

    /// Returns how many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether the times of the entries are in order and disjoint.
    pub(super) fn is_sorted(&self) -> bool {
        self.queue.iter().all(|lock| lock.deadline_ms <= lock.until_ms)
            && self
                .queue
                .iter()
                .zip(self.queue.iter().skip(1))
                .all(|(one, next)| one.until_ms < next.deadline_ms)
    }
}

/// Returns how many entries a rebuild may leave.
fn rebuilt_len(in_flight_count: i64) -> usize {
    let wanted = usize::try_from(in_flight_count / OFFSETS_PER_ENTRY).unwrap_or(0);
    wanted.clamp(REBUILT_LEN_MIN, REBUILT_LEN_MAX)
}
