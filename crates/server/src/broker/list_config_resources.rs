//! ListConfigResources (74), versions 0-1 (KIP-714, KIP-1142): what has a configuration of its own, or could have.
//!
//! Version 0 asks for the subscriptions to clients' metrics alone.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::list_config_resources_request::ListConfigResourcesRequest;
use sharemark_protocol::messages::list_config_resources_response::{
    ConfigResource as Listed, ListConfigResourcesResponse,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::describe_configs::resource_type::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::input::Origin;
use crate::config::ConfigResource;

impl Broker {
    pub(super) fn handle_list_config_resources(
        &mut self,
        origin: &Origin,
        request: &ListConfigResourcesRequest,
    ) {
        let mut response = ListConfigResourcesResponse::default();
        match self.list_config_resources(origin, request) {
            Ok(resources) => response.config_resources = resources,
            Err(error) => response.error_code = error.code(),
        }
        self.answer(origin, ResponseMessage::ListConfigResources(response));
    }

    fn list_config_resources(
        &self,
        origin: &Origin,
        request: &ListConfigResourcesRequest,
    ) -> Result<Vec<Listed>, ErrorCode> {
        if !authorize(&origin.principal, Operation::DescribeConfigs, Resource::Cluster) {
            return Err(ErrorCode::ClusterAuthorizationFailed);
        }
        let supported: &[i8] = match origin.api_version {
            0 => &[CLIENT_METRICS],
            _ => &[TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP],
        };
        let asked = match &*request.resource_types {
            [] => supported,
            types => types,
        };
        if asked.iter().any(|kind| !supported.contains(kind)) {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let mut listed = Vec::new();
        let mut list = |kind: i8, names: &mut dyn Iterator<Item = String>| {
            if asked.contains(&kind) {
                let named = |name: String| Listed { resource_name: name.into(), resource_type: kind };
                listed.extend(names.map(named));
            }
        };
        for resource in self.cluster.configs.resources() {
            let (kind, name) = match resource {
                ConfigResource::Group(group) => (GROUP, group),
                ConfigResource::ClientMetrics(subscription) => (CLIENT_METRICS, subscription),
                ConfigResource::Broker(_) | ConfigResource::Topic(_) => continue,
            };
            list(kind, &mut std::iter::once(name.to_string()));
        }
        for kind in [BROKER_LOGGER, BROKER] {
            list(kind, &mut self.cluster.nodes.iter().map(|node| node.get().to_string()));
        }
        list(TOPIC, &mut self.cluster.topics().map(|topic| topic.name.to_string()));
        Ok(listed)
    }
}
