//! Changes whose store answers in a later step.

use sharemark_protocol::Timestamp;

use super::batches::Hint;
use super::plan::{push_joined, range};
use super::word::Word;
use super::{Change, SharePartition, SharePartitionConfig, StatePlan};
use crate::{RecordState, StateBatch};

/// Names a change that is being stored.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct TransitionId(u64);

impl SharePartition {
    /// Numbers the changes to come from `first` on.
    ///
    /// Called after a load with a number that was never reached before, it keeps the late completion of a
    /// change of an earlier lock table of this share partition from being taken for one of this table.
    pub fn number_transitions_from(&mut self, first: u64) {
        self.next_transition = self.next_transition.max(first);
    }

    /// Puts the records of `plan` in transition while its batches are being stored.
    ///
    /// They are neither acquirable nor acknowledgeable, no lock releases them, and the start offset stays
    /// below them. Renewals take effect at once, as they are not stored.
    ///
    /// # Panics
    ///
    /// If the share partition has changed since the plan was made.
    pub fn hold(&mut self, now: Timestamp, config: &SharePartitionConfig, plan: &StatePlan) -> TransitionId {
        assert!(plan.version == Some(self.version), "a plan is held on the state it was made for");
        self.renew(now, config, &plan.renewals);
        for batch in &plan.batches {
            let (first, last) = (batch.range.first().get(), batch.range.last().get());
            self.batches.update_runs(first, last, |_, _, word| {
                assert!(!word.is_in_transition(), "one change of a record at a time");
                word.with_transition()
            });
        }
        let id = TransitionId(self.next_transition);
        self.next_transition += 1;
        self.transitions.insert(id, plan.batches.clone());
        self.version += 1;
        id
    }

    /// Makes the change `id`, which is stored now. Does nothing if it is not known, or was overtaken.
    pub fn complete(&mut self, now: Timestamp, id: TransitionId) -> Change {
        let Some(batches) = self.transitions.remove(&id) else { return Change::default() };
        self.set_states(now, &batches, true)
    }

    /// Takes the change `id` back, which could not be stored. Does nothing if it is not known.
    ///
    /// Each record is locked as before for what is left of its lock. If that ended meanwhile, the record is
    /// given up now: `batches` receives what has to be stored, without waiting for it.
    pub fn fail(
        &mut self,
        config: &SharePartitionConfig,
        id: TransitionId,
        batches: &mut Vec<StateBatch>,
    ) -> Change {
        let mut change = Change::default();
        let Some(held) = self.transitions.remove(&id) else { return change };
        let mut search_from = self.first_available;
        for batch in held {
            self.fail_batch(config, &batch, &mut search_from, &mut change, batches);
        }
        change.moved_start = self.settle(search_from);
        if !batches.is_empty() {
            self.told_start = self.start;
        }
        change
    }

    fn fail_batch(
        &mut self,
        config: &SharePartitionConfig,
        batch: &StateBatch,
        search_from: &mut i64,
        change: &mut Change,
        batches: &mut Vec<StateBatch>,
    ) {
        let (first, last) = (batch.range.first().get(), batch.range.last().get());
        let start = self.start;
        let mut final_count = 0;
        self.batches.update_around(&mut Hint::default(), start, first, last, |low, high, word| {
            if !word.is_lapsed() {
                return word.without_transition();
            }
            let (state, finals) = lapse(config, start, (low, high), word, search_from, change);
            final_count += finals;
            let delivery_count = word.delivery_count();
            push_joined(batches, StateBatch { range: range(low, high), state, delivery_count, staged: None });
            Word::new(state, delivery_count)
        });
        self.final_count += final_count;
    }

    /// Takes `first..=last` out of whatever stage of `producer` is being stored there.
    ///
    /// A marker can come before the completion of a stage; what it resolved must not become pending after.
    pub(super) fn overtake(
        &mut self,
        producer: sharemark_protocol::Producer,
        first: i64,
        last: i64,
        overtaken: &mut Vec<(i64, i64)>,
    ) {
        for held in self.transitions.values_mut() {
            let mut index = 0;
            while let Some(&batch) = held.get(index) {
                let (low, high) = (batch.range.first().get(), batch.range.last().get());
                let is_stage = batch.staged.is_some_and(|staged| staged.producer == producer);
                if !is_stage || last < low || high < first {
                    index += 1;
                    continue;
                }
                held.remove(index);
                if low < first {
                    held.insert(index, StateBatch { range: range(low, first - 1), ..batch });
                    index += 1;
                }
                if last < high {
                    held.insert(index, StateBatch { range: range(last + 1, high), ..batch });
                    index += 1;
                }
                overtaken.push((low.max(first), high.min(last)));
            }
        }
    }
}

/// Returns what becomes of a lapsed record, and how many final offsets at or above `start` that makes.
pub(super) fn lapse(
    config: &SharePartitionConfig,
    start: i64,
    (low, high): (i64, i64),
    word: Word,
    search_from: &mut i64,
    change: &mut Change,
) -> (RecordState, i64) {
    let state =
        if low < start { RecordState::Archived } else { config.released_state(word.delivery_count()) };
    assert!(word.can_become(state), "a lapsed record was locked");
    match state {
        RecordState::Available => {
            *search_from = low.min(*search_from);
            change.freed_records = true;
            (state, 0)
        }
        RecordState::Archiving => {
            change.archiving = true;
            (state, 0)
        }
        RecordState::Acquired
        | RecordState::Acknowledged
        | RecordState::Archived
        | RecordState::TxPending => (state, (high - low.max(start) + 1).max(0)),
    }
}
