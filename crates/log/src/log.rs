//! One partition's log.

mod append;
mod compaction;
mod marker;
mod offsets;
mod read;
mod retention;
mod segments;

use std::collections::VecDeque;

use bytes::Bytes;
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, Offset, OffsetRange, Producer, ProducerEpoch, ProducerId, Timestamp,
    TopicIdPartition,
};

use crate::batch::BatchHeader;
use crate::leader_epochs::LeaderEpochs;
use crate::producers::{ProducerDescription, Producers};
use crate::transactions::{AbortedTransaction, Transactions};
use crate::{LogConfig, StorageChange, StorageWrite};
use segments::Segment;

pub use append::{AppendContext, AppendPlan, Appended, Origin, RecordError};
pub use compaction::CompactionScope;
pub use marker::{AppendedMarker, EndTransactionMarker, MarkerPlan};
pub use offsets::{EpochEnd, FoundOffset, OffsetQuery};
pub use read::{BatchExtent, Isolation, LogOffsets, ReadBatch, ReadError, ReadLimits};

/// What a log keeps of each batch beside its bytes, for the accounting of memory.
const ENTRY_SIZE: u64 = size_of::<Entry>() as u64;

/// A batch of the log.
#[derive(Clone, Debug)]
struct Entry {
    header: BatchHeader,
    /// The largest timestamp from the first batch of the segment up to this one.
    max_timestamp_so_far: Timestamp,
    /// The bytes, or `None` if only storage has them.
    bytes: Option<Bytes>,
}

/// One partition's log: its batches, what it knows of producers, and its open transactions.
///
/// Changes come in two steps: `decide_*` judges and changes nothing, then the method that takes the plan
/// cannot be refused. Each change also appends what storage must keep to the caller's list.
#[derive(Clone, Debug)]
pub struct Log {
    partition: TopicIdPartition,
    config: LogConfig,
    batches: VecDeque<Entry>,
    /// Runs of batches that retention deletes as one; the last is the active one.
    segments: VecDeque<Segment>,
    start: Offset,
    end: Offset,
    leader_epochs: LeaderEpochs,
    producers: Producers,
    transactions: Transactions,
    /// The size of all batches.
    size_bytes: u64,
    /// What `size_bytes` was after the last compaction.
    compacted_size_bytes: u64,
    /// Where the last compaction ended; what lies behind it is new.
    compacted_to: Offset,
}

impl Log {
    /// Begins an empty log.
    pub fn new(partition: TopicIdPartition, config: LogConfig) -> Self {
        Self {
            partition,
            config,
            batches: VecDeque::new(),
            segments: VecDeque::new(),
            start: Offset::ZERO,
            end: Offset::ZERO,
            leader_epochs: LeaderEpochs::default(),
            producers: Producers::default(),
            transactions: Transactions::default(),
            size_bytes: 0,
            compacted_size_bytes: 0,
            compacted_to: Offset::ZERO,
        }
    }

    /// Begins a log that is restored from storage, where it starts at `start`. Its batches follow, in order,
    /// through `restore`.
    pub fn restored(partition: TopicIdPartition, config: LogConfig, start: Offset) -> Self {
        Self { start, end: start, ..Self::new(partition, config) }
    }

    /// Returns whose log this is.
    pub const fn partition(&self) -> TopicIdPartition {
        self.partition
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Replaces the configuration; it holds for what comes.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// Returns the lowest offset that can be read.
    pub const fn log_start(&self) -> Offset {
        self.start
    }

    /// Returns the offset that the next record will have.
    pub const fn log_end(&self) -> Offset {
        self.end
    }

    /// Returns where readers of uncommitted records end. A log here has no followers to wait for.
    pub const fn high_watermark(&self) -> Offset {
        self.end
    }

    /// Returns where readers of committed records end: at the first open transaction.
    pub fn last_stable_offset(&self) -> Offset {
        self.transactions.first_open().map_or(self.end, |first| first.max(self.start))
    }

    /// Returns the size of all batches in bytes, as Kafka would report it.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns how much memory the batches take, with what is kept beside them.
    pub fn bytes(&self) -> u64 {
        self.size_bytes + self.batches.len() as u64 * ENTRY_SIZE
    }

    /// Returns how many batches there are.
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Begins the epoch of a new leader, from which on appends of older ones are refused.
    pub fn begin_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.leader_epochs.begin(epoch, self.end);
    }

    /// Returns the epoch of the newest leader, if there has been one.
    pub fn latest_leader_epoch(&self) -> Option<LeaderEpoch> {
        self.leader_epochs.latest()
    }

    /// Returns the highest epoch seen of a producer.
    pub fn producer_epoch(&self, id: ProducerId) -> Option<ProducerEpoch> {
        self.producers.epoch(id)
    }

    /// Returns whether this very producer has a transaction open here, so that a further batch of it needs
    /// no word from the transaction coordinator.
    pub fn has_open_transaction(&self, producer: Producer) -> bool {
        self.producers.epoch(producer.id) == Some(producer.epoch)
            && self.producers.open_since(producer.id).is_some()
    }

    /// Appends a description of each producer, by id.
    pub fn describe_producers(&self, out: &mut Vec<ProducerDescription>) {
        self.producers.describe(out);
    }

    /// Forgets idle producers (`producer.id.expiration.ms`).
    pub fn expire_producers(&mut self, now: Timestamp) {
        self.producers.expire(now, self.config.producer_id_expiration_ms);
    }

    /// Appends the aborted transactions that reach into `range`, in the order of their markers: what a
    /// reader of committed records needs with a read of that range.
    pub fn aborted_transactions(&self, range: OffsetRange, out: &mut Vec<AbortedTransaction>) {
        self.transactions.aborted_within(range, out);
    }

    /// Checks what must be true between two steps.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn check_invariants(&self) {
        assert!(self.start <= self.end, "the log starts before it ends");
        assert!(self.last_stable_offset() <= self.end, "the stable part lies in the log");
        let mut next = None;
        let mut size_bytes = 0;
        for entry in &self.batches {
            let header = &entry.header;
            assert!(next <= Some(header.base_offset), "batches are in order and do not overlap");
            assert!(self.start <= header.last_offset, "no batch lies below the start");
            next = Some(header.last_offset.next());
            size_bytes += u64::from(header.size);
        }
        assert!(next <= Some(self.end), "batches lie below the end");
        assert!(size_bytes == self.size_bytes, "the size is that of the batches");
        let segments_size: u64 = self.segments.iter().map(|segment| segment.size_bytes).sum();
        assert!(segments_size == self.size_bytes, "segments hold all batches");
        self.leader_epochs.check_invariants(self.end);
        self.producers.check_invariants(self.end);
        self.transactions.check_invariants(self.end, &self.producers.open_transactions());
    }

    /// Returns the index of the first batch that ends at `offset` or after it.
    fn index_of(&self, offset: Offset) -> usize {
        self.batches.partition_point(|entry| entry.header.last_offset < offset)
    }

    /// Refuses a leader whose epoch is over.
    fn check_leader_epoch(&self, epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        if Some(epoch) < self.leader_epochs.latest() {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        Ok(())
    }

    fn write(&self, change: StorageChange, writes: &mut Vec<StorageWrite>) {
        writes.push(StorageWrite { partition: self.partition, change });
    }
}

#[cfg(test)]
mod tests;
