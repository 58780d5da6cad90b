//! The bytes of the records, by Kafka's schemas.
//!
//! Staged entries add tagged fields to a batch. Without them the bytes are those of Kafka 4.4.

use std::fmt;

use bytes::Bytes;
use sharemark_protocol::messages::{
    share_snapshot_key::ShareSnapshotKey,
    share_snapshot_value::{self, ShareSnapshotValue},
    share_update_key::ShareUpdateKey,
    share_update_value::{self, ShareUpdateValue},
};
use sharemark_protocol::{
    CoordinatorRecord, DecodeError, LeaderEpoch, Message, Offset, OffsetRange, Producer, SharePartitionKey,
    StateEpoch, Timestamp,
};

use super::{StateChange, StateRecord, StateSnapshot, StateUpdate};
use crate::shard::is_storable;
use crate::{AcknowledgeType, RecordState, Staged, StateBatch};

/// The only version of each value.
const VERSION: i16 = 0;

/// Says why bytes are no record of `__share_group_state`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StateRecordError {
    /// The bytes do not follow the schema.
    Bytes(DecodeError),
    /// An update has no value.
    UpdateWithoutValue,
    /// A batch of states is one that is never stored.
    InvalidBatch,
}

impl fmt::Display for StateRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(error) => error.fmt(f),
            Self::UpdateWithoutValue => f.write_str("an update has no value"),
            Self::InvalidBatch => f.write_str("a batch of states is one that is never stored"),
        }
    }
}

impl std::error::Error for StateRecordError {}

impl From<DecodeError> for StateRecordError {
    fn from(error: DecodeError) -> Self {
        Self::Bytes(error)
    }
}

impl StateRecord {
    /// Returns the record's bytes.
    pub fn encode(&self) -> CoordinatorRecord {
        let SharePartitionKey { group_id, topic_id, partition } = &self.key;
        let (group_id, topic_id, partition) = (group_id.into(), *topic_id, *partition);
        match &self.change {
            StateChange::Snapshot(snapshot) => CoordinatorRecord {
                key: ShareSnapshotKey { group_id, topic_id, partition }.to_key_bytes(),
                value: Some(encode_snapshot(snapshot).to_versioned_bytes(VERSION)),
            },
            StateChange::Update(update) => CoordinatorRecord {
                key: ShareUpdateKey { group_id, topic_id, partition }.to_key_bytes(),
                value: Some(encode_update(update).to_versioned_bytes(VERSION)),
            },
            StateChange::Tombstone => CoordinatorRecord {
                key: ShareSnapshotKey { group_id, topic_id, partition }.to_key_bytes(),
                value: None,
            },
        }
    }

    /// Reads a record of `__share_group_state`.
    ///
    /// # Errors
    ///
    /// If the bytes are no such record.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Self, StateRecordError> {
        let record_type = key.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
        match record_type.ok_or(DecodeError::UnexpectedEnd)? {
            ShareSnapshotKey::API_KEY => {
                let ShareSnapshotKey { group_id, topic_id, partition } = Message::from_key_bytes(key)?;
                let change = match value {
                    Some(value) => StateChange::Snapshot(decode_snapshot(value)?),
                    None => StateChange::Tombstone,
                };
                let key = SharePartitionKey { group_id: group_id.to_arc(), topic_id, partition };
                Ok(Self { key, change })
            }
            ShareUpdateKey::API_KEY => {
                let ShareUpdateKey { group_id, topic_id, partition } = Message::from_key_bytes(key)?;
                let change = StateChange::Update(decode_update(value)?);
                let key = SharePartitionKey { group_id: group_id.to_arc(), topic_id, partition };
                Ok(Self { key, change })
            }
            _ => Err(StateRecordError::Bytes(DecodeError::UnexpectedRecordType)),
        }
    }
}

fn encode_snapshot(snapshot: &StateSnapshot) -> ShareSnapshotValue {
    ShareSnapshotValue {
        snapshot_epoch: snapshot.snapshot_epoch,
        state_epoch: snapshot.state_epoch.get(),
        leader_epoch: snapshot.leader_epoch.get(),
        start_offset: Offset::to_wire(snapshot.start_offset),
        delivery_complete_count: snapshot.delivery_complete_count.unwrap_or(-1),
        create_timestamp: snapshot.create_timestamp.ms(),
        write_timestamp: snapshot.write_timestamp.ms(),
        state_batches: snapshot.batches.iter().map(encode_batch).collect(),
    }
}

