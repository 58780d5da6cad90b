//! One partition of a Kafka log: append, read, producer state, open transactions, and the storage below it.

pub mod batch;
mod config;
mod leader_epochs;
mod log;
mod producers;
mod storage;
mod transactions;

pub use config::{LogConfig, TimestampType};
pub use log::{
    AppendContext, AppendPlan, Appended, AppendedMarker, BatchExtent, CompactionScope, EndTransactionMarker,
    EpochEnd, FoundOffset, Isolation, Log, LogOffsets, MarkerPlan, OffsetQuery, Origin, ReadBatch, ReadError,
    ReadLimits, RecordError,
};
pub use producers::ProducerDescription;
pub use storage::{
    Flush, Memory, Storage, StorageChange, StorageError, StorageWrite, StoredBatch, StoredPartition,
};
pub use transactions::{AbortedTransaction, CompletedTransaction};
