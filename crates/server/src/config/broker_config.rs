//! What is fixed at the start.

use std::collections::BTreeMap;

use sharemark_protocol::NodeId;

use super::builder::ConfigBuilder;
use super::features::Features;
use super::key::ConfigKey;
use super::listener_apis::ListenerApis;
use super::listeners::{Endpoint, Listener};
use super::new_topic::NewTopic;
#[cfg(feature = "plants")]
use super::plant::Plant;
use super::profile::Profile;
use super::settings::{BrokerSettings, TxnDialect};
use super::value::{ConfigValue, split_list};

/// The most bytes that a batch is decompressed to, whatever the configuration allows: a frame of a megabyte can
/// stand for gigabytes.
const DECOMPRESSED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The property that says in which forms transactional acknowledgements come.
pub(super) const TXN_DIALECT: &str = "share.txn.dialect";

/// The property that says which rack a node is in.
pub(super) const BROKER_RACK: &str = "broker.rack";

/// One node of the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeConfig {
    /// Its id.
    pub id: NodeId,
    /// Its listeners; the first one is for tools and for the ready line.
    pub listeners: Vec<Listener>,
    /// The rack that it is in, if it has one of its own.
    pub rack: Option<String>,
}

impl NodeConfig {
    /// Returns the properties that this node has for itself.
    pub(super) fn properties(&self) -> BTreeMap<String, String> {
        let join = |endpoint: fn(&Listener) -> &Endpoint| {
            let shown = |listener: &Listener| format!("{}://{}", listener.name, endpoint(listener));
            self.listeners.iter().map(shown).collect::<Vec<_>>().join(",")
        };
        let mut properties = vec![
            ("broker.id", self.id.to_string()),
            ("listeners", join(|listener| &listener.listen)),
            ("node.id", self.id.to_string()),
            ("process.roles", "broker,controller".to_owned()),
        ];
        if self.listeners.iter().any(|listener| listener.advertised != listener.listen) {
            properties.push(("advertised.listeners", join(|listener| &listener.advertised)));
        }
        properties.extend(self.rack.iter().map(|rack| (BROKER_RACK, rack.clone())));
        properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// What is fixed at the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BrokerConfig {
    /// Which Kafka the broker stands for.
    pub profile: Profile,
    /// The nodes, in order of id; never empty.
    pub nodes: Vec<NodeConfig>,
    /// The features in force.
    pub features: Features,
    /// Topics to be created at the start.
    pub topics: Vec<NewTopic>,
    /// Seeds all ids.
    pub seed: u64,
    /// The most bytes that all logs together may hold; at it, Produce answers a retriable error.
    pub memory_limit_bytes: u64,
    /// A bug that is built in on purpose.
    #[cfg(feature = "plants")]
    pub plant: Option<Plant>,
    /// Broker properties that were set, checked.
    pub(super) properties: BTreeMap<String, String>,
}

impl BrokerConfig {
    /// Starts a configuration from the defaults.
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::new()
    }

    /// Returns the value that a broker property has from the start, or `None` if it has none.
    pub fn value(&self, name: &str) -> Option<ConfigValue> {
        let key = self.profile.broker_key(name)?;
        match self.properties.get(name) {
            Some(text) => key.parse(text).ok(),
            None => key.parse_type(key.default?).ok(),
        }
    }

    /// Returns the rack that a node is in: its own, or the one of all nodes.
    pub fn rack(&self, node: NodeId) -> Option<&str> {
        let own = self.nodes.iter().find(|config| config.id == node).and_then(|config| config.rack.as_ref());
        own.or_else(|| self.properties.get(BROKER_RACK)).map(String::as_str)
    }

    /// Returns what is in force from the start, before any client changes it.
    pub fn settings(&self) -> BrokerSettings {
        BrokerSettings::read(&|name| self.value(name))
    }

    /// Returns the wire forms of transactional acknowledgements that the listener called `listener` serves:
    /// `share.txn.dialect`, or `listener.name.<listener>.share.txn.dialect` when that is set.
    pub fn txn_dialects(&self, listener: &str) -> Vec<TxnDialect> {
        if self.profile == Profile::Kafka44 {
            return Vec::new();
        }
        let own = own_txn_dialect(listener);
        let names = match self.properties.get(&own) {
            Some(text) => split_list(text),
            None => match self.value(TXN_DIALECT) {
                Some(ConfigValue::List(names)) => names,
                _ => Vec::new(),
            },
        };
        names.iter().filter_map(|name| TxnDialect::parse(name)).collect()
    }

    /// Returns what the numbers of APIs mean on the listener called `listener`.
    pub fn listener_apis(&self, listener: &str) -> ListenerApis {
        ListenerApis::new(&self.txn_dialects(listener))
    }

    /// Returns the most bytes that a produced batch may be decompressed to, before it is looked at more closely.
    pub fn decompressed_bytes_max(&self) -> usize {
        let configured = self.settings().max_decompressed_message_bytes;
        usize::try_from(configured).unwrap_or(0).min(DECOMPRESSED_BYTES_MAX)
    }

    /// Returns the properties that were set and are known, with their checked text.
    pub fn properties(&self) -> &BTreeMap<String, String> {
        &self.properties
    }
}

/// Returns the property that says it for the listener called `listener`.
pub(super) fn own_txn_dialect(listener: &str) -> String {
    format!("listener.name.{}.{TXN_DIALECT}", listener.to_ascii_lowercase())
}

/// Returns whose rack `name` sets, if it is `node.<id>.broker.rack`.
pub(super) fn rack_owner(name: &str) -> Option<NodeId> {
    let (id, property) = name.strip_prefix("node.")?.split_once('.')?;
    id.parse().ok().filter(|_| property == BROKER_RACK).map(NodeId::new)
}

/// Returns the property that `name` means: itself, or the one after the `listener.name.<listener>.` before it.
pub(super) fn listener_independent_key(profile: Profile, name: &str) -> Option<ConfigKey> {
    let stripped = name.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.'));
    profile.broker_key(stripped.map_or(name, |(_, rest)| rest))
}
