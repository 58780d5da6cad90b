//! The properties of a group, in order of name: types, defaults and bounds of Kafka 4.4.

use super::key::ConfigType::String;
use super::key::{ConfigKey, Rule, boolean, int, list, long, same, string, unset};

const ANY_LIST: Rule = Rule::List { allowed: &[], may_be_empty: true };

pub(super) static GROUP_KEYS: &[ConfigKey] = &[
    int("consumer.assignment.interval.ms", "1000")
        .at_least(0)
        .from(&[same("group.consumer.assignment.interval.ms")]),
    boolean("consumer.assignor.offload.enable", "true")
        .internal()
        .from(&[same("group.consumer.assignor.offload.enable")]),
    int("consumer.heartbeat.interval.ms", "5000")
        .at_least(1)
        .from(&[same("group.consumer.heartbeat.interval.ms")]),
    int("consumer.session.timeout.ms", "45000")
        .at_least(1)
        .from(&[same("group.consumer.session.timeout.ms")]),
    boolean("errors.deadletterqueue.copy.record.enable", "false"),
    string("errors.deadletterqueue.topic.name", ""),
    int("share.assignment.interval.ms", "1000")
        .at_least(0)
        .from(&[same("group.share.assignment.interval.ms")]),
    boolean("share.assignor.offload.enable", "true")
        .internal()
        .from(&[same("group.share.assignor.offload.enable")]),
    string("share.auto.offset.reset", "latest").rule(Rule::AutoOffsetReset),
    int("share.delivery.count.limit", "5").at_least(2).from(&[same("group.share.delivery.count.limit")]),
    int("share.heartbeat.interval.ms", "5000").at_least(1).from(&[same("group.share.heartbeat.interval.ms")]),
    string("share.isolation.level", "read_uncommitted")
        .rule(Rule::OneOf(&["read_committed", "read_uncommitted"])),
    int("share.partition.max.record.locks", "2000")
        .at_least(100)
        .from(&[same("group.share.partition.max.record.locks")]),
    int("share.record.lock.duration.ms", "30000")
        .at_least(1000)
        .from(&[same("group.share.record.lock.duration.ms")]),
    boolean("share.renew.acknowledge.enable", "true"),
    int("share.session.timeout.ms", "45000").at_least(1).from(&[same("group.share.session.timeout.ms")]),
    long("streams.acceptable.recovery.lag", "10000")
        .at_least(0)
        .internal()
        .from(&[same("group.streams.acceptable.recovery.lag")]),
    int("streams.assignment.interval.ms", "1000")
        .at_least(0)
        .from(&[same("group.streams.assignment.interval.ms")]),
    unset("streams.assignor.name", String).from(&[same("group.streams.assignors")]),
    boolean("streams.assignor.offload.enable", "true")
        .internal()
        .from(&[same("group.streams.assignor.offload.enable")]),
    int("streams.heartbeat.interval.ms", "5000")
        .at_least(1)
        .from(&[same("group.streams.heartbeat.interval.ms")]),
    int("streams.initial.rebalance.delay.ms", "3000")
        .at_least(0)
        .from(&[same("group.streams.initial.rebalance.delay.ms")]),
    int("streams.num.standby.replicas", "0").at_least(0).from(&[same("group.streams.num.standby.replicas")]),
    int("streams.num.warmup.replicas", "2")
        .at_least(0)
        .internal()
        .from(&[same("group.streams.num.warmup.replicas")]),
    list("streams.rack.aware.assignment.tags", "")
        .rule(ANY_LIST)
        .from(&[same("group.streams.rack.aware.assignment.tags")]),
    int("streams.session.timeout.ms", "45000").at_least(1).from(&[same("group.streams.session.timeout.ms")]),
    int("streams.task.offset.interval.ms", "60000")
        .at_least(1)
        .internal()
        .from(&[same("group.streams.task.offset.interval.ms")]),
];
