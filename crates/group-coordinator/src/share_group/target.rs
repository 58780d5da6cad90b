//! The target assignment: what every member should have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::heartbeat::HeartbeatContext;
use super::{ShareGroup, ShareMember};
use crate::assignor::{MemberSpec, assign};
use crate::record::{GroupRecord, ShareAssignmentMetadata};
use crate::topics::{Topics, topic_ids};
use crate::{GroupEpoch, TopicPartitions};

/// What one member should have, and since which epoch.
pub(super) struct Target {
    pub(super) epoch: GroupEpoch,
    pub(super) partitions: TopicPartitions,
}

impl ShareGroup {
    /// Computes a new target assignment if the epoch asks for it and the interval allows it.
    pub(super) fn decide_target(
        &self,
        group_id: &Arc<str>,
        epoch: GroupEpoch,
        (member_id, updated): (&Arc<str>, &ShareMember),
        context: &HeartbeatContext<'_, impl Topics>,
        records: &mut Vec<GroupRecord>,
    ) -> Target {
        let due = self.assignment_timestamp.map(|last| last.plus_ms(context.config.assignment_interval_ms));
        if epoch <= self.assignment_epoch || due.is_some_and(|due| context.now < due) {
            let partitions = self.targets.get(member_id).cloned().unwrap_or_default();
            return Target { epoch: self.assignment_epoch, partitions };
        }
        let mut members: BTreeMap<&Arc<str>, &ShareMember> = self.members.iter().collect();
        members.insert(member_id, updated);
        let targets = self.compute_targets(&members, context.topics);
        for (id, partitions) in &targets {
            if self.targets.get(*id) != Some(partitions) {
                records.push(GroupRecord::ShareGroupTargetAssignmentMember {
                    group_id: group_id.clone(),
                    member_id: (*id).clone(),
                    value: Some(partitions.clone()),
                });
            }
        }
        // A record cannot tell time 0 from none.
        let timestamp = Some(context.now).filter(|now| now.ms() != 0);
        records.push(GroupRecord::ShareGroupTargetAssignmentMetadata {
            group_id: group_id.clone(),
            value: Some(ShareAssignmentMetadata { epoch, timestamp }),
        });
        Target { epoch, partitions: targets.get(member_id).cloned().unwrap_or_default() }
    }

    fn compute_targets<'a>(
        &self,
        members: &BTreeMap<&'a Arc<str>, &ShareMember>,
        topics: &impl Topics,
    ) -> BTreeMap<&'a Arc<str>, TopicPartitions> {
        let subscriptions = members.values().map(|member| &member.metadata.subscribed_topic_names);
        // Compared by name, as in Kafka: a name without a topic makes subscriptions uneven too.
        let even = subscriptions.clone().zip(subscriptions.skip(1)).all(|(one, next)| one == next);
        let specs: Vec<MemberSpec<'_>> = members
            .iter()
            .map(|(id, member)| MemberSpec {
                subscribed: topic_ids(&member.metadata.subscribed_topic_names, topics),
                target: self.targets.get(*id),
            })
            .collect();
        let initialised = &self.states.initialised;
        let assignable =
            initialised.iter().map(|(topic_id, topic)| (*topic_id, topic.partitions.clone())).collect();
        members.keys().copied().zip(assign(&specs, even, &assignable)).collect()
    }
}
