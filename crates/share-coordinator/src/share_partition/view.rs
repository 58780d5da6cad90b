//! What an observer sees of a share partition.

use sharemark_protocol::{OffsetRange, Timestamp};

use super::SharePartition;
use super::plan::range;
use super::word::Word;
use crate::{RecordState, Staged};

/// A run of tracked records that are alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordRun<'a> {
    /// The offsets.
    pub range: OffsetRange,
    /// Their state; while a change is being stored, the one before it.
    pub state: RecordState,
    /// Whether a change is being stored.
    pub in_transition: bool,
    /// How often they were delivered.
    pub delivery_count: i16,
    /// Who holds them, if they are acquired.
    pub member: Option<&'a str>,
    /// What is left of their lock, if they are acquired; negative if it has ended and is still to be noticed,
    /// zero if that was noticed while a change is being stored.
    pub lock_ms_left: Option<i64>,
    /// The transaction they wait for, if they are pending.
    pub staged: Option<Staged>,
}

impl SharePartition {
    /// Lists the tracked records in runs, ascending. What was never acquired is in none.
    pub fn records<'a>(&'a self, now: Timestamp, runs: &mut Vec<RecordRun<'a>>) {
        let begin = runs.len();
        self.batches.each_run(i64::MIN, i64::MAX, |low, high, word| {
            let run = self.run(now, low, high, word);
            if begin < runs.len()
                && let Some(back) = runs.last_mut()
                && back.range.last().get() + 1 == low
                && (RecordRun { range: back.range, ..run.clone() }) == *back
            {
                back.range = range(back.range.first().get(), high);
                return;
            }
            runs.push(run);
        });
    }

    /// Returns how many batches are tracked: runs of offsets that were acquired or loaded together.
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    fn run(&self, now: Timestamp, low: i64, high: i64, word: Word) -> RecordRun<'_> {
        let state = word.state();
        let is_acquired = state == RecordState::Acquired;
        let is_pending = state == RecordState::TxPending;
        RecordRun {
            range: range(low, high),
            state,
            in_transition: word.is_in_transition(),
            delivery_count: word.delivery_count(),
            member: self.members.id(word.owner()).filter(|_| is_acquired),
            lock_ms_left: is_acquired.then(|| self.lock_ms_left(now, word)),
            staged: self.owners.get(word.owner()).filter(|_| is_pending).map(|owner| owner.staged),
        }
    }

    fn lock_ms_left(&self, now: Timestamp, word: Word) -> i64 {
        match self.locks.next_deadline_ms() {
            Some(base_ms) if !word.is_lapsed() => word.deadline_ms(base_ms) - now.ms(),
            _ => 0,
        }
    }
}
