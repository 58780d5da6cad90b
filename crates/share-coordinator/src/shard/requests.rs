//! The requests that share partition leaders and the group coordinator send.

use std::collections::BTreeSet;

use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, SharePartitionKey, StateEpoch, Timestamp, TopicId};

use super::ShareCoordinatorShard;
use super::state::ShareState;
use super::state_batches::{StateBatches, is_storable};
use crate::{StateBatch, StateChange, StateRecord, StateSnapshot, StateUpdate};

/// An `InitializeShareGroupState` request for one share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InitializeState {
    /// The share partition.
    pub key: SharePartitionKey,
    /// The generation that begins.
    pub state_epoch: StateEpoch,
    /// Where it starts, or `None` to let the leader choose.
    pub start_offset: Option<Offset>,
}

/// A `WriteShareGroupState` request for one share partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WriteState {
    /// The share partition.
    pub key: SharePartitionKey,
    /// The generation that the leader knows; `None` is no fence.
    pub state_epoch: Option<StateEpoch>,
    /// The leader's epoch; `None` is no fence.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The start offset as the leader has it.
    pub start_offset: Option<Offset>,
    /// How many offsets at or above the start offset are final, if known.
    pub delivery_complete_count: Option<i32>,
    /// What changed; batches may overlap, a later one then comes after an earlier one.
    pub batches: Vec<StateBatch>,
}

/// What a `ReadShareGroupState` request comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadDecision {
    /// The answer.
    pub state: ReadState,
    /// The record that notes a newer leader.
    pub record: Option<StateRecord>,
}

/// A stored state, as its leader loads it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadState {
    /// The generation of the state.
    pub state_epoch: StateEpoch,
    /// The start offset, or `None` if the leader is to choose one.
    pub start_offset: Option<Offset>,
    /// How many offsets at or above the start offset are final, if known.
    pub delivery_complete_count: Option<i32>,
    /// The states, in order of offsets; staged ones carry their owner.
    pub batches: Vec<StateBatch>,
}

/// A stored state in short, as `ReadShareGroupStateSummary` answers it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StateSummary {
    /// The generation of the state.
    pub state_epoch: StateEpoch,
    /// The newest leader that has read the state.
    pub leader_epoch: LeaderEpoch,
    /// The start offset, if one is stored.
    pub start_offset: Option<Offset>,
    /// How many offsets at or above the start offset are final, if known.
    pub delivery_complete_count: Option<i32>,
}

impl ShareCoordinatorShard {
    /// Decides an `InitializeShareGroupState` request.
    ///
    /// It starts afresh: whatever was stored or staged before is dropped.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if the partition or the state epoch is negative.
    /// - `FencedStateEpoch` if a newer generation is stored.
    /// - `PolicyViolation` if the shard is full.
    pub fn decide_initialize(
        &self,
        initialize: &InitializeState,
        now: Timestamp,
    ) -> Result<StateRecord, ErrorCode> {
        let InitializeState { key, state_epoch, start_offset } = initialize;
        if key.partition < 0 || state_epoch.get() < 0 {
            return Err(ErrorCode::InvalidRequest);
        }
        let before = self.states.get(key);
        if before.is_some_and(|state| *state_epoch < state.state_epoch) {
            return Err(ErrorCode::FencedStateEpoch);
        }
        if before.is_none() && self.config.share_partition_count_max <= self.states.len() {
            return Err(ErrorCode::PolicyViolation);
        }
        let snapshot = StateSnapshot {
            snapshot_epoch: before.map_or(0, |state| state.snapshot_epoch.saturating_add(1)),
            state_epoch: *state_epoch,
            leader_epoch: before.map_or(LeaderEpoch::new(0), |state| state.leader_epoch),
            start_offset: *start_offset,
            // Where the start is known, so is that nothing above it is done.
            delivery_complete_count: start_offset.map(|_| 0),
            create_timestamp: now,
            write_timestamp: now,
            batches: Vec::new(),
        };
        Ok(StateRecord { key: key.clone(), change: StateChange::Snapshot(snapshot) })
    }

    /// Returns whether a call that initialises a state was carried out before, so that its repetition must not take back
    /// what was written since.
    ///
    /// One at the same state epoch that nobody has written to may have been initialised by an earlier call.
    pub fn has_outrun(&self, initialize: &InitializeState) -> bool {
        let state = self.states.get(&initialize.key);
        state.is_some_and(|state| state.state_epoch == initialize.state_epoch && state.is_in_use())
    }

    /// Decides a `ReadShareGroupState` request of a leader; `None` as its epoch is no fence.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if the share partition was never initialised.
    /// - `FencedLeaderEpoch` if a newer leader has read the state.
    pub fn decide_read(
        &self,
        key: &SharePartitionKey,
        leader_epoch: Option<LeaderEpoch>,
        now: Timestamp,
    ) -> Result<ReadDecision, ErrorCode> {
        let state = self.fenced_state(key, None, leader_epoch)?;
        let record = leader_epoch.filter(|epoch| state.leader_epoch < *epoch).map(|epoch| {
            let (start_offset, complete_count) = (state.start_offset, state.delivery_complete_count);
            let change = self.change(state, start_offset, complete_count, Vec::new(), now);
            StateRecord { key: key.clone(), change: with_leader_epoch(change, epoch) }
        });
        let answer = ReadState {
            state_epoch: state.state_epoch,
            start_offset: state.start_offset,
            delivery_complete_count: state.delivery_complete_count,
            batches: state.batches.as_slice().to_vec(),
        };
        Ok(ReadDecision { state: answer, record })
    }

