//! Records as Kafka's schemas TransactionLogKey and TransactionLogValue write them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::messages::transaction_log_key::TransactionLogKey;
use sharemark_protocol::messages::transaction_log_value::{PartitionsSchema, TransactionLogValue};
use sharemark_protocol::{
    CoordinatorRecord, DecodeError, Message, Producer, ProducerId, Timestamp, TopicPartition,
};

use super::{TransactionRecord, TransactionValue};
use crate::state::TransactionState;
use crate::version::TransactionVersion;

/// Says why a record of `__transaction_state` makes no sense.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TransactionRecordError {
    /// The bytes are no such key or value.
    Decode(DecodeError),
    /// The status is none that a log holds.
    UnknownStatus(i8),
    /// The producer id or epoch is negative.
    InvalidProducer,
    /// The client's transaction version is unknown.
    UnknownClientVersion(i16),
}

impl fmt::Display for TransactionRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::UnknownStatus(status) => write!(f, "no transaction has the status {status}"),
            Self::InvalidProducer => f.write_str("a producer id or epoch is negative"),
            Self::UnknownClientVersion(version) => {
                write!(f, "no client speaks transaction version {version}")
            }
        }
    }
}

impl std::error::Error for TransactionRecordError {}

impl From<DecodeError> for TransactionRecordError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl TransactionRecord {
    /// Returns the record's bytes. `version` is the finalized `transaction.version`, which chooses the version of
    /// the value; see [`Self::as_logged`] for what the older one cannot hold.
    pub fn encode(&self, version: TransactionVersion) -> CoordinatorRecord {
        let key = TransactionLogKey { transactional_id: self.transactional_id.as_ref().into() };
        let value =
            self.value.as_ref().map(|value| wire_value(value).to_versioned_bytes(version.value_version()));
        CoordinatorRecord { key: key.to_key_bytes(), value }
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If the bytes are no record of `__transaction_state`, or hold a number that stands for nothing.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Self, TransactionRecordError> {
        let transactional_id = TransactionLogKey::from_key_bytes(key)?.transactional_id.to_arc();
        let value = match value {
            Some(bytes) => Some(typed_value(&TransactionLogValue::from_versioned_bytes(bytes)?.1)?),
            None => None,
        };
        Ok(Self { transactional_id, value })
    }
}

fn wire_value(value: &TransactionValue) -> TransactionLogValue {
    // Kafka writes null where nothing can have begun, and no next epoch before KIP-939.
    let partitions = (value.state != TransactionState::Empty).then(|| wire_partitions(&value.partitions));
    TransactionLogValue {
        producer_id: value.producer.id.get(),
        previous_producer_id: value.previous_id.map_or(-1, ProducerId::get),
        next_producer_id: value.next_id.map_or(-1, ProducerId::get),
        producer_epoch: value.producer.epoch.get(),
        next_producer_epoch: -1,
        transaction_timeout_ms: value.timeout_ms,
        transaction_status: value.state.status(),
        transaction_partitions: partitions,
        transaction_last_update_timestamp_ms: value.updated_at.ms(),
        transaction_start_timestamp_ms: value.started_at.map_or(-1, Timestamp::ms),
        client_transaction_version: value.client_version.level(),
    }
}

fn wire_partitions(partitions: &BTreeSet<TopicPartition>) -> Vec<PartitionsSchema> {
    let mut topics: Vec<PartitionsSchema> = Vec::new();
    for TopicPartition { topic, partition } in partitions {
        match topics.last_mut() {
            Some(last) if *last.topic == **topic => last.partition_ids.push(*partition),
            Some(_) | None => {
                topics
                    .push(PartitionsSchema { topic: topic.as_ref().into(), partition_ids: vec![*partition] });
            }
        }
    }
    topics
}

fn typed_value(wire: &TransactionLogValue) -> Result<TransactionValue, TransactionRecordError> {
    let status = wire.transaction_status;
    let state = TransactionState::from_status(status).ok_or(TransactionRecordError::UnknownStatus(status))?;
    let producer = Producer::from_wire(wire.producer_id, wire.producer_epoch)
        .ok_or(TransactionRecordError::InvalidProducer)?;
    let client = wire.client_transaction_version;
    let client_version =
        TransactionVersion::from_level(client).ok_or(TransactionRecordError::UnknownClientVersion(client))?;
    let optional_id = |id: i64| (0 <= id).then(|| ProducerId::new(id));
    // Kafka ignores them where nothing is open.
    let topics = wire.transaction_partitions.as_deref().filter(|_| state.is_open());
    Ok(TransactionValue {
        producer,
        previous_id: optional_id(wire.previous_producer_id),
        next_id: optional_id(wire.next_producer_id),
        last_epoch: None,
        timeout_ms: wire.transaction_timeout_ms,
        state,
        partitions: topics.unwrap_or_default().iter().flat_map(typed_partitions).collect(),
        updated_at: Timestamp::from_ms(wire.transaction_last_update_timestamp_ms),
        started_at: Some(Timestamp::from_ms(wire.transaction_start_timestamp_ms)).filter(|at| 0 <= at.ms()),
        client_version,
    })
}

fn typed_partitions(schema: &PartitionsSchema) -> impl Iterator<Item = TopicPartition> {
    let topic: Arc<str> = schema.topic.to_arc();
    schema.partition_ids.iter().map(move |partition| TopicPartition::new(topic.clone(), *partition))
}

#[cfg(test)]
mod tests;
