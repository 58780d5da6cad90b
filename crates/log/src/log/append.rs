//! Appending of batches: judged first, then carried out.

use bytes::Bytes;
use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, Timestamp};

use super::{Entry, Log, segments};
use crate::batch::{BatchHeader, CheckedBatch, MarkerRecord, Records, patch_place, patch_timestamp};
use crate::producers::Verdict;
use crate::transactions::CompletedTransaction;
use crate::{StorageChange, StorageWrite, TimestampType};

/// Who appends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A client, through Produce.
    Client,
    /// A coordinator in this server. Its batches carry base sequence 0 each time, so that sequences and
    /// duplicates are not looked at; epochs and transactions are.
    Coordinator,
}

/// With which rights a batch is appended.
#[derive(Clone, Copy, Debug)]
pub struct AppendContext {
    /// Who appends.
    pub origin: Origin,
    /// The epoch in which the appender believes that it leads.
    pub leader_epoch: LeaderEpoch,
    /// Whether the transaction coordinator has confirmed that this partition belongs to the producer's
    /// transaction. Not needed while `Log::has_open_transaction` holds.
    pub verified: bool,
}

/// A decision to append a batch, or not to since it is there already. To be carried out with that batch
/// before the log's producers change.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct AppendPlan {
    outcome: Outcome,
    now: Timestamp,
    leader_epoch: LeaderEpoch,
    producers_revision: u64,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Append,
    Duplicate(Appended),
}

impl AppendPlan {
    /// Returns whether the batch is in the log already, so that nothing will be appended.
    pub const fn is_duplicate(&self) -> bool {
        matches!(self.outcome, Outcome::Duplicate(_))
    }
}

/// Where a batch is in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Appended {
    /// The offset of its first record.
    pub base_offset: Offset,
    /// The offset of its last record.
    pub last_offset: Offset,
    /// The time of the append, where the topic's records have that; for a duplicate its largest timestamp.
    pub log_append_time: Option<Timestamp>,
    /// The lowest offset that can be read.
    pub log_start: Offset,
    /// Whether it was there already and nothing was appended.
    pub is_duplicate: bool,
}

/// Why a record was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordError {
    /// Its index in the batch.
    pub index: i32,
    /// `InvalidRecord` for a missing key, `InvalidTimestamp` for a time too far away.
    pub code: ErrorCode,
}

impl Log {
    /// Judges a batch; changes nothing.
    ///
    /// # Errors
    ///
    /// - `FencedLeaderEpoch` if the log has had a newer leader.
    /// - `MessageTooLarge` or `RecordListTooLarge` if it is larger than a batch or a segment may be.
    /// - `InvalidRecord` if a record has no key and the topic is compacted, `InvalidTimestamp` if its time is
    ///   too far from `now`: `record_errors` says which.
    /// - `InvalidProducerEpoch` if a newer incarnation of the producer has written.
    /// - `OutOfOrderSequenceNumber` if a batch before it is missing.
    /// - `InvalidTxnState` if it is transactional without a transaction, or the other way round.
    /// - `ThrottlingQuotaExceeded` if there are too many producers.
    pub fn decide_append(
        &self,
        now: Timestamp,
        batch: &CheckedBatch,
        context: AppendContext,
    ) -> Result<AppendPlan, ErrorCode> {
        self.check_leader_epoch(context.leader_epoch)?;
        if context.origin == Origin::Client {
            self.check_limits(now, batch)?;
        }
        if i64::MAX - 1 <= self.end.get().saturating_add(batch.header().last_offset.get()) {
            return Err(ErrorCode::KafkaStorageError); // The offsets are used up.
        }
        let header = batch.header();
        let outcome = match header.producer {
            None => Outcome::Append,
            Some(producer) => {
                let count_max = self.config.producer_id_count_max;
                let verdict = self.producers.decide_data(
                    header,
                    producer,
                    context.origin,
                    context.verified,
                    count_max,
                )?;
                match verdict {
                    Verdict::Append => Outcome::Append,
                    Verdict::Duplicate(known) => Outcome::Duplicate(Appended {
                        base_offset: known.first_offset,
                        last_offset: known.last_offset,
                        log_append_time: Some(known.timestamp),
                        log_start: self.start,
                        is_duplicate: true,
                    }),
                }
            }
        };
        let producers_revision = self.producers.revision();
        Ok(AppendPlan { outcome, now, leader_epoch: context.leader_epoch, producers_revision })
    }

