//! Builds the start configuration from its sources: defaults, a properties file, properties, short forms.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sharemark_protocol::NodeId;

use super::broker_config::{
    BROKER_RACK, BrokerConfig, NodeConfig, TXN_DIALECT, listener_independent_key, own_txn_dialect, rack_owner,
};
use super::features::Features;
use super::listeners::{Endpoint, Listener, ListenerError, ListenerProperties, shifted, split_host_port};
use super::new_topic::NewTopic;
#[cfg(feature = "plants")]
use super::plant::Plant;
use super::profile::Profile;
use super::properties::{PropertiesError, parse_properties};
use super::value::{ConfigError, ConfigValue, split_list};

/// The address that a first node listens on when nothing says otherwise.
const DEFAULT_LISTENERS: &str = "PLAINTEXT://127.0.0.1:9092";

/// The most nodes that one process runs.
const MAX_NODES: u16 = 64;

/// What is wrong with a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BuildError {
    /// A property has a wrong value.
    Property(ConfigError),
    /// A properties file cannot be read.
    File(PropertiesError),
    /// The listeners are wrong.
    Listeners(ListenerError),
    /// An option has a wrong value.
    Option {
        /// The option's name.
        option: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Two properties contradict each other.
    Bounds {
        /// The property that must not be below the other.
        larger: &'static str,
        /// The other.
        smaller: &'static str,
        /// Whether equal values contradict each other too.
        strict: bool,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
            Self::Listeners(error) => error.fmt(f),
            Self::Option { option, problem } => write!(f, "{option}: {problem}"),
            Self::Bounds { larger, smaller, strict: true } => {
                write!(f, "{larger} must be greater than {smaller}")
            }
            Self::Bounds { larger, smaller, strict: false } => {
                write!(f, "{larger} must be greater than or equal to {smaller}")
            }
        }
    }
}

impl std::error::Error for BuildError {}

impl From<ListenerError> for BuildError {
    fn from(error: ListenerError) -> Self {
        Self::Listeners(error)
    }
}

/// Collects what a configuration is made of.
#[derive(Clone, Debug)]
pub struct ConfigBuilder {
    profile: Profile,
    properties: Vec<(String, String)>,
    listen: Option<String>,
    advertise: Option<String>,
    node_count: u16,
    first_node_id: Option<i32>,
    nodes: Option<Vec<NodeConfig>>,
    topics: Vec<String>,
    features: Vec<String>,
    seed: u64,
    memory_limit_bytes: u64,
    #[cfg(feature = "plants")]
    plant: Option<Plant>,
}

impl ConfigBuilder {
    pub(super) const fn new() -> Self {
        Self {
            profile: Profile::Latest,
            properties: Vec::new(),
            listen: None,
            advertise: None,
            node_count: 1,
            first_node_id: None,
            nodes: None,
            topics: Vec::new(),
            features: Vec::new(),
            seed: 0,
            memory_limit_bytes: 1 << 30,
            #[cfg(feature = "plants")]
            plant: None,
        }
    }

    /// Sets which Kafka the broker stands for.
    #[must_use]
    pub const fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets a broker property, after those set before.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Sets what the text of a properties file says.
    ///
    /// # Errors
    ///
    /// If the text is not in the format of such a file.
    pub fn properties_file(mut self, text: &str) -> Result<Self, BuildError> {
        self.properties.extend(parse_properties(text).map_err(BuildError::File)?);
        Ok(self)
    }

    /// Sets the first node's address, `HOST:PORT`; port 0 picks free ones.
    #[must_use]
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Sets what clients are told, `HOST[:PORT]`.
    #[must_use]
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Sets the nodes as they are to be, whatever else says where they listen.
    #[must_use]
    pub fn nodes(mut self, nodes: Vec<NodeConfig>) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Sets the number of nodes.
    #[must_use]
    pub const fn brokers(mut self, count: u16) -> Self {
        self.node_count = count;
        self
    }

    /// Sets the id of the first node.
    #[must_use]
    pub const fn first_node_id(mut self, id: i32) -> Self {
        self.first_node_id = Some(id);
        self
    }

