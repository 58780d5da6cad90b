//! ListGroups (16), versions 0-5: the groups whose coordinator is the node that is asked.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::list_groups_request::ListGroupsRequest;
use sharemark_protocol::messages::list_groups_response::{ListGroupsResponse, ListedGroup};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_list_groups(&mut self, origin: &Origin, request: &ListGroupsRequest) {
        let states: Vec<&str> = request.states_filter.iter().map(|state| &**state).collect();
        let types: Vec<&str> = request.types_filter.iter().map(|name| &**name).collect();
        let shards = self.nodes.get(&origin.node).into_iter().flat_map(|node| node.groups.values());
        let mut groups: Vec<ListedGroup> = shards
            .flat_map(|shard| shard.list_groups(&states, &types))
            .filter(|group| {
                authorize(&origin.principal, Operation::Describe, Resource::Cluster)
                    || authorize(&origin.principal, Operation::Describe, Resource::Group(&group.group_id))
            })
            .map(|group| ListedGroup {
                group_id: (&*group.group_id).into(),
                protocol_type: (&*group.protocol_type).into(),
                group_state: group.state.into(),
                group_type: group.group_type.into(),
            })
            .collect();
        groups.sort_by_key(|group| group.group_id.clone());
        let response = ListGroupsResponse {
            error_code: ErrorCode::None.code(),
            groups,
            ..ListGroupsResponse::default()
        };
        self.answer(origin, ResponseMessage::ListGroups(response));
    }
}
