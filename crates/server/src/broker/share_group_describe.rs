//! ShareGroupDescribe (77), version 1.

use sharemark_group_coordinator::{DescribedMember, DescribedShareGroup, Refusal};
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_group_describe_request::ShareGroupDescribeRequest;
use sharemark_protocol::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, ShareGroupDescribeResponse, TopicPartitions,
};

use super::Broker;
use super::authorize::Operation;
use super::input::Origin;
use super::topics::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};

impl Broker {
    pub(super) fn handle_share_group_describe(
        &mut self,
        origin: &Origin,
        request: &ShareGroupDescribeRequest,
    ) {
        let operations =
            if request.include_authorized_operations { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
        let groups = request
            .group_ids
            .iter()
            .map(|group_id| match self.describe_share_group(origin, group_id) {
                Ok(described) => self.described(group_id, described, operations),
                Err(refusal) => DescribedGroup {
                    group_id: group_id.clone(),
                    error_code: refusal.error.code(),
                    error_message: refusal.message.map(Into::into),
                    ..DescribedGroup::default()
                },
            })
            .collect();
        let response = ShareGroupDescribeResponse { groups, ..ShareGroupDescribeResponse::default() };
        self.answer(origin, ResponseMessage::ShareGroupDescribe(response));
    }

    fn describe_share_group(&self, origin: &Origin, group_id: &str) -> Result<DescribedShareGroup, Refusal> {
        self.decide_share_group(origin, group_id, Operation::Describe).map_err(Refusal::of)?;
        if group_id.is_empty() {
            return Err(Refusal::of(ErrorCode::InvalidGroupId));
        }
        let (_, shard) = self.group_shard(origin.node, group_id).map_err(Refusal::of)?;
        shard.describe_share_group(group_id)
    }

    fn described(&self, group_id: &str, group: DescribedShareGroup, operations: i32) -> DescribedGroup {
        DescribedGroup {
            group_id: group_id.into(),
            group_state: group.state.name().into(),
            group_epoch: group.epoch.get(),
            assignment_epoch: group.assignment_epoch.get(),
            assignor_name: group.assignor_name.into(),
            members: group.members.into_iter().map(|member| self.described_member(member)).collect(),
            authorized_operations: operations,
            ..DescribedGroup::default()
        }
    }

    fn described_member(&self, member: DescribedMember) -> Member {
        let topic_partitions = member
            .assigned
            .into_iter()
            .filter_map(|(topic_id, partitions)| {
                let name = self.cluster.topic(topic_id)?.name.clone();
                Some(TopicPartitions {
                    topic_id,
                    topic_name: (&*name).into(),
                    partitions: partitions.into_iter().collect(),
                })
            })
            .collect();
        Member {
            member_id: (&*member.member_id).into(),
            rack_id: member.metadata.rack_id.as_deref().map(Into::into),
            member_epoch: member.epoch.get(),
            client_id: (&*member.metadata.client_id).into(),
            client_host: (&*member.metadata.client_host).into(),
            subscribed_topic_names: member
                .metadata
                .subscribed_topic_names
                .iter()
                .map(|name| (&**name).into())
                .collect(),
            assignment: Assignment { topic_partitions },
        }
    }
}