    /// Compresses a client's batch as the topic wants it (`compression.type`).
    ///
    /// # Errors
    ///
    /// - `MessageTooLarge` if it is larger than a batch may be now.
    pub fn decide_compression(&self, batch: CheckedBatch) -> Result<CheckedBatch, ErrorCode> {
        let wanted = self.config.compression.filter(|wanted| *wanted != batch.header().compression);
        let Some(wanted) = wanted else { return Ok(batch) };
        let batch = batch.recompressed(wanted, self.config.decompressed_size_bytes_max)?;
        if self.config.message_size_bytes_max < batch.header().size {
            return Err(ErrorCode::MessageTooLarge);
        }
        Ok(batch)
    }

    /// Carries out a decision about `batch`. Nothing is appended if it is there already.
    ///
    /// # Panics
    ///
    /// If the log's producers have changed since the decision.
    pub fn append(
        &mut self,
        plan: AppendPlan,
        batch: CheckedBatch,
        writes: &mut Vec<StorageWrite>,
    ) -> Appended {
        let AppendPlan { outcome, now, leader_epoch, producers_revision } = plan;
        match outcome {
            Outcome::Duplicate(appended) => return appended,
            Outcome::Append => {}
        }
        if let Some(producer) = batch.header().producer {
            assert!(
                producers_revision == self.producers.revision(),
                "a plan is carried out before the next one"
            );
            let header = self.put(now, leader_epoch, batch, writes);
            if self.producers.apply_data(&header, producer) {
                self.transactions.begin(producer.id, header.base_offset);
            }
            return self.appended(&header);
        }
        let header = self.put(now, leader_epoch, batch, writes);
        self.appended(&header)
    }

    /// Appends the records that a topic's configuration refuses in `batch`, after `decide_append` has said
    /// `InvalidRecord` or `InvalidTimestamp`.
    pub fn record_errors(&self, now: Timestamp, batch: &CheckedBatch, out: &mut Vec<RecordError>) {
        let bytes = Bytes::copy_from_slice(batch.bytes());
        let Ok(records) = Records::read(&bytes, self.config.decompressed_size_bytes_max) else { return };
        for (index, record) in (0_i32..).zip(&records) {
            let Ok(record) = record else { return };
            if self.config.compact && record.key.is_none() {
                out.push(RecordError { index, code: ErrorCode::InvalidRecord });
            } else if self.is_time_refused(now, record.timestamp) {
                out.push(RecordError { index, code: ErrorCode::InvalidTimestamp });
            }
        }
    }

    /// Takes a batch from storage at recovery, as it was appended. What looks wrong in it is passed over: a
    /// log is never refused for what a producer or a coordinator once did.
    ///
    /// # Errors
    ///
    /// - `CorruptMessage` or `InvalidRecord` if that is no batch, or it lies below what is there.
    pub fn restore(&mut self, now: Timestamp, bytes: Bytes) -> Result<(), ErrorCode> {
        let view = crate::batch::BatchView::new(&bytes)?;
        let header = view.header()?;
        // The first batch may begin below the log's start.
        let from = if self.batches.is_empty() { header.last_offset } else { header.base_offset };
        if from < self.end {
            return Err(ErrorCode::InvalidRecord);
        }
        let marker = match header.control {
            true => Records::read(&bytes, self.config.decompressed_size_bytes_max)?
                .iter()
                .find_map(|record| MarkerRecord::read(&record.ok()?)),
            false => None,
        };
        self.push(now, header, bytes);
        let Some(producer) = header.producer else { return Ok(()) };
        if self.producers.epoch(producer.id).is_some_and(|epoch| producer.epoch < epoch) {
            tracing::warn!(%header.base_offset, "a producer's epoch goes backward in the log");
        }
        match marker {
            Some(marker) => drop(self.apply_marker(&header, producer, marker)),
            // Compaction has emptied it, and kept it for its epoch.
            None if header.control => self.producers.apply_empty_marker(producer, header.max_timestamp),
            None => {
                if self.producers.apply_data(&header, producer) {
                    self.transactions.begin(producer.id, header.base_offset);
                }
            }
        }
        Ok(())
    }

