//! What a log may be told by its topic's configuration.

use crate::batch::Compression;

/// Which time a record has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimestampType {
    /// The time that the producer gave it.
    CreateTime,
    /// The time of its append.
    LogAppendTime,
}

/// The configuration of one log; may be replaced while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is closed before it would grow beyond this.
    pub segment_size_bytes_max: u64,
    /// `segment.ms`: a segment is closed once it is this old.
    pub segment_ms: i64,
    /// `retention.bytes`: closed segments go while the log is larger; `None` for -1, without limit.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`: segments go once their youngest record is older; `None` for -1, without limit.
    pub retention_ms: Option<i64>,
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `delete.retention.ms`: how long compaction keeps tombstones and markers after their last use.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: how old a record must be before compaction may remove it.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: how long a record may wait for compaction at most, once its segment is closed.
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`: which part of what may be compacted must be new for a compaction to be due.
    pub min_cleanable_dirty_ratio: f64,
    /// How many bytes must have been appended since the last compaction for another to be due.
    pub compaction_dirty_bytes_min: u64,
    /// `compression.type`: how a client's records are compressed; `None` for `producer`, as they came.
    pub compression: Option<Compression>,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far before the broker's time a record's may lie.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far after the broker's time a record's may lie.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`: the size of the largest batch that a client may append.
    pub message_size_bytes_max: u32,
    /// `producer.id.expiration.ms`: how long an idle producer is remembered.
    pub producer_id_expiration_ms: i64,
    /// How many producers are remembered at most; a new one beyond them is refused.
    pub producer_id_count_max: usize,
    /// How many bytes compaction decompresses for one batch at most; a larger batch stays as it is.
    pub decompressed_size_bytes_max: usize,
}
