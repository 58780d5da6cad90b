//! AlterConfigs (33), versions 0-2: what a resource has is replaced as a whole.
//!
//! Differences from Kafka: those of IncrementalAlterConfigs, and a resource that is named twice is refused; Kafka
//! never answers a request that names nothing else.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use sharemark_protocol::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};

use super::Broker;
use super::incremental_alter_configs::{
    Refusal, decide_altered_names, decide_altered_resource, repeated_resources,
};
use super::input::Origin;
use crate::config::{AlterOperation, ConfigChange};

impl Broker {
    pub(super) fn handle_alter_configs(&mut self, origin: &Origin, request: &AlterConfigsRequest) {
        let repeated = repeated_resources(
            request.resources.iter().map(|asked| (asked.resource_type, &*asked.resource_name)),
        );
        let mut responses = Vec::with_capacity(request.resources.len());
        for asked in &request.resources {
            let is_once = !repeated.contains(&(asked.resource_type, &*asked.resource_name));
            let outcome = self.decide_replacement(origin, asked, is_once);
            let (error, message) = self.finish_config_change(outcome, request.validate_only);
            responses.push(AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: message.map(Into::into),
                resource_type: asked.resource_type,
                resource_name: asked.resource_name.clone(),
            });
        }
        let response = AlterConfigsResponse { throttle_time_ms: 0, responses };
        self.answer(origin, ResponseMessage::AlterConfigs(response));
    }

    fn decide_replacement(
        &self,
        origin: &Origin,
        asked: &AlterConfigsResource,
        is_once: bool,
    ) -> Result<ConfigChange, Refusal> {
        let nulls = asked.configs.iter().filter(|config| config.value.is_none());
        let nulls: Vec<&str> = nulls.map(|config| &*config.name).collect();
        let names = asked.configs.iter().map(|config| &*config.name);
        let names = decide_altered_names(is_once, names, &nulls, ", ")?;
        let resource = decide_altered_resource(origin, asked.resource_type, &asked.resource_name)?;
        let gone = self.cluster.configs.overrides(&resource).map(|(name, _)| name);
        let mut operations: Vec<(String, AlterOperation)> = gone
            .filter(|name| !names.contains(name))
            .map(|name| (name.to_owned(), AlterOperation::Delete))
            .collect();
        operations.extend(asked.configs.iter().map(|config| {
            let value = config.value.as_deref().unwrap_or_default().to_owned();
            (config.name.to_string(), AlterOperation::Set(value))
        }));
        self.decide_config_change(&resource, &operations)
    }
}
