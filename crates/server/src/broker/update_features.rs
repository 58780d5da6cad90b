//! UpdateFeatures (57), versions 0-2: all of its updates, or none.
//!
//! Difference from Kafka: the level of `kraft.version` changes nothing, and may be changed wherever the others may.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use sharemark_protocol::messages::update_features_response::{
    UpdatableFeatureResult, UpdateFeaturesResponse,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;
use crate::config::Feature;

/// What may be done to a level.
mod upgrade_type {
    pub(super) const UPGRADE: i8 = 1;
    pub(super) const SAFE_DOWNGRADE: i8 = 2;
    pub(super) const UNSAFE_DOWNGRADE: i8 = 3;
}

/// The first version that answers for all features at once.
const FIRST_WITHOUT_RESULTS: i16 = 2;

impl Broker {
    pub(super) fn handle_update_features(&mut self, origin: &Origin, request: &UpdateFeaturesRequest) {
        let outcome = if authorize(&origin.principal, Operation::Alter, Resource::Cluster) {
            self.decide_features(&request.feature_updates)
        } else {
            let error = ErrorCode::ClusterAuthorizationFailed;
            Err((error, error.name().to_owned()))
        };
        let response = match outcome {
            Ok(changes) => {
                if !request.validate_only {
                    self.apply_features(&changes);
                }
                let told = request.feature_updates.iter().map(|update| UpdatableFeatureResult {
                    feature: update.feature.clone(),
                    error_code: ErrorCode::None.code(),
                    error_message: Some(ErrorCode::None.name().into()),
                });
                let is_told = origin.api_version < FIRST_WITHOUT_RESULTS;
                UpdateFeaturesResponse {
                    error_message: None,
                    results: told.filter(|_| is_told).collect(),
                    ..UpdateFeaturesResponse::default()
                }
            }
            Err((error, text)) => UpdateFeaturesResponse {
                error_code: error.code(),
                error_message: Some(text.into()),
                ..UpdateFeaturesResponse::default()
            },
        };
        self.answer(origin, ResponseMessage::UpdateFeatures(response));
    }

    /// Judges all updates, and returns the levels that change. Of two for one feature the later counts.
    fn decide_features(
        &self,
        updates: &[FeatureUpdateKey],
    ) -> Result<Vec<(&'static str, i16)>, (ErrorCode, String)> {
        let mut changes: Vec<(&'static str, i16)> = Vec::with_capacity(updates.len());
        for update in updates {
            let is_last = updates.iter().rfind(|other| other.feature == update.feature);
            if is_last.is_some_and(|last| !std::ptr::eq(last, update)) {
                continue;
            }
            let feature = self.decide_feature(update).map_err(|problem| {
                let text = format!(
                    "The update failed for all features since the following feature had an error: {problem}"
                );
                (ErrorCode::InvalidUpdateVersion, text)
            })?;
            changes.push((feature.name, update.max_version_level));
        }
        Ok(changes)
    }

    fn decide_feature(&self, update: &FeatureUpdateKey) -> Result<&Feature, String> {
        let (name, level) = (&*update.feature, update.max_version_level);
        let wrong =
            |problem: &str| Err(format!("Invalid update version {level} for feature {name}. {problem}"));
        let downgrades = match update.upgrade_type {
            upgrade_type::UPGRADE => false,
            upgrade_type::SAFE_DOWNGRADE | upgrade_type::UNSAFE_DOWNGRADE => true,
            _ => return wrong("The controller does not support the given upgrade type."),
        };
        if level < 0 {
            return wrong("A feature version cannot be less than 0.");
        }
        let controller = self.controller();
        let Some(feature) = self.cluster.features.iter().find(|feature| feature.name == name) else {
            return wrong(&format!("Local controller {controller} does not support this feature."));
        };
        if level < feature.min || feature.max < level {
            return wrong(&format!(
                "Local controller {controller} only supports versions {}-{}",
                feature.min, feature.max
            ));
        }
        if level < feature.level && !downgrades {
            return wrong(
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or \
                 unsafe downgrade.",
            );
        }
        if feature.level < level && downgrades {
            return wrong("Can't downgrade to a newer version.");
        }
        if name == "metadata.version" && level < feature.level {
            let problem = if update.upgrade_type == upgrade_type::SAFE_DOWNGRADE {
                "Refusing to perform the requested downgrade because it might delete metadata information."
            } else {
                "Unsafe metadata downgrade is not supported in this version."
            };
            let from = feature.level;
            return Err(format!("Unsupported metadata.version downgrade from {from} to {level}. {problem}"));
        }
        Ok(feature)
    }

    /// Puts levels in force, and does what follows from them.
    fn apply_features(&mut self, changes: &[(&'static str, i16)]) {
        let before = self.cluster.features.clone();
        for (name, level) in changes {
            let set = self.cluster.features.set(name, *level);
            assert!(set.is_ok(), "a judged level can be set");
        }
        let features = self.cluster.features.clone();
        if features == before {
            return;
        }
        self.cluster.features_epoch += 1;
        self.cluster.configs.replay_features(&features);
        if features.share_version() < 1 && 1 <= before.share_version() {
            self.end_all_share_sessions();
        }
    }
}
