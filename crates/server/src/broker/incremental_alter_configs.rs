//! IncrementalAlterConfigs (44), versions 0-1.
//!
//! Differences from Kafka: log levels of brokers cannot be changed, a change of a broker property is not tried out on
//! what it concerns (thread pools, key stores), streams groups' lists of tags and assignors are checked as any other
//! list, and what clients' properties must match is checked without what Java's regular expressions alone have.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use sharemark_protocol::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::describe_configs::resource_type;
use super::input::Origin;
use super::topics::check_topic_name;
use crate::config::{AlterOperation, ConfigChange, ConfigResource};

/// The operations of the request.
mod operation {
    pub(super) const SET: i8 = 0;
    pub(super) const DELETE: i8 = 1;
    pub(super) const APPEND: i8 = 2;
    pub(super) const SUBTRACT: i8 = 3;
}

/// Why a resource is refused, in Kafka's words.
pub(super) type Refusal = (ErrorCode, String);

impl Broker {
    pub(super) fn handle_incremental_alter_configs(
        &mut self,
        origin: &Origin,
        request: &IncrementalAlterConfigsRequest,
    ) {
        let repeated = repeated_resources(
            request.resources.iter().map(|asked| (asked.resource_type, &*asked.resource_name)),
        );
        let mut responses = Vec::with_capacity(request.resources.len());
        for asked in &request.resources {
            let is_once = !repeated.contains(&(asked.resource_type, &*asked.resource_name));
            let outcome = self.decide_alter(origin, asked, is_once);
            let (error, message) = self.finish_config_change(outcome, request.validate_only);
            responses.push(AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: message.map(Into::into),
                resource_type: asked.resource_type,
                resource_name: asked.resource_name.clone(),
            });
        }
        let response = IncrementalAlterConfigsResponse { throttle_time_ms: 0, responses };
        self.answer(origin, ResponseMessage::IncrementalAlterConfigs(response));
    }

    /// Applies what was decided for a resource, unless it is only tried out, and returns what its client is told.
    pub(super) fn finish_config_change(
        &mut self,
        outcome: Result<ConfigChange, Refusal>,
        validate_only: bool,
    ) -> (ErrorCode, Option<String>) {
        match outcome {
            Ok(change) => {
                if !validate_only {
                    self.apply_config_change(&change);
                }
                (ErrorCode::None, None)
            }
            Err((error, text)) => (error, Some(text)),
        }
    }

    /// Applies a change of properties, and what follows from it.
    pub(super) fn apply_config_change(&mut self, change: &ConfigChange) {
        self.cluster.configs.replay(change);
        self.cluster.refresh_log_configs(&change.resource);
        self.wake_group(&change.resource);
    }

    /// Wakes who waits for records of a group, which may now get more of them.
    fn wake_group(&mut self, changed: &ConfigResource) {
        let ConfigResource::Group(group_id) = changed else { return };
        let keys = self.nodes.values().flat_map(|node| node.share_partitions.keys());
        let of_group = keys.filter(|key| key.group_id == *group_id);
        let places =
            of_group.map(|key| TopicIdPartition { topic_id: key.topic_id, partition: key.partition });
        self.changed.extend(places);
    }

    fn decide_alter(
        &self,
        origin: &Origin,
        asked: &AlterConfigsResource,
        is_once: bool,
    ) -> Result<ConfigChange, Refusal> {
        let is_null = |config: &&AlterableConfig| {
            config.config_operation != operation::DELETE && config.value.is_none()
        };
        let nulls: Vec<&str> = asked.configs.iter().filter(is_null).map(|config| &*config.name).collect();
        decide_altered_names(is_once, asked.configs.iter().map(|config| &*config.name), &nulls, ",")?;
        let resource = decide_altered_resource(origin, asked.resource_type, &asked.resource_name)?;
        let operations = asked.configs.iter().map(read_operation).collect::<Result<Vec<_>, _>>()?;
        self.decide_config_change(&resource, &operations)
    }

    /// Judges a change of a resource that may be changed by whom asks.
    pub(super) fn decide_config_change(
        &self,
        resource: &ConfigResource,
        operations: &[(String, AlterOperation)],
    ) -> Result<ConfigChange, Refusal> {
        let change = self.cluster.configs.decide_alter(resource, operations);
        let change = change.map_err(|error| (error.code(), error.to_string()))?;
        if let ConfigResource::Topic(name) = resource
            && self.cluster.topic_named(name).is_none()
        {
            return Err((ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist.")));
        }
        Ok(change)
    }
}

/// Returns the resources that a request names more than once.
pub(super) fn repeated_resources<'a>(
    resources: impl Iterator<Item = (i8, &'a str)>,
) -> BTreeSet<(i8, &'a str)> {
    let mut seen = BTreeSet::new();
    resources.filter(|resource| !seen.insert(*resource)).collect()
}

/// Judges how a resource and its properties are named; returns the names. `nulls` are those without the value they
/// need.
pub(super) fn decide_altered_names<'a>(
    is_once: bool,
    mut names: impl Iterator<Item = &'a str>,
    nulls: &[&str],
    separator: &str,
) -> Result<BTreeSet<&'a str>, Refusal> {
    let invalid = |text: &str| Err((ErrorCode::InvalidRequest, text.to_owned()));
    if !is_once {
        return invalid("Each resource must appear at most once.");
    }
    let mut known = BTreeSet::new();
    if !names.all(|name| known.insert(name)) {
        return invalid("Error due to duplicate config keys");
    }
    if !nulls.is_empty() {
        return invalid(&format!("Null value not supported for : {}", nulls.join(separator)));
    }
    Ok(known)
}

