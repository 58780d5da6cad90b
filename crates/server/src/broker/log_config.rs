//! From the properties in force for a topic to the configuration of its logs.

use sharemark_log::{LogConfig, TimestampType};

use super::cluster::is_internal;
use crate::config::{DynamicConfigs, TimestampType as ConfiguredTimestampType};

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
        segment_ms: settings.segment_ms,
        retention_bytes: settings.retention_bytes.map(unsigned),
        retention_ms: settings.retention_ms,
        compact: settings.compact,
        delete: settings.delete,
        compaction_dirty_bytes_min: COMPACTION_DIRTY_BYTES_MIN,
        delete_retention_ms: settings.delete_retention_ms,
        min_compaction_lag_ms: settings.min_compaction_lag_ms,
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
