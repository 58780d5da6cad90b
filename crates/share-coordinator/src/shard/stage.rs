//! Acknowledgements that wait for the end of a transaction.

use sharemark_protocol::{ErrorCode, OffsetRange, Producer};

use super::ShareCoordinatorShard;
use super::requests::WriteState;
use super::state::ShareState;
use super::state_batches::is_storable;
use crate::{StateBatch, StateChange, StateRecord};

impl ShareCoordinatorShard {
    /// Decides the staging of acknowledgements in one share partition, all or none of them.
    ///
    /// The record belongs into a transactional batch of `producer`, so it is always an update: a snapshot in
    /// such a batch would be a state that may be read while its transaction is open. There is nothing to
    /// write if all of it is staged already, as after a lost answer.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if the share partition was never initialised, if a batch is not one that `producer`
    ///   stages, or if the state were too scattered.
    /// - `FencedLeaderEpoch` if a newer leader has read the state.
    /// - `FencedStateEpoch` if a newer generation is stored.
    /// - `InvalidRecordState` if one of the offsets is final or waits for another transaction.
    pub fn decide_stage(
        &self,
        producer: Producer,
        write: &WriteState,
    ) -> Result<Option<StateRecord>, ErrorCode> {
        let state = self.fenced_state(&write.key, write.state_epoch, write.leader_epoch)?;
        let is_staged = |batch: &StateBatch| batch.staged.is_some_and(|staged| staged.producer == producer);
        if !write.batches.iter().all(|batch| is_storable(batch) && is_staged(batch)) {
            return Err(ErrorCode::InvalidRequest);
        }
        let (start_offset, complete_count) = state.progress_with(write);
        let batches = self.bounded_batches(state, &write.batches, start_offset)?;
        if !batches.iter().all(|batch| may_stage(state, batch)) {
            return Err(ErrorCode::InvalidRecordState);
        }
        if batches.iter().all(|batch| is_there(state, batch)) {
            return Ok(None);
        }
        let update = state.update_record(start_offset, complete_count, batches);
        Ok(Some(StateRecord { key: write.key.clone(), change: StateChange::Update(update) }))
    }
}

/// Returns whether no offset of `batch` is final or waits for something else.
fn may_stage(state: &ShareState, batch: &StateBatch) -> bool {
    overlaps(state, batch).all(|(_, stored)| match stored.staged {
        Some(staged) => Some(staged) == batch.staged,
        None => !stored.state.is_final(),
    })
}

/// Returns whether all offsets of `batch` are staged just like that.
fn is_there(state: &ShareState, batch: &StateBatch) -> bool {
    let same = overlaps(state, batch).filter(|(_, stored)| stored.staged == batch.staged);
    same.fold(0, |count, (range, _)| count + range.offset_count()) == batch.range.offset_count()
}

/// Returns the stored runs that `batch` overlaps, each with the offsets that both hold.
fn overlaps<'a>(
    state: &'a ShareState,
    batch: &StateBatch,
) -> impl Iterator<Item = (OffsetRange, &'a StateBatch)> {
    let range = batch.range;
    let runs = state.batches.as_slice();
    let from = runs.partition_point(|run| run.range.last() < range.first());
    runs[from..].iter().map_while(move |run| run.range.intersection(range).map(|both| (both, run)))
}