    /// Decides a `WriteShareGroupState` request of a leader.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if the share partition was never initialised, if a batch has a state that is not
    ///   stored in this way, or if the state were too scattered.
    /// - `FencedLeaderEpoch` if a newer leader has read the state.
    /// - `FencedStateEpoch` if a newer generation is stored.
    pub fn decide_write(&self, write: &WriteState, now: Timestamp) -> Result<StateRecord, ErrorCode> {
        let state = self.fenced_state(&write.key, write.state_epoch, write.leader_epoch)?;
        if !write.batches.iter().all(|batch| is_storable(batch) && batch.staged.is_none()) {
            return Err(ErrorCode::InvalidRequest);
        }
        let (start_offset, complete_count) = state.progress_with(write);
        let batches = self.bounded_batches(state, &write.batches, start_offset)?;
        let change = self.change(state, start_offset, complete_count, batches, now);
        Ok(StateRecord { key: write.key.clone(), change })
    }

    /// Decides a `DeleteShareGroupState` request; there is nothing to write if nothing is stored.
    pub fn decide_delete(&self, key: &SharePartitionKey) -> Option<StateRecord> {
        let (key, _) = self.states.get_key_value(key)?;
        Some(StateRecord { key: key.clone(), change: StateChange::Tombstone })
    }

    /// Appends to `records` what removes the states of deleted topics.
    pub fn decide_delete_topics(&self, topic_ids: &BTreeSet<TopicId>, records: &mut Vec<StateRecord>) {
        let keys = self.states.keys().filter(|key| topic_ids.contains(&key.topic_id));
        records.extend(keys.map(|key| StateRecord { key: key.clone(), change: StateChange::Tombstone }));
    }

    /// Returns a state in short. One that was never initialised has epochs of zero and no start offset.
    pub fn summary(&self, key: &SharePartitionKey) -> StateSummary {
        let none = StateSummary {
            state_epoch: StateEpoch::new(0),
            leader_epoch: LeaderEpoch::new(0),
            start_offset: None,
            delivery_complete_count: None,
        };
        self.states.get(key).map_or(none, |state| StateSummary {
            state_epoch: state.state_epoch,
            leader_epoch: state.leader_epoch,
            start_offset: state.start_offset,
            delivery_complete_count: state.delivery_complete_count,
        })
    }

    /// Returns the state of `key` if the sender of a request may still change it.
    pub(super) fn fenced_state(
        &self,
        key: &SharePartitionKey,
        state_epoch: Option<StateEpoch>,
        leader_epoch: Option<LeaderEpoch>,
    ) -> Result<&ShareState, ErrorCode> {
        let state = self.states.get(key).ok_or(ErrorCode::InvalidRequest)?;
        if leader_epoch.is_some_and(|epoch| epoch < state.leader_epoch) {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if state_epoch.is_some_and(|epoch| epoch < state.state_epoch) {
            return Err(ErrorCode::FencedStateEpoch);
        }
        Ok(state)
    }

    /// Returns what a request changes as it goes into a record, if the state stays within its bound.
    pub(super) fn bounded_batches(
        &self,
        state: &ShareState,
        batches: &[StateBatch],
        start_offset: Option<Offset>,
    ) -> Result<Vec<StateBatch>, ErrorCode> {
        let mut change = StateBatches::merged(batches);
        if let Some(start_offset) = start_offset {
            change.cut_below(start_offset);
        }
        // A batch adds at most two runs: itself, and the rest of one that it splits.
        let run_count_at_most = state.batches.as_slice().len() + 2 * change.as_slice().len();
        if self.config.state_batch_count_max < run_count_at_most {
            let merged = state.merged_with(change.as_slice(), start_offset);
            if self.config.state_batch_count_max < merged.as_slice().len() {
                return Err(ErrorCode::InvalidRequest);
            }
        }
        Ok(change.into_vec())
    }

    /// Returns the change as an update, or as a snapshot when enough updates have gathered.
    pub(super) fn change(
        &self,
        state: &ShareState,
        start_offset: Option<Offset>,
        delivery_complete_count: Option<i32>,
        batches: Vec<StateBatch>,
        now: Timestamp,
    ) -> StateChange {
        if state.update_count < self.config.updates_per_snapshot {
            return StateChange::Update(state.update_record(start_offset, delivery_complete_count, batches));
        }
        StateChange::Snapshot(StateSnapshot {
            start_offset,
            delivery_complete_count,
            create_timestamp: now,
            write_timestamp: now,
            batches: state.merged_with(&batches, start_offset).into_vec(),
            ..state.snapshot()
        })
    }
}

/// Returns `change` with the epoch of a newer leader.
fn with_leader_epoch(change: StateChange, epoch: LeaderEpoch) -> StateChange {
    match change {
        StateChange::Snapshot(snapshot) => {
            StateChange::Snapshot(StateSnapshot { leader_epoch: epoch, ..snapshot })
        }
        StateChange::Update(update) => {
            StateChange::Update(StateUpdate { leader_epoch: Some(epoch), ..update })
        }
        StateChange::Tombstone => StateChange::Tombstone,
    }
}
