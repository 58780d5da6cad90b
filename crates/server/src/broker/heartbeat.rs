//! Heartbeat (12), versions 0-4.

use sharemark_group_coordinator::ClassicHeartbeat;
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::heartbeat_request::HeartbeatRequest;
use sharemark_protocol::messages::heartbeat_response::HeartbeatResponse;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_heartbeat(&mut self, now: Now, origin: &Origin, request: &HeartbeatRequest) {
        let error = self.heartbeat(now, origin, request).unwrap_or_else(|error| error);
        let response = HeartbeatResponse { error_code: error.code(), ..HeartbeatResponse::default() };
        self.answer(origin, ResponseMessage::Heartbeat(response));
    }

    fn heartbeat(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &HeartbeatRequest,
    ) -> Result<ErrorCode, ErrorCode> {
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let heartbeat = ClassicHeartbeat {
            group_id: &request.group_id,
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id,
        };
        let (at, shard) = self.group_shard(origin.node, &request.group_id)?;
        let decision = shard.decide_classic_heartbeat(now.clock, &heartbeat)?;
        if let Some(shard) = self.group_shard_mut(origin.node, at) {
            shard.apply_classic_heartbeat(now.clock, &decision);
        }
        Ok(decision.error)
    }
}
