//! The properties of a topic, in order of name: types, defaults and bounds of Kafka 4.4.

use super::key::ConfigType::Int;
use super::key::{ConfigKey, Rule, boolean, double, int, list, long, same, string, times, unset};

pub(super) static TOPIC_KEYS: &[ConfigKey] = &[
    list("cleanup.policy", "delete")
        .rule(Rule::List { allowed: &["compact", "delete"], may_be_empty: true })
        .from(&[same("log.cleanup.policy")]),
    int("compression.gzip.level", "-1")
        .rule(Rule::BetweenOr(1, 9, -1))
        .from(&[same("compression.gzip.level")]),
    int("compression.lz4.level", "9").between(1, 17).from(&[same("compression.lz4.level")]),
    string("compression.type", "producer")
        .rule(Rule::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]))
        .from(&[same("compression.type")]),
    int("compression.zstd.level", "3").between(-131_072, 22).from(&[same("compression.zstd.level")]),
    long("delete.retention.ms", "86400000").at_least(0).from(&[same("log.cleaner.delete.retention.ms")]),
    boolean("errors.deadletterqueue.group.enable", "false"),
    long("file.delete.delay.ms", "60000").at_least(0).from(&[same("log.segment.delete.delay.ms")]),
    long("flush.messages", "9223372036854775807").at_least(1).from(&[same("log.flush.interval.messages")]),
    long("flush.ms", "9223372036854775807")
        .at_least(0)
        .from(&[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]),
    list("follower.replication.throttled.replicas", "").rule(Rule::ThrottledReplicas),
    int("index.interval.bytes", "4096").at_least(0).from(&[same("log.index.interval.bytes")]),
    unset("internal.segment.bytes", Int).internal(),
    list("leader.replication.throttled.replicas", "").rule(Rule::ThrottledReplicas),
    long("local.retention.bytes", "-2").at_least(-2).from(&[same("log.local.retention.bytes")]),
    long("local.retention.ms", "-2").at_least(-2).from(&[same("log.local.retention.ms")]),
    long("max.compaction.lag.ms", "9223372036854775807")
        .at_least(1)
        .from(&[same("log.cleaner.max.compaction.lag.ms")]),
    int("max.decompressed.message.bytes", "2147483639")
        .between(1, 2_147_483_639)
        .from(&[same("max.decompressed.message.bytes")]),
    int("max.message.bytes", "1048588").at_least(0).from(&[same("message.max.bytes")]),
    long("message.timestamp.after.max.ms", "3600000")
        .at_least(0)
        .from(&[same("log.message.timestamp.after.max.ms")]),
    long("message.timestamp.before.max.ms", "9223372036854775807")
        .at_least(0)
        .from(&[same("log.message.timestamp.before.max.ms")]),
    string("message.timestamp.type", "CreateTime")
        .rule(Rule::OneOf(&["CreateTime", "LogAppendTime"]))
        .from(&[same("log.message.timestamp.type")]),
    double("min.cleanable.dirty.ratio", "0.5")
        .rule(Rule::Fraction(0.0, 1.0))
        .from(&[same("log.cleaner.min.cleanable.ratio")]),
    long("min.compaction.lag.ms", "0").at_least(0).from(&[same("log.cleaner.min.compaction.lag.ms")]),
    int("min.insync.replicas", "1").at_least(1).from(&[same("min.insync.replicas")]),
    boolean("preallocate", "false").from(&[same("log.preallocate")]),
    long("remote.copy.lag.bytes", "-1").at_least(-1).from(&[same("log.remote.copy.lag.bytes")]),
    long("remote.copy.lag.ms", "0").at_least(-1).from(&[same("log.remote.copy.lag.ms")]),
    boolean("remote.log.copy.disable", "false"),
    boolean("remote.log.delete.on.disable", "false"),
    boolean("remote.storage.enable", "false"),
    long("retention.bytes", "-1").from(&[same("log.retention.bytes")]),
    long("retention.ms", "604800000").at_least(-1).from(&[
        same("log.retention.ms"),
        times("log.retention.minutes", 60_000),
        times("log.retention.hours", 3_600_000),
    ]),
    int("segment.bytes", "1073741824").at_least(1_048_576).from(&[same("log.segment.bytes")]),
    int("segment.index.bytes", "10485760").at_least(4).from(&[same("log.index.size.max.bytes")]),
    long("segment.jitter.ms", "0")
        .at_least(0)
        .from(&[same("log.roll.jitter.ms"), times("log.roll.jitter.hours", 3_600_000)]),
    long("segment.ms", "604800000")
        .at_least(1)
        .from(&[same("log.roll.ms"), times("log.roll.hours", 3_600_000)]),
    boolean("unclean.leader.election.enable", "false").from(&[same("unclean.leader.election.enable")]),
];
