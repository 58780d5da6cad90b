//! The control batches that end transactions.

use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, Producer, Timestamp};

use super::Log;
use crate::StorageWrite;
use crate::batch::{MarkerRecord, end_transaction_marker};
use crate::transactions::CompletedTransaction;

/// The end of a transaction, as a coordinator tells it to a partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndTransactionMarker {
    /// The producer with the epoch to write: from transaction version 2 on one above that of the data.
    pub producer: Producer,
    /// Whether the transaction is committed; it is aborted otherwise.
    pub committed: bool,
    /// The leader epoch of the transaction log's partition.
    pub coordinator_epoch: i32,
    /// The transaction version that the marker was written under; 0 where the sender did not say.
    pub transaction_version: i8,
}

/// A decision to append a marker. To be carried out before the log's producers change.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct MarkerPlan {
    marker: EndTransactionMarker,
    now: Timestamp,
    leader_epoch: LeaderEpoch,
    producers_revision: u64,
}

/// A marker in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AppendedMarker {
    /// Its offset.
    pub offset: Offset,
    /// The transaction that it ended, if one was open.
    pub completed: Option<CompletedTransaction>,
}

impl Log {
    /// Judges a marker; changes nothing. Whether a transaction is open does not matter.
    ///
    /// # Errors
    ///
    /// - `FencedLeaderEpoch` if the log has had a newer leader.
    /// - `InvalidProducerEpoch` if the producer's epoch is higher, or, from transaction version 2 on, equal
    ///   while a transaction is open: that marker belongs to an earlier one.
    /// - `TransactionCoordinatorFenced` if a newer coordinator has sent a marker for this producer.
    /// - `ThrottlingQuotaExceeded` if there are too many producers.
    pub fn decide_end_transaction_marker(
        &self,
        now: Timestamp,
        marker: EndTransactionMarker,
        leader_epoch: LeaderEpoch,
    ) -> Result<MarkerPlan, ErrorCode> {
        self.check_leader_epoch(leader_epoch)?;
        self.producers.decide_marker(
            marker.producer,
            marker.coordinator_epoch,
            marker.transaction_version,
            self.config.producer_id_count_max,
        )?;
        Ok(MarkerPlan { marker, now, leader_epoch, producers_revision: self.producers.revision() })
    }

    /// Appends a marker, which ends the producer's transaction and raises its epoch.
    ///
    /// # Panics
    ///
    /// If the log's producers have changed since the decision.
    pub fn append_end_transaction_marker(
        &mut self,
        plan: MarkerPlan,
        writes: &mut Vec<StorageWrite>,
    ) -> AppendedMarker {
        let MarkerPlan { marker, now, leader_epoch, producers_revision } = plan;
        assert!(producers_revision == self.producers.revision(), "a plan is carried out before the next one");
        let EndTransactionMarker { producer, committed, coordinator_epoch, .. } = marker;
        let batch = end_transaction_marker(producer, committed, coordinator_epoch, now);
        let header = self.put(now, leader_epoch, batch, writes);
        let record = MarkerRecord { committed, coordinator_epoch };
        let completed = self.apply_marker(&header, producer, record);
        AppendedMarker { offset: header.base_offset, completed }
    }
}
