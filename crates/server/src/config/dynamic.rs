//! What clients have changed while the broker runs, and so what is in force.
//!
//! Durable state of the cluster: [`DynamicConfigs::decide_alter`] judges, [`DynamicConfigs::replay`] applies.
//! A topic's property is looked up in these layers, the first that has it wins: the topic, the node, all nodes,
//! the start configuration, Kafka's default. A group's property: the group, then the same.

mod alter;
mod client_metrics;
mod describe;

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_protocol::NodeId;

pub use self::alter::{AlterError, AlterOperation, ConfigChange};
pub use self::describe::{ConfigSource, DescribedConfig, DescribedSynonym};
use super::broker_config::{BrokerConfig, listener_independent_key};
use super::features::Features;
use super::key::{ConfigKey, Synonym};
use super::profile::Profile;
use super::settings::{BrokerSettings, ConsumerGroupSettings, ShareGroupSettings, TopicSettings};
use super::value::ConfigValue;

/// What has properties of its own.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ConfigResource {
    /// A topic.
    Topic(Arc<str>),
    /// A node; `None` means all nodes.
    Broker(Option<NodeId>),
    /// A group.
    Group(Arc<str>),
    /// A subscription to the metrics of clients: kept and described, as no client is asked for any.
    ClientMetrics(Arc<str>),
}

type Layer = BTreeMap<String, String>;

const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// What clients have changed, with the values in force at hand.
#[derive(Clone, Debug)]
pub struct DynamicConfigs {
    start: BrokerConfig,
    /// Whether `min.insync.replicas` is a property of the cluster (KIP-966).
    eligible_leader_replicas: bool,
    /// What is fixed at the start for one node alone: its id and its addresses.
    nodes: BTreeMap<NodeId, Layer>,
    layers: BTreeMap<ConfigResource, Layer>,
    broker: Arc<BrokerSettings>,
    topic_default: TopicSettings,
    topics: BTreeMap<Arc<str>, TopicSettings>,
    group_default: GroupSettings,
    groups: BTreeMap<Arc<str>, GroupSettings>,
}

/// What is in force for a group, whatever its type turns out to be.
#[derive(Clone, Debug)]
struct GroupSettings {
    consumer: ConsumerGroupSettings,
    share: Arc<ShareGroupSettings>,
}

impl GroupSettings {
    fn read(lookup: &dyn Fn(&str) -> Option<ConfigValue>) -> Self {
        let share = Arc::new(ShareGroupSettings::read(lookup));
        Self { consumer: ConsumerGroupSettings::read(lookup), share }
    }
}

impl DynamicConfigs {
    /// Starts from the start configuration, with nothing changed.
    pub fn new(start: BrokerConfig) -> Self {
        let mut configs = Self {
            broker: Arc::new(start.settings()),
            topic_default: TopicSettings::read(&|name| topic_default(&start, name)),
            group_default: GroupSettings::read(&|name| group_default(&start, name)),
            nodes: start.nodes.iter().map(|node| (node.id, node.properties())).collect(),
            layers: layers_of_new_cluster(&start),
            eligible_leader_replicas: has_eligible_leader_replicas(&start.features),
            start,
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
        };
        configs.refresh_all();
        configs
    }

    /// Returns the start configuration.
    pub const fn start(&self) -> &BrokerConfig {
        &self.start
    }

    /// Returns what is in force for the cluster.
    pub const fn broker(&self) -> &Arc<BrokerSettings> {
        &self.broker
    }

    /// Returns what is in force for a topic.
    pub fn topic(&self, topic: &str) -> &TopicSettings {
        self.topics.get(topic).unwrap_or(&self.topic_default)
    }

    /// Returns what is in force for a share group, within the broker's bounds.
    pub fn share_group(&self, group: &str) -> &Arc<ShareGroupSettings> {
        &self.groups.get(group).unwrap_or(&self.group_default).share
    }

    /// Returns what is in force for a consumer group, within the broker's bounds.
    pub fn consumer_group(&self, group: &str) -> ConsumerGroupSettings {
        self.groups.get(group).unwrap_or(&self.group_default).consumer
    }

