//! UnregisterBroker (64), version 0.
//!
//! Difference from Kafka: a node that runs stays in the cluster, and the request is refused; in Kafka such a node
//! is of no use until it is started again.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::unregister_broker_request::UnregisterBrokerRequest;
use sharemark_protocol::messages::unregister_broker_response::UnregisterBrokerResponse;
use sharemark_protocol::{ErrorCode, NodeId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_unregister_broker(&mut self, origin: &Origin, request: &UnregisterBrokerRequest) {
        let id = request.broker_id;
        let (error, text) = if !authorize(&origin.principal, Operation::Alter, Resource::Cluster) {
            (ErrorCode::ClusterAuthorizationFailed, ErrorCode::ClusterAuthorizationFailed.name().to_owned())
        } else if self.cluster.running.contains(&NodeId::new(id)) {
            (ErrorCode::InvalidRequest, format!("Broker ID {id} is running"))
        } else if self.cluster.nodes.contains(&NodeId::new(id)) {
            (ErrorCode::None, String::new()) // It registers again when it starts.
        } else {
            (ErrorCode::BrokerIdNotRegistered, format!("Broker ID {id} is not currently registered"))
        };
        let response = UnregisterBrokerResponse {
            throttle_time_ms: 0,
            error_code: error.code(),
            error_message: Some(text.into()),
        };
        self.answer(origin, ResponseMessage::UnregisterBroker(response));
    }
}
