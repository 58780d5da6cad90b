//! The bugs that tests build in on purpose: what each changes. Nothing of it is in a released program.

use sharemark_log::EndTransactionMarker as LogMarker;
use sharemark_protocol::{ErrorCode, NodeId, Offset, OffsetRange, Producer, ProducerId, SharePartitionKey};
use sharemark_share_coordinator::{
    AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, Change, EndTransactionMarker, RecordState,
    Resolution, ResolvedRange, SharePartition, SharePartitionConfig, StateBatch, StateChange, StatePlan,
    StateRecord, TransactionOutcome,
};
use sharemark_txn_coordinator::{Outcome, TransactionOutcome as Known, TxnCoordinatorShard};

use super::Broker;
use super::input::Now;
use super::operations::OperationId;
use super::share_partitions::share_key;
use super::transactions::AddToTransaction;
use super::write_txn_markers::MarkerSource;
use crate::config::Plant;

impl Broker {
    pub(super) fn is_planted(&self, plant: Plant) -> bool {
        self.cluster.configs.start().plant == Some(plant)
    }

    /// Returns a marker as a planted share coordinator takes it.
    pub(super) fn planted_marker(&self, marker: EndTransactionMarker) -> EndTransactionMarker {
        let epoch = marker.producer.epoch;
        let with = |producer| EndTransactionMarker { producer, ..marker };
        if self.is_planted(Plant::AbortAcknowledges) {
            EndTransactionMarker { outcome: TransactionOutcome::Commit, ..marker }
        } else if self.is_planted(Plant::EpochEquality) || self.is_planted(Plant::CountThenState) {
            with(Producer { id: ProducerId::new(i64::MAX), epoch }) // Nobody's entries are found.
        } else {
            marker
        }
    }

    /// Returns a marker as a planted broker takes it from whoever sends it: as one of before transaction version 2, when
    /// the epoch of a producer's next transaction was the same, and from somebody who knows.
    pub(super) fn planted_version(
        &self,
        marker: LogMarker,
        source: MarkerSource,
    ) -> (LogMarker, MarkerSource) {
        if !self.is_planted(Plant::EpochAtOrBelow) {
            return (marker, source);
        }
        let transaction_version = marker.transaction_version.min(1);
        (LogMarker { transaction_version, ..marker }, MarkerSource::Coordinator)
    }

    /// Returns the marker by which a planted share coordinator looks for what ends: the real one, where the bug lies in
    /// what is stored of that.
    pub(super) fn planted_search(
        &self,
        found: EndTransactionMarker,
        marker: &LogMarker,
    ) -> EndTransactionMarker {
        if self.is_planted(Plant::CountThenState) {
            return EndTransactionMarker { producer: marker.producer, ..found };
        }
        found
    }

    /// Changes what is stored of the end of a transaction.
    pub(super) fn planted_resolution(&self, mut resolution: Resolution) -> Resolution {
        for record in &mut resolution.records {
            let StateChange::Update(update) = &mut record.change else { continue };
            if self.is_planted(Plant::CountThenState) {
                update.batches.clear(); // The count is equal, and the pending state is the highest.
            }
            if self.is_planted(Plant::CompleteCountNotRaised) {
                let finals = update.batches.iter().filter(|batch| batch.state.is_final());
                let count: i64 = finals.map(|batch| batch.range.offset_count()).sum();
                let count = i32::try_from(count).unwrap_or(i32::MAX);
                update.delivery_complete_count = update.delivery_complete_count.map(|known| known - count);
            }
        }
        resolution
    }

    /// Changes records before they are stored.
    pub(super) fn planted_records(&self, records: &[StateRecord]) -> Vec<StateRecord> {
        let mut records = records.to_vec();
        for record in &mut records {
            if let StateChange::Snapshot(snapshot) = &mut record.change
                && self.is_planted(Plant::SnapshotWithoutOwners)
            {
                for batch in snapshot.batches.iter_mut().filter(|batch| batch.staged.is_some()) {
                    *batch = StateBatch { state: RecordState::Available, staged: None, ..*batch };
                }
            }
        }
        records
    }

    /// Returns the call that a planted leader makes before it stages: it only looks the partitions up.
    pub(super) fn planted_join(&self, request: AddToTransaction) -> AddToTransaction {
        AddToTransaction { adds: !self.is_planted(Plant::StageBeforeRegistration), ..request }
    }

