//! One partition of `__transaction_state`, and the coordinator of the ids that live there.

mod add_partitions;
mod end_txn;
mod expiry;
mod init_producer_id;
mod marker_doors;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{LeaderEpoch, Offset, ProducerId, Timestamp};

pub use add_partitions::AddPartitions;
pub use end_txn::{EndTxn, EndTxnPlan};
pub use init_producer_id::{InitProducerId, InitProducerIdPlan};
pub use views::{ListFilter, TransactionListing, TransactionOutcome, TransactionView};

use crate::config::TxnConfig;
use crate::markers::MarkerQueue;
use crate::record::{TransactionRecord, TransactionValue};
use crate::sweep::Sweep;

/// The transaction coordinator of one partition of `__transaction_state`.
///
/// Durable state changes in [`Self::replay`] alone. A decision whose append fails leaves nothing behind.
#[derive(Clone, Debug)]
pub struct TxnCoordinatorShard {
    config: TxnConfig,
    coordinator_epoch: LeaderEpoch,
    timeout_sweep: Sweep,
    expiry_sweep: Sweep,
    transactions: BTreeMap<Arc<str>, Transaction>,
    /// Which transactional ids use a producer id, or used it until their last record.
    by_producer: BTreeSet<(ProducerId, Arc<str>)>,
    /// Open transactions by the date of the sweep that aborts them.
    timeouts: BTreeSet<(Timestamp, Arc<str>)>,
    /// Ids without an open transaction by the date of the sweep that forgets them.
    expiries: BTreeSet<(Timestamp, Arc<str>)>,
    markers: MarkerQueue,
    /// Until when no sweep is taken, and when that was decided: an append failed.
    sweeps_paused: Option<(Timestamp, Timestamp)>,
    producer_id_max: Option<ProducerId>,
    last_replayed: Option<Offset>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Transaction {
    value: TransactionValue,
    /// The offset of the record that says so.
    recorded_at: Offset,
}

impl TxnCoordinatorShard {
    /// Starts with nothing replayed. `coordinator_epoch` is the leader epoch of the log's partition; sweeps are
    /// counted from `opened_at`.
    ///
    /// # Panics
    ///
    /// If a setting that must be positive is not.
    pub fn new(config: TxnConfig, coordinator_epoch: LeaderEpoch, opened_at: Timestamp) -> Self {
        config.check();
        Self {
            timeout_sweep: Sweep::new(opened_at, config.abort_timed_out_interval_ms),
            expiry_sweep: Sweep::new(opened_at, config.remove_expired_interval_ms),
            config,
            coordinator_epoch,
            transactions: BTreeMap::new(),
            by_producer: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            expiries: BTreeSet::new(),
            markers: MarkerQueue::default(),
            sweeps_paused: None,
            producer_id_max: None,
            last_replayed: None,
        }
    }

    /// Returns the epoch of this coordinator, which its markers carry.
    pub const fn coordinator_epoch(&self) -> LeaderEpoch {
        self.coordinator_epoch
    }

    /// Returns the highest producer id in the log: a counter of a cluster must go on above it.
    pub const fn producer_id_max(&self) -> Option<ProducerId> {
        self.producer_id_max
    }

    /// Applies one record of the log, live or at recovery. It cannot fail, since only decided records get there;
    /// compaction may have removed any but the last of a transactional id.
    ///
    /// # Panics
    ///
    /// If `offset` is not above that of the record before.
    pub fn replay(&mut self, offset: Offset, record: &TransactionRecord) {
        assert!(self.last_replayed < Some(offset), "records are replayed in log order");
        self.last_replayed = Some(offset);
        let id = &record.transactional_id;
        if let Some(old) = self.transactions.remove(id) {
            self.unindex(id, &old);
        }
        if let Some(value) = &record.value {
            let transaction = Transaction { value: value.clone(), recorded_at: offset };
            self.index(id, &transaction);
            self.transactions.insert(id.clone(), transaction);
        }
    }

