//! What is in force, as typed values: read once per change, not once per request.

use std::sync::Arc;

use sharemark_protocol::TxnShareDraft;

use super::value::{AutoOffsetReset, ConfigValue};

/// Answers the value in force of a property; `None` when it has none.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<ConfigValue>;

/// Reads a value of one type; a property that has no value reads as zero, false or empty.
trait FromConfig {
    fn from_config(value: Option<ConfigValue>) -> Self;
}

impl FromConfig for bool {
    fn from_config(value: Option<ConfigValue>) -> Self {
        matches!(value, Some(ConfigValue::Boolean(true)))
    }
}

impl FromConfig for i64 {
    fn from_config(value: Option<ConfigValue>) -> Self {
        match value {
            Some(ConfigValue::Number(number)) => number,
            _ => 0,
        }
    }
}

impl FromConfig for f64 {
    fn from_config(value: Option<ConfigValue>) -> Self {
        match value {
            Some(ConfigValue::Double(number)) => number,
            _ => 0.0,
        }
    }
}

impl FromConfig for i32 {
    fn from_config(value: Option<ConfigValue>) -> Self {
        Self::try_from(i64::from_config(value)).unwrap_or(Self::MAX)
    }
}

impl FromConfig for Arc<str> {
    fn from_config(value: Option<ConfigValue>) -> Self {
        match value {
            Some(ConfigValue::Text(text)) => text.into(),
            _ => "".into(),
        }
    }
}

impl FromConfig for Vec<String> {
    fn from_config(value: Option<ConfigValue>) -> Self {
        match value {
            Some(ConfigValue::List(items)) => items,
            _ => Self::new(),
        }
    }
}

macro_rules! settings {
    ($(#[$doc:meta])* $struct:ident { $($field:ident: $type:ty = $property:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub struct $struct {
            $(
                #[doc = concat!("Holds `", $property, "`.")]
                pub $field: $type,
            )*
        }

        impl $struct {
            pub(super) fn read(lookup: Lookup<'_>) -> Self {
                Self { $($field: FromConfig::from_config(lookup($property)),)* }
            }

            #[cfg(test)]
            pub(super) const PROPERTIES: &[&str] = &[$($property,)*];
        }
    };
}

