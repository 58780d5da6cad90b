//! From the decided end of a transaction to the recorded one: its markers are handed out and confirmed.

use sharemark_protocol::{Timestamp, TopicPartition};

use super::{Transaction, TxnCoordinatorShard};
use crate::markers::{Marker, MarkerKey, MarkerProgress};
use crate::record::TransactionRecord;

impl TxnCoordinatorShard {
    /// Hands out the markers that one transaction owes, each once until it fails. Call until it returns `None`.
    pub fn poll_marker(&mut self, now: Timestamp) -> Option<Marker> {
        let (prepared_at, transactional_id, partitions) = self.markers.poll_markers(now)?;
        let value = &self.transactions.get(&transactional_id)?.value;
        Some(Marker {
            producer: value.producer,
            outcome: value.state.prepared()?,
            transaction_version: value.client_version,
            key: MarkerKey { transactional_id, prepared_at, coordinator_epoch: self.coordinator_epoch },
            partitions,
        })
    }

    /// Notes that a marker is written, or that its partition exists no more. Answers that come late or twice
    /// change nothing.
    pub fn confirm_marker(&mut self, key: &MarkerKey, partition: &TopicPartition) -> MarkerProgress {
        if key.coordinator_epoch != self.coordinator_epoch {
            return MarkerProgress::Stale;
        }
        self.markers.confirm(key.prepared_at, partition)
    }

    /// Notes that a marker was not written, or that nobody knows: it is handed out again after a while.
    pub fn fail_marker(
        &mut self,
        now: Timestamp,
        key: &MarkerKey,
        partition: &TopicPartition,
    ) -> MarkerProgress {
        if key.coordinator_epoch != self.coordinator_epoch {
            return MarkerProgress::Stale;
        }
        self.markers.fail(key.prepared_at, partition, self.retry_at(now))
    }

    /// Hands out a transaction that has every marker, so that its end can be recorded with
    /// [`Self::decide_complete`]; also one that owed none. Call until it returns `None`.
    pub fn poll_completion(&mut self, now: Timestamp) -> Option<MarkerKey> {
        let (prepared_at, transactional_id) = self.markers.poll_completion(now)?;
        Some(MarkerKey { transactional_id, prepared_at, coordinator_epoch: self.coordinator_epoch })
    }

    /// Decides the record of a transaction's end; changes nothing. `None` while markers are owed, or when the end
    /// is recorded already.
    pub fn decide_complete(&self, now: Timestamp, key: &MarkerKey) -> Option<TransactionRecord> {
        if key.coordinator_epoch != self.coordinator_epoch || !self.markers.is_complete(key.prepared_at) {
            return None;
        }
        let Transaction { value, recorded_at } = self.transactions.get(&key.transactional_id)?;
        assert!(*recorded_at == key.prepared_at, "markers are owed by the last record of a transaction");
        let value = Some(value.completed(now)?);
        Some(TransactionRecord { transactional_id: key.transactional_id.clone(), value })
    }

    /// Notes that the record of [`Self::decide_complete`] was not appended: it is handed out again after a while.
    pub fn fail_completion(&mut self, now: Timestamp, key: &MarkerKey) {
        if key.coordinator_epoch == self.coordinator_epoch {
            self.markers.fail_completion(key.prepared_at, self.retry_at(now));
        }
    }

    fn retry_at(&self, now: Timestamp) -> Timestamp {
        now.plus_ms(i64::from(self.config.retry_backoff_ms))
    }
}
