//! DescribeConfigs (32), versions 1-4.
//!
//! Differences from Kafka: no property is documented, and brokers have no loggers to describe.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use sharemark_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use sharemark_protocol::{ErrorCode, NodeId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;
use super::topics::check_topic_name;
use crate::config::{ConfigResource, DescribedConfig};

/// The resource types of config requests.
pub(super) mod resource_type {
    /// A topic.
    pub(in crate::broker) const TOPIC: i8 = 2;
    /// A broker, or all.
    pub(in crate::broker) const BROKER: i8 = 4;
    /// The logger of a broker.
    pub(in crate::broker) const BROKER_LOGGER: i8 = 8;
    /// A subscription to the metrics of clients.
    pub(in crate::broker) const CLIENT_METRICS: i8 = 16;
    /// A group.
    pub(in crate::broker) const GROUP: i8 = 32;
}

/// What stands for the type of a property that is not known.
const TYPE_UNKNOWN: i8 = 0;

/// Why a resource is refused, in Kafka's words.
type Refusal = (ErrorCode, String);

impl Broker {
    pub(super) fn handle_describe_configs(&mut self, origin: &Origin, request: &DescribeConfigsRequest) {
        let results =
            request.resources.iter().map(|asked| self.describe_resource(origin, request, asked)).collect();
        let response = DescribeConfigsResponse { throttle_time_ms: 0, results };
        self.answer(origin, ResponseMessage::DescribeConfigs(response));
    }

    fn describe_resource(
        &self,
        origin: &Origin,
        request: &DescribeConfigsRequest,
        asked: &DescribeConfigsResource,
    ) -> DescribeConfigsResult {
        let (error, message, configs) = match self.decide_describe(origin, asked) {
            Ok(resource) => {
                let wanted = asked.configuration_keys.as_ref();
                let wanted = wanted.map(|names| names.iter().map(|name| &**name).collect::<Vec<_>>());
                let described = self.cluster.configs.describe(origin.node, &resource, wanted.as_deref());
                let shown = described.into_iter().map(|config| shown(config, request.include_synonyms));
                (ErrorCode::None, Some("".into()), shown.collect())
            }
            Err((error, text)) => (error, Some(text.into()), Vec::new()),
        };
        DescribeConfigsResult {
            error_code: error.code(),
            error_message: message,
            resource_type: asked.resource_type,
            resource_name: asked.resource_name.clone(),
            configs,
        }
    }

    fn decide_describe(
        &self,
        origin: &Origin,
        asked: &DescribeConfigsResource,
    ) -> Result<ConfigResource, Refusal> {
        let name = &*asked.resource_name;
        let allowed = |resource| authorize(&origin.principal, Operation::DescribeConfigs, resource);
        match asked.resource_type {
            resource_type::TOPIC => {
                if !allowed(Resource::Topic(name)) {
                    return Err(unauthorized(ErrorCode::TopicAuthorizationFailed));
                }
                check_topic_name(name).map_err(|text| (ErrorCode::InvalidTopicException, text))?;
                let topic = self.cluster.topic_named(name);
                let topic = topic.ok_or((ErrorCode::UnknownTopicOrPartition, String::new()))?;
                Ok(ConfigResource::Topic(topic.name.clone()))
            }
            resource_type::BROKER => {
                if !allowed(Resource::Cluster) {
                    return Err(unauthorized(ErrorCode::ClusterAuthorizationFailed));
                }
                decide_node(origin.node, name)
            }
            resource_type::GROUP => {
                if !allowed(Resource::Group(name)) {
                    return Err(unauthorized(ErrorCode::GroupAuthorizationFailed));
                }
                if name.is_empty() {
                    return Err((ErrorCode::InvalidRequest, "Group name must not be empty".to_owned()));
                }
                Ok(ConfigResource::Group(name.into()))
            }
            resource_type::CLIENT_METRICS => {
                if !allowed(Resource::Cluster) {
                    return Err(unauthorized(ErrorCode::ClusterAuthorizationFailed));
                }
                if name.is_empty() {
                    let text = "Client metrics subscription name must not be empty";
                    return Err((ErrorCode::InvalidRequest, text.to_owned()));
                }
                Ok(ConfigResource::ClientMetrics(name.into()))
            }
            other => Err((ErrorCode::InvalidRequest, format!("Unsupported resource type: {other}"))),
        }
    }
}

/// Reads the name of a broker: the node that was asked, or nothing for what all nodes have.
fn decide_node(own: NodeId, name: &str) -> Result<ConfigResource, Refusal> {
    if name.is_empty() {
        return Ok(ConfigResource::Broker(None));
    }
    match name.parse::<i32>() {
        Ok(id) if id == own.get() => Ok(ConfigResource::Broker(Some(own))),
        Ok(_) => {
            let text = format!("Unexpected broker id, expected {own} or empty string, but received {name}");
            Err((ErrorCode::InvalidRequest, text))
        }
        Err(_) => {
            let text = format!("Broker id must be an integer, but it is: {name}");
            Err((ErrorCode::InvalidRequest, text))
        }
    }
}

fn shown(config: DescribedConfig, include_synonyms: bool) -> DescribeConfigsResourceResult {
    let synonyms = config.synonyms.into_iter().filter(|_| include_synonyms);
    DescribeConfigsResourceResult {
        name: config.name.into(),
        value: config.value.map(Into::into),
        read_only: config.read_only,
        config_source: config.source.wire_id(),
        is_sensitive: config.sensitive,
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: synonym.value.map(Into::into),
                source: synonym.source.wire_id(),
            })
            .collect(),
        config_type: config.kind.map_or(TYPE_UNKNOWN, crate::config::ConfigType::wire_id),
        documentation: None,
    }
}

fn unauthorized(error: ErrorCode) -> Refusal {
    (error, error.name().to_owned())
}
