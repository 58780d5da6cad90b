//! Describes the properties of a resource as DescribeConfigs shows them.

use sharemark_protocol::NodeId;

use super::{ConfigResource, DynamicConfigs};
use crate::config::broker_config::listener_independent_key;
use crate::config::key::{ConfigKey, ConfigType, UpdateMode};

/// Which layer a value comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on the node while it runs.
    DynamicBroker,
    /// Set on all nodes while they run.
    DynamicDefaultBroker,
    /// Set at the start.
    StaticBroker,
    /// Set nowhere.
    Default,
    /// Set on the group.
    Group,
    /// Set on the subscription to the metrics of clients.
    ClientMetrics,
}

impl ConfigSource {
    /// Returns the number that stands for this layer in a DescribeConfigs answer.
    pub const fn wire_id(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
            Self::ClientMetrics => 7,
            Self::Group => 8,
        }
    }

    /// Returns the layer of what is set on `resource` itself.
    pub(super) const fn set_on(resource: &ConfigResource) -> Self {
        match resource {
            ConfigResource::Topic(_) => Self::Topic,
            ConfigResource::Group(_) => Self::Group,
            ConfigResource::ClientMetrics(_) => Self::ClientMetrics,
            ConfigResource::Broker(_) => Self::DynamicBroker,
        }
    }
}

/// One layer's value of a property, or of another that supplies it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedSynonym {
    /// The property of that layer.
    pub name: String,
    /// Its value; `None` when it is never shown.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

/// One property of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedConfig {
    /// Its name.
    pub name: String,
    /// The value in force; `None` when it has none, or is never shown.
    pub value: Option<String>,
    /// Whether it can only be set at a start.
    pub read_only: bool,
    /// The layer that the value comes from.
    pub source: ConfigSource,
    /// Whether the value is never shown.
    pub sensitive: bool,
    /// The type; `None` for a property that is not known.
    pub kind: Option<ConfigType>,
    /// All layers that have a value, the strongest first.
    pub synonyms: Vec<DescribedSynonym>,
}

