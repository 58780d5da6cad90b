//! DeleteAcls (31), versions 1-3. Difference from Kafka: rules come in their order.

use std::collections::BTreeSet;

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::delete_acls_request::{DeleteAclsFilter, DeleteAclsRequest};
use sharemark_protocol::messages::delete_acls_response::{
    DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse,
};

use super::Broker;
use super::acls::{Acl, AclFilter, Refusal};
use super::authorize::{Operation, Resource, authorize};
use super::input::{Origin, Output};

impl Broker {
    pub(super) fn handle_delete_acls(&mut self, origin: &Origin, request: &DeleteAclsRequest) {
        let filters: Vec<AclFilter<'_>> = request.filters.iter().map(read_filter).collect();
        if filters.iter().any(AclFilter::is_malformed) {
            return self.output(Output::Close { connection: origin.connection });
        }
        let outcomes: Vec<Result<Vec<Acl>, Refusal>> =
            filters.iter().map(|filter| self.decide_deletion(origin, filter)).collect();
        let gone: BTreeSet<&Acl> = outcomes.iter().flatten().flatten().collect();
        for acl in gone {
            self.cluster.acls.replay_delete(acl);
        }
        let results = outcomes.into_iter().map(|outcome| match outcome {
            Ok(acls) => DeleteAclsFilterResult {
                error_code: ErrorCode::None.code(),
                error_message: None,
                matching_acls: acls.iter().map(shown).collect(),
            },
            Err((error, text)) => DeleteAclsFilterResult {
                error_code: error.code(),
                error_message: text.map(Into::into),
                matching_acls: Vec::new(),
            },
        });
        let response = DeleteAclsResponse { throttle_time_ms: 0, filter_results: results.collect() };
        self.answer(origin, ResponseMessage::DeleteAcls(response));
    }

    fn decide_deletion(&self, origin: &Origin, filter: &AclFilter<'_>) -> Result<Vec<Acl>, Refusal> {
        if !authorize(&origin.principal, Operation::Alter, Resource::Cluster) {
            return Err((ErrorCode::ClusterAuthorizationFailed, None));
        }
        if !self.has_authorizer() {
            return Err((ErrorCode::SecurityDisabled, Some("No Authorizer is configured.".to_owned())));
        }
        match filter.unknown_part() {
            Some(text) => Err((ErrorCode::InvalidRequest, Some(text.to_owned()))),
            None => Ok(self.cluster.acls.matching(filter)),
        }
    }
}

fn read_filter(asked: &DeleteAclsFilter) -> AclFilter<'_> {
    AclFilter {
        resource_type: asked.resource_type_filter,
        resource_name: asked.resource_name_filter.as_deref(),
        pattern_type: asked.pattern_type_filter,
        principal: asked.principal_filter.as_deref(),
        host: asked.host_filter.as_deref(),
        operation: asked.operation,
        permission: asked.permission_type,
    }
}

fn shown(acl: &Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        error_code: ErrorCode::None.code(),
        error_message: None,
        resource_type: acl.resource_type,
        resource_name: (&*acl.resource_name).into(),
        pattern_type: acl.pattern_type,
        principal: (&*acl.principal).into(),
        host: (&*acl.host).into(),
        operation: acl.operation,
        permission_type: acl.permission,
    }
}
