//! SyncGroup (14), versions 0-5. It waits until the leader has assigned.

use bytes::Bytes;
use sharemark_group_coordinator::{Caller, SyncAnswer, SyncGroup};
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::sync_group_request::SyncGroupRequest;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::classic_groups::synced;
use super::input::{Now, Origin};

/// The first version that has to name the protocol and its type (KIP-559).
const FIRST_VERSION_WITH_PROTOCOL: i16 = 5;

impl Broker {
    pub(super) fn handle_sync_group(&mut self, now: Now, origin: Origin, request: &SyncGroupRequest) {
        // Parked first, so that it is found like all others if its own step completes the rebalance.
        self.park_for_group(origin.clone());
        if let Err(error) = self.sync_group(now, &origin, request) {
            self.unpark_for_group(origin.connection);
            self.answer(&origin, synced(SyncAnswer::refused(error)));
        }
    }

    fn sync_group(&mut self, now: Now, origin: &Origin, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
        if FIRST_VERSION_WITH_PROTOCOL <= origin.api_version && !names_protocol {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        // Copies, so that the request does not stay as long as its members.
        let assignments = request
            .assignments
            .iter()
            .map(|given| (given.member_id.as_str(), Bytes::copy_from_slice(&given.assignment)));
        let sync = SyncGroup {
            group_id: &request.group_id,
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id,
            protocol_type: request.protocol_type.as_deref(),
            protocol: request.protocol_name.as_deref(),
            assignments: assignments.collect(),
            caller: Caller(origin.connection.0),
        };
        let config = self.classic_group_config();
        let (at, shard) = self.group_shard(origin.node, &request.group_id)?;
        let plan = shard
            .decide_sync_group(now.clock, &sync, &self.cluster, &config)
            .map_err(|answer| answer.error)?;
        self.commit_classic_plan(now, origin.node, at, plan)
    }
}
