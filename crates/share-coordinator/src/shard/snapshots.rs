//! Which snapshots are live, which are old, and what of the log is still needed.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::{Offset, SharePartitionKey, Timestamp};

use super::ShareCoordinatorShard;
use super::state::ShareState;
use crate::{StateChange, StateRecord, StateSnapshot};

/// The live snapshots: the latest of each share partition.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SnapshotIndex {
    by_offset: BTreeSet<Offset>,
    by_write_time: BTreeSet<(Timestamp, SharePartitionKey)>,
    /// How many of them are cold: written only so that the log can be pruned.
    cold_count: usize,
}

impl SnapshotIndex {
    /// Adds the snapshot that `state` stands on.
    pub(super) fn insert(&mut self, key: &SharePartitionKey, state: &ShareState) {
        self.by_offset.insert(state.snapshot_offset);
        self.by_write_time.insert((state.write_timestamp, key.clone()));
        self.cold_count += usize::from(state.is_cold());
    }

    /// Removes the snapshot that `state` stands on.
    pub(super) fn remove(&mut self, key: &SharePartitionKey, state: &ShareState) {
        self.by_offset.remove(&state.snapshot_offset);
        self.by_write_time.remove(&(state.write_timestamp, key.clone()));
        self.cold_count -= usize::from(state.is_cold());
    }

    /// Checks that the index holds exactly the snapshots of `states`.
    pub(super) fn check_invariants(&self, states: &BTreeMap<SharePartitionKey, ShareState>) {
        let mut expected = Self::default();
        for (key, state) in states {
            expected.insert(key, state);
        }
        assert!(*self == expected, "the index of snapshots holds those that the states stand on");
    }
}

impl ShareCoordinatorShard {
    /// Returns the lowest offset of the log that is still needed: that of the oldest live snapshot.
    ///
    /// Staged entries do not hold it back, since snapshots carry their owners.
    pub fn prune_before(&self) -> Option<Offset> {
        self.snapshots.by_offset.first().copied().or(self.last_replayed.map(Offset::next))
    }

    /// Returns when [`Self::decide_cold_snapshots`] has something to do, or `None` if it will not.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        // When all are cold nothing has been written since, so there is nothing to prune.
        if self.snapshots.cold_count == self.states.len() {
            return None;
        }
        let (oldest, _) = self.snapshots.by_write_time.first()?;
        Some(oldest.plus_ms(self.config.cold_snapshot_interval_ms))
    }

    /// Appends to `records` new snapshots in place of those that are too old by `now`, oldest first.
    pub fn decide_cold_snapshots(&self, now: Timestamp, records: &mut Vec<StateRecord>) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        let old = self.snapshots.by_write_time.iter();
        let old =
            old.take_while(|(written, _)| written.plus_ms(self.config.cold_snapshot_interval_ms) <= now);
        for (_, key) in old.take(self.config.cold_snapshot_count_max) {
            if let Some(state) = self.states.get(key) {
                let snapshot = StateSnapshot { write_timestamp: now, ..state.snapshot() };
                records.push(StateRecord { key: key.clone(), change: StateChange::Snapshot(snapshot) });
            }
        }
    }

    /// Appends to `records` a new snapshot of the share partition whose snapshot lies lowest in the log, however
    /// young that is: what is above it can then be pruned. For a log that has grown large.
    pub fn decide_lowest_snapshot(&self, now: Timestamp, records: &mut Vec<StateRecord>) {
        let lowest = self.snapshots.by_offset.first();
        let lowest =
            lowest.and_then(|offset| self.states.iter().find(|(_, state)| state.snapshot_offset == *offset));
        if let Some((key, state)) = lowest {
            let snapshot = StateSnapshot { write_timestamp: now, ..state.snapshot() };
            records.push(StateRecord { key: key.clone(), change: StateChange::Snapshot(snapshot) });
        }
    }
}
