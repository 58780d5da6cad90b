//! DescribeCluster (60), versions 0-2.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use sharemark_protocol::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponse,
};

use super::Broker;
use super::input::Origin;
use super::topics::{CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED};

/// Asks for brokers, the only kind of endpoint that a listener of ours has.
const ENDPOINT_BROKERS: i8 = 1;
/// Asks for controllers, which only a controller's listener knows.
const ENDPOINT_CONTROLLERS: i8 = 2;

impl Broker {
    pub(super) fn handle_describe_cluster(&mut self, origin: &Origin, request: &DescribeClusterRequest) {
        let response = match request.endpoint_type {
            ENDPOINT_BROKERS => self.describe_cluster(origin, request),
            ENDPOINT_CONTROLLERS => refused(
                request,
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            ),
            _ => refused(
                request,
                ErrorCode::UnsupportedEndpointType,
                &format!("Unsupported endpoint type {}", request.endpoint_type),
            ),
        };
        self.answer(origin, ResponseMessage::DescribeCluster(response));
    }

    fn describe_cluster(&self, origin: &Origin, request: &DescribeClusterRequest) -> DescribeClusterResponse {
        let brokers = self
            .endpoints(origin)
            .map(|(node, endpoint)| DescribeClusterBroker {
                broker_id: node.get(),
                host: endpoint.host.as_str().into(),
                port: i32::from(endpoint.port),
                rack: self.rack(node),
                is_fenced: false,
            })
            .collect();
        DescribeClusterResponse {
            endpoint_type: ENDPOINT_BROKERS,
            cluster_id: self.cluster.id.as_str().into(),
            controller_id: self.controller_seen_by(origin.node).get(),
            brokers,
            cluster_authorized_operations: if request.include_cluster_authorized_operations {
                CLUSTER_OPERATIONS
            } else {
                OPERATIONS_NOT_ASKED
            },
            ..DescribeClusterResponse::default()
        }
    }
}

fn refused(request: &DescribeClusterRequest, error: ErrorCode, message: &str) -> DescribeClusterResponse {
    DescribeClusterResponse {
        error_code: error.code(),
        error_message: Some(message.into()),
        endpoint_type: request.endpoint_type,
        ..DescribeClusterResponse::default()
    }
}