    /// Wishes for a topic: `NAME[:PARTITIONS[:key=value,...]]`.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// Sets the level of a feature: `NAME=LEVEL`.
    #[must_use]
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.features.push(feature.into());
        self
    }

    /// Seeds all ids.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the most bytes that all logs together may hold.
    #[must_use]
    pub const fn memory_limit_bytes(mut self, bytes: u64) -> Self {
        self.memory_limit_bytes = bytes;
        self
    }

    /// Builds a bug in on purpose.
    #[cfg(feature = "plants")]
    #[must_use]
    pub const fn plant(mut self, plant: Option<Plant>) -> Self {
        self.plant = plant;
        self
    }

    /// Builds the configuration. Properties that are not known are kept out of it and named in `unknown`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the first wrong value found.
    pub fn build(self, unknown: &mut Vec<String>) -> Result<BrokerConfig, BuildError> {
        let mut properties = BTreeMap::new();
        let mut racks = BTreeMap::new();
        for (name, value) in &self.properties {
            if let Some(node) = rack_owner(name) {
                racks.insert(node, value.trim().to_owned());
                continue;
            }
            match listener_independent_key(self.profile, name) {
                Some(key) => {
                    let value = key.parse(value).map_err(BuildError::Property)?;
                    properties.insert(name.clone(), value.to_string());
                }
                None => unknown.push(name.clone()),
            }
        }
        let mut config = BrokerConfig {
            profile: self.profile,
            nodes: Vec::new(),
            features: self.read_features()?,
            topics: self.read_topics()?,
            seed: self.seed,
            memory_limit_bytes: self.memory_limit_bytes,
            #[cfg(feature = "plants")]
            plant: self.plant,
            properties,
        };
        check_bounds(&config)?;
        config.nodes = match self.nodes {
            Some(nodes) => nodes,
            None => self.read_nodes(&config, &self.read_listeners(&config)?)?,
        };
        check_dialects(&config)?;
        set_racks(&mut config.nodes, racks)?;
        Ok(config)
    }

    fn read_features(&self) -> Result<Features, BuildError> {
        let mut features = Features::new(self.profile);
        for text in &self.features {
            let wrong = |problem| BuildError::Option { option: "--feature", problem };
            let (name, level) =
                text.split_once('=').ok_or_else(|| wrong(format!("{text:?} is not NAME=LEVEL")))?;
            let level = level.parse().map_err(|_| wrong(format!("{level:?} is no level")))?;
            features.set(name, level).map_err(wrong)?;
        }
        Ok(features)
    }

    fn read_topics(&self) -> Result<Vec<NewTopic>, BuildError> {
        let mut topics: Vec<NewTopic> = Vec::new();
        for text in &self.topics {
            let wrong = |problem| BuildError::Option { option: "--topic", problem };
            let topic = NewTopic::parse(text, self.profile).map_err(wrong)?;
            if topics.iter().any(|other| other.name == topic.name) {
                return Err(wrong(format!("{} is named twice", topic.name)));
            }
            topics.push(topic);
        }
        Ok(topics)
    }

    fn read_listeners(&self, config: &BrokerConfig) -> Result<Vec<Listener>, BuildError> {
        let list = |name: &str| match config.value(name) {
            Some(ConfigValue::List(items)) => items,
            _ => Vec::new(),
        };
        let listeners = match (&self.listen, config.properties.contains_key("listeners")) {
            (Some(address), _) => {
                if !matches!(split_host_port(address), Some((_, Some(_)))) {
                    let problem = format!("{address:?} is not of the form HOST:PORT");
                    return Err(BuildError::Option { option: "--listen", problem });
                }
                vec![format!("PLAINTEXT://{address}")]
            }
            (None, true) => list("listeners"),
            (None, false) => vec![DEFAULT_LISTENERS.to_owned()],
        };
        let protocol_map = config.value("listener.security.protocol.map");
        let advertised = match self.advertise {
            Some(_) => Vec::new(),
            None => list("advertised.listeners"),
        };
        let source = ListenerProperties {
            listeners: &listeners,
            advertised: &advertised,
            protocol_map: &protocol_map.map(|value| value.to_string()).unwrap_or_default(),
            controller_names: &list("controller.listener.names"),
        };
        let mut listeners = source.read()?;
        if let (Some(address), Some(first)) = (&self.advertise, listeners.first_mut()) {
            let Some((host, port)) = split_host_port(address).filter(|(host, _)| !host.is_empty()) else {
                let problem = format!("{address:?} is not of the form HOST[:PORT]");
                return Err(BuildError::Option { option: "--advertise", problem });
            };
            first.advertised = Endpoint { host: host.to_owned(), port: port.unwrap_or(0) };
        }
        Ok(listeners)
    }

    fn read_nodes(
        &self,
        config: &BrokerConfig,
        listeners: &[Listener],
    ) -> Result<Vec<NodeConfig>, BuildError> {
        if !(1..=MAX_NODES).contains(&self.node_count) {
            let problem = format!("a process runs 1 to {MAX_NODES} nodes, not {}", self.node_count);
            return Err(BuildError::Option { option: "--brokers", problem });
        }
        let configured = ["node.id", "broker.id"].iter().find_map(|name| match config.value(name) {
            Some(ConfigValue::Number(id)) if 0 <= id => i32::try_from(id).ok(),
            _ => None,
        });
        let first = self.first_node_id.or(configured).unwrap_or(0);
        if first < 0 || i32::MAX - i32::from(MAX_NODES) < first {
            let problem = format!("{first} is no node id");
            return Err(BuildError::Option { option: "--first-node-id", problem });
        }
        let mut nodes: Vec<NodeConfig> = Vec::new();
        for index in 0..self.node_count {
            let id = NodeId::new(first + i32::from(index));
            nodes.push(NodeConfig { id, listeners: shifted(listeners, index)?, rack: None });
        }
        let mut ports: Vec<&Endpoint> =
            nodes.iter().flat_map(|node| &node.listeners).map(|listener| &listener.listen).collect();
        ports.retain(|endpoint| endpoint.port != 0);
        for (index, endpoint) in ports.iter().enumerate() {
            if ports[..index].contains(endpoint) {
                return Err(ListenerError::PortTwice(endpoint.port).into());
            }
        }
        Ok(nodes)
    }
}

