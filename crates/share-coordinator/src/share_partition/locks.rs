//! When acquisition locks end.

use std::collections::VecDeque;

/// Where to look for locks that end at one time: all of them lie in `first..=last`.
///
/// The deadline itself is in the records, so a record that was acknowledged, or locked anew, needs no
/// change here: what is found at `deadline_ms` with another deadline, or none, is passed over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Lock {
    pub(super) deadline_ms: i64,
    pub(super) first: i64,
    pub(super) last: i64,
}

/// The ends of all locks of a share partition, soonest first: one entry per time, not per record.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    queue: VecDeque<Lock>,
    /// The length after the queue was last rebuilt from the records.
    rebuilt_len: usize,
}

/// A queue of this length is never worth a rebuild.
const REBUILD_LEN_MIN: usize = 32;

impl Locks {
    /// Notes that records in `first..=last` are locked until `deadline_ms`.
    ///
    /// Locks of one share partition last equally long unless a config changed, so this is a push at the end.
    #[inline]
    pub(super) fn push(&mut self, lock: Lock) {
        match self.queue.back_mut() {
            Some(back) if lock.deadline_ms < back.deadline_ms => self.insert(lock),
            Some(back) if lock.deadline_ms == back.deadline_ms => back.widen(lock),
            _ => self.queue.push_back(lock),
        }
    }

    fn insert(&mut self, lock: Lock) {
        let index = self.queue.partition_point(|other| other.deadline_ms < lock.deadline_ms);
        match self.queue.get_mut(index) {
            Some(other) if other.deadline_ms == lock.deadline_ms => other.widen(lock),
            _ => self.queue.insert(index, lock),
        }
    }

    /// Returns when the next lock ends, or an earlier time at which none does any more.
    pub(super) fn next_deadline_ms(&self) -> Option<i64> {
        self.queue.front().map(|lock| lock.deadline_ms)
    }

    /// Removes one lock that has ended by `now_ms`. Call until it returns `None`.
    pub(super) fn pop_expired(&mut self, now_ms: i64) -> Option<Lock> {
        if now_ms < self.next_deadline_ms()? {
            return None;
        }
        self.queue.pop_front()
    }

    /// Drops what ends next as long as it lies below `offset`, the lowest one that is still tracked.
    #[inline]
    pub(super) fn drop_below(&mut self, offset: i64) {
        while self.queue.front().is_some_and(|lock| lock.last < offset) {
            self.queue.pop_front();
        }
    }

    /// Returns whether most entries may be about records that are no longer locked.
    #[inline]
    pub(super) fn is_overgrown(&self) -> bool {
        REBUILD_LEN_MIN.max(2 * self.rebuilt_len) < self.queue.len()
    }

    /// Replaces the queue by `locks`, which may be in any order.
    pub(super) fn rebuild(&mut self, mut locks: Vec<Lock>) {
        locks.sort_unstable_by_key(|lock| (lock.deadline_ms, lock.first));
        self.queue.clear();
        for lock in locks {
            self.push(lock);
        }
        self.rebuilt_len = self.queue.len();
    }

    /// Returns whether a lock of `first..=last` that ends at `deadline_ms` will be found.
    pub(super) fn covers(&self, deadline_ms: i64, first: i64, last: i64) -> bool {
        let index = self.queue.partition_point(|lock| lock.deadline_ms < deadline_ms);
        self.queue
            .get(index)
            .is_some_and(|lock| lock.deadline_ms == deadline_ms && lock.first <= first && last <= lock.last)
    }

    /// Returns how many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether the entries are in order of deadline, one for each.
    pub(super) fn is_sorted(&self) -> bool {
        self.queue.iter().zip(self.queue.iter().skip(1)).all(|(one, next)| one.deadline_ms < next.deadline_ms)
    }
}

impl Lock {
    fn widen(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}
