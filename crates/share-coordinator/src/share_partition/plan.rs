//! A decided change of a share partition, and how it is made.

use sharemark_protocol::{Offset, OffsetRange, Timestamp};

use super::batches::Hint;
use super::locks::Lock;
use super::owners::Owner;
use super::word::{NO_OWNER, Precondition, Word};
use super::{Change, SharePartition, SharePartitionConfig, offset};
use crate::{RecordState, StateBatch};

/// A decided change: what to store, then to be applied. One plan may be filled again and again.
///
/// A plan is good until the next change of its share partition.
#[derive(Clone, Debug, Default)]
pub struct StatePlan {
    pub(super) batches: Vec<StateBatch>,
    pub(super) renewals: Vec<OffsetRange>,
    pub(super) version: Option<u64>,
    pub(super) start: i64,
    pub(super) final_count: i64,
}

impl StatePlan {
    /// Returns an empty plan.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the new states to store, ascending and disjoint. Empty if nothing has to be stored.
    pub fn batches(&self) -> &[StateBatch] {
        &self.batches
    }

    /// Returns the start offset to store: the one before the change, as Kafka's leader does.
    pub fn start_offset(&self) -> Offset {
        offset(self.start)
    }

    /// Returns the number of finished deliveries to store, those of the plan and of changes that are still
    /// being stored included.
    pub const fn delivery_complete_count(&self) -> i64 {
        self.final_count
    }

    /// Returns whether the plan changes nothing and stores nothing.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.renewals.is_empty()
    }

    /// Empties the plan.
    pub fn clear(&mut self) {
        self.batches.clear();
        self.renewals.clear();
        self.version = None;
    }

    /// Adds a run of records to an empty plan.
    #[inline]
    pub(super) fn push_first(&mut self, first: i64, last: i64, state: RecordState, delivery_count: i16) {
        if state.is_final() {
            self.final_count += (last - first.max(self.start) + 1).max(0);
        }
        self.batches.push(StateBatch { range: range(first, last), state, delivery_count, staged: None });
    }

    /// Adds a run of records, joining it to the one before where it can be.
    #[inline]
    pub(super) fn push(&mut self, first: i64, last: i64, state: RecordState, delivery_count: i16) {
        if state.is_final() {
            self.final_count += (last - first.max(self.start) + 1).max(0);
        }
        if let Some(back) = self.batches.last_mut()
            && back.range.last().get() + 1 == first
            && back.state == state
            && back.delivery_count == delivery_count
        {
            back.range = range(back.range.first().get(), last);
            return;
        }
        self.batches.push(StateBatch { range: range(first, last), state, delivery_count, staged: None });
    }

    /// Adds a batch, joining it to the one before where it can be.
    #[inline]
    pub(super) fn push_batch(&mut self, batch: StateBatch) {
        push_joined(&mut self.batches, batch);
    }
}

/// Adds a batch to `batches`, joining it to the last one if that is its equal neighbour.
#[inline]
pub(super) fn push_joined(batches: &mut Vec<StateBatch>, batch: StateBatch) {
    if let Some(back) = batches.last_mut()
        && back.range.last().get() + 1 == batch.range.first().get()
        && back.state == batch.state
        && back.delivery_count == batch.delivery_count
        && back.staged == batch.staged
    {
        back.range = range(back.range.first().get(), batch.range.last().get());
        return;
    }
    batches.push(batch);
}

/// Returns the range `first..=last`, which holds an offset.
#[inline]
pub(super) fn range(first: i64, last: i64) -> OffsetRange {
    let range =
        Offset::new(first).zip(Offset::new(last)).and_then(|(first, last)| OffsetRange::new(first, last));
    assert!(range.is_some(), "a run holds an offset, and none is negative");
    range.unwrap_or(OffsetRange::single(Offset::ZERO))
}

impl SharePartition {
    /// Readies `plan` for a decision.
    pub(super) fn begin_plan(&self, plan: &mut StatePlan) {
        plan.clear();
        plan.version = Some(self.version);
        plan.start = self.told_start;
        plan.final_count = self.final_count + self.start - self.told_start;
        if !self.transitions.is_empty() {
            plan.final_count += self.final_count_in_transition();
        }
    }

