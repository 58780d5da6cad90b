//! Judges what a client wants to change.

use std::fmt;

use sharemark_protocol::ErrorCode;

use super::client_metrics::check_client_metrics;
use super::{ConfigResource, DynamicConfigs, MIN_INSYNC_REPLICAS};
use crate::config::broker_config::listener_independent_key;
use crate::config::key::{ConfigKey, ConfigType, UpdateMode};
use crate::config::settings::Lookup;
use crate::config::value::{ConfigError, ConfigValue, split_list};

/// The longest value that may be set, in bytes.
const VALUE_BYTES_MAX: usize = 32_767;

/// How many groups may have properties of their own, whether they exist or not. Kafka sets no limit.
const GROUP_COUNT_MAX: usize = 10_000;

/// How many subscriptions to the metrics of clients there may be. Kafka sets no limit.
const SUBSCRIPTION_COUNT_MAX: usize = 10_000;

/// How many properties one resource may have: brokers may be given ones that nobody knows. Kafka sets no limit.
const PROPERTY_COUNT_MAX: usize = 1_000;

/// What to do with one property.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlterOperation {
    /// Give it this value.
    Set(String),
    /// Take its value away, so that the next layer shows.
    Delete,
    /// Add these to its list.
    Append(String),
    /// Take these out of its list.
    Subtract(String),
}

/// A change that was judged: what to set, and what (`None`) to take away.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigChange {
    /// Whose properties change.
    pub resource: ConfigResource,
    /// The properties with their new text.
    pub values: Vec<(String, Option<String>)>,
}

/// Why a change is refused; its text is Kafka's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlterError {
    /// A value is not of the property's type, or not allowed.
    Value(ConfigError),
    /// A value lies outside the broker's bounds, or contradicts another.
    Invalid(String),
    /// The request as such is wrong.
    Request(String),
    /// There is no room for more.
    Full(&'static str),
}

impl AlterError {
    /// Returns the code of the answer.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Value(_) | Self::Invalid(_) => ErrorCode::InvalidConfig,
            Self::Request(_) => ErrorCode::InvalidRequest,
            Self::Full(_) => ErrorCode::PolicyViolation,
        }
    }
}

