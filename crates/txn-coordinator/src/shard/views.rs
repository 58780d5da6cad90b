//! What others may know of the transactions: DescribeTransactions, ListTransactions, and the broker itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Producer, Timestamp, TopicPartition};

use super::TxnCoordinatorShard;
use crate::record::{TransactionValue, bumped};
use crate::state::{Outcome, TransactionState};

/// A transaction as DescribeTransactions shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransactionView {
    /// The state.
    pub state: TransactionState,
    /// How long a transaction may stay open, in ms.
    pub timeout_ms: i32,
    /// When it began; `None` (-1 on the wire) before the first.
    pub started_at: Option<Timestamp>,
    /// The producer.
    pub producer: Producer,
    /// Its partitions; once the end is decided, those that are still owed their marker.
    pub partitions: BTreeSet<TopicPartition>,
}

/// A transaction as ListTransactions shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The producer.
    pub producer: Producer,
    /// The state.
    pub state: TransactionState,
}

/// What ListTransactions asks for; each part only when it is given. The pattern of version 2 is the caller's.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListFilter {
    states: Option<BTreeSet<TransactionState>>,
    producer_ids: BTreeSet<i64>,
    longer_than_ms: Option<i64>,
}

/// States that Kafka knows and that never stand in a log, so that no transaction is found in one.
const PASSING_STATES: [&str; 2] = ["Dead", "PrepareEpochFence"];

impl ListFilter {
    /// Adds a state by its name; returns whether Kafka knows it. No transaction is in a state of another name, so
    /// that with nothing but such names none is listed.
    pub fn add_state(&mut self, name: &str) -> bool {
        let states = self.states.get_or_insert_default();
        match TransactionState::from_name(name) {
            Some(state) => {
                states.insert(state);
                true
            }
            None => PASSING_STATES.contains(&name),
        }
    }

    /// Adds a producer id.
    pub fn add_producer_id(&mut self, producer_id: i64) {
        self.producer_ids.insert(producer_id);
    }

    /// Leaves only transactions that began more than this long ago; a negative duration is none.
    pub fn set_longer_than_ms(&mut self, duration_ms: i64) {
        self.longer_than_ms = (0 <= duration_ms).then_some(duration_ms);
    }

    fn matches(&self, now: Timestamp, value: &TransactionValue) -> bool {
        let is_producer =
            self.producer_ids.is_empty() || self.producer_ids.contains(&value.producer.id.get());
        let is_state = self.states.as_ref().is_none_or(|states| states.contains(&value.state));
        // Kafka counts from -1 where nothing began, so that such an id passes for very old.
        let started_at = value.started_at.unwrap_or(Timestamp::from_ms(-1));
        let is_old = self.longer_than_ms.is_none_or(|limit_ms| limit_ms < now.ms_since(started_at));
        is_producer && is_state && is_old
    }
}

/// What became of the transaction in which a producer wrote something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TransactionOutcome {
    /// This shard has no word on that very transaction.
    Unknown,
    /// It is open.
    Ongoing,
    /// Its end is decided and markers are owed.
    Prepared(Outcome),
    /// Its end is recorded: every marker was confirmed.
    Completed(Outcome),
}

impl TxnCoordinatorShard {
    /// Returns a transaction as DescribeTransactions shows it.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` for an empty transactional id.
    /// - `TransactionalIdNotFound` for an unknown one.
    pub fn describe(&self, transactional_id: &str) -> Result<TransactionView, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction =
            self.transactions.get(transactional_id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        let value = &transaction.value;
        let partitions = if value.state.prepared().is_some() {
            self.markers.unconfirmed(transaction.recorded_at)
        } else {
            value.partitions.clone()
        };
        Ok(TransactionView {
            state: value.state,
            timeout_ms: value.timeout_ms,
            started_at: value.started_at,
            producer: value.producer,
            partitions,
        })
    }

    /// Adds every transaction that the filter leaves to `listings`, in order of the transactional id.
    pub fn list(&self, now: Timestamp, filter: &ListFilter, listings: &mut Vec<TransactionListing>) {
        let left = self.transactions.iter().filter(|(_, found)| filter.matches(now, &found.value));
        listings.extend(left.map(|(id, found)| TransactionListing {
            transactional_id: id.clone(),
            producer: found.value.producer,
            state: found.value.state,
        }));
    }

    /// Returns the producer whose transaction is open under this transactional id, if one is.
    pub fn ongoing(&self, transactional_id: &str) -> Option<Producer> {
        let value = &self.transactions.get(transactional_id)?.value;
        (value.state == TransactionState::Ongoing).then_some(value.producer)
    }

    /// Returns whether a partition belongs to a transaction whose end is not recorded.
    pub fn is_partition_in_transaction(&self, transactional_id: &str, partition: &TopicPartition) -> bool {
        let transaction = self.transactions.get(transactional_id);
        transaction.is_some_and(|found| found.value.partitions.contains(partition))
    }

    /// Returns what became of the transaction in which `writer` wrote, its epoch being that of the data.
    pub fn outcome_of(&self, writer: Producer) -> TransactionOutcome {
        let from = (writer.id, Arc::from(""));
        let users = self.by_producer.range(from..).take_while(|(id, _)| *id == writer.id);
        let values = users.filter_map(|(_, id)| self.transactions.get(id));
        // A producer id belongs to one transactional id, but for logs that Kafka did not write.
        let mut outcomes = values.map(|found| outcome_of(&found.value, writer));
        outcomes
            .find(|outcome| *outcome != TransactionOutcome::Unknown)
            .unwrap_or(TransactionOutcome::Unknown)
    }
}

/// Returns what `value` says about the transaction in which `writer` wrote.
fn outcome_of(value: &TransactionValue, writer: Producer) -> TransactionOutcome {
    if value.state == TransactionState::Ongoing && value.producer == writer {
        return TransactionOutcome::Ongoing;
    }
    if !ended_by(value, writer) {
        return TransactionOutcome::Unknown;
    }
    let prepared = value.state.prepared().map(TransactionOutcome::Prepared);
    let completed = value.state.completed().map(TransactionOutcome::Completed);
    prepared.or(completed).unwrap_or(TransactionOutcome::Unknown)
}

/// Returns whether the end in `value`, if it is one, is that of the transaction in which `writer` wrote.
fn ended_by(value: &TransactionValue, writer: Producer) -> bool {
    let held = value.producer;
    if held.id != writer.id {
        // The end exchanged the producer id: its data had the last epoch of the one before.
        return Some(writer.id) == value.previous_id
            && held.epoch.get() == 0
            && crate::record::is_exhausted(writer.epoch);
    }
    let was_bumped = bumped(writer.epoch) == held.epoch && writer.epoch != held.epoch;
    if value.client_version.bumps_epoch() {
        return was_bumped;
    }
    // Before version 2 the epoch stays, but where an abort fenced the producer.
    let is_abort = [value.state.prepared(), value.state.completed()].contains(&Some(Outcome::Abort));
    writer.epoch == held.epoch || (is_abort && was_bumped)
}
