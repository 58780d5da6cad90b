//! Limits and intervals; only the server knows their defaults.

use crate::ConsumerAssignor;

/// Bounds of one shard, the same for all of its groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GroupCoordinatorConfig {
    /// How many groups of all types one shard keeps. Kafka has no such limit.
    pub groups_max: usize,
    /// How many offsets all groups of one shard have committed. Kafka has no such limit.
    pub offsets_max: usize,
    /// How many topic names one member may subscribe to. Kafka has no such limit.
    pub subscribed_topics_max: usize,
}

/// Whether groups change from one protocol to the other while they have members: `group.consumer.migration.policy`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MigrationPolicy {
    /// Never, and no member that speaks the classic protocol joins a consumer group.
    Disabled,
    /// From the classic to the consumer protocol.
    Upgrade,
    /// From the consumer to the classic protocol.
    Downgrade,
    /// Either way.
    Bidirectional,
}

impl MigrationPolicy {
    /// Returns the policy of this name, whatever its letters' case.
    pub fn from_name(name: &str) -> Option<Self> {
        let policies = [
            ("disabled", Self::Disabled),
            ("upgrade", Self::Upgrade),
            ("downgrade", Self::Downgrade),
            ("bidirectional", Self::Bidirectional),
        ];
        policies.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, policy)| policy)
    }

    /// Returns whether a classic group becomes a consumer group.
    pub(crate) const fn upgrades(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    /// Returns whether a consumer group becomes a classic group.
    pub(crate) const fn downgrades(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

/// What applies to one consumer group: the broker's settings, overridden by the group's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerGroupConfig {
    /// How long a computed assignment stands before the next may replace it:
    /// `group.consumer.assignment.interval.ms`, `consumer.assignment.interval.ms`. 0 lets it change at once.
    pub assignment_interval_ms: i64,
    /// How often members are told to send heartbeats: `group.consumer.heartbeat.interval.ms`,
    /// `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// After what silence a member is removed: `group.consumer.session.timeout.ms`,
    /// `consumer.session.timeout.ms`.
    pub session_timeout_ms: i64,
    /// How many members a group may have: `group.consumer.max.size`.
    pub max_size: usize,
    /// The assignors that members may ask for, the default one first: `group.consumer.assignors`.
    pub assignors: Vec<ConsumerAssignor>,
    /// After what time regular expressions are looked up again, whatever happens:
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval_ms: i64,
    /// How long a lookup of regular expressions stands at least.
    pub regex_batch_interval_ms: i64,
}

impl ConsumerGroupConfig {
    /// Returns the assignor of a group whose members ask for none.
    pub fn default_assignor(&self) -> ConsumerAssignor {
        self.assignors.first().copied().unwrap_or(ConsumerAssignor::Uniform)
    }
}

/// What applies to one share group: the broker's settings, overridden by the group's own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShareGroupConfig {
    /// How long a computed assignment stands before the next may replace it:
    /// `group.share.assignment.interval.ms`, `share.assignment.interval.ms`. 0 lets it change at once.
    pub assignment_interval_ms: i64,
    /// How often members are told to send heartbeats: `group.share.heartbeat.interval.ms`,
    /// `share.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// After what silence a member is removed: `group.share.session.timeout.ms`, `share.session.timeout.ms`.
    pub session_timeout_ms: i64,
    /// How many members a group may have: `group.share.max.size`.
    pub max_size: usize,
    /// After what time an initialisation that was not answered is asked for again:
    /// `group.share.initialize.retry.interval.ms`.
    pub initialize_retry_interval_ms: i64,
}