impl fmt::Display for AlterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(error) => error.fmt(f),
            Self::Invalid(text) | Self::Request(text) => f.write_str(text),
            Self::Full(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for AlterError {}

impl DynamicConfigs {
    /// Judges what a client wants to change on `resource`; changes nothing.
    ///
    /// # Errors
    ///
    /// Says what is wrong: a property that is not known or cannot be changed, a value that is not allowed.
    pub fn decide_alter(
        &self,
        resource: &ConfigResource,
        operations: &[(String, AlterOperation)],
    ) -> Result<ConfigChange, AlterError> {
        let mut layer = self.layers.get(resource).cloned().unwrap_or_default();
        let mut values = Vec::with_capacity(operations.len());
        for (name, operation) in operations {
            let value = self.new_value(resource, name, layer.get(name), operation)?;
            if value.as_ref().is_some_and(|value| VALUE_BYTES_MAX < value.len()) {
                let text = "The configuration value cannot be added because it exceeds the maximum value size of \
                            32767 bytes.";
                return Err(AlterError::Invalid(text.to_owned()));
            }
            match &value {
                Some(value) => layer.insert(name.clone(), value.clone()),
                None => layer.remove(name),
            };
            values.push((name.clone(), value));
        }
        self.check_layer(resource, &layer, operations)?;
        if PROPERTY_COUNT_MAX < layer.len() {
            return Err(AlterError::Full("There are too many properties of this resource."));
        }
        if !self.layers.contains_key(resource) {
            self.check_room(resource)?;
        }
        Ok(ConfigChange { resource: resource.clone(), values })
    }

    /// Judges whether one more resource may have properties of its own.
    fn check_room(&self, resource: &ConfigResource) -> Result<(), AlterError> {
        let is_subscription = |other: &&ConfigResource| matches!(other, ConfigResource::ClientMetrics(_));
        match resource {
            ConfigResource::Group(_) if GROUP_COUNT_MAX <= self.groups.len() => {
                Err(AlterError::Full("There are too many groups with properties of their own."))
            }
            ConfigResource::ClientMetrics(_)
                if SUBSCRIPTION_COUNT_MAX <= self.resources().filter(is_subscription).count() =>
            {
                Err(AlterError::Full("There are too many subscriptions to the metrics of clients."))
            }
            ConfigResource::Topic(_)
            | ConfigResource::Broker(_)
            | ConfigResource::Group(_)
            | ConfigResource::ClientMetrics(_) => Ok(()),
        }
    }

    fn new_value(
        &self,
        resource: &ConfigResource,
        name: &str,
        current: Option<&String>,
        operation: &AlterOperation,
    ) -> Result<Option<String>, AlterError> {
        let (verb, items) = match operation {
            AlterOperation::Set(value) => return Ok(Some(value.clone())),
            AlterOperation::Delete => return Ok(None),
            AlterOperation::Append(items) => ("APPEND", items),
            AlterOperation::Subtract(items) => ("SUBTRACT", items),
        };
        // Kafka does not know which properties of a subscription are lists.
        let has_lists = !matches!(resource, ConfigResource::ClientMetrics(_));
        let key = self.key_of(resource, name).filter(|_| has_lists);
        if key.is_none_or(|key| key.kind != ConfigType::List) {
            let text = format!("Can't {verb} to key {name} because its type is not LIST.");
            return Err(AlterError::Invalid(text));
        }
        let mut list = match (current, key) {
            (Some(text), _) => split_list(text.trim()),
            (None, Some(key)) => match self.resource_value(&key, None, None) {
                Some((ConfigValue::List(list), _)) => list,
                Some(_) | None => Vec::new(),
            },
            (None, None) => Vec::new(),
        };
        for item in split_list(items.trim()) {
            let known = list.iter().position(|other| *other == item);
            match (verb, known) {
                ("APPEND", None) => list.push(item),
                ("SUBTRACT", Some(index)) => drop(list.remove(index)),
                _ => {}
            }
        }
        Ok(Some(list.join(",")))
    }

    fn key_of(&self, resource: &ConfigResource, name: &str) -> Option<ConfigKey> {
        match resource {
            ConfigResource::Topic(_) => self.profile().topic_key(name),
            ConfigResource::Group(_) => self.profile().group_key(name),
            ConfigResource::ClientMetrics(_) => self.profile().client_metrics_key(name),
            ConfigResource::Broker(_) => listener_independent_key(self.profile(), name),
        }
    }

    fn check_layer(
        &self,
        resource: &ConfigResource,
        layer: &super::Layer,
        operations: &[(String, AlterOperation)],
    ) -> Result<(), AlterError> {
        match resource {
            ConfigResource::Topic(_) => {
                self.check_values(resource, layer, "Unknown topic config name")?;
                self.check_topic(layer)
            }
            ConfigResource::Group(_) => {
                self.check_values(resource, layer, "Unknown group config name")?;
                self.check_group(layer)
            }
            ConfigResource::ClientMetrics(_) => check_client_metrics(self.profile(), layer),
            ConfigResource::Broker(node) => {
                self.check_update_modes(node.is_some(), operations)?;
                self.check_values(resource, layer, "Unknown config name")?;
                self.check_broker(node.is_some(), layer, operations)
            }
        }
    }

    fn check_values(
        &self,
        resource: &ConfigResource,
        layer: &super::Layer,
        unknown: &str,
    ) -> Result<(), AlterError> {
        for (name, value) in layer {
            match self.key_of(resource, name) {
                Some(key) => {
                    key.parse(value).map_err(|error| match resource {
                        ConfigResource::Broker(_) => AlterError::Request(error.to_string()),
                        ConfigResource::Topic(_)
                        | ConfigResource::Group(_)
                        | ConfigResource::ClientMetrics(_) => AlterError::Value(error),
                    })?;
                }
                // Kafka keeps a broker property that it does not know: a plug-in may know it.
                None if matches!(resource, ConfigResource::Broker(_)) => {}
                None => return Err(AlterError::Invalid(format!("{unknown}: {name}"))),
            }
        }
        Ok(())
    }

    fn check_update_modes(
        &self,
        one_node: bool,
        operations: &[(String, AlterOperation)],
    ) -> Result<(), AlterError> {
        let mode = |name: &str| listener_independent_key(self.profile(), name).map(|key| key.update);
        let named = |wanted: UpdateMode| {
            let mut names = operations.iter().map(|(name, _)| name.as_str()).filter(move |name| {
                // A property of one listener belongs to one node.
                let per_listener = name.starts_with("listener.name.") && wanted == UpdateMode::PerBroker;
                mode(name) == Some(wanted) || per_listener
            });
            names.next().map(|first| names.fold(first.to_owned(), |all, name| format!("{all}, {name}")))
        };
        if let Some(names) = named(UpdateMode::ReadOnly) {
            let text = format!("Cannot update these configs dynamically: [{names}]");
            return Err(AlterError::Request(text));
        }
        let is_security = |name: &str| name.starts_with("ssl.") || name.starts_with("sasl.");
        let names: Vec<_> =
            operations.iter().map(|(name, _)| name.as_str()).filter(|name| is_security(name)).collect();
        if !names.is_empty() {
            let text = format!(
                "These security configs can be dynamically updated only per-listener using the listener prefix: [{}]",
                names.join(", ")
            );
            return Err(AlterError::Request(text));
        }
        match named(UpdateMode::PerBroker) {
            Some(names) if !one_node => {
                let text = format!(
                    "Cannot update these configs at default cluster level, broker id must be specified: [{names}]"
                );
                Err(AlterError::Request(text))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_topic(&self, layer: &super::Layer) -> Result<(), AlterError> {
        let effective = |name: &str| {
            let own = layer.get(name).and_then(|text| text.trim().parse().ok());
            own.unwrap_or_else(|| {
                let key = self.profile().topic_key(name);
                number(key.and_then(|key| self.resource_value(&key, None, None)).map(|(value, _)| value))
            })
        };
        let (min, max) = (effective("min.compaction.lag.ms"), effective("max.compaction.lag.ms"));
        if max < min {
            let text = format!(
                "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
            );
            return Err(AlterError::Invalid(text));
        }
        if layer.get("remote.storage.enable").is_some_and(|text| text.trim().eq_ignore_ascii_case("true")) {
            let text = "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with \
                        remote log storage.";
            return Err(AlterError::Invalid(text.to_owned()));
        }
        Ok(())
    }

    fn check_broker(
        &self,
        one_node: bool,
        layer: &super::Layer,
        operations: &[(String, AlterOperation)],
    ) -> Result<(), AlterError> {
        let of_min_isr = operations.iter().find(|(name, _)| name == MIN_INSYNC_REPLICAS);
        if let Some((_, operation)) = of_min_isr.filter(|_| self.eligible_leader_replicas) {
            let text = match operation {
                _ if one_node => "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
                AlterOperation::Delete => {
                    "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
                }
                AlterOperation::Set(_) | AlterOperation::Append(_) | AlterOperation::Subtract(_) => "",
            };
            if !text.is_empty() {
                return Err(AlterError::Invalid(text.to_owned()));
            }
        }
        for kind in ["consumer", "share", "streams"] {
            let name = format!("group.{kind}.assignment.interval.ms");
            let Some(value) = layer.get(&name).and_then(|text| text.trim().parse::<i64>().ok()) else {
                continue;
            };
            let bound = |which: &str| format!("group.{kind}.{which}.assignment.interval.ms");
            let (min, max) = (bound("min"), bound("max"));
            if value < number(self.cluster_value(&min)) {
                return Err(AlterError::Request(format!("{name} must be greater than or equal to {min}")));
            }
            if number(self.cluster_value(&max)) < value {
                return Err(AlterError::Request(format!("{name} must be less than or equal to {max}")));
            }
        }
        Ok(())
    }

    fn check_group(&self, layer: &super::Layer) -> Result<(), AlterError> {
        let bound = |name: &str| number(self.cluster_value(name));
        for bounds in GROUP_BOUNDS {
            let Some(value) = layer.get(bounds.name).and_then(|text| text.trim().parse::<i64>().ok()) else {
                continue;
            };
            let min = bounds.min.map(bound);
            let max = bounds.max.map(bound);
            let name = bounds.name;
            let text = match (min, max) {
                (Some(min), Some(max)) if value < min || max < value => {
                    format!("{name} must be in the range {min} to {max} inclusive.")
                }
                (None, Some(max)) if max < value => format!("{name} must be less than or equal to {max}"),
                (Some(min), None) if value < min => format!("{name} must be greater than or equal to {min}"),
                (Some(_) | None, Some(_) | None) => continue,
            };
            return Err(AlterError::Invalid(text));
        }
        for (session, heartbeat) in SESSION_ABOVE_HEARTBEAT {
            let effective = |name: &str| {
                let own = layer.get(name).and_then(|text| text.trim().parse().ok());
                own.or_else(|| {
                    let key = self.profile().group_key(name)?;
                    self.resource_value(&key, None, None).map(|(value, _)| number(Some(value)))
                })
            };
            let changed = layer.contains_key(*session) || layer.contains_key(*heartbeat);
            if changed && effective(session) <= effective(heartbeat) {
                return Err(AlterError::Invalid(format!("{session} must be greater than {heartbeat}")));
            }
        }
        match layer.get("errors.deadletterqueue.topic.name") {
            Some(topic) if topic.starts_with("__") => Err(AlterError::Invalid(
                "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'".to_owned(),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// A group property with the broker properties that bound it.
struct GroupBounds {
    name: &'static str,
    min: Option<&'static str>,
    max: Option<&'static str>,
}

const fn within(name: &'static str, min: &'static str, max: &'static str) -> GroupBounds {
    GroupBounds { name, min: Some(min), max: Some(max) }
}

const fn below(name: &'static str, max: &'static str) -> GroupBounds {
    GroupBounds { name, min: None, max: Some(max) }
}

const fn above(name: &'static str, min: &'static str) -> GroupBounds {
    GroupBounds { name, min: Some(min), max: None }
}

macro_rules! min_max {
    ($kind:literal, $name:literal) => {
        within(
            concat!($kind, ".", $name),
            concat!("group.", $kind, ".min.", $name),
            concat!("group.", $kind, ".max.", $name),
        )
    };
}

static GROUP_BOUNDS: &[GroupBounds] = &[
    min_max!("consumer", "heartbeat.interval.ms"),
    min_max!("consumer", "session.timeout.ms"),
    min_max!("consumer", "assignment.interval.ms"),
    min_max!("share", "heartbeat.interval.ms"),
    min_max!("share", "session.timeout.ms"),
    min_max!("share", "record.lock.duration.ms"),
    min_max!("share", "delivery.count.limit"),
    min_max!("share", "partition.max.record.locks"),
    min_max!("share", "assignment.interval.ms"),
    min_max!("streams", "heartbeat.interval.ms"),
    min_max!("streams", "session.timeout.ms"),
    below("streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    min_max!("streams", "assignment.interval.ms"),
    above("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms"),
    below("streams.num.warmup.replicas", "group.streams.max.warmup.replicas"),
];

const SESSION_ABOVE_HEARTBEAT: &[(&str, &str)] = &[
    ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"),
    ("share.session.timeout.ms", "share.heartbeat.interval.ms"),
    ("streams.session.timeout.ms", "streams.heartbeat.interval.ms"),
];

/// Moves a group property's value into the broker's bounds, which may have changed since it was set.
pub(super) fn clamp(name: &str, value: ConfigValue, broker: Lookup<'_>) -> ConfigValue {
    let ConfigValue::Number(mut clamped) = value else { return value };
    let Some(bounds) = GROUP_BOUNDS.iter().find(|bounds| bounds.name == name) else { return value };
    if let Some(min) = bounds.min {
        clamped = clamped.max(number(broker(min)));
    }
    if let Some(max) = bounds.max {
        clamped = clamped.min(number(broker(max)));
    }
    ConfigValue::Number(clamped)
}

fn number(value: Option<ConfigValue>) -> i64 {
    match value {
        Some(ConfigValue::Number(number)) => number,
        _ => 0,
    }
}