settings! {
    /// What is in force for the broker as a whole. Min-ISR and replication factors are left out: they are
    /// accepted and ignored.
    BrokerSettings {
        auto_create_topics_enable: bool = "auto.create.topics.enable",
        delete_topic_enable: bool = "delete.topic.enable",
        num_partitions: i32 = "num.partitions",
        connections_max_idle_ms: i64 = "connections.max.idle.ms",
        max_connections: i32 = "max.connections",
        socket_request_max_bytes: i32 = "socket.request.max.bytes",
        max_decompressed_message_bytes: i32 = "max.decompressed.message.bytes",
        fetch_max_bytes: i32 = "fetch.max.bytes",
        max_incremental_fetch_session_cache_slots: i32 = "max.incremental.fetch.session.cache.slots",
        max_request_partition_size_limit: i32 = "max.request.partition.size.limit",
        log_retention_check_interval_ms: i64 = "log.retention.check.interval.ms",
        log_cleaner_enable: bool = "log.cleaner.enable",
        log_cleaner_backoff_ms: i64 = "log.cleaner.backoff.ms",
        producer_id_expiration_ms: i64 = "producer.id.expiration.ms",
        producer_id_expiration_check_interval_ms: i64 = "producer.id.expiration.check.interval.ms",
        group_share_session_timeout_ms: i32 = "group.share.session.timeout.ms",
        group_share_min_session_timeout_ms: i32 = "group.share.min.session.timeout.ms",
        group_share_max_session_timeout_ms: i32 = "group.share.max.session.timeout.ms",
        group_share_heartbeat_interval_ms: i32 = "group.share.heartbeat.interval.ms",
        group_share_min_heartbeat_interval_ms: i32 = "group.share.min.heartbeat.interval.ms",
        group_share_max_heartbeat_interval_ms: i32 = "group.share.max.heartbeat.interval.ms",
        group_share_assignment_interval_ms: i32 = "group.share.assignment.interval.ms",
        group_share_initialize_retry_interval_ms: i32 = "group.share.initialize.retry.interval.ms",
        group_share_max_size: i32 = "group.share.max.size",
        group_share_max_share_sessions: i32 = "group.share.max.share.sessions",
        group_share_record_lock_duration_ms: i32 = "group.share.record.lock.duration.ms",
        group_share_max_record_lock_duration_ms: i32 = "group.share.max.record.lock.duration.ms",
        group_share_delivery_count_limit: i32 = "group.share.delivery.count.limit",
        group_share_partition_max_record_locks: i32 = "group.share.partition.max.record.locks",
        share_state_topic_num_partitions: i32 = "share.coordinator.state.topic.num.partitions",
        share_state_topic_segment_bytes: i32 = "share.coordinator.state.topic.segment.bytes",
        share_state_topic_prune_interval_ms: i32 = "share.coordinator.state.topic.prune.interval.ms",
        share_snapshot_update_records_per_snapshot: i32 =
            "share.coordinator.snapshot.update.records.per.snapshot",
        share_cold_partition_snapshot_interval_ms: i32 =
            "share.coordinator.cold.partition.snapshot.interval.ms",
        share_write_timeout_ms: i32 = "share.coordinator.write.timeout.ms",
        transaction_max_timeout_ms: i32 = "transaction.max.timeout.ms",
        transaction_partition_verification_enable: bool = "transaction.partition.verification.enable",
        transaction_two_phase_commit_enable: bool = "transaction.two.phase.commit.enable",
        transaction_state_log_num_partitions: i32 = "transaction.state.log.num.partitions",
        transaction_state_log_segment_bytes: i32 = "transaction.state.log.segment.bytes",
        transaction_abort_timed_out_interval_ms: i32 =
            "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        transaction_remove_expired_interval_ms: i32 =
            "transaction.remove.expired.transaction.cleanup.interval.ms",
        transactional_id_expiration_ms: i32 = "transactional.id.expiration.ms",
        add_partitions_to_txn_retry_backoff_ms: i32 = "add.partitions.to.txn.retry.backoff.ms",
        offsets_topic_num_partitions: i32 = "offsets.topic.num.partitions",
        offsets_topic_segment_bytes: i32 = "offsets.topic.segment.bytes",
        offsets_retention_minutes: i32 = "offsets.retention.minutes",
        offsets_retention_check_interval_ms: i64 = "offsets.retention.check.interval.ms",
        offset_metadata_max_bytes: i32 = "offset.metadata.max.bytes",
        group_initial_rebalance_delay_ms: i32 = "group.initial.rebalance.delay.ms",
        group_min_session_timeout_ms: i32 = "group.min.session.timeout.ms",
        group_max_session_timeout_ms: i32 = "group.max.session.timeout.ms",
        group_max_size: i32 = "group.max.size",
        group_consumer_session_timeout_ms: i32 = "group.consumer.session.timeout.ms",
        group_consumer_heartbeat_interval_ms: i32 = "group.consumer.heartbeat.interval.ms",
        group_consumer_assignment_interval_ms: i32 = "group.consumer.assignment.interval.ms",
        group_consumer_max_size: i32 = "group.consumer.max.size",
        group_consumer_assignors: Vec<String> = "group.consumer.assignors",
        group_consumer_migration_policy: Arc<str> = "group.consumer.migration.policy",
        group_coordinator_rebalance_protocols: Vec<String> = "group.coordinator.rebalance.protocols",
        group_consumer_regex_refresh_interval_ms: i32 = "group.consumer.regex.refresh.interval.ms",
        dlq_auto_create_topics_enable: bool = "errors.deadletterqueue.auto.create.topics.enable",
        dlq_topic_name_prefix: Arc<str> = "errors.deadletterqueue.topic.name.prefix",
        share_txn_abort_ignores_delivery_limit: bool = "share.txn.abort.ignores.delivery.limit",
        share_txn_abort_target_text: Arc<str> = "share.txn.abort.target",
    }
}

