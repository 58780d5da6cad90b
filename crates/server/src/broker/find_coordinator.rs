//! FindCoordinator (10), versions 0-6.
//!
//! Differences from Kafka: an internal topic that is missing is created and its leader named in the same answer, but
//! with the profile `kafka-4.4`, where the client has to ask again as with Kafka.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use sharemark_protocol::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use sharemark_protocol::{ErrorCode, NodeId, TopicIdPartition, coordinator_partition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::{CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE};
use super::input::{Now, Origin};
use crate::config::Profile;

const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;
const KEY_TYPE_SHARE: i8 = 2;

impl Broker {
    pub(super) fn handle_find_coordinator(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &FindCoordinatorRequest,
    ) {
        let response = if origin.api_version < 4 {
            self.find_one(now, origin, request)
        } else {
            let coordinators = request
                .coordinator_keys
                .iter()
                .map(|key| self.find_coordinator(now, origin, request.key_type, key))
                .collect();
            FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() }
        };
        self.answer(origin, ResponseMessage::FindCoordinator(response));
    }

    fn find_one(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &FindCoordinatorRequest,
    ) -> FindCoordinatorResponse {
        let found = self.find_coordinator(now, origin, request.key_type, &request.key);
        FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: Some(message_before_batches(found.error_code).into()),
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..FindCoordinatorResponse::default()
        }
    }

    fn find_coordinator(&mut self, now: Now, origin: &Origin, key_type: i8, key: &str) -> Coordinator {
        let outcome = self.coordinator_topic(now, origin, key_type, key).and_then(|topic| {
            let at = self.coordinator_of(topic, key).ok_or(ErrorCode::CoordinatorNotAvailable)?;
            let leader = self.leader_seen_by(origin.node, at).ok_or(ErrorCode::CoordinatorNotAvailable)?;
            let endpoint = self.endpoint(leader, origin).ok_or(ErrorCode::CoordinatorNotAvailable)?;
            Ok((leader, endpoint))
        });
        match outcome {
            Ok((leader, endpoint)) => Coordinator {
                key: key.into(),
                node_id: leader.get(),
                host: endpoint.host.as_str().into(),
                port: i32::from(endpoint.port),
                error_code: ErrorCode::None.code(),
                error_message: Some("".into()),
            },
            Err(error) => Coordinator {
                key: key.into(),
                node_id: -1,
                host: "".into(),
                port: -1,
                error_code: error.code(),
                error_message: Some(message_in_batch(key_type, error).into()),
            },
        }
    }

    /// Returns the internal topic that keeps keys of this type, and creates it if it is missing.
    fn coordinator_topic(
        &mut self,
        now: Now,
        origin: &Origin,
        key_type: i8,
        key: &str,
    ) -> Result<&'static str, ErrorCode> {
        let topic = match key_type {
            KEY_TYPE_GROUP => {
                if !authorize(&origin.principal, Operation::Describe, Resource::Group(key)) {
                    return Err(ErrorCode::GroupAuthorizationFailed);
                }
                CONSUMER_OFFSETS
            }
            KEY_TYPE_TRANSACTION => {
                if !authorize(&origin.principal, Operation::Describe, Resource::TransactionalId(key)) {
                    return Err(ErrorCode::TransactionalIdAuthorizationFailed);
                }
                TRANSACTION_STATE
            }
            KEY_TYPE_SHARE if 6 <= origin.api_version => {
                if !authorize(&origin.principal, Operation::ClusterAction, Resource::Cluster) {
                    return Err(ErrorCode::ClusterAuthorizationFailed);
                }
                if !is_share_key(key) {
                    return Err(ErrorCode::InvalidRequest);
                }
                SHARE_GROUP_STATE
            }
            _ => return Err(ErrorCode::InvalidRequest),
        };
        let is_new = self.ensure_internal_topic(now, origin.node, topic)?;
        if is_new && self.cluster.configs.start().profile == Profile::Kafka44 {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        Ok(topic)
    }

    /// Returns the partition of the internal topic `topic` that keeps `key`; `None` before the topic exists.
    pub(super) fn coordinator_of(&self, topic: &str, key: &str) -> Option<TopicIdPartition> {
        let topic = self.cluster.topic_named(topic)?;
        let count = i32::try_from(topic.partitions.len()).ok()?;
        Some(TopicIdPartition { topic_id: topic.id, partition: coordinator_partition(key, count) })
    }

    /// Returns the internal partition that keeps `key` if `node` leads it, as it sees it.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node leads it, or the topic does not exist yet.
    pub(super) fn decide_coordinator(
        &self,
        node: NodeId,
        topic: &str,
        key: &str,
    ) -> Result<TopicIdPartition, ErrorCode> {
        let at = self.coordinator_of(topic, key).ok_or(ErrorCode::NotCoordinator)?;
        if self.leader_seen_by(node, at) != Some(node) {
            return Err(ErrorCode::NotCoordinator);
        }
        Ok(at)
    }
}

/// Returns what Kafka puts beside an error in a batch: nothing, unless it knows no such type of keys.
fn message_in_batch(key_type: i8, error: ErrorCode) -> &'static str {
    match key_type {
        KEY_TYPE_GROUP | KEY_TYPE_TRANSACTION | KEY_TYPE_SHARE => "",
        _ => message_before_batches(error.code()),
    }
}

/// Returns what Kafka put beside an error, or none, before batches came.
fn message_before_batches(code: i16) -> &'static str {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::CoordinatorNotAvailable) => "The coordinator is not available.",
        Some(ErrorCode::InvalidRequest) => {
            "This most likely occurs because of a request being malformed by the client library or the message was \
             sent to an incompatible broker. See the broker logs for more details."
        }
        Some(other) => other.name(),
        None => "",
    }
}

/// Returns whether `key` reads `group:topicId:partition`; as in Kafka, the group itself may hold no colon here, and
/// any number will do for a partition.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.split(':');
    let (Some(group), Some(topic_id), Some(partition), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    !group.trim().is_empty() && topic_id.len() == 22 && partition.parse::<i32>().is_ok()
}
