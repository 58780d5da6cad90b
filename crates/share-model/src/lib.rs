//! A share partition that keeps each offset by itself, for ever, and looks at all of them each time.

mod acknowledge;
mod acquire;
mod compare;
mod operation;
#[cfg(test)]
mod tests;

pub use operation::{OPERATION_LEN, run_operations};

use std::collections::BTreeMap;

use sharemark_protocol::{Offset, OffsetRange};
use sharemark_share_coordinator::{
    Change, RecordState, ResolvedRange, SharePartitionConfig, Staged, StateBatch,
};

/// One offset.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Record {
    state: RecordState,
    delivery_count: i16,
    /// The holder, of acquired records.
    member: Option<usize>,
    /// When the lock ends, of acquired records.
    deadline_ms: i64,
    /// Of pending records: what was staged, who held the record, and what was left of the lock.
    staged: Option<(Staged, Option<usize>, i64)>,
    /// The number of the change that is being stored.
    transition: Option<usize>,
    /// Whether the lock ended meanwhile.
    is_lapsed: bool,
    /// How many offsets were acquired or loaded together with this one, and the lowest of them.
    batch: (i64, i64),
}

/// A change that is being stored: what becomes of each offset.
type Held = BTreeMap<i64, (RecordState, Option<Staged>)>;

/// The model.
#[derive(Clone, Debug)]
pub struct NaiveSharePartition {
    config: SharePartitionConfig,
    start: i64,
    /// The start offset that the next write carries: what an acquisition archives does not show in it.
    told_start: i64,
    next: i64,
    /// The lowest offset that may be tracked anew.
    floor: i64,
    records: BTreeMap<i64, Record>,
    held: BTreeMap<usize, Held>,
    held_count: usize,
}

impl NaiveSharePartition {
    /// Starts at `start` with what was stored.
    fn load(config: SharePartitionConfig, start: i64, stored: &[StateBatch]) -> Self {
        let mut model = Self {
            config,
            start,
            told_start: start,
            next: start,
            floor: start,
            records: BTreeMap::new(),
            held: BTreeMap::new(),
            held_count: 0,
        };
        for batch in stored {
            let first = batch.range.first().get().max(start);
            let last = batch.range.last().get();
            for offset in first..=last {
                let mut record = Record::new(batch.state, batch.delivery_count, (first, last));
                record.staged = batch.staged.map(|staged| (staged, None, 0));
                model.records.insert(offset, record);
                model.next = last + 1;
            }
        }
        model.advance();
        model.told_start = model.start;
        model
    }

    /// Moves the start past what is final.
    fn advance(&mut self) -> bool {
        let old_start = self.start;
        while self.records.get(&self.start).is_some_and(Record::is_final) {
            self.start += 1;
        }
        if old_start < self.start {
            self.floor = self.floor.max(self.start);
        }
        if !self.tracks_anything() {
            self.floor = self.next;
        }
        old_start < self.start
    }

    /// Returns whether any record is still of interest.
    fn tracks_anything(&self) -> bool {
        self.records.iter().any(|(&offset, record)| self.start <= offset || !record.is_final())
    }

    fn fetch_offset(&self) -> i64 {
        let is_open = |offset: &i64| self.records.get(offset).is_none_or(Record::is_available);
        (self.start..self.next).find(is_open).unwrap_or(self.next)
    }

    fn final_count(&self) -> i64 {
        self.records.range(self.start..).filter(|(_, record)| record.is_final()).count() as i64
    }

    /// Puts one record to rest in `state`, or in the archive if the start has passed it.
    fn settle(&mut self, offset: i64, state: RecordState, change: &mut Change) {
        let start = self.start;
        let Some(record) = self.records.get_mut(&offset) else { return };
        let is_passed = offset < start && state == RecordState::Available;
        let state = if is_passed { RecordState::Archived } else { state };
        change.freed_records |= state == RecordState::Available;
        change.archiving |= state == RecordState::Archiving;
        *record = Record::new(state, record.delivery_count, record.batch);
    }

    fn released_state(&self, delivery_count: i16) -> RecordState {
        if delivery_count < self.config.delivery_count_limit {
            RecordState::Available
        } else if self.config.dead_letter_queue {
            RecordState::Archiving
        } else {
            RecordState::Archived
        }
    }

    /// Gives up a record whose lock has ended; returns its new state.
    fn lapse(&mut self, offset: i64, change: &mut Change) -> RecordState {
        let count = self.records[&offset].delivery_count;
        let is_passed = offset < self.start;
        let state = if is_passed { RecordState::Archived } else { self.released_state(count) };
        self.settle(offset, state, change);
        state
    }

    fn expire(&mut self, now_ms: i64, stored: &mut Vec<StateBatch>) -> Change {
        let mut change = Change::default();
        let mut expired: Vec<(i64, i64)> = self
            .records
            .iter()
            .filter(|(_, record)| record.state == RecordState::Acquired && !record.is_lapsed)
            .filter(|(_, record)| record.deadline_ms <= now_ms)
            .map(|(&offset, record)| (record.deadline_ms, offset))
            .collect();
        expired.sort_unstable();
        for (_, offset) in expired {
            if let Some(record) = self.records.get_mut(&offset).filter(|record| record.transition.is_some()) {
                record.is_lapsed = true;
                continue;
            }
            let count = self.records[&offset].delivery_count;
            let state = self.lapse(offset, &mut change);
            push_offset(stored, offset, state, count, None);
        }
        change.moved_start = self.advance();
        if !stored.is_empty() {
            self.told_start = self.start;
        }
        change
    }