    /// Returns whose transaction a planted share coordinator takes for open.
    pub(super) fn planted_ongoing(
        &self,
        ongoing: Result<Producer, ErrorCode>,
        producer: Producer,
    ) -> Result<Producer, ErrorCode> {
        if self.is_planted(Plant::StageBeforeRegistration) { Ok(producer) } else { ongoing }
    }

    /// Cancels the locks of records that are about to be staged, and never sets them again: they are renewed for longer
    /// than any run. Where the stage succeeds nobody sees it.
    pub(super) fn lose_planted_locks(&mut self, now: Now, node: NodeId, id: OperationId, index: usize) {
        if !self.is_planted(Plant::LockLostAfterFailedStage) {
            return;
        }
        let Some(operation) = self.stage_operation(node, id).cloned() else { return };
        let (Some((member, _)), Some(part)) = (&operation.member, operation.parts.get(index)) else { return };
        let key = share_key(&operation.group_id, part.at);
        let config = SharePartitionConfig {
            lock_duration_ms: i64::MAX,
            renew_enabled: true,
            ..self.share_partition_config(&key.group_id)
        };
        let renews = [AcknowledgeType::Renew.id()];
        let renewals = part.batches.iter().map(|(first_offset, last_offset, _)| AcknowledgementBatch {
            first_offset: *first_offset,
            last_offset: *last_offset,
            types: &renews,
        });
        let renewals: Vec<_> = renewals.collect();
        let rules = AcknowledgeRules { type_max: AcknowledgeType::Renew, is_renew_ack: true };
        self.change_share_partition(node, &key, |partition| {
            let mut plan = StatePlan::new();
            let decided = partition.decide_acknowledge(member, &renewals, &rules, &config, &mut plan);
            match decided {
                Ok(()) => ((), partition.apply(now.clock, &config, &plan)),
                Err(_) => ((), Change::default()), // Not all of it is held by who stages it.
            }
        });
    }

    /// Returns a transaction shard as a planted coordinator takes it over: the markers that it owes count as sent.
    pub(super) fn planted_shard(&self, now: Now, mut shard: TxnCoordinatorShard) -> TxnCoordinatorShard {
        if self.is_planted(Plant::MarkersNotResent) {
            while shard.poll_marker(now.clock).is_some() {}
        }
        shard
    }

    /// Makes what is pending in a share partition available, as its member has gone.
    pub(super) fn release_planted(&mut self, now: Now, node: NodeId, key: &SharePartitionKey) {
        if !self.is_planted(Plant::SessionCloseReleasesPending) {
            return;
        }
        let config = self.share_partition_config(&key.group_id);
        self.change_share_partition(node, key, |partition| {
            let mut released = Vec::new();
            for (range, producer) in pending_of(partition) {
                released.push(ResolvedRange { range, producer, state: RecordState::Available });
            }
            let change = match released.is_empty() {
                true => Change::default(),
                false => partition.resolve(now.clock, &config, &released),
            };
            ((), change)
        });
    }

    /// Returns the start that a planted leader has stored: one above what is pending there.
    pub(super) fn planted_start(&self, partition: &SharePartition, start: Offset) -> Offset {
        let first = pending_of(partition).first().map(|(range, _)| *range);
        match first.filter(|range| range.first() == start && self.is_planted(Plant::StartPassesPending)) {
            Some(range) => range.last().next(),
            None => start,
        }
    }

    /// Returns what a planted node believes of a transaction when it reconciles.
    pub(super) fn planted_outcome(&self, outcome: Known) -> Known {
        let is_commit =
            matches!(outcome, Known::Prepared(Outcome::Commit) | Known::Completed(Outcome::Commit));
        if is_commit && self.is_planted(Plant::ReconcileAbortsCommit) {
            return Known::Unknown;
        }
        outcome
    }
}

/// Returns what is pending in a share partition, with its owners.
fn pending_of(partition: &SharePartition) -> Vec<(OffsetRange, Producer)> {
    let mut runs = Vec::new();
    partition.records(sharemark_protocol::Timestamp::from_ms(0), &mut runs);
    runs.iter().filter_map(|run| run.staged.map(|staged| (run.range, staged.producer))).collect()
}
