//! Locks that run out, and members that let go of what they hold.

use sharemark_protocol::Timestamp;

use super::batches::Hint;
use super::locks::Lock;
use super::plan::{push_joined, range};
use super::transition::lapse;
use super::word::{LOCK_DURATION_MS_MAX, Word};
use super::{Change, SharePartition, SharePartitionConfig, StatePlan};
use crate::StateBatch;

impl SharePartition {
    /// Gives up every record whose lock has ended by `now`.
    ///
    /// `batches` receives what has to be stored, in no certain order and without waiting for it: a lapse is never taken
    /// back. A record in transition is given up when its change fails.
    pub fn expire(
        &mut self,
        now: Timestamp,
        config: &SharePartitionConfig,
        batches: &mut Vec<StateBatch>,
    ) -> Change {
        let mut change = Change::default();
        let mut search_from = self.first_available;
        let mut has_expired = false;
        let mut hint = Hint::default();
        while let Some(lock) = self.locks.pop_expired(now.ms()) {
            has_expired = true;
            let start = self.start;
            let mut final_count = 0;
            let mut rest: Option<Lock> = None;
            self.batches.update_around(&mut hint, start, lock.first(), lock.last(), |low, high, word| {
                let Some(deadline_ms) = lock.deadline_of(word) else { return word };
                if now.ms() < deadline_ms {
                    rest = Some(lock.rest(deadline_ms, low, high).joined_to(rest));
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
            if let Some(rest) = rest {
                self.locks.push_rest(rest);
            }
        }
        if has_expired {
            change.moved_start = self.settle(search_from);
            if !batches.is_empty() {
                self.told_start = self.start;
            }
        }
        change
    }

    /// Keeps all locks within what a record can tell apart, before locks that begin or end at `now` are made or
    /// looked at.
    ///
    /// A clock may jump, and what is due then may come after other inputs. What ended long before `now` counts
    /// as ended at a later time, which is still before `now`.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        let oldest_ms = now.ms().saturating_sub(LOCK_DURATION_MS_MAX);
        if self.locks.next_deadline_ms().is_some_and(|deadline_ms| deadline_ms < oldest_ms) {
            self.move_deadlines_to(oldest_ms);
        }
    }

    /// Makes every lock that ends before `oldest_ms` end then.
    #[inline(never)]
    fn move_deadlines_to(&mut self, oldest_ms: i64) {
        while let Some(lock) = self.locks.pop_expired(oldest_ms - 1) {
            self.batches.update_runs(lock.first(), lock.last(), |_, _, word| {
                let has_ended = lock.deadline_of(word).is_some_and(|deadline_ms| deadline_ms < oldest_ms);
                if has_ended && !word.is_lapsed() { word.with_deadline(oldest_ms) } else { word }
            });
            self.locks.push(lock.put_off(oldest_ms));
        }
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