    fn archive_below(&mut self, log_start: i64) -> Change {
        if log_start <= self.start {
            return Change::default();
        }
        for (_, record) in self.records.range_mut(..log_start) {
            let is_pending = record.state == RecordState::TxPending && record.transition.is_none();
            if record.is_available() || is_pending {
                *record = Record::new(RecordState::Archived, record.delivery_count, record.batch);
            }
        }
        let is_empty = !self.tracks_anything();
        let tracked_end = self.records.last_key_value().map_or(log_start, |(&offset, _)| offset + 1);
        self.floor = if is_empty { log_start } else { tracked_end.min(log_start) };
        self.start = log_start;
        self.next = self.next.max(log_start);
        self.advance();
        self.told_start = self.start;
        Change { moved_start: true, ..Change::default() }
    }

    fn hold(&mut self, held: Held) -> usize {
        let id = self.held_count;
        self.held_count += 1;
        for offset in held.keys() {
            if let Some(record) = self.records.get_mut(offset) {
                record.transition = Some(id);
            }
        }
        self.held.insert(id, held);
        id
    }

    fn complete(&mut self, now_ms: i64, id: usize) -> Change {
        let held = self.held.remove(&id).unwrap_or_default();
        self.apply(now_ms, &held)
    }

    /// Makes a change that is stored.
    fn apply(&mut self, now_ms: i64, changes: &Held) -> Change {
        let mut change = Change::default();
        if changes.is_empty() {
            return change; // No write told of the start offset.
        }
        for (&offset, &(state, staged)) in changes {
            let start = self.start;
            match (staged, self.records.get_mut(&offset)) {
                (Some(staged), Some(record)) if start <= offset => {
                    let left = (record.deadline_ms - now_ms).max(0);
                    let member = record.member;
                    *record = Record::new(state, record.delivery_count, record.batch);
                    record.staged = Some((staged, member, left));
                }
                (Some(_), _) => self.settle(offset, RecordState::Archived, &mut change),
                (None, _) => self.settle(offset, state, &mut change),
            }
        }
        change.moved_start = self.advance();
        self.told_start = self.start;
        change
    }

    fn fail(&mut self, id: usize, stored: &mut Vec<StateBatch>) -> Change {
        let mut change = Change::default();
        for (offset, _) in self.held.remove(&id).unwrap_or_default() {
            let Some(record) = self.records.get_mut(&offset) else { continue };
            record.transition = None;
            let count = record.delivery_count;
            if record.is_lapsed {
                let state = self.lapse(offset, &mut change);
                push_offset(stored, offset, state, count, None);
            }
        }
        change.moved_start = self.advance();
        if !stored.is_empty() {
            self.told_start = self.start;
        }
        change
    }

    fn resolve(&mut self, now_ms: i64, outcome: &ResolvedRange) -> Change {
        let mut change = Change::default();
        for offset in outcome.range.first().get()..=outcome.range.last().get() {
            let Some(record) = self.records.get(&offset).cloned() else { continue };
            let staging = record.transition.and_then(|id| self.held.get(&id)?.get(&offset)?.1);
            let (owner, member, left, was_lapsed) = match (record.staged, staging) {
                (Some((staged, member, left)), _) => (staged.producer, member, left, false),
                (None, Some(staged)) => {
                    (staged.producer, record.member, record.deadline_ms - now_ms, record.is_lapsed)
                }
                (None, None) => continue,
            };
            if owner != outcome.producer {
                continue;
            }
            if let Some(held) = record.transition.and_then(|id| self.held.get_mut(&id)) {
                held.remove(&offset);
            }
            let restores = self.config.abort_restores_lock && outcome.state == RecordState::Available;
            if restores && self.start <= offset && member.is_some() && 0 < left && !was_lapsed {
                let mut again = Record::new(RecordState::Acquired, record.delivery_count, record.batch);
                again.member = member;
                again.deadline_ms = now_ms + left;
                self.records.insert(offset, again);
            } else {
                self.settle(offset, outcome.state, &mut change);
            }
        }
        change.moved_start = self.advance();
        self.told_start = self.start;
        change
    }
}

impl Record {
    fn new(state: RecordState, delivery_count: i16, batch: (i64, i64)) -> Self {
        Self {
            state,
            delivery_count,
            member: None,
            deadline_ms: 0,
            staged: None,
            transition: None,
            is_lapsed: false,
            batch,
        }
    }

    fn is_available(&self) -> bool {
        self.state == RecordState::Available && self.transition.is_none()
    }

    fn is_final(&self) -> bool {
        self.state.is_final() && self.transition.is_none()
    }
}

/// Adds one offset to `batches`, joining it to the last one where it can be.
fn push_offset(
    batches: &mut Vec<StateBatch>,
    offset: i64,
    state: RecordState,
    delivery_count: i16,
    staged: Option<Staged>,
) {
    let single = StateBatch { range: range(offset, offset), state, delivery_count, staged };
    match batches.last_mut() {
        Some(back)
            if back.range.last().get() + 1 == offset
                && (StateBatch { range: back.range, ..single }) == *back =>
        {
            back.range = range(back.range.first().get(), offset);
        }
        _ => batches.push(single),
    }
}

fn range(first: i64, last: i64) -> OffsetRange {
    let range = OffsetRange::new(Offset::ZERO.plus(first), Offset::ZERO.plus(last));
    assert!(range.is_some(), "a range holds an offset");
    range.unwrap_or(OffsetRange::single(Offset::ZERO))
}
