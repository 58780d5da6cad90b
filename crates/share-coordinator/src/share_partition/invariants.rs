//! What is always true of a share partition.

use super::SharePartition;
use super::word::{NO_OWNER, Word};
use crate::RecordState;

impl SharePartition {
    /// Checks that all parts of the lock table agree with each other.
    ///
    /// # Panics
    ///
    /// If they do not: then a change went wrong before.
    pub fn check_invariants(&self) {
        self.check_positions();
        self.batches.each_run(i64::MIN, i64::MAX, |low, high, word| self.check_run(low, high, word));
        let mut final_count = 0;
        self.batches.each_run(self.start, i64::MAX, |low, high, word| {
            if word.is_final() {
                final_count += high - low + 1;
            }
        });
        assert!(final_count == self.final_count, "the count of finished deliveries is that of the records");
        assert!(self.locks.is_sorted(), "locks are in order of deadline");
        self.check_transitions();
    }

    fn check_positions(&self) {
        let mut previous_last = -1;
        for batch in self.batches.iter() {
            assert!(previous_last < batch.first(), "batches are ascending and disjoint");
            assert!(batch.first() <= batch.last(), "a batch holds an offset");
            previous_last = batch.last();
        }
        assert!(previous_last < self.next, "nothing beyond the last acquired offset is tracked");
        assert!(self.start <= self.next, "the start offset is at most the one after the last acquired");
        assert!(self.floor <= self.next, "what is below the floor was tracked");
        assert!(self.first_available == self.find_available(self.start), "the fetch offset is exact");
        let first_tracked = self.batches.get(self.batches.find(self.start));
        if let Some(batch) = first_tracked.filter(|batch| batch.first() <= self.start) {
            let is_done = self.start < batch.final_until(self.start);
            assert!(!is_done, "the start offset is not done with");
        }
    }

    fn check_run(&self, low: i64, high: i64, word: Word) {
        let state = word.state();
        let is_acquired = state == RecordState::Acquired;
        let is_pending = state == RecordState::TxPending;
        if low < self.start {
            assert!(!is_pending && !word.is_available(), "below the start nothing waits to be delivered");
        }
        let may_change = is_acquired || state == RecordState::Archiving;
        assert!(may_change || !word.is_in_transition(), "what is in transition was locked or archiving");
        assert!(word.is_in_transition() || !word.is_lapsed(), "a lapse is kept only in transition");
        assert!(is_acquired || !word.is_lapsed(), "only a lock lapses");
        if is_acquired {
            assert!(self.members.id(word.owner()).is_some(), "an acquired record has one owner");
            assert!(0 < word.delivery_count(), "an acquired record was delivered");
            self.check_lock(low, high, word);
        } else if is_pending {
            assert!(self.owners.get(word.owner()).is_some(), "a pending record has one transaction");
        } else {
            assert!(word.owner() == NO_OWNER, "a record at rest has no owner");
        }
    }

    fn check_lock(&self, low: i64, high: i64, word: Word) {
        if word.is_lapsed() {
            return;
        }
        let next = self.locks.next_deadline_ms();
        assert!(next.is_some(), "a lock ends some time");
        let base_ms = next.unwrap_or(0);
        let deadline_ms = word.deadline_ms(base_ms);
        assert!(self.locks.covers(deadline_ms, low, high), "every lock will be found when it ends");
    }

    fn check_transitions(&self) {
        let mut in_transition = 0;
        self.batches.each_run(i64::MIN, i64::MAX, |low, high, word| {
            if word.is_in_transition() {
                in_transition += high - low + 1;
            }
        });
        let batches = self.transitions.values().flatten();
        let held: i64 = batches.map(|batch| batch.range.offset_count()).sum();
        assert!(in_transition == held, "records are in transition exactly while a change is being stored");
    }
}
