//! CreateAcls (30), versions 1-3.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::create_acls_request::{AclCreation, CreateAclsRequest};
use sharemark_protocol::messages::create_acls_response::{AclCreationResult, CreateAclsResponse};

use super::Broker;
use super::acls::{Acl, Refusal, UNKNOWN};
use super::authorize::{Operation, Resource, authorize};
use super::input::{Origin, Output};

impl Broker {
    pub(super) fn handle_create_acls(&mut self, origin: &Origin, request: &CreateAclsRequest) {
        let is_malformed = |asked: &AclCreation| {
            [asked.resource_type, asked.resource_pattern_type, asked.operation, asked.permission_type]
                .contains(&UNKNOWN)
        };
        if request.creations.iter().any(is_malformed) {
            return self.output(Output::Close { connection: origin.connection });
        }
        let acls: Vec<Acl> = request.creations.iter().map(read_acl).collect();
        let fails = self.has_authorizer() && acls.iter().any(Acl::has_value_of_filters);
        let mut results = Vec::with_capacity(acls.len());
        for acl in acls {
            let outcome = if fails {
                Err((ErrorCode::UnknownServerError, None))
            } else {
                self.decide_acl(origin, &acl).map(|()| acl)
            };
            let (error, message) = match outcome {
                Ok(acl) => {
                    self.cluster.acls.replay_create(acl);
                    (ErrorCode::None, Some("".into()))
                }
                Err((error, text)) => (error, text.map(Into::into)),
            };
            results.push(AclCreationResult { error_code: error.code(), error_message: message });
        }
        let response = CreateAclsResponse { throttle_time_ms: 0, results };
        self.answer(origin, ResponseMessage::CreateAcls(response));
    }

    fn decide_acl(&self, origin: &Origin, acl: &Acl) -> Result<(), Refusal> {
        if !authorize(&origin.principal, Operation::Alter, Resource::Cluster) {
            return Err((ErrorCode::ClusterAuthorizationFailed, None));
        }
        if !self.has_authorizer() {
            return Err((ErrorCode::SecurityDisabled, Some("No Authorizer is configured.".to_owned())));
        }
        self.cluster.acls.decide_create(acl)
    }
}

fn read_acl(asked: &AclCreation) -> Acl {
    Acl {
        resource_type: asked.resource_type,
        resource_name: (&*asked.resource_name).into(),
        pattern_type: asked.resource_pattern_type,
        principal: (&*asked.principal).into(),
        host: (&*asked.host).into(),
        operation: asked.operation,
        permission: asked.permission_type,
    }
}