    fn final_count_in_transition(&self) -> i64 {
        let batches = self.transitions.values().flatten();
        let finals = batches.filter(|batch| batch.state.is_final());
        finals
            .map(|batch| (batch.range.last().get() - batch.range.first().get().max(self.start) + 1).max(0))
            .sum()
    }

    /// Makes the change that `plan` decided, after its batches were stored.
    ///
    /// # Panics
    ///
    /// If the share partition has changed since the plan was made.
    pub fn apply(&mut self, now: Timestamp, config: &SharePartitionConfig, plan: &StatePlan) -> Change {
        assert!(plan.version == Some(self.version), "a plan is applied to the state it was made for");
        if !plan.renewals.is_empty() {
            self.renew(now, config, &plan.renewals);
        }
        self.set_states(now, &plan.batches, false)
    }

    /// Gives the records of `renewals` a full new lock.
    pub(super) fn renew(&mut self, now: Timestamp, config: &SharePartitionConfig, renewals: &[OffsetRange]) {
        let (Some(front), Some(back)) = (renewals.first(), renewals.last()) else { return };
        self.catch_up(now);
        let deadline_ms = now.plus_ms(config.lock_ms()).ms();
        for renewal in renewals {
            let (first, last) = (renewal.first().get(), renewal.last().get());
            self.batches.update_runs(first, last, |_, _, word| {
                if word.is_held() { word.with_deadline(deadline_ms) } else { word }
            });
        }
        self.locks.push(Lock::new(deadline_ms, front.first().get(), back.last().get()));
        self.version += 1;
    }

    /// Puts records into new states, in transition before or not, and settles the start offset.
    pub(super) fn set_states(
        &mut self,
        now: Timestamp,
        batches: &[StateBatch],
        in_transition: bool,
    ) -> Change {
        let mut change = Change::default();
        if batches.is_empty() {
            // Nothing was stored, so nothing has told of the start offset.
            self.version += 1;
            self.rebuild_overgrown_locks();
            return change;
        }
        let mut search_from = self.first_available;
        let mut hint = Hint::default();
        let mut rest = batches;
        while let Some((batch, tail)) = rest.split_first() {
            if !tail.is_empty() {
                let set = self.set_split_states(rest, in_transition, &hint, &mut search_from, &mut change);
                if 0 < set {
                    rest = &rest[set..];
                    continue;
                }
            }
            if batch.staged.is_some() {
                self.set_pending(now, batch, in_transition);
            } else {
                self.set_state(batch, in_transition, &mut hint, &mut search_from, &mut change);
            }
            rest = tail;
        }
        change.moved_start = self.settle_and_tell(search_from);
        change
    }

    /// Does what [`Self::set_state`] does for as many batches, from the first on, as lie in the split tracked
    /// batch of `hint` at or above the start offset. Returns how many.
    #[inline(never)]
    fn set_split_states(
        &mut self,
        batches: &[StateBatch],
        in_transition: bool,
        hint: &Hint,
        search_from: &mut i64,
        change: &mut Change,
    ) -> usize {
        let Some(front) = batches.first() else { return 0 };
        let start = self.start;
        let Some((first, words)) = self.batches.split_words_at(hint, front.range.first().get()) else {
            return 0;
        };
        let mut finals = 0;
        let mut is_allowed = true;
        let mut set = 0;
        for batch in batches {
            let (low, high) = (batch.range.first().get(), batch.range.last().get());
            let from = low - first;
            let is_here = start.max(first) <= low && high - first < words.len() as i64;
            if !is_here || batch.staged.is_some() {
                break;
            }
            note_state(batch.state, low, high, &mut finals, search_from, change);
            let word = Word::new(batch.state, batch.delivery_count);
            let condition = Precondition::of(batch.state, in_transition);
            for old in &mut words[from as usize..=(high - first) as usize] {
                is_allowed &= condition.allows(*old);
                *old = word;
            }
            set += 1;
        }
        assert!(is_allowed, "records move along the table of transitions, one change at a time");
        self.final_count += finals;
        set
    }

