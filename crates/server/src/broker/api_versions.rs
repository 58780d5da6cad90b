//! ApiVersions (18), versions 0-5.
//!
//! A version above these is answered by the connection task, in the layout of version 0 (KIP-511).

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::api_versions_request::ApiVersionsRequest;
use sharemark_protocol::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use sharemark_protocol::{APIS, ErrorCode, Listed};

use super::Broker;
use super::input::Origin;

impl Broker {
    pub(super) fn handle_api_versions(&mut self, origin: &Origin, request: &ApiVersionsRequest) {
        let error = self.decide_api_versions(origin, request).err().unwrap_or(ErrorCode::None);
        let response = if error == ErrorCode::None {
            self.api_versions(origin)
        } else {
            ApiVersionsResponse { error_code: error.code(), ..ApiVersionsResponse::default() }
        };
        self.answer(origin, ResponseMessage::ApiVersions(response));
    }

    /// Returns the name of the listener that a request came through.
    fn listener_name(&self, origin: &Origin) -> &str {
        let nodes = &self.cluster.configs.start().nodes;
        let node = nodes.iter().find(|node| node.id == origin.node);
        let listener = node.and_then(|node| node.listeners.get(usize::from(origin.listener.0)));
        listener.map_or("", |listener| &listener.name)
    }

    /// Judges who asks: a client names itself since version 3, and what it means to reach since version 5.
    fn decide_api_versions(&self, origin: &Origin, request: &ApiVersionsRequest) -> Result<(), ErrorCode> {
        if origin.api_version < 3 {
            return Ok(());
        }
        if !is_software_name(&request.client_software_name)
            || !is_software_name(&request.client_software_version)
        {
            return Err(ErrorCode::InvalidRequest);
        }
        // KIP-1242: a client that means another cluster or node has stale metadata.
        let other_cluster = request.cluster_id.as_ref().is_some_and(|id| **id != *self.cluster.id);
        let other_node = 0 <= request.node_id && request.node_id != origin.node.get();
        if other_cluster || other_node {
            return Err(ErrorCode::RebootstrapRequired);
        }
        Ok(())
    }

    fn api_versions(&self, origin: &Origin) -> ApiVersionsResponse {
        let version = origin.api_version;
        let listener = self.listener_name(origin);
        let features = &self.cluster.features;
        let experimental = 3 <= features.share_version();
        let apis = self.cluster.configs.start().listener_apis(listener);
        let mut api_keys: Vec<_> = APIS
            .iter()
            .filter(|api| experimental || api.listed == Listed::Always)
            .filter(|api| apis.knows(api.key))
            .map(|api| ApiVersion {
                api_key: api.key.to_wire(),
                min_version: api.announced_min,
                max_version: api.announced_max,
            })
            .collect();
        if experimental {
            let drafts = apis.drafts().iter();
            api_keys.extend(drafts.map(|draft| ApiVersion { api_key: draft.key(), ..ApiVersion::default() }));
            api_keys.sort_by_key(|api| api.api_key);
        }
        let supported_features = features
            .iter()
            // Older clients take a minimum of 0 for a malformed feature.
            .filter(|feature| 4 <= version || feature.min != 0)
            .map(|feature| SupportedFeatureKey {
                name: feature.name.into(),
                min_version: feature.min,
                max_version: feature.max,
            })
            .collect();
        let finalized_features = features
            .iter()
            .filter(|feature| feature.level != 0)
            .map(|feature| FinalizedFeatureKey {
                name: feature.name.into(),
                max_version_level: feature.level,
                min_version_level: feature.level,
            })
            .collect();
        ApiVersionsResponse {
            error_code: ErrorCode::None.code(),
            api_keys,
            supported_features,
            finalized_features_epoch: self.cluster.features_epoch,
            finalized_features,
            ..ApiVersionsResponse::default()
        }
    }
}

/// Returns whether `name` is made of letters and digits, with dots and dashes inside (KIP-511).
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}