/// Judges whose properties a client wants to change, and whether it may.
pub(super) fn decide_altered_resource(
    origin: &Origin,
    resource_type: i8,
    name: &str,
) -> Result<ConfigResource, Refusal> {
    let check = |resource, error: ErrorCode| {
        let allowed = authorize(&origin.principal, Operation::AlterConfigs, resource);
        if allowed { Ok(()) } else { Err((error, error.name().to_owned())) }
    };
    let invalid = |text: &str| Err((ErrorCode::InvalidRequest, text.to_owned()));
    match resource_type {
        resource_type::TOPIC => {
            check(Resource::Topic(name), ErrorCode::TopicAuthorizationFailed)?;
            if name.is_empty() {
                return invalid("Default topic resources are not allowed.");
            }
            check_topic_name(name).map_err(|text| (ErrorCode::InvalidTopicException, text))?;
            Ok(ConfigResource::Topic(name.into()))
        }
        resource_type::BROKER => {
            check(Resource::Cluster, ErrorCode::ClusterAuthorizationFailed)?;
            decide_node(origin.node, name)
        }
        resource_type::GROUP => {
            check(Resource::Group(name), ErrorCode::GroupAuthorizationFailed)?;
            if name.is_empty() {
                return invalid("Default group resources are not allowed.");
            }
            Ok(ConfigResource::Group(name.into()))
        }
        resource_type::CLIENT_METRICS => {
            check(Resource::Cluster, ErrorCode::ClusterAuthorizationFailed)?;
            if name.is_empty() {
                return invalid("Subscription name can't be empty");
            }
            Ok(ConfigResource::ClientMetrics(name.into()))
        }
        other => invalid(&format!("Unknown resource type {other}")),
    }
}

/// Reads the name of a broker: the node that was asked, or nothing for all nodes.
fn decide_node(own: NodeId, name: &str) -> Result<ConfigResource, Refusal> {
    if name.is_empty() {
        return Ok(ConfigResource::Broker(None));
    }
    match name.parse::<i32>() {
        Ok(id) if id == own.get() => Ok(ConfigResource::Broker(Some(own))),
        Ok(id) => {
            let text = format!("Unexpected broker id, expected {own}, but received {id}");
            Err((ErrorCode::InvalidRequest, text))
        }
        Err(_) => Err((ErrorCode::InvalidRequest, format!("Node id must be an integer, but it is: {name}"))),
    }
}

fn read_operation(config: &AlterableConfig) -> Result<(String, AlterOperation), Refusal> {
    let value = || config.value.as_deref().unwrap_or_default().to_owned();
    let operation = match config.config_operation {
        operation::SET => AlterOperation::Set(value()),
        operation::DELETE => AlterOperation::Delete,
        operation::APPEND => AlterOperation::Append(value()),
        operation::SUBTRACT => AlterOperation::Subtract(value()),
        // Kafka runs into it.
        other => return Err((ErrorCode::UnknownServerError, format!("Unknown operations type {other}"))),
    };
    Ok((config.name.to_string(), operation))
}
