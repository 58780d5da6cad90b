//! ListPartitionReassignments (46), version 0. Every reassignment is done when it is answered, so none is ever on
//! its way.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::list_partition_reassignments_response::ListPartitionReassignmentsResponse;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_list_partition_reassignments(&mut self, origin: &Origin) {
        let allowed = authorize(&origin.principal, Operation::Describe, Resource::Cluster);
        let error = if allowed { ErrorCode::None } else { ErrorCode::ClusterAuthorizationFailed };
        let response = ListPartitionReassignmentsResponse {
            error_code: error.code(),
            error_message: None,
            ..ListPartitionReassignmentsResponse::default()
        };
        self.answer(origin, ResponseMessage::ListPartitionReassignments(response));
    }
}
