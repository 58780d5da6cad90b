//! AlterConfigs (33), versions 0-2: what a resource has is replaced as a whole.
//!
//! Differences from Kafka: those of IncrementalAlterConfigs, and a resource that is named twice is refused; Kafka
//! never answers a request that names nothing else.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource};
use sharemark_protocol::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};

use super::Broker;
use super::incremental_alter_configs::{Refusal, decide_altered_resource};
use super::input::Origin;
use crate::config::{AlterOperation, ConfigChange};

impl Broker {
    pub(super) fn handle_alter_configs(&mut self, origin: &Origin, request: &AlterConfigsRequest) {
        let mut counts = BTreeMap::new();
        for asked in &request.resources {
            *counts.entry((asked.resource_type, &*asked.resource_name)).or_insert(0) += 1;
        }
        let mut responses = Vec::with_capacity(request.resources.len());
        for asked in &request.resources {
            let is_once = counts.get(&(asked.resource_type, &*asked.resource_name)) == Some(&1);
            let outcome = self.decide_replacement(origin, asked, is_once);
            if let (Ok(change), false) = (&outcome, request.validate_only) {
                self.apply_config_change(change);
            }
            let (error, message) = match outcome {
                Ok(_) => (ErrorCode::None, None),
                Err((error, text)) => (error, Some(text.into())),
            };
            responses.push(AlterConfigsResourceResponse {
                error_code: error.code(),
                error_message: message,
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
        let invalid = |text: &str| Err((ErrorCode::InvalidRequest, text.to_owned()));
        if !is_once {
            return invalid("Each resource must appear at most once.");
        }
        let mut names = BTreeSet::new();
        if !asked.configs.iter().all(|config| names.insert(&*config.name)) {
            return invalid("Error due to duplicate config keys");
        }
        let nulls: Vec<&str> = asked
            .configs
            .iter()
            .filter(|config| config.value.is_none())
            .map(|config| &*config.name)
            .collect();
        if !nulls.is_empty() {
            return invalid(&format!("Null value not supported for : {}", nulls.join(", ")));
        }
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
