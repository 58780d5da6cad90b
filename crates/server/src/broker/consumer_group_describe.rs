//! ConsumerGroupDescribe (69), versions 0-1.

use sharemark_group_coordinator::{DescribedConsumer, DescribedConsumerGroup, TopicPartitions as Partitions};
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use sharemark_protocol::messages::consumer_group_describe_response::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup, Member, TopicPartitions,
};

use super::Broker;
use super::authorize::Operation;
use super::input::Origin;
use super::topics::{GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};

/// What `MemberType` says of a member that speaks the classic protocol, and of one that speaks the consumer protocol.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

impl Broker {
    pub(super) fn handle_consumer_group_describe(
        &mut self,
        origin: &Origin,
        request: &ConsumerGroupDescribeRequest,
    ) {
        let operations =
            if request.include_authorized_operations { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
        let groups = request
            .group_ids
            .iter()
            .map(|group_id| match self.describe_consumer_group(origin, group_id) {
                Ok(described) => self.described_consumer_group(group_id, described, operations),
                Err((error, message)) => DescribedGroup {
                    group_id: group_id.clone(),
                    error_code: error.code(),
                    error_message: message.map(Into::into),
                    ..DescribedGroup::default()
                },
            })
            .collect();
        let response = ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() };
        self.answer(origin, ResponseMessage::ConsumerGroupDescribe(response));
    }

    fn describe_consumer_group(
        &self,
        origin: &Origin,
        group_id: &str,
    ) -> Result<DescribedConsumerGroup, (ErrorCode, Option<String>)> {
        let refused = |error| (error, None);
        self.decide_consumer_group(origin, group_id, Operation::Describe).map_err(refused)?;
        if group_id.is_empty() {
            return Err(refused(ErrorCode::InvalidGroupId));
        }
        let (_, shard) = self.group_shard(origin.node, group_id).map_err(refused)?;
        shard.describe_consumer_group(group_id, &self.consumer_group_config(group_id)).map_err(|refusal| {
            // Tools print the text as it is.
            let what = if shard.has_group(group_id) { "is not a consumer group" } else { "not found" };
            (refusal.error, Some(format!("Group {group_id} {what}.")))
        })
    }

    fn described_consumer_group(
        &self,
        group_id: &str,
        group: DescribedConsumerGroup,
        operations: i32,
    ) -> DescribedGroup {
        DescribedGroup {
            group_id: group_id.into(),
            group_state: group.state.name().into(),
            group_epoch: group.epoch.get(),
            assignment_epoch: group.assignment_epoch.get(),
            assignor_name: group.assignor_name.into(),
            members: group.members.into_iter().map(|member| self.described_consumer(member)).collect(),
            authorized_operations: operations,
            ..DescribedGroup::default()
        }
    }

    fn described_consumer(&self, member: DescribedConsumer) -> Member {
        let metadata = member.metadata;
        let names = metadata.subscribed_topic_names.iter();
        Member {
            member_id: (&*member.member_id).into(),
            instance_id: metadata.instance_id.as_deref().map(Into::into),
            rack_id: metadata.rack_id.as_deref().map(Into::into),
            member_epoch: member.epoch.get(),
            client_id: (&*metadata.client_id).into(),
            client_host: (&*metadata.client_host).into(),
            subscribed_topic_names: names.map(|name| (&**name).into()).collect(),
            subscribed_topic_regex: metadata.subscribed_topic_regex.as_deref().map(Into::into),
            assignment: self.named_partitions(member.assigned),
            target_assignment: self.named_partitions(member.target),
            member_type: if metadata.classic.is_some() { CLASSIC_MEMBER } else { CONSUMER_MEMBER },
        }
    }

    /// Returns partitions with the names of their topics, without topics that are gone.
    fn named_partitions(&self, partitions: Partitions) -> Assignment {
        let topics = partitions.into_iter().filter_map(|(topic_id, partitions)| {
            let name = self.cluster.topic(topic_id)?.name.clone();
            Some(TopicPartitions {
                topic_id,
                topic_name: (&*name).into(),
                partitions: partitions.into_iter().collect(),
            })
        });
        Assignment { topic_partitions: topics.collect() }
    }
}
