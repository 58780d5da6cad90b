//! A member goes: by its own word, or because nothing was heard of it for too long.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ConsumerGroup;
use crate::record::{ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord, GroupRecord};
use crate::topics::{Topics, metadata_hash};

impl ConsumerGroup {
    /// Decides the removal of a member. What it held is dealt out by the next heartbeat of another.
    pub(crate) fn decide_removal(
        &self,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        topics: &impl Topics,
    ) -> Vec<GroupRecord> {
        assert!(self.members.contains_key(member_id), "only a member can be removed");
        let epoch = self.epoch.next();
        let mut records = remove_member(group_id, member_id).to_vec();
        let others = self.members.iter().filter(|(id, _)| *id != member_id).map(|(_, member)| member);
        let kept: BTreeSet<&str> = others.clone().filter_map(|member| member.regex()).collect();
        let gone = self.members[member_id].regex().filter(|regex| !kept.contains(regex));
        if let Some(regex) = gone {
            records.push(ConsumerGroupRecord::RegularExpression {
                group_id: group_id.clone(),
                regex: regex.into(),
                value: None,
            });
        }
        let resolved = self.resolved.iter().filter(|(regex, _)| Some(&***regex) != gone);
        let names: BTreeSet<&Arc<str>> = others
            .flat_map(|member| &member.metadata.subscribed_topic_names)
            .chain(resolved.flat_map(|(_, resolved)| &resolved.topics))
            .collect();
        records.push(ConsumerGroupRecord::Metadata {
            group_id: group_id.clone(),
            value: Some(ConsumerGroupMetadata { epoch, metadata_hash: metadata_hash(names, topics) }),
        });
        if self.members.len() == 1 {
            // Nobody is left who would compute an assignment, so the epochs are made equal here.
            records.push(ConsumerGroupRecord::TargetAssignmentMetadata {
                group_id: group_id.clone(),
                value: Some(ConsumerAssignmentMetadata { epoch, timestamp: None }),
            });
        }
        records.into_iter().map(GroupRecord::Consumer).collect()
    }
}

/// Returns the tombstones of a member, in the order in which a replay wants them.
pub(super) fn remove_member(group_id: &Arc<str>, member_id: &Arc<str>) -> [ConsumerGroupRecord; 3] {
    let (group_id, member_id) = (group_id.clone(), member_id.clone());
    [
        ConsumerGroupRecord::CurrentMemberAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: None,
        },
        ConsumerGroupRecord::TargetAssignmentMember {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: None,
        },
        ConsumerGroupRecord::MemberMetadata { group_id, member_id, value: None },
    ]
}