    /// Returns the dates of the sweeps that concern a transaction: for its timeout, and for its expiry.
    fn sweep_dates(&self, value: &TransactionValue) -> (Option<Timestamp>, Option<Timestamp>) {
        let times_out = value.times_out_after().map(|last| self.timeout_sweep.first_from(last.plus_ms(1)));
        let expiration_ms = i64::from(self.config.transactional_id_expiration_ms);
        let expires = (!value.state.is_open())
            .then(|| self.expiry_sweep.first_from(value.updated_at.plus_ms(expiration_ms)));
        (times_out, expires)
    }

    fn index(&mut self, id: &Arc<str>, transaction: &Transaction) {
        let value = &transaction.value;
        for producer_id in producer_ids(value) {
            self.by_producer.insert((producer_id, id.clone()));
            self.producer_id_max = self.producer_id_max.max(Some(producer_id));
        }
        self.producer_id_max = self.producer_id_max.max(value.next_id);
        let (times_out, expires) = self.sweep_dates(value);
        self.timeouts.extend(times_out.map(|date| (date, id.clone())));
        self.expiries.extend(expires.map(|date| (date, id.clone())));
        if value.state.prepared().is_some() {
            self.markers.add(transaction.recorded_at, id.clone(), &value.partitions);
        }
    }

    fn unindex(&mut self, id: &Arc<str>, transaction: &Transaction) {
        for producer_id in producer_ids(&transaction.value) {
            self.by_producer.remove(&(producer_id, id.clone()));
        }
        let (times_out, expires) = self.sweep_dates(&transaction.value);
        if let Some(date) = times_out {
            self.timeouts.remove(&(date, id.clone()));
        }
        if let Some(date) = expires {
            self.expiries.remove(&(date, id.clone()));
        }
        self.markers.remove(transaction.recorded_at);
    }

    /// Returns whether another shard holds the same durable state. The epoch that a request may be repeated with is
    /// none of it, as in Kafka.
    pub fn is_same_state(&self, other: &Self) -> bool {
        let durable = |transaction: &Transaction| {
            let value = TransactionValue { last_epoch: None, ..transaction.value.clone() };
            Transaction { value, ..*transaction }
        };
        let theirs = |id: &Arc<str>| other.transactions.get(id).map(durable);
        self.transactions.len() == other.transactions.len()
            && self.transactions.iter().all(|(id, own)| theirs(id) == Some(durable(own)))
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check_invariants(&self) {
        let mut by_producer = BTreeSet::new();
        let mut timeouts = BTreeSet::new();
        let mut expiries = BTreeSet::new();
        let mut prepared_count = 0;
        for (id, transaction) in &self.transactions {
            let value = &transaction.value;
            by_producer.extend(producer_ids(value).map(|producer_id| (producer_id, id.clone())));
            let (times_out, expires) = self.sweep_dates(value);
            timeouts.extend(times_out.map(|date| (date, id.clone())));
            expiries.extend(expires.map(|date| (date, id.clone())));
            prepared_count += usize::from(value.state.prepared().is_some());
            let holds_partitions = value.state.is_open();
            assert!(holds_partitions || value.partitions.is_empty(), "a closed transaction has no partition");
            assert!(Some(transaction.recorded_at) <= self.last_replayed, "a record was replayed");
            let unconfirmed = self.markers.unconfirmed(transaction.recorded_at);
            assert!(
                unconfirmed.is_subset(&value.partitions),
                "markers are owed to partitions of the transaction"
            );
        }
        assert!(by_producer == self.by_producer, "producers are indexed");
        assert!(timeouts == self.timeouts, "every open transaction with a timeout has a date");
        assert!(expiries == self.expiries, "every id that may expire has a date");
        assert!(prepared_count == self.markers.len(), "what is decided and not recorded owes its markers");
        self.markers.check_invariants();
    }
}

/// Returns the producer ids under which a transaction is found, without repeats.
fn producer_ids(value: &TransactionValue) -> impl Iterator<Item = ProducerId> {
    let current = value.producer.id;
    let previous = value.previous_id.filter(|previous| *previous != current);
    [current].into_iter().chain(previous)
}

#[cfg(test)]
mod tests;
