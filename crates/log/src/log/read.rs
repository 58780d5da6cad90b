//! Reading of whole batches.

use bytes::Bytes;
use sharemark_protocol::{Offset, OffsetRange, Producer};

use super::Log;

/// How far a reader may see.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Isolation {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset.
    ReadCommitted,
}

/// How much a read may return.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// How many bytes at most.
    pub size_bytes_max: usize,
    /// Whether the first batch comes even if it is larger.
    pub at_least_one: bool,
    /// How far it may see.
    pub isolation: Isolation,
}

/// A batch that was read.
#[derive(Clone, Debug)]
pub struct ReadBatch {
    /// The batch, sharing the log's memory.
    pub bytes: Bytes,
    /// What it covers.
    pub extent: BatchExtent,
}

/// What a batch covers, for those who deal with offsets and not with bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchExtent {
    /// Its offsets, from the first to the last.
    pub range: OffsetRange,
    /// How many records there are; fewer than offsets after compaction.
    pub record_count: u32,
    /// The producer, if it is idempotent or transactional.
    pub producer: Option<Producer>,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// Whether it holds a marker instead of data.
    pub control: bool,
}

/// The offsets that an answer to a reader names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LogOffsets {
    /// The lowest offset that can be read.
    pub log_start: Offset,
    /// Where readers of committed records end.
    pub last_stable_offset: Offset,
    /// Where readers of uncommitted records end.
    pub high_watermark: Offset,
}

/// Why nothing was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadError {
    /// The offset lies below the log's start or beyond its end (OFFSET_OUT_OF_RANGE).
    OffsetOutOfRange,
    /// Storage has the batches from the one that holds this offset, memory has not.
    NotInMemory(Offset),
}

impl Log {
    /// Returns the offsets that an answer to a reader names.
    pub fn offsets(&self) -> LogOffsets {
        LogOffsets {
            log_start: self.start,
            last_stable_offset: self.last_stable_offset(),
            high_watermark: self.high_watermark(),
        }
    }

    /// Returns where a reader with this isolation ends.
    pub fn readable_end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark(),
            Isolation::ReadCommitted => self.last_stable_offset(),
        }
    }

    /// Appends whole batches from the one that holds `from`, or the next after it, and returns their size.
    ///
    /// That may be none: at the end, or if the first is larger than allowed.
    ///
    /// # Errors
    ///
    /// - `OffsetOutOfRange` if `from` lies outside the log. Its end belongs to it.
    /// - `NotInMemory` if the first batch has to come from storage.
    pub fn read(
        &self,
        from: Offset,
        limits: ReadLimits,
        out: &mut Vec<ReadBatch>,
    ) -> Result<usize, ReadError> {
        if from < self.start || self.end < from {
            return Err(ReadError::OffsetOutOfRange);
        }
        let end = self.readable_end(limits.isolation);
        let mut size_bytes = 0;
        for entry in self.batches.range(self.index_of(from)..) {
            let header = &entry.header;
            if end <= header.last_offset {
                break;
            }
            let is_first = size_bytes == 0;
            let size_after = size_bytes + header.size as usize;
            if limits.size_bytes_max < size_after && !(is_first && limits.at_least_one) {
                break;
            }
            let Some(bytes) = &entry.bytes else {
                if is_first {
                    return Err(ReadError::NotInMemory(from));
                }
                break;
            };
            let Some(range) = OffsetRange::new(header.base_offset, header.last_offset) else { break };
            out.push(ReadBatch {
                bytes: bytes.clone(),
                extent: BatchExtent {
                    range,
                    record_count: header.record_count,
                    producer: header.producer,
                    transactional: header.transactional,
                    control: header.control,
                },
            });
            size_bytes = size_after;
        }
        Ok(size_bytes)
    }

    /// Returns how many bytes a reader would find from `from` on, counted up to `size_bytes_max`: whether a
    /// waiting fetch has its minimum.
    pub fn readable_bytes(&self, from: Offset, isolation: Isolation, size_bytes_max: usize) -> usize {
        let end = self.readable_end(isolation);
        let mut size_bytes = 0;
        for entry in self.batches.range(self.index_of(from)..) {
            if end <= entry.header.last_offset || size_bytes_max <= size_bytes {
                break;
            }
            size_bytes += entry.header.size as usize;
        }
        size_bytes
    }
}
