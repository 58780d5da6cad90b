//! The records of `__share_group_state`.

mod codec;

use sharemark_protocol::{LeaderEpoch, Offset, SharePartitionKey, StateEpoch, Timestamp};

pub use self::codec::StateRecordError;
use crate::StateBatch;

/// One record of `__share_group_state`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StateRecord {
    /// The share partition that it is about.
    pub key: SharePartitionKey,
    /// What it says.
    pub change: StateChange,
}

/// What a record says about its share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StateChange {
    /// The whole state, which makes all that was said before needless.
    Snapshot(StateSnapshot),
    /// What is different from the state so far.
    Update(StateUpdate),
    /// The state is gone.
    Tombstone,
}

/// The whole stored state of a share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StateSnapshot {
    /// Counts the snapshots of the share partition.
    pub snapshot_epoch: i32,
    /// The generation of the state.
    pub state_epoch: StateEpoch,
    /// The newest leader that has read the state.
    pub leader_epoch: LeaderEpoch,
    /// The start offset, or `None` while its leader has yet to choose one.
    pub start_offset: Option<Offset>,
    /// How many offsets at or above the start offset are final, if that is known.
    pub delivery_complete_count: Option<i32>,
    /// When the state last changed in a snapshot.
    pub create_timestamp: Timestamp,
    /// When the snapshot was written; later than the creation in a cold one.
    pub write_timestamp: Timestamp,
    /// The states, in order of offsets.
    pub batches: Vec<StateBatch>,
}

/// A change of the stored state of a share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StateUpdate {
    /// The epoch of the snapshot that it builds on.
    pub snapshot_epoch: i32,
    /// The newest leader that has read the state; `None` leaves it as it is.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The start offset; `None` leaves it as it is.
    pub start_offset: Option<Offset>,
    /// How many offsets at or above the start offset are final, if that is known.
    pub delivery_complete_count: Option<i32>,
    /// What changed, in order of offsets.
    pub batches: Vec<StateBatch>,
}

#[cfg(test)]
mod tests;
