//! AlterUserScramCredentials (51), version 0.

use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_user_scram_credentials_request::AlterUserScramCredentialsRequest;
use sharemark_protocol::messages::alter_user_scram_credentials_response::{
    AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;
use super::scram_credentials::{Refusal, ScramChange, ScramCredential};

impl Broker {
    pub(super) fn handle_alter_user_scram_credentials(
        &mut self,
        origin: &Origin,
        request: &AlterUserScramCredentialsRequest,
    ) {
        let allowed = authorize(&origin.principal, Operation::Alter, Resource::Cluster);
        let outcomes = self.decide_credentials(request, allowed);
        let mut results = Vec::with_capacity(outcomes.len());
        for (user, outcome) in outcomes {
            let (error, message) = match outcome {
                Ok(change) => {
                    self.cluster.scram_credentials.replay(user, change);
                    (ErrorCode::None, None)
                }
                Err((error, text)) => (error, text),
            };
            results.push(AlterUserScramCredentialsResult {
                user: user.into(),
                error_code: error.code(),
                error_message: message.map(Into::into),
            });
        }
        let response = AlterUserScramCredentialsResponse { throttle_time_ms: 0, results };
        self.answer(origin, ResponseMessage::AlterUserScramCredentials(response));
    }

    /// Judges the changes, of which there may be one for each user.
    fn decide_credentials<'a>(
        &self,
        request: &'a AlterUserScramCredentialsRequest,
        allowed: bool,
    ) -> BTreeMap<&'a str, Result<ScramChange, Refusal>> {
        let deletions = request.deletions.iter().map(|asked| (&*asked.name, asked.mechanism, None));
        let upsertions = request.upsertions.iter().map(|asked| {
            let credential = ScramCredential {
                iterations: asked.iterations,
                // Copies, since the bytes that came share one buffer with the whole request.
                salt: Bytes::copy_from_slice(&asked.salt),
                salted_password: Bytes::copy_from_slice(&asked.salted_password),
            };
            (&*asked.name, asked.mechanism, Some(credential))
        });
        let mut outcomes = BTreeMap::new();
        for (user, mechanism, credential) in deletions.chain(upsertions) {
            let outcome = match outcomes.get(user) {
                _ if !allowed => Err((ErrorCode::ClusterAuthorizationFailed, None)),
                Some(Ok(_)) => Err((
                    ErrorCode::DuplicateResource,
                    Some("A user credential cannot be altered twice in the same request"),
                )),
                Some(Err(_)) | None => self.cluster.scram_credentials.decide(user, mechanism, credential),
            };
            outcomes.insert(user, outcome);
        }
        outcomes
    }
}
