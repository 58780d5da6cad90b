//! LeaveGroup (13), versions 0-5: one member up to version 2, several from 3 on (KIP-345).

use sharemark_group_coordinator::LeavingMember;
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use sharemark_protocol::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// The first version in which several members leave.
const FIRST_VERSION_WITH_BATCHES: i16 = 3;

impl Broker {
    pub(super) fn handle_leave_group(&mut self, now: Now, origin: &Origin, request: &LeaveGroupRequest) {
        let is_batch = FIRST_VERSION_WITH_BATCHES <= origin.api_version;
        let single = [MemberIdentity { member_id: request.member_id.clone(), ..MemberIdentity::default() }];
        let members = if is_batch { &request.members[..] } else { &single };
        let outcome = self.leave_group(now, origin, &request.group_id, members);
        let response = match outcome {
            Ok(outcomes) if is_batch => LeaveGroupResponse {
                members: members
                    .iter()
                    .zip(outcomes)
                    .map(|(member, error)| MemberResponse {
                        member_id: member.member_id.clone(),
                        group_instance_id: member.group_instance_id.clone(),
                        error_code: error.code(),
                    })
                    .collect(),
                ..LeaveGroupResponse::default()
            },
            Ok(outcomes) => LeaveGroupResponse {
                error_code: outcomes.first().map_or(0, |error| error.code()),
                ..LeaveGroupResponse::default()
            },
            Err(error) => LeaveGroupResponse { error_code: error.code(), ..LeaveGroupResponse::default() },
        };
        self.answer(origin, ResponseMessage::LeaveGroup(response));
    }

    fn leave_group(
        &mut self,
        now: Now,
        origin: &Origin,
        group_id: &str,
        members: &[MemberIdentity],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        if !authorize(&origin.principal, Operation::Read, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let leaving: Vec<LeavingMember<'_>> = members
            .iter()
            .map(|member| LeavingMember {
                member_id: &member.member_id,
                group_instance_id: member.group_instance_id.as_deref(),
            })
            .collect();
        let config = self.classic_group_config();
        let (at, shard) = self.group_shard(origin.node, group_id)?;
        match shard.decide_leave_group(now.clock, group_id, &leaving, &self.cluster, &config) {
            Ok((plan, outcomes)) => {
                self.commit_classic_plan(now, origin.node, at, plan)?;
                Ok(outcomes)
            }
            // Nobody is a member of a group that is not there.
            Err(ErrorCode::UnknownMemberId) => Ok(vec![ErrorCode::UnknownMemberId; members.len()]),
            Err(error) => Err(error),
        }
    }
}
