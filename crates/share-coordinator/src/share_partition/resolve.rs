//! Ends of transactions, and of dead-letter copies.

use sharemark_protocol::{ErrorCode, OffsetRange, Producer, Timestamp};

use super::batches::Hint;
use super::locks::Lock;
use super::word::{NO_OWNER, Word};
use super::{Change, SharePartition, SharePartitionConfig, StatePlan};
use crate::RecordState;

/// A run of records whose transaction has ended, with what the share coordinator stored for them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResolvedRange {
    /// The offsets.
    pub range: OffsetRange,
    /// The owner of the staged acknowledgements, as it was stored with them.
    pub producer: Producer,
    /// The stored outcome: available, acknowledged, archiving or archived.
    pub state: RecordState,
}

impl SharePartition {
    /// Takes over the outcome of a transaction.
    ///
    /// Only records that are pending for exactly that producer and epoch change, and those whose stage by it
    /// is still being stored (the outcome came first), so a repeated or late outcome does nothing.
    pub fn resolve(
        &mut self,
        now: Timestamp,
        config: &SharePartitionConfig,
        resolved: &[ResolvedRange],
    ) -> Change {
        self.catch_up(now);
        let mut change = Change::default();
        let mut search_from = self.first_available;
        let mut overtaken = Vec::new();
        for outcome in resolved {
            if !RecordState::TxPending.can_become(outcome.state) {
                continue; // Not an outcome.
            }
            let (first, last) = (outcome.range.first().get(), outcome.range.last().get());
            overtaken.clear();
            self.overtake(outcome.producer, first, last, &mut overtaken);
            for &(low, high) in &overtaken {
                self.resolve_runs(now, config, outcome, (low, high), true, &mut search_from, &mut change);
            }
            self.resolve_runs(now, config, outcome, (first, last), false, &mut search_from, &mut change);
        }
        change.moved_start = self.settle_and_tell(search_from);
        change
    }

    #[expect(clippy::too_many_arguments, reason = "the accumulators of one loop")]
    fn resolve_runs(
        &mut self,
        now: Timestamp,
        config: &SharePartitionConfig,
        outcome: &ResolvedRange,
        (first, last): (i64, i64),
        is_overtaken: bool,
        search_from: &mut i64,
        change: &mut Change,
    ) {
        let start = self.start;
        let owners = &self.owners;
        let mut final_count = 0;
        let locks = &mut self.locks;
        self.batches.update_around(&mut Hint::default(), start, first, last, |low, high, word| {
            let is_owned = if is_overtaken {
                word.state() == RecordState::Acquired && word.is_in_transition()
            } else {
                word.is_pending()
                    && owners.get(word.owner()).is_some_and(|owner| owner.staged.producer == outcome.producer)
            };
            if !is_owned {
                return word;
            }
            if outcome.state == RecordState::Available && config.abort_restores_lock && start <= low {
                let (member, lock_ms_left) = if is_overtaken {
                    (word.owner(), word.lock_ms_left(now.ms()))
                } else {
                    let member = owners.get(word.owner()).map_or(NO_OWNER, |owner| owner.member);
                    (member, word.staged_lock_ms_left())
                };
                if member != NO_OWNER && 0 < lock_ms_left && !word.is_lapsed() {
                    let deadline_ms = now.plus_ms(lock_ms_left).ms();
                    locks.push(Lock::new(deadline_ms, low, high));
                    return Word::acquired(word.delivery_count(), member, deadline_ms);
                }
            }
            let mut state = outcome.state;
            if state == RecordState::Available && low < start {
                state = RecordState::Archived;
            }
            assert!(word.can_become(state), "a record moves along the table of transitions");
            if state == RecordState::Available {
                *search_from = low.min(*search_from);
                change.freed_records = true;
            } else if state == RecordState::Archiving {
                change.archiving = true;
            } else {
                final_count += (high - low.max(start) + 1).max(0);
            }
            Word::new(state, word.delivery_count())
        });
        self.final_count += final_count;
    }

    /// Lists the runs that wait for their dead-letter copy and whose change is not being stored already.
    pub fn archiving(&self, ranges: &mut Vec<(OffsetRange, i16)>) {
        self.batches.each_run(i64::MIN, i64::MAX, |low, high, word| {
            if word.state() != RecordState::Archiving || word.is_in_transition() {
                return;
            }
            let count = word.delivery_count();
            if let Some((back, back_count)) = ranges.last_mut()
                && back.last().get() + 1 == low
                && *back_count == count
            {
                *back = super::plan::range(back.first().get(), high);
                return;
            }
            ranges.push((super::plan::range(low, high), count));
        });
    }

    /// Decides to archive `range`, whose dead-letter copy is done or given up; changes nothing.
    ///
    /// # Errors
    ///
    /// `InvalidRecordState` if a record of the range does not wait for its copy.
    pub fn decide_archive(&self, range: OffsetRange, plan: &mut StatePlan) -> Result<(), ErrorCode> {
        self.begin_plan(plan);
        let (first, last) = (range.first().get(), range.last().get());
        let mut cursor = first;
        let mut is_archiving = true;
        self.batches.each_run(first, last, |low, high, word| {
            is_archiving &=
                low == cursor && word.state() == RecordState::Archiving && !word.is_in_transition();
            cursor = high + 1;
            plan.push(low, high, RecordState::Archived, word.delivery_count());
        });
        if is_archiving && last < cursor {
            return Ok(());
        }
        plan.clear();
        Err(ErrorCode::InvalidRecordState)
    }
}
