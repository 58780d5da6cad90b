//! Which Kafka the broker stands for, and where a test broker differs from it.

use super::broker_keys::BROKER_KEYS;
use super::client_metrics_keys::CLIENT_METRICS_KEYS;
use super::group_keys::GROUP_KEYS;
use super::key::{ConfigKey, Rule, boolean, list, string};
use super::topic_keys::TOPIC_KEYS;

/// Which Kafka the broker stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Profile {
    /// The newest that is built: transactional share acknowledgements, and the defaults of a test broker.
    Latest,
    /// Kafka 4.4 to the letter.
    Kafka44,
}

/// Defaults of a test broker: a first record arrives at once, and short timeouts are allowed.
const TEST_BROKER_DEFAULTS: &[(&str, &str)] = &[
    ("group.consumer.assignment.interval.ms", "0"),
    ("group.consumer.min.heartbeat.interval.ms", "1"),
    ("group.consumer.min.session.timeout.ms", "1"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "1"),
    ("group.share.assignment.interval.ms", "0"),
    ("group.share.min.heartbeat.interval.ms", "1"),
    ("group.share.min.record.lock.duration.ms", "1"),
    ("group.share.min.session.timeout.ms", "1"),
    ("group.streams.assignment.interval.ms", "0"),
    ("group.streams.initial.rebalance.delay.ms", "0"),
    ("group.streams.min.heartbeat.interval.ms", "1"),
    ("group.streams.min.session.timeout.ms", "1"),
];

/// Properties that a test broker lets go down to one millisecond.
const TEST_BROKER_FLOOR_OF_ONE: &[&str] = &[
    "group.share.max.record.lock.duration.ms",
    "group.share.min.record.lock.duration.ms",
    "group.share.record.lock.duration.ms",
    "share.record.lock.duration.ms",
];

/// Properties that Kafka does not have.
static OWN_KEYS: &[ConfigKey] = &[
    boolean("share.txn.abort.ignores.delivery.limit", "false"),
    string("share.txn.abort.target", "available").rule(Rule::OneOf(&["available", "acquired"])),
    list("share.txn.dialect", "k95,seed")
        .rule(Rule::List { allowed: &["off", "k95", "k94", "k93", "seed"], may_be_empty: false }),
];

impl Profile {
    /// Reads `latest` or `kafka-4.4`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "latest" => Some(Self::Latest),
            "kafka-4.4" => Some(Self::Kafka44),
            _ => None,
        }
    }

    /// Returns its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Kafka44 => "kafka-4.4",
        }
    }

    /// Returns the broker property `name`.
    pub fn broker_key(self, name: &str) -> Option<ConfigKey> {
        find(BROKER_KEYS, name).or_else(|| find(self.own_keys(), name)).map(|key| self.adapt(key))
    }

    /// Returns the topic property `name`.
    pub fn topic_key(self, name: &str) -> Option<ConfigKey> {
        find(TOPIC_KEYS, name).map(|key| self.adapt(key))
    }

    /// Returns the group property `name`.
    pub fn group_key(self, name: &str) -> Option<ConfigKey> {
        find(GROUP_KEYS, name).map(|key| self.adapt(key))
    }

    /// Returns the property `name` of a subscription to the metrics of clients.
    pub fn client_metrics_key(self, name: &str) -> Option<ConfigKey> {
        find(CLIENT_METRICS_KEYS, name).map(|key| self.adapt(key))
    }

    /// Returns all broker properties.
    pub fn broker_keys(self) -> impl Iterator<Item = ConfigKey> {
        BROKER_KEYS.iter().chain(self.own_keys()).map(move |key| self.adapt(key))
    }

    /// Returns all topic properties.
    pub fn topic_keys(self) -> impl Iterator<Item = ConfigKey> {
        TOPIC_KEYS.iter().map(move |key| self.adapt(key))
    }

    /// Returns all group properties.
    pub fn group_keys(self) -> impl Iterator<Item = ConfigKey> {
        GROUP_KEYS.iter().map(move |key| self.adapt(key))
    }

    /// Returns all properties of a subscription to the metrics of clients.
    pub fn client_metrics_keys(self) -> impl Iterator<Item = ConfigKey> {
        CLIENT_METRICS_KEYS.iter().map(move |key| self.adapt(key))
    }

    fn own_keys(self) -> &'static [ConfigKey] {
        match self {
            Self::Latest => OWN_KEYS,
            Self::Kafka44 => &[],
        }
    }

    fn adapt(self, key: &ConfigKey) -> ConfigKey {
        let mut key = *key;
        if self == Self::Kafka44 {
            return key;
        }
        if let Some((_, default)) = TEST_BROKER_DEFAULTS.iter().find(|(name, _)| *name == key.name) {
            key.default = Some(default);
        }
        if TEST_BROKER_FLOOR_OF_ONE.contains(&key.name) {
            if let Rule::Between(_, max) = key.rule {
                key.rule = Rule::Between(1, max);
            } else {
                key.rule = Rule::AtLeast(1);
            }
        }
        key
    }
}

fn find(keys: &'static [ConfigKey], name: &str) -> Option<&'static ConfigKey> {
    keys.binary_search_by(|key| key.name.cmp(name)).ok().map(|index| &keys[index])
}
