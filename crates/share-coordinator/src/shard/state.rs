//! The stored state of one share partition.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use sharemark_protocol::{LeaderEpoch, Offset, ProducerId, StateEpoch, Timestamp};

use super::requests::WriteState;
use super::state_batches::StateBatches;
use crate::{StateBatch, StateSnapshot, StateUpdate};

/// The stored state of one share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ShareState {
    pub(super) snapshot_epoch: i32,
    pub(super) state_epoch: StateEpoch,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) start_offset: Option<Offset>,
    pub(super) delivery_complete_count: Option<i32>,
    pub(super) create_timestamp: Timestamp,
    pub(super) write_timestamp: Timestamp,
    pub(super) batches: StateBatches,
    /// Where the latest snapshot stands in the log.
    pub(super) snapshot_offset: Offset,
    /// How many updates came after it.
    pub(super) update_count: u32,
    /// The producers that own an entry.
    pub(super) owners: BTreeSet<ProducerId>,
}

impl ShareState {
    /// Returns the state that a snapshot at `offset` of the log describes.
    ///
    /// The epochs of leader and state never fall below those of the state before.
    pub(super) fn from_snapshot(snapshot: &StateSnapshot, offset: Offset, before: Option<&Self>) -> Self {
        let mut batches = StateBatches::merged(&snapshot.batches);
        if let Some(start_offset) = snapshot.start_offset {
            batches.cut_below(start_offset);
        }
        let owners = batches.owners();
        Self {
            snapshot_epoch: snapshot.snapshot_epoch,
            state_epoch: before.map_or(snapshot.state_epoch, |old| old.state_epoch.max(snapshot.state_epoch)),
            leader_epoch: before
                .map_or(snapshot.leader_epoch, |old| old.leader_epoch.max(snapshot.leader_epoch)),
            start_offset: snapshot.start_offset,
            delivery_complete_count: snapshot.delivery_complete_count,
            create_timestamp: snapshot.create_timestamp,
            write_timestamp: snapshot.write_timestamp,
            batches,
            snapshot_offset: offset,
            update_count: 0,
            owners,
        }
    }

    /// Applies an update.
    pub(super) fn update(&mut self, update: &StateUpdate) {
        self.leader_epoch = update.leader_epoch.map_or(self.leader_epoch, |new| new.max(self.leader_epoch));
        self.start_offset = self.start_offset.max(update.start_offset);
        self.delivery_complete_count = update.delivery_complete_count;
        self.update_count = self.update_count.saturating_add(1);
        let has_staged = update.batches.iter().any(|batch| batch.staged.is_some());
        if update.batches.is_sorted_by(|a, b| a.range.last() < b.range.first()) {
            self.batches.merge(&update.batches);
        } else {
            self.batches.merge(StateBatches::merged(&update.batches).as_slice());
        }
        if let Some(start_offset) = self.start_offset {
            self.batches.cut_below(start_offset);
        }
        if has_staged || !self.owners.is_empty() {
            self.owners = self.batches.owners();
        }
    }

    /// Returns the complete count once `newly_final` more offsets are final.
    pub(super) fn complete_count_with(&self, newly_final: i64) -> i32 {
        let known = self.delivery_complete_count.map_or_else(|| self.batches.final_offset_count(), i64::from);
        i32::try_from(known.saturating_add(newly_final)).unwrap_or(i32::MAX)
    }

    /// Returns start offset and complete count once `write` has taken effect.
    ///
    /// The start offset never moves back. At an equal start the larger count holds, since a transaction may
    /// have ended that the leader has not heard of.
    pub(super) fn progress_with(&self, write: &WriteState) -> (Option<Offset>, Option<i32>) {
        match write.start_offset.cmp(&self.start_offset) {
            Ordering::Less => (self.start_offset, self.delivery_complete_count),
            Ordering::Equal => {
                (self.start_offset, self.delivery_complete_count.max(write.delivery_complete_count))
            }
            Ordering::Greater => (write.start_offset, write.delivery_complete_count),
        }
    }

    /// Returns the batches once `change` has taken effect.
    pub(super) fn merged_with(&self, change: &[StateBatch], start_offset: Option<Offset>) -> StateBatches {
        let mut merged = self.batches.clone();
        merged.merge(change);
        if let Some(start_offset) = start_offset {
            merged.cut_below(start_offset);
        }
        merged
    }

    /// Returns whether anything was written since the state was initialised.
    pub(super) fn is_in_use(&self) -> bool {
        0 < self.update_count
            || !self.batches.as_slice().is_empty()
            || self.delivery_complete_count.is_some_and(|count| 0 < count)
    }

    /// Returns whether the latest snapshot was written only so that the log can be pruned.
    pub(super) fn is_cold(&self) -> bool {
        self.create_timestamp != self.write_timestamp
    }

    /// Returns the update that changes what is given and leaves the epochs as they are.
    pub(super) fn update_record(
        &self,
        start_offset: Option<Offset>,
        delivery_complete_count: Option<i32>,
        batches: Vec<StateBatch>,
    ) -> StateUpdate {
        StateUpdate {
            snapshot_epoch: self.snapshot_epoch,
            leader_epoch: Some(self.leader_epoch),
            start_offset,
            delivery_complete_count,
            batches,
        }
    }

    /// Returns the snapshot that comes next, of the state as it is.
    pub(super) fn snapshot(&self) -> StateSnapshot {
        StateSnapshot {
            snapshot_epoch: self.snapshot_epoch.saturating_add(1),
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            create_timestamp: self.create_timestamp,
            write_timestamp: self.write_timestamp,
            batches: self.batches.as_slice().to_vec(),
        }
    }
}
