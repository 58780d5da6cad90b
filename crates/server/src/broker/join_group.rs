//! JoinGroup (11), versions 0-9. It waits until the rebalance that it takes part in is complete.

use bytes::Bytes;
use sharemark_group_coordinator::{Caller, JoinAnswer, JoinGroup};
use sharemark_protocol::messages::join_group_request::JoinGroupRequest;
use sharemark_protocol::{ErrorCode, StrBytes};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::classic_groups::joined;
use super::input::{Now, Origin};

/// The first version in which a dynamic member has to come back with the id it is told (KIP-394).
const FIRST_VERSION_WITH_REQUIRED_ID: i16 = 4;
/// The first version whose leader may be told not to assign (KIP-814).
const FIRST_VERSION_THAT_SKIPS: i16 = 9;

impl Broker {
    pub(super) fn handle_join_group(&mut self, now: Now, origin: Origin, request: &JoinGroupRequest) {
        // Parked first, so that it is found like all others if its own step completes the rebalance.
        self.park_for_group(origin.clone());
        if let Err(answer) = self.join_group(now, &origin, request) {
            self.unpark_for_group(origin.connection);
            self.answer(&origin, joined(origin.api_version, answer));
        }
    }

    fn join_group(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &JoinGroupRequest,
    ) -> Result<(), JoinAnswer> {
        let refused = |error| JoinAnswer::refused(error, &request.member_id);
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return Err(JoinAnswer::refused(ErrorCode::GroupAuthorizationFailed, ""));
        }
        if request.group_id.is_empty() {
            return Err(refused(ErrorCode::InvalidGroupId));
        }
        let protocols = request.protocols.iter().map(|protocol| {
            // A copy, so that the request does not stay as long as its member.
            (protocol.name.to_arc(), Bytes::copy_from_slice(&protocol.metadata))
        });
        let (unique, fresh_member_id) = (self.random.unique(), self.random.uuid().to_string());
        let join = JoinGroup {
            group_id: &request.group_id,
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            protocol_type: &request.protocol_type,
            protocols: protocols.collect(),
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: if origin.api_version == 0 {
                request.session_timeout_ms
            } else {
                request.rebalance_timeout_ms
            },
            client_id: origin.client_id.as_ref().map_or("", StrBytes::as_str),
            client_host: &origin.client_host,
            unique: &unique,
            fresh_member_id: &fresh_member_id,
            requires_known_member_id: FIRST_VERSION_WITH_REQUIRED_ID <= origin.api_version,
            supports_skipping_assignment: FIRST_VERSION_THAT_SKIPS <= origin.api_version,
            caller: Caller(origin.connection.0),
        };
        let (config, consumer) = (self.classic_group_config(), self.consumer_group_config(&request.group_id));
        let (at, shard) = self.group_shard(origin.node, &request.group_id).map_err(refused)?;
        let plan = shard.decide_join_group(now.clock, &join, &self.cluster, &config, &consumer)?;
        self.commit_classic_plan(now, origin.node, at, plan).map_err(refused)
    }
}