    fn check_limits(&self, now: Timestamp, batch: &CheckedBatch) -> Result<(), ErrorCode> {
        if self.config.message_size_bytes_max < batch.header().size {
            return Err(ErrorCode::MessageTooLarge);
        }
        if self.config.segment_size_bytes_max < u64::from(batch.header().size) {
            return Err(ErrorCode::RecordListTooLarge);
        }
        let mut timestamps = batch.min_timestamp.into_iter().chain([batch.max_timestamp]);
        if timestamps.any(|timestamp| self.is_time_refused(now, timestamp)) {
            return Err(ErrorCode::InvalidTimestamp);
        }
        if self.config.compact && batch.has_null_key {
            return Err(ErrorCode::InvalidRecord);
        }
        Ok(())
    }

    fn is_time_refused(&self, now: Timestamp, timestamp: Timestamp) -> bool {
        match self.config.timestamp_type {
            TimestampType::LogAppendTime => false,
            TimestampType::CreateTime => {
                timestamp.ms() != -1
                    && (self.config.timestamp_before_max_ms < now.ms_since(timestamp)
                        || self.config.timestamp_after_max_ms < timestamp.ms_since(now))
            }
        }
    }

    /// Writes a batch at the end of the log, whatever it says. Returns its header as written.
    pub(super) fn put(
        &mut self,
        now: Timestamp,
        leader_epoch: LeaderEpoch,
        batch: CheckedBatch,
        writes: &mut Vec<StorageWrite>,
    ) -> BatchHeader {
        let mut header = *batch.header();
        let (log_append_time, max_timestamp) = match self.config.timestamp_type {
            TimestampType::LogAppendTime => (true, now),
            TimestampType::CreateTime => (false, batch.max_timestamp),
        };
        let mut bytes = batch.into_bytes();
        patch_place(&mut bytes, self.end, leader_epoch);
        if (header.log_append_time, header.max_timestamp) != (log_append_time, max_timestamp) {
            patch_timestamp(&mut bytes, log_append_time, max_timestamp);
            (header.log_append_time, header.max_timestamp) = (log_append_time, max_timestamp);
        }
        let offset_delta = header.last_offset.get();
        header.base_offset = self.end;
        header.last_offset = self.end.plus(offset_delta);
        header.leader_epoch = Some(leader_epoch);
        let bytes = bytes.freeze();
        self.push(now, header, bytes.clone());
        self.write(StorageChange::Put { header, bytes }, writes);
        header
    }

    fn push(&mut self, now: Timestamp, header: BatchHeader, bytes: Bytes) {
        if let Some(epoch) = header.leader_epoch {
            self.leader_epochs.begin(epoch, header.base_offset);
        }
        let max_timestamp_so_far = segments::add(&mut self.segments, &header, now, &self.config);
        self.batches.push_back(Entry { header, max_timestamp_so_far, bytes: Some(bytes) });
        self.size_bytes += u64::from(header.size);
        self.end = header.last_offset.next();
    }

    /// Applies a marker that is in the log.
    pub(super) fn apply_marker(
        &mut self,
        header: &BatchHeader,
        producer: sharemark_protocol::Producer,
        marker: MarkerRecord,
    ) -> Option<CompletedTransaction> {
        let first_offset =
            self.producers.apply_marker(producer, marker.coordinator_epoch, header.max_timestamp)?;
        let completed = CompletedTransaction {
            producer_id: producer.id,
            first_offset,
            last_offset: header.last_offset,
            committed: marker.committed,
        };
        self.transactions.complete(&completed);
        Some(completed)
    }

    fn appended(&self, header: &BatchHeader) -> Appended {
        Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset,
            log_append_time: match self.config.timestamp_type {
                TimestampType::LogAppendTime => Some(header.max_timestamp),
                TimestampType::CreateTime => None,
            },
            log_start: self.start,
            is_duplicate: false,
        }
    }
}
