//! The configuration as a journal keeps it: as JSON, so that a reader of the file sees what ran.

use serde_json::{Map, Value, json};
use sharemark_protocol::NodeId;

use crate::config::{BrokerConfig, ConfigBuilder, Endpoint, Listener, NewTopic, NodeConfig, Profile};

pub(super) fn write(config: &BrokerConfig) -> String {
    let endpoint = |endpoint: &Endpoint| json!({"host": endpoint.host, "port": endpoint.port});
    let listener = |listener: &Listener| {
        let (listen, advertised) = (endpoint(&listener.listen), endpoint(&listener.advertised));
        json!({"name": listener.name, "listen": listen, "advertised": advertised})
    };
    let node = |node: &NodeConfig| {
        let listeners: Vec<_> = node.listeners.iter().map(listener).collect();
        json!({"id": node.id.get(), "listeners": listeners, "rack": node.rack})
    };
    let features: Map<String, Value> =
        config.features.iter().map(|it| (it.name.to_owned(), it.level.into())).collect();
    let properties: Map<String, Value> =
        config.properties().iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let shown = json!({
        "profile": config.profile.name(),
        "seed": config.seed,
        "memoryLimitBytes": config.memory_limit_bytes,
        "nodes": config.nodes.iter().map(node).collect::<Vec<_>>(),
        "features": features,
        "topics": config.topics.iter().map(topic).collect::<Vec<_>>(),
        "properties": properties,
    });
    shown.to_string()
}

fn topic(topic: &NewTopic) -> String {
    let partitions = topic.partitions.map_or_else(String::new, |count| count.to_string());
    let configs: Vec<String> = topic.configs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}:{partitions}:{}", topic.name, configs.join(","))
}

pub(super) fn read(text: &str) -> Result<BrokerConfig, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let builder = builder(&value).ok_or("it lacks a field")?;
    let mut unknown = Vec::new();
    let config = builder.build(&mut unknown).map_err(|error| error.to_string())?;
    if let Some(name) = unknown.first() {
        return Err(format!("no property is called {name}"));
    }
    Ok(config)
}

fn builder(value: &Value) -> Option<ConfigBuilder> {
    let nodes = value["nodes"].as_array()?.iter().map(read_node).collect::<Option<Vec<_>>>()?;
    if nodes.is_empty() {
        return None;
    }
    let mut builder = BrokerConfig::builder()
        .nodes(nodes)
        .profile(Profile::parse(value["profile"].as_str()?)?)
        .seed(value["seed"].as_u64()?)
        .memory_limit_bytes(value["memoryLimitBytes"].as_u64()?);
    for (name, text) in value["properties"].as_object()? {
        builder = builder.property(name, text.as_str()?);
    }
    for (name, level) in value["features"].as_object()? {
        builder = builder.feature(format!("{name}={}", level.as_i64()?));
    }
    for topic in value["topics"].as_array()? {
        builder = builder.topic(topic.as_str()?);
    }
    Some(builder)
}

fn read_node(value: &Value) -> Option<NodeConfig> {
    let id = i32::try_from(value["id"].as_i64()?).ok().filter(|id| 0 <= *id)?;
    let listeners = value["listeners"].as_array()?.iter().map(read_listener).collect::<Option<_>>()?;
    let rack = value["rack"].as_str().map(str::to_owned);
    Some(NodeConfig { id: NodeId::new(id), listeners, rack })
}

fn read_listener(value: &Value) -> Option<Listener> {
    let endpoint = |value: &Value| {
        let port = u16::try_from(value["port"].as_u64()?).ok()?;
        Some(Endpoint { host: value["host"].as_str()?.to_owned(), port })
    };
    let (listen, advertised) = (endpoint(&value["listen"])?, endpoint(&value["advertised"])?);
    Some(Listener { name: value["name"].as_str()?.to_owned(), listen, advertised })
}