/// What an aborted acknowledgement's record becomes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AbortTarget {
    /// Available to any member.
    Available,
    /// Acquired by its member again, for the rest of the lock.
    Acquired,
}

impl BrokerSettings {
    /// Returns `share.txn.abort.target`.
    pub fn share_txn_abort_target(&self) -> AbortTarget {
        if &*self.share_txn_abort_target_text == "acquired" {
            AbortTarget::Acquired
        } else {
            AbortTarget::Available
        }
    }
}

/// A wire form of transactional acknowledgements.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TxnDialect {
    /// TxnShareAcknowledge at 95.
    K95,
    /// TxnShareAcknowledge at 94.
    K94,
    /// TxnShareAcknowledge at 93.
    K93,
    /// The early text's pair at 32025 and 32093.
    Seed,
}

impl TxnDialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::K95, Self::K94, Self::K93, Self::Seed];

    /// Returns the form in which a draft is written.
    pub const fn of(draft: TxnShareDraft) -> Self {
        match draft {
            TxnShareDraft::K93 => Self::K93,
            TxnShareDraft::K94 => Self::K94,
        }
    }

    /// Returns the numbers of its requests.
    pub const fn keys(self) -> &'static [i16] {
        match self {
            Self::K95 => &[95],
            Self::K94 => &[94],
            Self::K93 => &[93],
            Self::Seed => &[32025, 32093],
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "k95" => Some(Self::K95),
            "k94" => Some(Self::K94),
            "k93" => Some(Self::K93),
            "seed" => Some(Self::Seed),
            _ => None,
        }
    }
}

/// Whose clock a record's timestamp is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's.
    LogAppendTime,
}

/// How a topic's records are compressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Compression {
    /// As the producer sent them.
    Producer,
    /// Not at all.
    Uncompressed,
    /// With gzip.
    Gzip,
    /// With snappy.
    Snappy,
    /// With LZ4.
    Lz4,
    /// With zstd.
    Zstd,
}

/// What is in force for a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopicSettings {
    /// Whether `cleanup.policy` has `compact`.
    pub compact: bool,
    /// Whether `cleanup.policy` has `delete`.
    pub delete: bool,
    /// Holds `retention.ms`; `None` keeps records for ever.
    pub retention_ms: Option<i64>,
    /// Holds `retention.bytes`; `None` sets no limit.
    pub retention_bytes: Option<i64>,
    /// Holds `segment.bytes`.
    pub segment_bytes: i32,
    /// Holds `segment.ms`.
    pub segment_ms: i64,
    /// Holds `max.message.bytes`.
    pub max_message_bytes: i32,
    /// Holds `max.decompressed.message.bytes`.
    pub max_decompressed_message_bytes: i32,
    /// Holds `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// Holds `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// Holds `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// Holds `compression.type`.
    pub compression: Compression,
    /// Holds `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// Holds `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// Holds `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
    /// Holds `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// Holds `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// Holds `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// Holds `errors.deadletterqueue.group.enable`.
    pub dlq_group_enable: bool,
}

