//! Taking over a share partition from its stored state.

use std::collections::BTreeMap;

use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset};

use super::batches::{Batch, Batches};
use super::locks::Locks;
use super::members::Members;
use super::owners::{Owner, Owners};
use super::word::{NO_OWNER, Word};
use super::{Change, SharePartition};
use crate::{ReadState, RecordState, StateBatch};

/// So many offsets, at most, may lie in one stored batch that is not final, since each may need a state of its
/// own. What was acquired at once and then stored is far below it.
const LOADED_OFFSET_COUNT_MAX: i64 = 1 << 24;

impl SharePartition {
    /// Builds the lock table of a new leader.
    ///
    /// `start_offset` is the stored one, or what the group's reset policy gave where none is stored. Holes
    /// between the stored batches are delivered as new. The count of finished deliveries is taken from the
    /// batches.
    ///
    /// # Errors
    ///
    /// `UnknownServerError` if the batches overlap, are out of order or absurdly long, hold an acquired record,
    /// or a pending one without its owner: no writer of ours stores such a thing.
    pub fn load(
        stored: &ReadState,
        start_offset: Offset,
        leader_epoch: LeaderEpoch,
    ) -> Result<Self, ErrorCode> {
        let start = start_offset.get();
        let mut partition = Self {
            state_epoch: stored.state_epoch,
            leader_epoch,
            start,
            told_start: start,
            next: start,
            floor: start,
            log_start_moved: false,
            first_available: start,
            final_count: 0,
            batches: Batches::default(),
            locks: Locks::default(),
            members: Members::default(),
            owners: Owners::default(),
            transitions: BTreeMap::new(),
            next_transition: 0,
            version: 0,
        };
        for batch in &stored.batches {
            if batch.range.last().get() < start {
                continue; // Pruned late.
            }
            partition.load_batch(batch)?;
        }
        partition.settle_and_tell(start);
        Ok(partition)
    }

    fn load_batch(&mut self, batch: &StateBatch) -> Result<(), ErrorCode> {
        let first = batch.range.first().get().max(self.start);
        let last = batch.range.last().get();
        let overlaps = self.batches.back().is_some_and(|back| first <= back.last());
        let is_too_long = !batch.state.is_final() && LOADED_OFFSET_COUNT_MAX < last - first;
        if overlaps || is_too_long || batch.delivery_count < 0 {
            return Err(ErrorCode::UnknownServerError);
        }
        let word = match (batch.state, batch.staged) {
            (RecordState::TxPending, Some(staged)) => {
                let owner = Owner { staged, member: NO_OWNER };
                let known = self.owners.find(&owner).or_else(|| self.owners.add(owner));
                Word::pending(batch.delivery_count, known.ok_or(ErrorCode::UnknownServerError)?, 0)
            }
            (RecordState::TxPending, None) | (RecordState::Acquired, _) => {
                return Err(ErrorCode::UnknownServerError);
            }
            (
                state @ (RecordState::Available
                | RecordState::Acknowledged
                | RecordState::Archiving
                | RecordState::Archived),
                _,
            ) => Word::new(state, batch.delivery_count),
        };
        self.next = last.checked_add(1).ok_or(ErrorCode::UnknownServerError)?;
        if word.is_final() {
            self.final_count += self.next - first;
        }
        self.batches.insert(self.batches.len(), Batch::whole(first, last, word));
        Ok(())
    }

    /// Returns what a freshly loaded share partition has to offer and to finish.
    pub fn loaded_change(&self) -> Change {
        let mut ranges = Vec::new();
        self.archiving(&mut ranges);
        Change {
            freed_records: self.first_available < self.next,
            moved_start: true,
            archiving: !ranges.is_empty(),
        }
    }
}