    /// Returns what clients have set on `resource`, as text.
    pub fn overrides(&self, resource: &ConfigResource) -> impl Iterator<Item = (&str, &str)> {
        self.layers.get(resource).into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns what clients have set something on.
    pub fn resources(&self) -> impl Iterator<Item = &ConfigResource> {
        self.layers.keys()
    }

    /// Applies a change.
    pub fn replay(&mut self, change: &ConfigChange) {
        let layer = self.layers.entry(change.resource.clone()).or_default();
        for (name, value) in &change.values {
            match value {
                Some(value) => layer.insert(name.clone(), value.clone()),
                None => layer.remove(name),
            };
        }
        self.refresh(&change.resource);
    }

    /// Applies new levels of features: with eligible leader replicas `min.insync.replicas` is set on the cluster, and
    /// on no single node.
    pub fn replay_features(&mut self, features: &Features) {
        let before =
            std::mem::replace(&mut self.eligible_leader_replicas, has_eligible_leader_replicas(features));
        if before || !self.eligible_leader_replicas {
            return;
        }
        let in_force = self.cluster_value(MIN_INSYNC_REPLICAS).map(|value| value.to_string());
        for (resource, layer) in &mut self.layers {
            if matches!(resource, ConfigResource::Broker(Some(_))) {
                layer.remove(MIN_INSYNC_REPLICAS);
            }
        }
        if let Some(value) = in_force {
            let layer = self.layers.entry(ConfigResource::Broker(None)).or_default();
            layer.entry(MIN_INSYNC_REPLICAS.to_owned()).or_insert(value);
        }
        self.refresh_all();
    }

    /// Forgets what was set on `resource`, which is gone.
    pub fn replay_removal(&mut self, resource: &ConfigResource) {
        self.layers.remove(resource);
        self.refresh(resource);
    }

    fn refresh(&mut self, resource: &ConfigResource) {
        let is_set = self.layers.get(resource).is_some_and(|layer| !layer.is_empty());
        if !is_set {
            self.layers.remove(resource);
        }
        match resource {
            ConfigResource::Topic(name) if is_set => {
                let settings = self.read_topic(Some(resource));
                self.topics.insert(name.clone(), settings);
            }
            ConfigResource::Topic(name) => drop(self.topics.remove(name)),
            ConfigResource::Group(name) if is_set => {
                let settings = self.read_group(Some(resource));
                self.groups.insert(name.clone(), settings);
            }
            ConfigResource::Group(name) => drop(self.groups.remove(name)),
            ConfigResource::ClientMetrics(_) => {}
            ConfigResource::Broker(_) => self.refresh_all(),
        }
    }

    fn refresh_all(&mut self) {
        self.broker = Arc::new(BrokerSettings::read(&|name| self.cluster_value(name)));
        self.topic_default = self.read_topic(None);
        self.group_default = self.read_group(None);
        let resources: Vec<_> = self.layers.keys().cloned().collect();
        for resource in resources {
            match &resource {
                ConfigResource::Topic(_) | ConfigResource::Group(_) => self.refresh(&resource),
                ConfigResource::Broker(_) | ConfigResource::ClientMetrics(_) => {}
            }
        }
    }

    fn read_topic(&self, resource: Option<&ConfigResource>) -> TopicSettings {
        TopicSettings::read(&|name| {
            let key = self.profile().topic_key(name)?;
            self.resource_value(&key, resource, None).map(|(value, _)| value)
        })
    }

    fn read_group(&self, resource: Option<&ConfigResource>) -> GroupSettings {
        GroupSettings::read(&|name| {
            let key = self.profile().group_key(name)?;
            let (value, _) = self.resource_value(&key, resource, None)?;
            Some(alter::clamp(name, value, &|name| self.cluster_value(name)))
        })
    }

    fn profile(&self) -> Profile {
        self.start.profile
    }

    /// Returns the value in force of a broker property for the cluster as a whole.
    fn cluster_value(&self, name: &str) -> Option<ConfigValue> {
        let key = listener_independent_key(self.profile(), name)?;
        let first = self.start.nodes.first().map(|node| node.id);
        self.broker_value(&key, name, first).map(|(value, _)| value)
    }

    /// Returns the value in force of the broker property `name` at `node`, and which layer it comes from.
    fn broker_value(
        &self,
        key: &ConfigKey,
        name: &str,
        node: Option<NodeId>,
    ) -> Option<(ConfigValue, ConfigSource)> {
        for (source, layer) in self.broker_layers(node) {
            if let Some(value) = layer.get(name).and_then(|text| key.parse_type(text).ok()) {
                return Some((value, source));
            }
        }
        let value = key.parse_type(key.default?).ok()?;
        Some((value, ConfigSource::Default))
    }

    /// Returns the layers of a broker property, the strongest first.
    fn broker_layers(&self, node: Option<NodeId>) -> Vec<(ConfigSource, &Layer)> {
        let mut layers = Vec::with_capacity(4);
        if let Some(layer) = node.and_then(|node| self.layers.get(&ConfigResource::Broker(Some(node)))) {
            layers.push((ConfigSource::DynamicBroker, layer));
        }
        if let Some(layer) = self.layers.get(&ConfigResource::Broker(None)) {
            layers.push((ConfigSource::DynamicDefaultBroker, layer));
        }
        if let Some(layer) = node.and_then(|node| self.nodes.get(&node)) {
            layers.push((ConfigSource::StaticBroker, layer));
        }
        layers.push((ConfigSource::StaticBroker, self.start.properties()));
        layers
    }

    /// Returns the value in force of a property of a topic, a group or a subscription, and which layer it comes from.
    fn resource_value(
        &self,
        key: &ConfigKey,
        resource: Option<&ConfigResource>,
        node: Option<NodeId>,
    ) -> Option<(ConfigValue, ConfigSource)> {
        if let Some(resource) = resource {
            let own = self.layers.get(resource).and_then(|layer| layer.get(key.name));
            if let Some(value) = own.and_then(|text| key.parse_type(text).ok()) {
                return Some((value, ConfigSource::set_on(resource)));
            }
        }
        let node = node.or_else(|| self.start.nodes.first().map(|node| node.id));
        for (source, layer) in self.broker_layers(node) {
            for synonym in key.synonyms {
                if let Some(value) = layer.get(synonym.name).and_then(|text| scaled(key, synonym, text)) {
                    return Some((value, source));
                }
            }
        }
        let default = synonym_default(self.profile(), key).or_else(|| key.parse_type(key.default?).ok());
        default.map(|value| (value, ConfigSource::Default))
    }
}

/// Returns what a new cluster has set: with eligible leader replicas (KIP-966) `min.insync.replicas` is a property
/// of the cluster.
fn layers_of_new_cluster(start: &BrokerConfig) -> BTreeMap<ConfigResource, Layer> {
    let mut layers = BTreeMap::new();
    if has_eligible_leader_replicas(&start.features) {
        let value = start.value(MIN_INSYNC_REPLICAS).map(|value| value.to_string());
        let layer = value.into_iter().map(|value| (MIN_INSYNC_REPLICAS.to_owned(), value)).collect();
        layers.insert(ConfigResource::Broker(None), layer);
    }
    layers
}

fn has_eligible_leader_replicas(features: &Features) -> bool {
    0 < features.level("eligible.leader.replicas.version")
}

/// Reads a broker property's text as the value of the topic or group property that it supplies.
fn scaled(key: &ConfigKey, synonym: &Synonym, text: &str) -> Option<ConfigValue> {
    let value = key.parse_type(text).ok()?;
    if let ConfigValue::Number(number) = value {
        return Some(ConfigValue::Number(number.saturating_mul(synonym.factor)));
    }
    Some(value)
}

/// Returns the default of the first broker property that supplies `key` and has one.
fn synonym_default(profile: Profile, key: &ConfigKey) -> Option<ConfigValue> {
    key.synonyms.iter().find_map(|synonym| {
        let default = profile.broker_key(synonym.name)?.default?;
        scaled(key, synonym, default)
    })
}

fn topic_default(start: &BrokerConfig, name: &str) -> Option<ConfigValue> {
    let key = start.profile.topic_key(name)?;
    synonym_default(start.profile, &key).or_else(|| key.parse_type(key.default?).ok())
}

fn group_default(start: &BrokerConfig, name: &str) -> Option<ConfigValue> {
    let key = start.profile.group_key(name)?;
    synonym_default(start.profile, &key).or_else(|| key.parse_type(key.default?).ok())
}