impl TopicSettings {
    pub(super) fn read(lookup: Lookup<'_>) -> Self {
        let policy: Vec<String> = FromConfig::from_config(lookup("cleanup.policy"));
        let long = |name| i64::from_config(lookup(name));
        let text = |name| Arc::<str>::from_config(lookup(name));
        let limit = |name| Some(long(name)).filter(|limit| 0 <= *limit);
        Self {
            compact: policy.iter().any(|name| name == "compact"),
            delete: policy.iter().any(|name| name == "delete"),
            retention_ms: limit("retention.ms"),
            retention_bytes: limit("retention.bytes"),
            segment_bytes: FromConfig::from_config(lookup("segment.bytes")),
            segment_ms: long("segment.ms"),
            max_message_bytes: FromConfig::from_config(lookup("max.message.bytes")),
            max_decompressed_message_bytes: FromConfig::from_config(lookup("max.decompressed.message.bytes")),
            timestamp_type: match &*text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: long("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: long("message.timestamp.after.max.ms"),
            compression: match &*text("compression.type") {
                "uncompressed" => Compression::Uncompressed,
                "gzip" => Compression::Gzip,
                "snappy" => Compression::Snappy,
                "lz4" => Compression::Lz4,
                "zstd" => Compression::Zstd,
                _ => Compression::Producer,
            },
            delete_retention_ms: long("delete.retention.ms"),
            min_compaction_lag_ms: long("min.compaction.lag.ms"),
            max_compaction_lag_ms: long("max.compaction.lag.ms"),
            min_cleanable_dirty_ratio: FromConfig::from_config(lookup("min.cleanable.dirty.ratio")),
            file_delete_delay_ms: long("file.delete.delay.ms"),
            min_insync_replicas: FromConfig::from_config(lookup("min.insync.replicas")),
            dlq_group_enable: FromConfig::from_config(lookup("errors.deadletterqueue.group.enable")),
        }
    }
}

/// What is in force for a consumer group, within the broker's bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConsumerGroupSettings {
    /// Holds `consumer.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// Holds `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// Holds `consumer.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
}

impl ConsumerGroupSettings {
    pub(super) fn read(lookup: Lookup<'_>) -> Self {
        let int = |name| i32::from_config(lookup(name));
        Self {
            session_timeout_ms: int("consumer.session.timeout.ms"),
            heartbeat_interval_ms: int("consumer.heartbeat.interval.ms"),
            assignment_interval_ms: int("consumer.assignment.interval.ms"),
        }
    }
}

/// What is in force for a share group, within the broker's bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShareGroupSettings {
    /// Holds `share.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// Holds `share.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// Holds `share.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
    /// Holds `share.record.lock.duration.ms`.
    pub record_lock_duration_ms: i32,
    /// Holds `share.delivery.count.limit`.
    pub delivery_count_limit: i32,
    /// Holds `share.partition.max.record.locks`.
    pub partition_max_record_locks: i32,
    /// Holds `share.auto.offset.reset`.
    pub auto_offset_reset: AutoOffsetReset,
    /// Whether `share.isolation.level` is `read_committed`.
    pub read_committed: bool,
    /// Holds `share.renew.acknowledge.enable`.
    pub renew_acknowledge_enable: bool,
    /// Holds `errors.deadletterqueue.topic.name`; `None` means no dead-letter queue.
    pub dlq_topic_name: Option<Arc<str>>,
    /// Holds `errors.deadletterqueue.copy.record.enable`.
    pub dlq_copy_record_enable: bool,
}

impl ShareGroupSettings {
    pub(super) fn read(lookup: Lookup<'_>) -> Self {
        let int = |name| i32::from_config(lookup(name));
        let text = |name| Arc::<str>::from_config(lookup(name));
        let reset = AutoOffsetReset::parse(&text("share.auto.offset.reset"));
        Self {
            session_timeout_ms: int("share.session.timeout.ms"),
            heartbeat_interval_ms: int("share.heartbeat.interval.ms"),
            assignment_interval_ms: int("share.assignment.interval.ms"),
            record_lock_duration_ms: int("share.record.lock.duration.ms"),
            delivery_count_limit: int("share.delivery.count.limit"),
            partition_max_record_locks: int("share.partition.max.record.locks"),
            auto_offset_reset: reset.unwrap_or(AutoOffsetReset::Latest),
            read_committed: &*text("share.isolation.level") == "read_committed",
            renew_acknowledge_enable: FromConfig::from_config(lookup("share.renew.acknowledge.enable")),
            dlq_topic_name: Some(text("errors.deadletterqueue.topic.name")).filter(|name| !name.is_empty()),
            dlq_copy_record_enable: FromConfig::from_config(lookup(
                "errors.deadletterqueue.copy.record.enable",
            )),
        }
    }
}
