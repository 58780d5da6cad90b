//! The seam to durability: numbered flushes over all logs, each of which is there as a whole or not at all.

use std::fmt;

use bytes::Bytes;
use sharemark_protocol::{Offset, TopicIdPartition};

use crate::batch::BatchHeader;

/// One change of one log that has to become durable.
#[derive(Clone, Debug)]
pub struct StorageWrite {
    /// Whose log.
    pub partition: TopicIdPartition,
    /// What changes.
    pub change: StorageChange,
}

/// What changes in a log.
#[derive(Clone, Debug)]
pub enum StorageChange {
    /// A batch is put at its base offset: a new one, or in place of one that compaction has shrunk.
    Put {
        /// What its header says.
        header: BatchHeader,
        /// The batch.
        bytes: Bytes,
    },
    /// The batch at this base offset goes, emptied by compaction.
    Remove(Offset),
    /// The log begins at this offset; batches wholly below it go.
    Start(Offset),
    /// The log goes with all it holds: its topic was deleted.
    Drop,
}

/// All changes of one step or more, in order, over all logs. It becomes durable as one.
#[derive(Clone, Debug)]
pub struct Flush {
    /// One higher than that of the flush before.
    pub number: u64,
    /// The changes.
    pub writes: Vec<StorageWrite>,
}

/// A batch that storage holds.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// What its header says.
    pub header: BatchHeader,
    /// The batch, where it was asked for.
    pub bytes: Option<Bytes>,
}

/// A log that storage holds.
#[derive(Clone, Debug)]
pub struct StoredPartition {
    /// Whose it is.
    pub partition: TopicIdPartition,
    /// Where it begins.
    pub start: Offset,
    /// The headers of its batches, by offset.
    pub batches: Vec<StoredBatch>,
}

/// A failure of the storage, after which the server stops.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StorageError {
    /// A write or its sync failed.
    Write(String),
    /// What was asked for could not be read.
    Read(String),
    /// What was read is damaged at this place.
    Damaged {
        /// In which log.
        partition: TopicIdPartition,
        /// At which base offset.
        offset: Offset,
    },
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(reason) => write!(f, "the storage cannot be written: {reason}"),
            Self::Read(reason) => write!(f, "the storage cannot be read: {reason}"),
            Self::Damaged { partition, offset } => {
                write!(
                    f,
                    "partition {} of topic {:?} is damaged at offset {offset}",
                    partition.partition, partition.topic_id
                )
            }
        }
    }
}

impl std::error::Error for StorageError {}

/// Keeps logs. It is driven by one thread, which may wait for it; the owner of the logs does not.
pub trait Storage {
    /// Takes a flush. It is durable once `durable` reaches its number.
    ///
    /// # Errors
    ///
    /// When nothing more can be written. Not one write of the flush will be seen after a restart then.
    fn append(&mut self, flush: Flush) -> Result<(), StorageError>;

    /// Returns the number of the newest durable flush, and every one before it is durable too.
    fn durable(&self) -> u64;

    /// Appends the batches of a log from the one that holds `from`, until they have `size_bytes_max` bytes;
    /// at least one, if there is one.
    ///
    /// # Errors
    ///
    /// When the bytes cannot be read or are damaged.
    fn read(
        &self,
        partition: TopicIdPartition,
        from: Offset,
        size_bytes_max: usize,
        out: &mut Vec<StoredBatch>,
    ) -> Result<(), StorageError>;

    /// Takes back every flush after this number, in all logs: the tail that a crash has damaged.
    ///
    /// # Errors
    ///
    /// When that cannot be written.
    fn truncate(&mut self, last_flush: u64) -> Result<(), StorageError>;

    /// Appends every log with the headers of its batches.
    ///
    /// # Errors
    ///
    /// When they cannot be read or are damaged.
    fn list(&self, out: &mut Vec<StoredPartition>) -> Result<(), StorageError>;
}

/// Storage that holds nothing beyond what the logs hold themselves: what it is given is as durable as it
/// will ever be at once, and after a restart there is nothing.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    durable: u64,
}

impl Storage for Memory {
    fn append(&mut self, flush: Flush) -> Result<(), StorageError> {
        assert!(self.durable < flush.number, "flushes come in the order of their numbers");
        self.durable = flush.number;
        Ok(())
    }

    fn durable(&self) -> u64 {
        self.durable
    }

    fn read(
        &self,
        _partition: TopicIdPartition,
        _from: Offset,
        _size_bytes_max: usize,
        _out: &mut Vec<StoredBatch>,
    ) -> Result<(), StorageError> {
        Ok(())
    }

    fn truncate(&mut self, last_flush: u64) -> Result<(), StorageError> {
        self.durable = self.durable.min(last_flush);
        Ok(())
    }

    fn list(&self, _out: &mut Vec<StoredPartition>) -> Result<(), StorageError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
