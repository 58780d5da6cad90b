//! DescribeGroups (15), versions 0-6: classic groups.

use sharemark_group_coordinator::DescribedClassicGroup;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use sharemark_protocol::messages::describe_groups_response::{
    DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use sharemark_protocol::{ErrorCode, StrBytes};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;
use super::topics::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};

/// The first version that is told of a group that is not there, rather than that it is dead.
const FIRST_VERSION_WITH_NOT_FOUND: i16 = 6;

impl Broker {
    pub(super) fn handle_describe_groups(&mut self, origin: &Origin, request: &DescribeGroupsRequest) {
        let groups = request.groups.iter().map(|group_id| {
            let mut group = self.describe_group(origin, group_id).unwrap_or_else(|error| DescribedGroup {
                error_code: error.code(),
                group_id: group_id.clone(),
                authorized_operations: OPERATIONS_NOT_ASKED,
                ..DescribedGroup::default()
            });
            if request.include_authorized_operations && group.error_code == 0 {
                group.authorized_operations = GROUP_OPERATIONS;
            }
            group
        });
        let response = DescribeGroupsResponse { throttle_time_ms: 0, groups: groups.collect() };
        self.answer(origin, ResponseMessage::DescribeGroups(response));
    }

    fn describe_group(&self, origin: &Origin, group_id: &StrBytes) -> Result<DescribedGroup, ErrorCode> {
        if !authorize(&origin.principal, Operation::Describe, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let (_, shard) = self.group_shard(origin.node, group_id)?;
        if let Some(described) = shard.describe_classic_group(group_id) {
            return Ok(on_wire(group_id, described));
        }
        let is_told = FIRST_VERSION_WITH_NOT_FOUND <= origin.api_version;
        let message = if shard.has_group(group_id) {
            format!("Group {group_id} is not a classic group.")
        } else {
            format!("Group {group_id} not found.")
        };
        Ok(DescribedGroup {
            error_code: if is_told { ErrorCode::GroupIdNotFound.code() } else { 0 },
            error_message: is_told.then(|| message.into()),
            group_id: group_id.clone(),
            group_state: "Dead".into(),
            authorized_operations: OPERATIONS_NOT_ASKED,
            ..DescribedGroup::default()
        })
    }
}

fn on_wire(group_id: &StrBytes, group: DescribedClassicGroup) -> DescribedGroup {
    let members = group.members.into_iter().map(|member| DescribedGroupMember {
        member_id: (&*member.member_id).into(),
        group_instance_id: member.group_instance_id.map(|text| (&*text).into()),
        client_id: (&*member.client_id).into(),
        client_host: (&*member.client_host).into(),
        member_metadata: member.metadata,
        member_assignment: member.assignment,
    });
    DescribedGroup {
        group_id: group_id.clone(),
        group_state: group.state.into(),
        protocol_type: (&*group.protocol_type).into(),
        protocol_data: (&*group.protocol).into(),
        members: members.collect(),
        authorized_operations: OPERATIONS_NOT_ASKED,
        ..DescribedGroup::default()
    }
}
