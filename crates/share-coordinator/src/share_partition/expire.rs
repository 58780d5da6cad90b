//! Locks that run out, and members that let go of what they hold.

use sharemark_protocol::Timestamp;

use super::plan::{push_joined, range};
use super::transition::lapse;
use super::word::Word;
use super::{Change, SharePartition, SharePartitionConfig, StatePlan};
use crate::StateBatch;

impl SharePartition {
    /// Gives up every record whose lock has ended by `now`.
    ///
    /// `batches` receives what has to be stored, without waiting for it: a lapse is never taken back. A
    /// record in transition is given up when its change fails.
    pub fn expire(
        &mut self,
        now: Timestamp,
        config: &SharePartitionConfig,
        batches: &mut Vec<StateBatch>,
    ) -> Change {
        let mut change = Change::default();
        let mut search_from = self.first_available;
        let mut has_expired = false;
        while let Some(lock) = self.locks.pop_expired(now.ms()) {
            has_expired = true;
            let start = self.start;
            let mut final_count = 0;
            self.batches.update_runs(lock.first, lock.last, |low, high, word| {
                if !word.is_locked_until(lock.deadline_ms) {
                    return word;
                }
                if word.is_in_transition() {
                    return word.with_lapse();
                }
                let (state, finals) = lapse(config, start, (low, high), word, &mut search_from, &mut change);
                final_count += finals;
                let delivery_count = word.delivery_count();
                push_joined(
                    batches,
                    StateBatch { range: range(low, high), state, delivery_count, staged: None },
                );
                Word::new(state, delivery_count)
            });
            self.final_count += final_count;
        }
        if has_expired {
            change.moved_start = self.settle(search_from);
            if !batches.is_empty() {
                self.told_start = self.start;
            }
        }
        change
    }

    /// Decides to give up everything that `member` holds, as its session ends; changes nothing.
    ///
    /// What is in transition or pending in a transaction stays.
    pub fn decide_release(&self, member: &str, config: &SharePartitionConfig, plan: &mut StatePlan) {
        self.begin_plan(plan);
        let Some(owner) = self.members.find(member) else { return };
        self.batches.each_run(self.start, i64::MAX, |low, high, word| {
            if word.is_held_by(owner) {
                plan.push(low, high, config.released_state(word.delivery_count()), word.delivery_count());
            }
        });
    }
}
