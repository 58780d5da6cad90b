//! Appends to logs, and what comes of them: writes to flush, requests to wake, memory in use.

use sharemark_log::batch::{BatchBuilder, CheckedBatch};
use sharemark_log::{AppendContext, Appended, Log, Origin, RecordError, StorageWrite};
use sharemark_protocol::{CoordinatorRecord, ErrorCode, NodeId, Offset, Producer, TopicIdPartition};

use super::Broker;
use super::input::Now;

impl Broker {
    /// Changes a log, and keeps the books on memory and on who has to be woken.
    pub(super) fn with_log<T>(
        &mut self,
        at: TopicIdPartition,
        change: impl FnOnce(&mut Log, &mut Vec<StorageWrite>) -> T,
    ) -> Option<T> {
        let partition = self.cluster.partition_mut(at)?;
        let bytes_before = partition.log.bytes();
        let outcome = change(&mut partition.log, &mut self.writes);
        let bytes_after = partition.log.bytes();
        self.cluster.stored_bytes = self.cluster.stored_bytes + bytes_after - bytes_before;
        self.changed.insert(at);
        Some(outcome)
    }

    /// Appends a client's batch to a partition that its node leads.
    ///
    /// # Errors
    ///
    /// - `RequestTimedOut` if `node` is cut off, whose replicas could not follow.
    /// - `KafkaStorageError` if all logs together have reached the memory limit; a producer tries again.
    /// - What the log refuses; `record_errors` then says which records, where it is for some of them.
    pub(super) fn append_produced(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        batch: CheckedBatch,
        verified: bool,
        record_errors: &mut Vec<RecordError>,
    ) -> Result<Appended, ErrorCode> {
        if self.is_cut_off(node) {
            return Err(ErrorCode::RequestTimedOut);
        }
        self.meet_append(at)?;
        let partition = self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let context =
            AppendContext { origin: Origin::Client, leader_epoch: partition.leader_epoch, verified };
        let decided = partition.log.decide_append(now.clock, &batch, context);
        if matches!(decided, Err(ErrorCode::InvalidRecord | ErrorCode::InvalidTimestamp)) {
            partition.log.record_errors(now.clock, &batch, record_errors);
        }
        let plan = decided?;
        let batch = if plan.is_duplicate() { batch } else { partition.log.decide_compression(batch)? };
        let size_bytes = u64::try_from(batch.size()).unwrap_or(u64::MAX);
        let limit_bytes = self.cluster.configs.start().memory_limit_bytes;
        if !plan.is_duplicate() && limit_bytes < self.cluster.stored_bytes.saturating_add(size_bytes) {
            return Err(ErrorCode::KafkaStorageError);
        }
        self.with_log(at, |log, writes| log.append(plan, batch, writes))
            .ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Appends what a coordinator has decided, as one batch; with a producer as part of its transaction.
    ///
    /// The caller replays the records next, starting at the returned offset.
    ///
    /// # Errors
    ///
    /// - `CoordinatorNotAvailable` if `node` is cut off, whose replicas could not follow.
    /// - `NotCoordinator` if the partition is gone.
    /// - What the log refuses: a fenced leader, a producer's epoch.
    pub(super) fn append_records(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        records: &[CoordinatorRecord],
        producer: Option<Producer>,
    ) -> Result<Offset, ErrorCode> {
        assert!(!records.is_empty(), "there is something to append");
        if self.is_cut_off(node) {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let mut builder = BatchBuilder::new();
        if let Some(producer) = producer {
            builder = builder.producer(producer, 0).transactional();
        }
        for record in records {
            builder.push(now.clock, Some(&record.key), record.value.as_deref(), &[]);
        }
        let batch = builder.build_checked();
        self.meet_append(at).map_err(coordinator_append_error)?;
        let partition = self.cluster.partition(at).ok_or(ErrorCode::NotCoordinator)?;
        let context = AppendContext {
            origin: Origin::Coordinator,
            leader_epoch: partition.leader_epoch,
            verified: true,
        };
        let plan =
            partition.log.decide_append(now.clock, &batch, context).map_err(coordinator_append_error)?;
        let appended = self.with_log(at, |log, writes| log.append(plan, batch, writes));
        self.note_internal_append(at);
        appended.map(|appended| appended.base_offset).ok_or(ErrorCode::NotCoordinator)
    }
}

/// Returns what a coordinator says when its log refuses a record: as Kafka's, a word after which a client asks again.
const fn coordinator_append_error(error: ErrorCode) -> ErrorCode {
    if matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError) {
        return ErrorCode::NotCoordinator;
    }
    if matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::RequestTimedOut
    ) {
        return ErrorCode::CoordinatorNotAvailable;
    }
    error
}
