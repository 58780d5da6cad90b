//! What `ConsumerGroupDescribe` shows of a group.

use std::sync::Arc;

use sharemark_protocol::MemberEpoch;

use super::{ConsumerGroup, ConsumerGroupState, ConsumerMember};
use crate::record::ConsumerMemberMetadata;
use crate::{ConsumerGroupConfig, GroupEpoch, TopicPartitions};

/// A consumer group as `ConsumerGroupDescribe` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedConsumerGroup {
    /// What it waits for.
    pub state: ConsumerGroupState,
    /// Its epoch.
    pub epoch: GroupEpoch,
    /// The epoch of its target assignment, equal to `epoch` unless a new one is due.
    pub assignment_epoch: GroupEpoch,
    /// The name of the assignor that its members prefer.
    pub assignor_name: &'static str,
    /// Its members in order of their ids.
    pub members: Vec<DescribedConsumer>,
}

/// A member as `ConsumerGroupDescribe` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedConsumer {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its epoch.
    pub epoch: MemberEpoch,
    /// Instance, rack, client and subscription.
    pub metadata: ConsumerMemberMetadata,
    /// What it has, with what it is giving up.
    pub assigned: TopicPartitions,
    /// What it should have.
    pub target: TopicPartitions,
}

impl ConsumerGroup {
    pub(crate) fn describe(&self, config: &ConsumerGroupConfig) -> DescribedConsumerGroup {
        let members = self.members.iter().map(|(member_id, member)| DescribedConsumer {
            member_id: member_id.clone(),
            epoch: member.assignment.member_epoch,
            metadata: member.metadata.clone(),
            assigned: held(member),
            target: self.targets.get(member_id).cloned().unwrap_or_default(),
        });
        DescribedConsumerGroup {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor_name: self.preferred_assignor(&self.view(), config).name(),
            members: members.collect(),
        }
    }
}

/// Returns all partitions that nobody else may have.
fn held(member: &ConsumerMember) -> TopicPartitions {
    let mut held = TopicPartitions::new();
    for (topic_id, partition) in member.owned() {
        held.entry(topic_id).or_default().insert(partition);
    }
    held
}
