//! DescribeUserScramCredentials (50), version 0. Difference from Kafka: users and mechanisms come in their order.

use std::collections::BTreeMap;

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_user_scram_credentials_request::DescribeUserScramCredentialsRequest;
use sharemark_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResponse, DescribeUserScramCredentialsResult,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_describe_user_scram_credentials(
        &mut self,
        origin: &Origin,
        request: &DescribeUserScramCredentialsRequest,
    ) {
        if !authorize(&origin.principal, Operation::Describe, Resource::Cluster) {
            let response = DescribeUserScramCredentialsResponse {
                error_code: ErrorCode::ClusterAuthorizationFailed.code(),
                ..DescribeUserScramCredentialsResponse::default()
            };
            return self.answer(origin, ResponseMessage::DescribeUserScramCredentials(response));
        }
        let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
        for user in request.users.iter().flatten() {
            *asked.entry(&*user.name).or_insert(0) += 1;
        }
        if asked.is_empty() {
            asked = self.cluster.scram_credentials.users().map(|user| (user, 1)).collect();
        }
        let results = asked.into_iter().map(|(user, times)| self.describe_credentials(user, times)).collect();
        let response = DescribeUserScramCredentialsResponse {
            error_message: Some("".into()),
            results,
            ..DescribeUserScramCredentialsResponse::default()
        };
        self.answer(origin, ResponseMessage::DescribeUserScramCredentials(response));
    }

    fn describe_credentials(&self, user: &str, times: usize) -> DescribeUserScramCredentialsResult {
        let refused = |error: ErrorCode, text: String| (error, text, Vec::new());
        let (error, text, infos) = match self.cluster.scram_credentials.described(user) {
            _ if 1 < times => refused(
                ErrorCode::DuplicateResource,
                format!(
                    "Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                ),
            ),
            None => refused(
                ErrorCode::ResourceNotFound,
                format!("Attempt to describe a user credential that does not exist: {user}"),
            ),
            Some(described) => {
                let infos = described.map(|(mechanism, iterations)| CredentialInfo {
                    mechanism: mechanism.to_wire(),
                    iterations,
                });
                (ErrorCode::None, String::new(), infos.collect())
            }
        };
        DescribeUserScramCredentialsResult {
            user: user.into(),
            error_code: error.code(),
            error_message: Some(text.into()),
            credential_infos: infos,
        }
    }
}
