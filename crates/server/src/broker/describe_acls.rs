//! DescribeAcls (29), versions 1-3. Difference from Kafka: rules come in their order.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_acls_request::DescribeAclsRequest;
use sharemark_protocol::messages::describe_acls_response::{
    AclDescription, DescribeAclsResource, DescribeAclsResponse,
};

use super::Broker;
use super::acls::{Acl, AclFilter};
use super::authorize::{Operation, Resource, authorize};
use super::input::{Origin, Output};
use crate::config::ConfigValue;

impl Broker {
    pub(super) fn handle_describe_acls(&mut self, origin: &Origin, request: &DescribeAclsRequest) {
        let filter = AclFilter {
            resource_type: request.resource_type_filter,
            resource_name: request.resource_name_filter.as_deref(),
            pattern_type: request.pattern_type_filter,
            principal: request.principal_filter.as_deref(),
            host: request.host_filter.as_deref(),
            operation: request.operation,
            permission: request.permission_type,
        };
        if filter.is_malformed() {
            return self.output(Output::Close { connection: origin.connection });
        }
        let refused = |error: ErrorCode, text: &str| DescribeAclsResponse {
            error_code: error.code(),
            error_message: Some(text.into()),
            ..DescribeAclsResponse::default()
        };
        let response = if !authorize(&origin.principal, Operation::Describe, Resource::Cluster) {
            refused(ErrorCode::ClusterAuthorizationFailed, ErrorCode::ClusterAuthorizationFailed.name())
        } else if !self.has_authorizer() {
            refused(ErrorCode::SecurityDisabled, "No Authorizer is configured on the broker")
        } else {
            DescribeAclsResponse {
                error_message: Some("".into()),
                resources: by_resource(&self.cluster.acls.matching(&filter)),
                ..DescribeAclsResponse::default()
            }
        };
        self.answer(origin, ResponseMessage::DescribeAcls(response));
    }

    /// Returns whether rules are kept at all.
    pub(super) fn has_authorizer(&self) -> bool {
        let class = self.cluster.configs.start().value("authorizer.class.name");
        matches!(class, Some(ConfigValue::Text(class)) if !class.trim().is_empty())
    }
}

fn by_resource(acls: &[Acl]) -> Vec<DescribeAclsResource> {
    let same = |one: &Acl, other: &Acl| {
        let of = |acl: &Acl| (acl.resource_type, acl.resource_name.clone(), acl.pattern_type);
        of(one) == of(other)
    };
    let of_one = acls.chunk_by(same).filter_map(|acls| {
        let first = acls.first()?;
        let shown = acls.iter().map(|acl| AclDescription {
            principal: (&*acl.principal).into(),
            host: (&*acl.host).into(),
            operation: acl.operation,
            permission_type: acl.permission,
        });
        Some(DescribeAclsResource {
            resource_type: first.resource_type,
            resource_name: (&*first.resource_name).into(),
            pattern_type: first.pattern_type,
            acls: shown.collect(),
        })
    });
    of_one.collect()
}
