//! From the properties in force for a topic to the configuration of its logs.

use sharemark_log::batch::Compression;
use sharemark_log::{LogConfig, TimestampType};

use super::cluster::is_internal;
use crate::config::{
    Compression as ConfiguredCompression, DynamicConfigs, TimestampType as ConfiguredTimestampType,
};

/// How many producers one partition remembers. Kafka sets no limit but their expiry.
const PRODUCER_ID_COUNT_MAX: usize = 100_000;

/// How many bytes a compacted log grows before it is compacted again.
const COMPACTION_DIRTY_BYTES_MIN: u64 = 1 << 20;

/// Returns the configuration in force for the logs of a topic.
pub(super) fn log_config(configs: &DynamicConfigs, topic: &str) -> LogConfig {
    let settings = configs.topic(topic);
    let unsigned = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    LogConfig {
        segment_size_bytes_max: unsigned(i64::from(settings.segment_bytes)),
        // As in Kafka a record that is to be compacted in time is not left in the active segment.
        segment_ms: if settings.compact {
            settings.segment_ms.min(settings.max_compaction_lag_ms)
        } else {
            settings.segment_ms
        },
        retention_bytes: settings.retention_bytes.map(unsigned),
        retention_ms: settings.retention_ms,
        compact: settings.compact,
        delete: settings.delete,
        compaction_dirty_bytes_min: COMPACTION_DIRTY_BYTES_MIN,
        delete_retention_ms: settings.delete_retention_ms,
        min_compaction_lag_ms: settings.min_compaction_lag_ms,
        max_compaction_lag_ms: settings.max_compaction_lag_ms,
        min_cleanable_dirty_ratio: settings.min_cleanable_dirty_ratio,
        compression: codec(settings.compression),
        timestamp_type: match settings.timestamp_type {
            ConfiguredTimestampType::CreateTime => TimestampType::CreateTime,
            ConfiguredTimestampType::LogAppendTime => TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: settings.timestamp_before_max_ms,
        timestamp_after_max_ms: settings.timestamp_after_max_ms,
        // Coordinators write what their state needs; the bound is for clients.
        message_size_bytes_max: if is_internal(topic) {
            u32::MAX
        } else {
            u32::try_from(settings.max_message_bytes).unwrap_or(0)
        },
        producer_id_expiration_ms: configs.broker().producer_id_expiration_ms,
        producer_id_count_max: PRODUCER_ID_COUNT_MAX,
        decompressed_size_bytes_max: usize::try_from(settings.max_decompressed_message_bytes).unwrap_or(0),
    }
}

fn codec(configured: ConfiguredCompression) -> Option<Compression> {
    match configured {
        ConfiguredCompression::Producer => None,
        ConfiguredCompression::Uncompressed => Some(Compression::None),
        ConfiguredCompression::Gzip => Some(Compression::Gzip),
        ConfiguredCompression::Snappy => Some(Compression::Snappy),
        ConfiguredCompression::Lz4 => Some(Compression::Lz4),
        ConfiguredCompression::Zstd => Some(Compression::Zstd),
    }
}