/// Tells each node the rack that it has for itself.
fn set_racks(nodes: &mut [NodeConfig], racks: BTreeMap<NodeId, String>) -> Result<(), BuildError> {
    for (id, rack) in racks {
        let Some(node) = nodes.iter_mut().find(|node| node.id == id) else {
            return Err(BuildError::Option {
                option: BROKER_RACK,
                problem: format!("there is no node {id}"),
            });
        };
        node.rack = Some(rack);
    }
    Ok(())
}

/// Pairs of properties of which the first must not be below the second.
const ORDERED: &[(&str, &str)] = &[
    ("group.max.session.timeout.ms", "group.min.session.timeout.ms"),
    ("group.consumer.max.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms"),
    ("group.consumer.max.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.max.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
    ("group.consumer.max.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.share.max.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms"),
    ("group.share.max.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.max.session.timeout.ms", "group.share.min.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.min.session.timeout.ms"),
    ("group.share.max.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.max.assignment.interval.ms", "group.share.min.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "group.share.min.assignment.interval.ms"),
    ("group.share.max.assignment.interval.ms", "group.share.assignment.interval.ms"),
    ("group.share.max.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.max.delivery.count.limit", "group.share.min.delivery.count.limit"),
    ("group.share.delivery.count.limit", "group.share.min.delivery.count.limit"),
    ("group.share.max.delivery.count.limit", "group.share.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", "group.share.min.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", "group.share.min.partition.max.record.locks"),
    ("group.share.max.partition.max.record.locks", "group.share.partition.max.record.locks"),
    ("group.share.max.share.sessions", "group.share.max.size"),
];

/// Pairs of properties of which the first must be above the second.
const STRICTLY_ORDERED: &[(&str, &str)] = &[
    ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.share.session.timeout.ms", "group.share.heartbeat.interval.ms"),
];

/// Refuses forms of transactional acknowledgements that contradict each other, or are for a listener that is not there.
fn check_dialects(config: &BrokerConfig) -> Result<(), BuildError> {
    let wrong = |problem| BuildError::Option { option: TXN_DIALECT, problem };
    let listeners = config.nodes.iter().flat_map(|node| &node.listeners);
    let own: BTreeSet<_> = listeners.map(|listener| own_txn_dialect(&listener.name)).collect();
    for (name, value) in config.properties.iter().filter(|(name, _)| name.ends_with(TXN_DIALECT)) {
        if name != TXN_DIALECT && !own.contains(name) {
            return Err(wrong(format!("{name} is for no listener (their names are in lower case here)")));
        }
        let forms = split_list(value);
        if 1 < forms.len() && forms.iter().any(|form| form == "off") {
            return Err(wrong(format!("{value}: off goes with no other form")));
        }
    }
    Ok(())
}

fn check_bounds(config: &BrokerConfig) -> Result<(), BuildError> {
    let number = |name: &str| match config.value(name) {
        Some(ConfigValue::Number(number)) => number,
        _ => 0,
    };
    for (larger, smaller) in ORDERED {
        if number(larger) < number(smaller) {
            return Err(BuildError::Bounds { larger, smaller, strict: false });
        }
    }
    for (larger, smaller) in STRICTLY_ORDERED {
        if number(larger) <= number(smaller) {
            return Err(BuildError::Bounds { larger, smaller, strict: true });
        }
    }
    Ok(())
}
