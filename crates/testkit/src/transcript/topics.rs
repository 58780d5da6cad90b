//! Commands about topics and configs.

use std::fmt::Write;

use sharemark_protocol::StrBytes;
use sharemark_protocol::messages as m;

use m::create_partitions_request::{CreatePartitionsRequest, CreatePartitionsTopic};
use m::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use m::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use m::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use m::describe_configs_response::DescribeConfigsResponse;
use m::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use m::list_config_resources_request::ListConfigResourcesRequest;
use m::metadata_request::{MetadataRequest, MetadataRequestTopic};

use super::admin::with_message;
use super::arguments::{Arguments, CommandError};
use super::names::error;
use super::session::Session;

const TIMEOUT_MS: i32 = 10_000;
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;
/// No operation at all.
const ODD: i8 = 7;

/// `create-topic t [partitions=1] [replicas=1] [validate-only] [config=value ...]`
pub(super) fn create_topic(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("topic")?;
    let validate_only = arguments.flag("validate-only");
    let version = arguments.number("version", 7)?;
    let topic = CreatableTopic {
        name: session.names.wire(&name),
        num_partitions: arguments.number("partitions", 1)?,
        replication_factor: arguments.number("replicas", 1)?,
        configs: arguments
            .rest()
            .into_iter()
            .map(|(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value.into()) })
            .collect(),
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: TIMEOUT_MS, validate_only };
    let answer = session.call(&request, version)?;
    let result = answer.topics.first().ok_or("no topic in the answer")?;
    if result.error_code == 0 && !validate_only {
        session.names.learn_topic(result.topic_id, &result.name);
        settle_topic(session, &name)?;
    }
    Ok(format!("{}\n", error(result.error_code)))
}

