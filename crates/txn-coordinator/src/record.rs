//! The records of `__transaction_state`.

mod codec;

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Producer, ProducerEpoch, ProducerId, Timestamp, TopicPartition};

pub use self::codec::TransactionRecordError;
use crate::producer_ids::ProducerIds;
use crate::state::{Outcome, TransactionState};
use crate::version::TransactionVersion;

/// One record: all that is known of a transactional id, or that it is forgotten.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransactionRecord {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// What is known; `None` forgets the id.
    pub value: Option<TransactionValue>,
}

/// What is known of a transactional id. Each record holds it all, so the last one is enough.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransactionValue {
    /// The producer that may use the transactional id. In the PREPARE states, the one on the markers.
    pub producer: Producer,
    /// The producer id of the record before this one: tells a retry after the id was exchanged.
    pub previous_id: Option<ProducerId>,
    /// The producer id to go on with once the markers are written, when the epochs are used up.
    pub next_id: Option<ProducerId>,
    /// The epoch before `producer.epoch`, while its owner may still ask again. Kafka's schema has no place for
    /// it, so a shard that recovers does not know it and answers PRODUCER_FENCED to such a retry.
    pub last_epoch: Option<ProducerEpoch>,
    /// How long a transaction may stay open, in ms; `i32::MAX` is for ever (two-phase commit, KIP-939).
    pub timeout_ms: i32,
    /// The state.
    pub state: TransactionState,
    /// The partitions that are owed a marker at the end.
    pub partitions: BTreeSet<TopicPartition>,
    /// When this record was decided.
    pub updated_at: Timestamp,
    /// When the transaction began; `None` before the first.
    pub started_at: Option<Timestamp>,
    /// The version that the client spoke in the request that made this record.
    pub client_version: TransactionVersion,
}

/// The highest epoch a client gets; the one above is kept for fencing.
pub(crate) const LAST_CLIENT_EPOCH: ProducerEpoch = ProducerEpoch::new(i16::MAX - 1);

/// Returns whether no higher epoch can be given to a client.
pub(crate) const fn is_exhausted(epoch: ProducerEpoch) -> bool {
    LAST_CLIENT_EPOCH.get() <= epoch.get()
}

/// Returns the next higher epoch; the highest one stays.
pub(crate) const fn bumped(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch::new(epoch.get().saturating_add(1))
}

impl TransactionRecord {
    /// Returns the record as a reader of the log sees it: without what values of that version cannot hold.
    #[must_use]
    pub fn as_logged(&self, version: TransactionVersion) -> Self {
        let mut logged = self.clone();
        if let Some(value) = &mut logged.value {
            value.last_epoch = None;
            if version.value_version() < 1 {
                value.previous_id = None;
                value.next_id = None;
                value.client_version = TransactionVersion::V0;
            }
        }
        logged
    }
}

impl TransactionValue {
    /// Returns the first value of a transactional id.
    pub(crate) fn first(id: ProducerId, timeout_ms: i32, now: Timestamp) -> Self {
        Self {
            producer: Producer { id, epoch: ProducerEpoch::new(0) },
            previous_id: Some(id), // As Kafka, which creates the id first and then takes its first step.
            next_id: None,
            last_epoch: None,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            updated_at: now,
            started_at: None,
            client_version: TransactionVersion::V0,
        }
    }

    /// Returns a copy in the state `next`, the rest as it was.
    fn step(&self, next: TransactionState, now: Timestamp) -> Self {
        assert!(self.state.can_become(next), "a transaction goes along its state diagram");
        Self { state: next, previous_id: Some(self.producer.id), updated_at: now, ..self.clone() }
    }

    /// Returns the value after InitProducerId gave the id to `producer`.
    pub(crate) fn initialised(
        &self,
        producer: Producer,
        last_epoch: Option<ProducerEpoch>,
        timeout_ms: i32,
        now: Timestamp,
    ) -> Self {
        Self {
            producer,
            last_epoch,
            timeout_ms,
            partitions: BTreeSet::new(),
            started_at: None,
            ..self.step(TransactionState::Empty, now)
        }
    }

