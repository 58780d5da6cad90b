//! Kafka's properties: what they are called, which values they may have, and what is in force.
//!
//! [`BrokerConfig`] is fixed at a start: defaults of a [`Profile`], a properties file, options.
//! [`DynamicConfigs`] adds what clients change while the broker runs, and answers what is in force.

mod broker_config;
mod broker_keys;
mod builder;
mod client_metrics_keys;
mod duration;
mod dynamic;
mod features;
mod group_keys;
mod key;
mod listener_apis;
mod listeners;
mod new_topic;
#[cfg(feature = "plants")]
mod plant;
mod profile;
mod properties;
mod settings;
mod topic_keys;
mod value;

pub use broker_config::{BrokerConfig, NodeConfig};
pub use builder::{BuildError, ConfigBuilder};
pub use dynamic::{
    AlterError, AlterOperation, ConfigChange, ConfigResource, ConfigSource, DescribedConfig,
    DescribedSynonym, DynamicConfigs,
};
pub use features::{Feature, Features};
pub use key::{ConfigKey, ConfigType, Rule, Synonym, UpdateMode};
pub use listener_apis::ListenerApis;
pub use listeners::{Endpoint, Listener, ListenerError, split_host_port};
pub use new_topic::{NewTopic, is_legal_topic_name};
#[cfg(feature = "plants")]
pub use plant::Plant;
pub use profile::Profile;
pub use properties::{PropertiesError, parse_properties};
pub use settings::{
    AbortTarget, BrokerSettings, Compression, ShareGroupSettings, TimestampType, TopicSettings, TxnDialect,
};
pub use value::{AutoOffsetReset, ConfigError, ConfigValue};

#[cfg(test)]
mod tests;