fn encode_update(update: &StateUpdate) -> ShareUpdateValue {
    ShareUpdateValue {
        snapshot_epoch: update.snapshot_epoch,
        leader_epoch: update.leader_epoch.map_or(-1, LeaderEpoch::get),
        start_offset: Offset::to_wire(update.start_offset),
        delivery_complete_count: update.delivery_complete_count.unwrap_or(-1),
        state_batches: update.batches.iter().map(|batch| of_update(encode_batch(batch))).collect(),
    }
}

fn decode_snapshot(bytes: &Bytes) -> Result<StateSnapshot, StateRecordError> {
    let (_, value) = ShareSnapshotValue::from_versioned_bytes(bytes)?;
    let batches: Option<Vec<_>> = value.state_batches.into_iter().map(decode_batch).collect();
    Ok(StateSnapshot {
        snapshot_epoch: value.snapshot_epoch,
        state_epoch: StateEpoch::new(value.state_epoch),
        leader_epoch: LeaderEpoch::new(value.leader_epoch),
        start_offset: Offset::new(value.start_offset),
        delivery_complete_count: complete_count(value.delivery_complete_count),
        create_timestamp: Timestamp::from_ms(value.create_timestamp),
        write_timestamp: Timestamp::from_ms(value.write_timestamp),
        batches: batches.ok_or(StateRecordError::InvalidBatch)?,
    })
}

fn decode_update(bytes: Option<&Bytes>) -> Result<StateUpdate, StateRecordError> {
    let bytes = bytes.ok_or(StateRecordError::UpdateWithoutValue)?;
    let (_, value) = ShareUpdateValue::from_versioned_bytes(bytes)?;
    let batches = value.state_batches.into_iter().map(|batch| decode_batch(of_snapshot(batch)));
    let batches: Option<Vec<_>> = batches.collect();
    Ok(StateUpdate {
        snapshot_epoch: value.snapshot_epoch,
        leader_epoch: if value.leader_epoch < 0 { None } else { Some(LeaderEpoch::new(value.leader_epoch)) },
        start_offset: Offset::new(value.start_offset),
        delivery_complete_count: complete_count(value.delivery_complete_count),
        batches: batches.ok_or(StateRecordError::InvalidBatch)?,
    })
}

fn complete_count(raw: i32) -> Option<i32> {
    if raw < 0 { None } else { Some(raw) }
}

fn encode_batch(batch: &StateBatch) -> share_snapshot_value::StateBatch {
    let plain = share_snapshot_value::StateBatch {
        first_offset: batch.range.first().get(),
        last_offset: batch.range.last().get(),
        delivery_state: batch.state.id(),
        delivery_count: batch.delivery_count,
        ..Default::default()
    };
    match batch.staged {
        None => plain,
        Some(staged) => share_snapshot_value::StateBatch {
            staged_producer_id: staged.producer.id.get(),
            staged_producer_epoch: staged.producer.epoch.get(),
            staged_ack_type: staged.acknowledge_type.id(),
            staged_delivery_state: staged.state.id(),
            ..plain
        },
    }
}

fn decode_batch(batch: share_snapshot_value::StateBatch) -> Option<StateBatch> {
    let state = RecordState::from_id(batch.delivery_state)?;
    let staged = if batch.staged_producer_id < 0 {
        None
    } else {
        Some(Staged {
            producer: Producer::from_wire(batch.staged_producer_id, batch.staged_producer_epoch)?,
            acknowledge_type: AcknowledgeType::from_id(batch.staged_ack_type)?,
            state: RecordState::from_id(batch.staged_delivery_state)?,
        })
    };
    let range = OffsetRange::new(Offset::new(batch.first_offset)?, Offset::new(batch.last_offset)?)?;
    let batch = StateBatch { range, state, delivery_count: batch.delivery_count, staged };
    if is_storable(&batch) { Some(batch) } else { None }
}

/// The schema repeats the batch's fields in both values.
fn of_update(batch: share_snapshot_value::StateBatch) -> share_update_value::StateBatch {
    share_update_value::StateBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
        staged_producer_id: batch.staged_producer_id,
        staged_producer_epoch: batch.staged_producer_epoch,
        staged_ack_type: batch.staged_ack_type,
        staged_delivery_state: batch.staged_delivery_state,
    }
}

fn of_snapshot(batch: share_update_value::StateBatch) -> share_snapshot_value::StateBatch {
    share_snapshot_value::StateBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
        staged_producer_id: batch.staged_producer_id,
        staged_producer_epoch: batch.staged_producer_epoch,
        staged_ack_type: batch.staged_ack_type,
        staged_delivery_state: batch.staged_delivery_state,
    }
}