    #[inline(always)]
    fn set_state(
        &mut self,
        batch: &StateBatch,
        in_transition: bool,
        hint: &mut Hint,
        search_from: &mut i64,
        change: &mut Change,
    ) {
        let (first, last) = (batch.range.first().get(), batch.range.last().get());
        if first < self.start {
            self.set_state_below(batch, in_transition, hint, change);
            if last < self.start {
                return;
            }
        }
        let first = first.max(self.start);
        note_state(batch.state, first, last, &mut self.final_count, search_from, change);
        let word = Word::new(batch.state, batch.delivery_count);
        self.batches.replace(hint, first, last, Precondition::of(batch.state, in_transition), word);
    }

    /// Puts into a new state what the log start has passed: it can't be delivered again.
    #[inline(never)]
    fn set_state_below(
        &mut self,
        batch: &StateBatch,
        in_transition: bool,
        hint: &mut Hint,
        change: &mut Change,
    ) {
        let (first, last) = (batch.range.first().get(), batch.range.last().get().min(self.start - 1));
        let is_passed = batch.state == RecordState::Available;
        let state = if is_passed { RecordState::Archived } else { batch.state };
        change.archiving |= state == RecordState::Archiving;
        let word = Word::new(state, batch.delivery_count);
        self.batches.replace(hint, first, last, Precondition::of(state, in_transition), word);
    }

    /// Makes records pending: their locks end, and what was left of them is kept for an abort.
    fn set_pending(&mut self, now: Timestamp, batch: &StateBatch, in_transition: bool) {
        let Some(staged) = batch.staged else { return };
        self.catch_up(now);
        let (first, last) = (batch.range.first().get(), batch.range.last().get());
        let mut members: Vec<u16> = Vec::new();
        self.batches.each_run(first, last, |_, _, word| {
            if members.last() != Some(&word.owner()) && !members.contains(&word.owner()) {
                members.push(word.owner());
            }
        });
        let start = self.start;
        for member in members {
            let number = self.owner_number(Owner { staged, member });
            self.batches.update_around(&mut Hint::default(), start, first, last, |low, _, word| {
                if word.owner() != member || word.state() != RecordState::Acquired {
                    return word;
                }
                assert!(word.is_in_transition() == in_transition, "one change of a record at a time");
                assert!(word.can_become(RecordState::TxPending), "only what is locked can be staged");
                if low < start {
                    return Word::new(RecordState::Archived, word.delivery_count());
                }
                let lock_ms_left = if word.is_lapsed() { 0 } else { word.lock_ms_left(now.ms()).max(0) };
                Word::pending(word.delivery_count(), number, lock_ms_left)
            });
        }
    }

    fn owner_number(&mut self, owner: Owner) -> u16 {
        if let Some(number) = self.owners.find(&owner) {
            return number;
        }
        if self.owners.wants_sweep() {
            let mut is_used = vec![false; self.owners.number_bound()];
            self.batches.each_run(i64::MIN, i64::MAX, |_, _, word| {
                if word.state() == RecordState::TxPending {
                    is_used[usize::from(word.owner())] = true;
                }
            });
            self.owners.sweep(&is_used);
        }
        let number = self.owners.add(owner);
        assert!(number.is_some(), "`decide_stage` leaves room for the owners that it lets in");
        number.unwrap_or(NO_OWNER)
    }
}

/// Notes what follows from records, at or above the start offset, that are now in `state`.
#[inline(always)]
fn note_state(
    state: RecordState,
    first: i64,
    last: i64,
    final_count: &mut i64,
    search_from: &mut i64,
    change: &mut Change,
) {
    match state {
        RecordState::Available => {
            *search_from = first.min(*search_from);
            change.freed_records = true;
        }
        RecordState::Acknowledged | RecordState::Archived => *final_count += last - first + 1,
        RecordState::Archiving => change.archiving = true,
        RecordState::Acquired | RecordState::TxPending => {}
    }
}