    /// Returns the value with more partitions; the first ones begin a transaction.
    pub(crate) fn with_partitions(
        &self,
        added: &[TopicPartition],
        client_version: TransactionVersion,
        now: Timestamp,
    ) -> Self {
        let mut value = self.step(TransactionState::Ongoing, now);
        value.partitions.extend(added.iter().cloned());
        if self.state != TransactionState::Ongoing {
            value.started_at = Some(now);
        }
        value.client_version = client_version;
        value
    }

    /// Returns the value that decides the end of the transaction for a client that bumps epochs. A fence or a
    /// timeout does the same, so both leave one epoch between (KAFKA-19367).
    pub(crate) fn prepared_with_bump(
        &self,
        outcome: Outcome,
        now: Timestamp,
        ids: &mut ProducerIds,
    ) -> Result<Self, ErrorCode> {
        let next_id = if is_exhausted(self.producer.epoch) { Some(ids.take()?) } else { None };
        // An abort without a partition needs a start time of its own.
        let started_at = if self.state == TransactionState::Ongoing { self.started_at } else { Some(now) };
        Ok(Self {
            producer: Producer { id: self.producer.id, epoch: bumped(self.producer.epoch) },
            last_epoch: Some(self.producer.epoch),
            next_id,
            started_at,
            client_version: TransactionVersion::V2,
            ..self.step(prepare(outcome), now)
        })
    }

    /// Returns the value that decides the end of the transaction and keeps the epoch.
    pub(crate) fn prepared(&self, outcome: Outcome, now: Timestamp) -> Self {
        Self { next_id: None, client_version: TransactionVersion::V0, ..self.step(prepare(outcome), now) }
    }

    /// Returns the value that aborts the transaction against its producer's will, which bumps the epoch.
    pub(crate) fn fenced(
        &self,
        version: TransactionVersion,
        now: Timestamp,
        ids: &mut ProducerIds,
    ) -> Result<Self, ErrorCode> {
        if version.bumps_epoch() {
            return self.prepared_with_bump(Outcome::Abort, now, ids);
        }
        let producer = Producer { id: self.producer.id, epoch: bumped(self.producer.epoch) };
        Ok(Self { producer, last_epoch: None, ..self.prepared(Outcome::Abort, now) })
    }

    /// Returns the value once every marker is written, or `None` if no end is decided.
    pub(crate) fn completed(&self, now: Timestamp) -> Option<Self> {
        let next = match self.state.prepared()? {
            Outcome::Commit => TransactionState::CompleteCommit,
            Outcome::Abort => TransactionState::CompleteAbort,
        };
        let producer = self.producer_after_completion();
        Some(Self { producer, next_id: None, partitions: BTreeSet::new(), ..self.step(next, now) })
    }

    /// Returns the producer of the next transaction, once every marker of this one is written.
    pub(crate) fn producer_after_completion(&self) -> Producer {
        match self.next_id {
            Some(id) if self.client_version.bumps_epoch() => Producer { id, epoch: ProducerEpoch::new(0) },
            Some(_) | None => self.producer,
        }
    }

    /// Returns when the transaction may be aborted for its age, or `None` if it never is.
    pub(crate) fn times_out_after(&self) -> Option<Timestamp> {
        if self.state != TransactionState::Ongoing || self.timeout_ms == i32::MAX {
            return None;
        }
        let started_at = self.started_at.unwrap_or(self.updated_at);
        Some(started_at.plus_ms(i64::from(self.timeout_ms)))
    }
}

/// Returns the state that decides `outcome`.
const fn prepare(outcome: Outcome) -> TransactionState {
    match outcome {
        Outcome::Commit => TransactionState::PrepareCommit,
        Outcome::Abort => TransactionState::PrepareAbort,
    }
}
