//! The target assignment: what every member should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::TopicId;

use super::assignor::MemberSpec;
use super::heartbeat::ConsumerContext;
use super::members::{Joined, Members};
use super::{ConsumerGroup, ConsumerMember};
use crate::record::{ConsumerAssignmentMetadata, ConsumerGroupRecord};
use crate::topics::{Topics, topic_ids};
use crate::{GroupEpoch, TopicPartitions};

/// What one member should have, and since which epoch.
pub(super) struct ConsumerTarget {
    pub(super) epoch: GroupEpoch,
    pub(super) partitions: TopicPartitions,
}

impl ConsumerGroup {
    /// Computes a new target assignment if the epoch asks for it and the interval allows it.
    pub(super) fn decide_target(
        &self,
        group_id: &Arc<str>,
        epoch: GroupEpoch,
        joined: &Joined,
        members: &Members<'_>,
        context: &ConsumerContext<'_, impl Topics>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> ConsumerTarget {
        // A returning instance has the target of the member that it replaces.
        let target_of = |member_id: &Arc<str>| match &joined.replaces {
            Some(replaced) if *member_id == joined.member_id => self.targets.get(replaced),
            Some(_) | None => self.targets.get(member_id),
        };
        let due = self.assignment_timestamp.map(|last| last.plus_ms(context.config.assignment_interval_ms));
        if epoch <= self.assignment_epoch || due.is_some_and(|due| context.now < due) {
            let partitions = target_of(&joined.member_id).cloned().unwrap_or_default();
            return ConsumerTarget { epoch: self.assignment_epoch, partitions };
        }
        let targets = self.compute_targets(members, &target_of, context);
        for (member_id, partitions) in &targets {
            if target_of(member_id) != Some(partitions) {
                records.push(ConsumerGroupRecord::TargetAssignmentMember {
                    group_id: group_id.clone(),
                    member_id: (*member_id).clone(),
                    value: Some(partitions.clone()),
                });
            }
        }
        // A record cannot tell time 0 from none.
        let timestamp = Some(context.now).filter(|now| now.ms() != 0);
        records.push(ConsumerGroupRecord::TargetAssignmentMetadata {
            group_id: group_id.clone(),
            value: Some(ConsumerAssignmentMetadata { epoch, timestamp }),
        });
        let partitions = targets.get(&joined.member_id).cloned().unwrap_or_default();
        ConsumerTarget { epoch, partitions }
    }

    fn compute_targets<'a>(
        &'a self,
        members: &Members<'a>,
        target_of: &dyn Fn(&Arc<str>) -> Option<&'a TopicPartitions>,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> BTreeMap<&'a Arc<str>, TopicPartitions> {
        let specs: Vec<MemberSpec<'_>> = members
            .iter()
            .map(|(member_id, member)| MemberSpec {
                instance_id: member.metadata.instance_id.as_deref(),
                subscribed: self.subscribed_topic_ids(member, context.topics),
                target: target_of(member_id),
            })
            .collect();
        let names = self.subscribed_names(members, None);
        let facts = names.into_iter().filter_map(|name| context.topics.topic(name));
        let counts = facts.map(|facts| (facts.id, facts.partition_count)).collect();
        let assignor = self.preferred_assignor(members, context.config);
        members.keys().copied().zip(assignor.assign(&specs, is_even(members), &counts)).collect()
    }

    /// Returns the existing topics that a member subscribes to.
    pub(super) fn subscribed_topic_ids(
        &self,
        member: &ConsumerMember,
        topics: &impl Topics,
    ) -> BTreeSet<TopicId> {
        let resolved = member.regex().and_then(|regex| self.resolved.get(regex));
        let by_regex = resolved.into_iter().flat_map(|resolved| &resolved.topics);
        topic_ids(member.metadata.subscribed_topic_names.iter().chain(by_regex), topics)
    }
}

/// Returns whether all members subscribe to the same topics, as Kafka tells it: all by the same names, or all by the
/// same regular expression and by nothing else.
fn is_even(members: &Members<'_>) -> bool {
    let subscriptions = members.values().map(|member| {
        let names = &member.metadata.subscribed_topic_names;
        (member.regex(), names)
    });
    let same = subscriptions.clone().zip(subscriptions.clone().skip(1)).all(|(one, next)| one == next);
    same && subscriptions.into_iter().all(|(regex, names)| regex.is_none() || names.is_empty())
}