/// Broker properties for which others stand in when they are not set.
static STAND_INS: &[(&str, &[&str])] = &[
    ("log.flush.interval.ms", &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    ("log.retention.hours", RETENTION),
    ("log.retention.minutes", RETENTION),
    ("log.retention.ms", RETENTION),
    ("log.roll.hours", &["log.roll.ms", "log.roll.hours"]),
    ("log.roll.jitter.hours", &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    ("log.roll.jitter.ms", &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    ("log.roll.ms", &["log.roll.ms", "log.roll.hours"]),
];

const RETENTION: &[&str] = &["log.retention.ms", "log.retention.minutes", "log.retention.hours"];

impl DynamicConfigs {
    /// Describes the properties of `resource` as `node` sees them: those named in `wanted`, or all.
    pub fn describe(
        &self,
        node: NodeId,
        resource: &ConfigResource,
        wanted: Option<&[&str]>,
    ) -> Vec<DescribedConfig> {
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.contains(&name));
        let own = self.layers.get(resource);
        let is_shown = |key: &ConfigKey| !key.internal || own.is_some_and(|own| own.contains_key(key.name));
        match resource {
            ConfigResource::Topic(_) => {
                let keys = self.profile().topic_keys().filter(|key| is_shown(key) && is_wanted(key.name));
                keys.map(|key| self.describe_own(node, resource, &key)).collect()
            }
            ConfigResource::Group(_) => {
                let keys = self.profile().group_keys().filter(|key| is_shown(key) && is_wanted(key.name));
                keys.map(|key| self.describe_own(node, resource, &key)).collect()
            }
            ConfigResource::ClientMetrics(_) => {
                let keys = self.profile().client_metrics_keys().filter(|key| is_wanted(key.name));
                keys.map(|key| self.describe_own(node, resource, &key)).collect()
            }
            ConfigResource::Broker(None) => {
                let set = self.overrides(resource).map(|(name, _)| name).filter(|name| is_wanted(name));
                set.map(|name| self.describe_broker(None, name)).collect()
            }
            ConfigResource::Broker(Some(_)) => {
                let own = self.overrides(resource).map(|(name, _)| name);
                let of_all = self.overrides(&ConfigResource::Broker(None)).map(|(name, _)| name);
                let of_node = self.nodes.get(&node).into_iter().flatten().map(|(name, _)| name.as_str());
                let at_start = of_node.chain(self.start.properties().keys().map(String::as_str));
                let known: Vec<_> = self.profile().broker_keys().filter(|key| !key.internal).collect();
                let mut names: Vec<&str> = known.iter().map(|key| key.name).collect();
                names.extend(own.chain(of_all).chain(at_start));
                names.sort_unstable();
                names.dedup();
                names.retain(|name| is_wanted(name));
                names.into_iter().map(|name| self.describe_broker(Some(node), name)).collect()
            }
        }
    }

    fn describe_own(&self, node: NodeId, resource: &ConfigResource, key: &ConfigKey) -> DescribedConfig {
        let value = self.resource_value(key, Some(resource), Some(node)).map(|(value, _)| value.to_string());
        let mut synonyms = Vec::new();
        if self.layers.get(resource).is_some_and(|layer| layer.contains_key(key.name)) {
            let source = ConfigSource::set_on(resource);
            synonyms.push(DescribedSynonym { name: key.name.to_owned(), value: value.clone(), source });
        }
        match (key.synonyms.first(), resource, key.default) {
            (Some(synonym), _, _) => self.push_synonyms(Some(node), synonym.name, false, &mut synonyms),
            (None, ConfigResource::Group(_), Some(default)) => synonyms.push(DescribedSynonym {
                name: key.name.to_owned(),
                value: Some(default.to_owned()),
                source: ConfigSource::Default,
            }),
            (None, _, _) => {}
        }
        DescribedConfig {
            name: key.name.to_owned(),
            value,
            read_only: false,
            source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
            sensitive: key.is_sensitive(),
            kind: Some(key.kind),
            synonyms,
        }
    }

    /// Describes a broker property as `node` sees it, or (`None`) as it is set on all nodes.
    fn describe_broker(&self, node: Option<NodeId>, name: &str) -> DescribedConfig {
        let key = listener_independent_key(self.profile(), name);
        let sensitive = key.is_none_or(|key| key.is_sensitive());
        let mut synonyms = Vec::new();
        self.push_synonyms(node, name, sensitive, &mut synonyms);
        if node.is_none() {
            synonyms.retain(|synonym| synonym.source == ConfigSource::DynamicDefaultBroker);
        }
        let value = match key {
            Some(_) if sensitive => None,
            Some(key) => self.broker_value(&key, name, node).map(|(value, _)| value.to_string()),
            None => None,
        };
        DescribedConfig {
            name: name.to_owned(),
            value,
            read_only: key.is_none_or(|key| key.update == UpdateMode::ReadOnly),
            source: synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source),
            sensitive,
            kind: key.map(|key| key.kind),
            synonyms,
        }
    }

    /// Adds what each layer says of the broker property `name` and of those that stand in for it: layer by layer,
    /// and as Kafka does, from the first that says something of `name` itself.
    fn push_synonyms(
        &self,
        node: Option<NodeId>,
        name: &str,
        hidden: bool,
        synonyms: &mut Vec<DescribedSynonym>,
    ) {
        let alone = [name];
        let names = match STAND_INS.binary_search_by(|(stands_in, _)| (*stands_in).cmp(name)) {
            Ok(index) => STAND_INS[index].1,
            Err(_) => &alone,
        };
        let first_new = synonyms.len();
        let mut push = |of: &str, text: &str, source| {
            let seen = &synonyms[first_new..];
            let is_known = seen.iter().any(|synonym| synonym.source == source && synonym.name == of);
            if !is_known && (of == name || !seen.is_empty()) {
                let value = (!hidden).then(|| text.to_owned());
                synonyms.push(DescribedSynonym { name: of.to_owned(), value, source });
            }
        };
        for (source, layer) in self.broker_layers(node) {
            for of in names {
                if let Some(text) = layer.get(*of) {
                    push(of, text, source);
                }
            }
        }
        for of in names {
            let key = listener_independent_key(self.profile(), of);
            if let Some(default) = key.and_then(|key| key.default) {
                push(of, default, ConfigSource::Default);
            }
        }
    }
}