/// Waits until all partitions of a new topic have leaders that know it.
fn settle_topic(session: &mut Session<'_>, name: &str) -> Result<(), CommandError> {
    session.settle_until("the topic has leaders", |session| {
        let answer = topic_metadata(session, &[name], 12)?;
        let topic = answer.topics.first().ok_or("no topic in the answer")?;
        if topic.error_code != 0 || topic.partitions.iter().any(|partition| partition.error_code != 0) {
            return Ok(false);
        }
        if 1 < answer.brokers.len() {
            return Ok(true); // This connection cannot ask the leaders at other nodes.
        }
        for index in 0..topic.partitions.len() {
            if !session.run(&format!("list-offsets {name}-{index}"))?.contains(" NONE ") {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// `delete-topic t`
pub(super) fn delete_topic(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("topic")?;
    let state = DeleteTopicState { name: Some(session.names.wire(&name)), ..DeleteTopicState::default() };
    let request =
        DeleteTopicsRequest { topics: vec![state], timeout_ms: TIMEOUT_MS, ..DeleteTopicsRequest::default() };
    let answer = session.call(&request, 6)?;
    session.settle();
    let result = answer.responses.first().ok_or("no topic in the answer")?;
    Ok(format!("{}\n", error(result.error_code)))
}

/// `create-partitions t total=3`
pub(super) fn create_partitions(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("topic")?;
    let topic = CreatePartitionsTopic {
        name: session.names.wire(&name),
        count: arguments.number("total", 1)?,
        assignments: None,
    };
    let request = CreatePartitionsRequest {
        topics: vec![topic],
        timeout_ms: TIMEOUT_MS,
        ..CreatePartitionsRequest::default()
    };
    let answer = session.call(&request, 3)?;
    session.settle();
    let result = answer.results.first().ok_or("no topic in the answer")?;
    Ok(format!("{}\n", error(result.error_code)))
}

fn topic_metadata(
    session: &mut Session<'_>,
    names: &[&str],
    version: i16,
) -> Result<m::metadata_response::MetadataResponse, CommandError> {
    let topics = names
        .iter()
        .map(|name| MetadataRequestTopic {
            name: Some(session.names.wire(name)),
            ..MetadataRequestTopic::default()
        })
        .collect();
    let request = MetadataRequest {
        topics: Some(topics),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    session.call(&request, version)
}

/// `metadata t u ... [version=13]`
pub(super) fn metadata(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let names = arguments.words_until("");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = topic_metadata(session, &names, arguments.number("version", 13)?)?;
    let mut lines = Vec::new();
    for topic in &answer.topics {
        let name = topic.name.as_ref().map(|name| session.names.shown(name)).unwrap_or_default();
        let mut line = format!("{name} {}", error(topic.error_code));
        if topic.error_code == 0 {
            let _ = write!(line, " internal={} partitions={}", topic.is_internal, topic.partitions.len());
        }
        lines.push(line + "\n");
    }
    lines.sort();
    Ok(lines.concat())
}

pub(super) fn resource_type(word: &str) -> Result<i8, CommandError> {
    match word {
        "topic" => Ok(TOPIC),
        "broker" => Ok(BROKER),
        "group" => Ok(GROUP),
        "client-metrics" => Ok(CLIENT_METRICS),
        _ => Err(format!("`{word}` is no resource type: topic, broker, group, client-metrics")),
    }
}

/// Returns the name of a resource on the wire; `all` stands for all brokers, `unnamed` for no name.
fn resource_name(session: &Session<'_>, kind: i8, name: &str) -> StrBytes {
    match (kind, name) {
        (BROKER, "all") | (_, "unnamed") => StrBytes::default(),
        (BROKER, _) => name.to_owned().into(),
        _ => session.names.wire(name),
    }
}

/// `alter-configs topic|group|broker|client-metrics NAME [told] [config=value ...] [delete=a,b] [append=a:x]
/// [subtract=a:x] [odd=a:x]`
///
/// With `odd`, an operation that there is not; with `told`, Kafka's words are shown.
pub(super) fn alter_configs(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let kind = resource_type(&arguments.word("resource type")?)?;
    let name = arguments.word("resource name")?;
    let told = arguments.flag("told");
    let mut configs = Vec::new();
    for (option, operation) in [("append", APPEND), ("subtract", SUBTRACT), ("odd", ODD)] {
        for change in arguments.list(option).unwrap_or_default() {
            let (config, value) = change.split_once(':').ok_or("append and subtract take config:value")?;
            configs.push((config.to_owned(), operation, Some(value.to_owned())));
        }
    }
    configs.extend(
        arguments.list("delete").unwrap_or_default().into_iter().map(|config| (config, DELETE, None)),
    );
    configs.extend(arguments.rest().into_iter().map(|(config, value)| (config, SET, Some(value))));
    alter(session, kind, &name, configs, told)
}

/// `group-config g config=value ...`
pub(super) fn group_config(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("group")?;
    let mut configs = Vec::new();
    for (config, value) in arguments.rest() {
        // A topic's name is another one on the wire.
        let names_topic = config.ends_with(".topic.name");
        let value = if names_topic { session.names.wire(&value).to_string() } else { value };
        configs.push((config, SET, Some(value)));
    }
    alter(session, GROUP, &name, configs, false)
}

fn alter(
    session: &mut Session<'_>,
    kind: i8,
    name: &str,
    configs: Vec<(String, i8, Option<String>)>,
    told: bool,
) -> Result<String, CommandError> {
    let resource_name = resource_name(session, kind, name);
    let resource = AlterConfigsResource {
        resource_type: kind,
        resource_name: resource_name.clone(),
        configs: configs
            .iter()
            .map(|(name, operation, value)| AlterableConfig {
                name: name.clone().into(),
                config_operation: *operation,
                value: value.clone().map(Into::into),
            })
            .collect(),
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    let answer = session.call(&request, 1)?;
    let result = answer.responses.first().ok_or("no resource in the answer")?;
    if result.error_code == 0 {
        session.settle_until("the configs are in force", |session| {
            let described = describe(session, kind, resource_name.clone(), None)?;
            let described = described.results.first().ok_or("no resource in the answer")?;
            Ok(configs.iter().filter(|(_, operation, _)| *operation == SET).all(|(name, _, value)| {
                described
                    .configs
                    .iter()
                    .any(|config| *config.name == **name && config.value.as_deref() == value.as_deref())
            }))
        })?;
        session.settle();
    }
    let message = result.error_message.as_ref().filter(|_| told);
    Ok(with_message(session, result.error_code, message) + "\n")
}

fn describe(
    session: &mut Session<'_>,
    kind: i8,
    name: StrBytes,
    keys: Option<Vec<String>>,
) -> Result<DescribeConfigsResponse, CommandError> {
    let resource = DescribeConfigsResource {
        resource_type: kind,
        resource_name: name,
        configuration_keys: keys.map(|keys| keys.into_iter().map(Into::into).collect()),
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..DescribeConfigsRequest::default()
    };
    session.call(&request, 4)
}

/// `describe-configs topic|group|broker|client-metrics NAME [told] [keys=a,b]`
///
/// With `told`, Kafka's words and the values of other layers are shown.
pub(super) fn describe_configs(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let kind = resource_type(&arguments.word("resource type")?)?;
    let name = arguments.word("resource name")?;
    let told = arguments.flag("told");
    let wire_name = resource_name(session, kind, &name);
    let answer = describe(session, kind, wire_name, arguments.list("keys"))?;
    let result = answer.results.first().ok_or("no resource in the answer")?;
    if result.error_code != 0 {
        let message = result.error_message.as_ref().filter(|_| told);
        return Ok(with_message(session, result.error_code, message) + "\n");
    }
    let mut lines: Vec<String> = result
        .configs
        .iter()
        .map(|config| {
            let value = config.value.as_deref().unwrap_or("null");
            let others = config.synonyms.iter().filter(|_| told).map(|synonym| {
                let value = synonym.value.as_deref().unwrap_or("null");
                format!(" {}={value}:{}", &*synonym.name, source(synonym.source))
            });
            format!(
                "{}={value} {} {}{}{}{}\n",
                &*config.name,
                source(config.config_source),
                value_type(config.config_type),
                if config.read_only { " read-only" } else { "" },
                if config.is_sensitive { " sensitive" } else { "" },
                others.collect::<String>(),
            )
        })
        .collect();
    lines.sort();
    Ok(lines.concat())
}

/// `list-config-resources [types=topic,broker,group,client-metrics,8] [version=1]`: those of this run.
pub(super) fn list_config_resources(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let types = arguments.list("types").unwrap_or_default();
    let request = ListConfigResourcesRequest {
        resource_types: types
            .iter()
            .map(|word| word.parse().or_else(|_| resource_type(word)))
            .collect::<Result<_, _>>()?,
    };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let mut lines: Vec<String> = answer
        .config_resources
        .iter()
        .filter(|listed| listed.resource_name.len() <= 2 || session.names.is_ours(&listed.resource_name))
        .map(|listed| match listed.resource_type {
            BROKER | BROKER_LOGGER => format!("{} node\n", listed.resource_type),
            kind => format!("{kind} {}\n", session.names.shown(&listed.resource_name)),
        })
        .filter(|line| !line.contains(" __"))
        .collect();
    lines.sort();
    Ok(format!("{}\n{}", error(answer.error_code), lines.concat()))
}

fn source(code: i8) -> &'static str {
    match code {
        1 => "topic",
        2 => "broker",
        3 => "default-broker",
        4 => "static-broker",
        5 => "default",
        7 => "client-metrics",
        8 => "group",
        _ => "other",
    }
}

fn value_type(code: i8) -> &'static str {
    match code {
        1 => "boolean",
        2 => "string",
        3 => "int",
        4 => "short",
        5 => "long",
        6 => "double",
        7 => "list",
        8 => "class",
        9 => "password",
        _ => "unknown",
    }
}
