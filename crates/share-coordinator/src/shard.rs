//! One partition of `__share_group_state`: the stored state of the share partitions that belong to it.

mod config;
mod end_transaction;
mod requests;
mod snapshots;
mod stage;
mod state;
mod state_batches;

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::{Offset, Producer, ProducerId, SharePartitionKey, TopicId};
use tracing::debug;

pub use self::config::ShareCoordinatorConfig;
pub use self::end_transaction::{
    EndTransactionMarker, Resolution, ResolutionPolicy, ResolvedPartition, TransactionOutcome,
};
pub use self::requests::{InitializeState, ReadDecision, ReadState, StateSummary, WriteState};
pub(crate) use self::state_batches::is_storable;

use self::snapshots::SnapshotIndex;
use self::state::ShareState;
use crate::{StateBatch, StateChange, StateRecord};

/// Keeps what one partition of `__share_group_state` says, and decides what is appended to it.
///
/// Doors named `decide_*` change nothing. The records that they yield are appended to the log, and take effect
/// by `replay`, live and at recovery alike.
#[derive(Clone, Debug)]
pub struct ShareCoordinatorShard {
    config: ShareCoordinatorConfig,
    states: BTreeMap<SharePartitionKey, ShareState>,
    /// The share partitions in which a producer's transaction has staged something.
    pending: BTreeMap<ProducerId, BTreeSet<SharePartitionKey>>,
    snapshots: SnapshotIndex,
    last_replayed: Option<Offset>,
}

impl ShareCoordinatorShard {
    /// Makes the shard of an empty log.
    pub fn new(config: ShareCoordinatorConfig) -> Self {
        Self {
            config,
            states: BTreeMap::new(),
            pending: BTreeMap::new(),
            snapshots: SnapshotIndex::default(),
            last_replayed: None,
        }
    }

    /// Applies one record of `__share_group_state`, live or at recovery.
    ///
    /// An update without a snapshot below it is passed over: pruning cut its snapshot off, so a newer one
    /// follows.
    ///
    /// # Panics
    ///
    /// If records do not come in the order of the log.
    pub fn replay(&mut self, offset: Offset, record: &StateRecord) {
        self.advance(offset);
        let key = &record.key;
        let owners_before = self.states.get(key).map(|state| state.owners.clone()).unwrap_or_default();
        match &record.change {
            StateChange::Snapshot(snapshot) => {
                let before = self.states.remove(key);
                if let Some(before) = &before {
                    self.snapshots.remove(key, before);
                }
                let state = ShareState::from_snapshot(snapshot, offset, before.as_ref());
                self.snapshots.insert(key, &state);
                self.states.insert(key.clone(), state);
            }
            StateChange::Update(update) => {
                let Some(state) = self.states.get_mut(key) else {
                    debug!(%key, %offset, "an update without its snapshot is passed over");
                    return;
                };
                state.update(update);
            }
            StateChange::Tombstone => {
                if let Some(before) = self.states.remove(key) {
                    self.snapshots.remove(key, &before);
                }
            }
        }
        self.reindex_owners(key, owners_before);
    }

    /// Applies a record of the log that says nothing about states, so that it can be pruned.
    ///
    /// # Panics
    ///
    /// If records do not come in the order of the log.
    pub fn replay_other(&mut self, offset: Offset) {
        self.advance(offset);
    }

    /// Returns whether a transaction that has not ended has staged something in the group.
    pub fn has_pending(&self, group_id: &str) -> bool {
        let first =
            SharePartitionKey { group_id: group_id.into(), topic_id: TopicId::ZERO, partition: i32::MIN };
        let of_group = self.states.range(first..).take_while(|(key, _)| &*key.group_id == group_id);
        of_group.into_iter().any(|(_, state)| !state.owners.is_empty())
    }

    /// Returns the producers, by incarnation, whose transactions have staged something: for reconciliation
    /// after load.
    pub fn pending_producers(&self) -> BTreeSet<Producer> {
        let keys = self.pending.values().flatten();
        let pending = keys.filter_map(|key| self.states.get(key)).flat_map(|state| state.batches.pending());
        pending.filter_map(|batch| batch.staged).map(|staged| staged.producer).collect()
    }

    /// Returns what waits for the end of a transaction in one share partition, in order of offsets.
    pub fn pending_batches(&self, key: &SharePartitionKey) -> impl Iterator<Item = &StateBatch> {
        self.states.get(key).into_iter().flat_map(|state| state.batches.pending())
    }

    /// Returns the share partitions that have a stored state, in order.
    pub fn keys(&self) -> impl Iterator<Item = &SharePartitionKey> {
        self.states.keys()
    }

    /// Returns whether another shard holds the same durable state.
    pub fn is_same_state(&self, other: &Self) -> bool {
        self.states == other.states && self.pending == other.pending
    }

    /// Checks what must hold between any two steps.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_invariants(&self) {
        let mut pending: BTreeMap<ProducerId, BTreeSet<SharePartitionKey>> = BTreeMap::new();
        for (key, state) in &self.states {
            state.batches.check_invariants(state.start_offset);
            assert!(state.owners == state.batches.owners(), "a state knows the owners of its entries");
            for owner in &state.owners {
                pending.entry(*owner).or_default().insert(key.clone());
            }
        }
        assert!(pending == self.pending, "the index of producers holds exactly those with staged entries");
        self.snapshots.check_invariants(&self.states);
    }

    fn advance(&mut self, offset: Offset) {
        assert!(self.last_replayed < Some(offset), "records are replayed in the order of the log");
        self.last_replayed = Some(offset);
    }

    fn reindex_owners(&mut self, key: &SharePartitionKey, before: BTreeSet<ProducerId>) {
        let none = BTreeSet::new();
        let now = self.states.get(key).map_or(&none, |state| &state.owners);
        for owner in before.difference(now) {
            if let Some(keys) = self.pending.get_mut(owner) {
                keys.remove(key);
                if keys.is_empty() {
                    self.pending.remove(owner);
                }
            }
        }
        for owner in now.difference(&before) {
            self.pending.entry(*owner).or_default().insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
