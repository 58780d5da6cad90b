//! A member goes: by its own word, or because nothing was heard of it for too long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, MemberEpoch};

use super::ConsumerGroup;
use crate::Refusal;
use crate::record::{ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord, GroupRecord};
use crate::topics::{Topics, metadata_hash};

impl ConsumerGroup {
    /// Decides that a static member leaves for a while: it keeps what it has, for the member that comes back.
    pub(crate) fn decide_pause(&self, group_id: &Arc<str>, member_id: &Arc<str>) -> Vec<GroupRecord> {
        let mut assignment = self.members[member_id].assignment.clone();
        assignment.member_epoch = MemberEpoch::new(-2);
        assignment.pending_revocation.clear();
        for epoch in assignment.assigned.values_mut().flat_map(BTreeMap::values_mut) {
            *epoch = 0; // Whoever comes back begins with a low epoch.
        }
        vec![GroupRecord::Consumer(ConsumerGroupRecord::CurrentMemberAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(assignment),
        })]
    }

    /// Refuses to delete a group that has members.
    pub(crate) fn check_empty(&self) -> Result<(), Refusal> {
        if self.members.is_empty() { Ok(()) } else { Err(Refusal::of(ErrorCode::NonEmptyGroup)) }
    }

    /// Decides the removal of the whole group.
    pub(crate) fn decide_delete(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        assert!(self.members.is_empty(), "only a group without members is deleted");
        self.group_tombstones(group_id).into_iter().map(GroupRecord::Consumer).collect()
    }

    /// Returns the tombstones of all but the members, that of the target assignment first.
    pub(super) fn group_tombstones(&self, group_id: &Arc<str>) -> Vec<ConsumerGroupRecord> {
        let regexes = self.resolved.keys().map(|regex| ConsumerGroupRecord::RegularExpression {
            group_id: group_id.clone(),
            regex: regex.clone(),
            value: None,
        });
        let head = ConsumerGroupRecord::TargetAssignmentMetadata { group_id: group_id.clone(), value: None };
        let tail = [
            ConsumerGroupRecord::PartitionMetadata { group_id: group_id.clone(), value: None },
            ConsumerGroupRecord::Metadata { group_id: group_id.clone(), value: None },
        ];
        [head].into_iter().chain(regexes).chain(tail).collect()
    }

    /// Decides the removal of members. What they held is dealt out by the next heartbeat of another.
    pub(crate) fn decide_removal(
        &self,
        group_id: &Arc<str>,
        leaving: &BTreeSet<Arc<str>>,
        topics: &impl Topics,
    ) -> Vec<GroupRecord> {
        assert!(leaving.iter().all(|id| self.members.contains_key(id)), "only a member can be removed");
        let epoch = self.epoch.next();
        let mut records: Vec<ConsumerGroupRecord> =
            leaving.iter().flat_map(|member_id| remove_member(group_id, member_id)).collect();
        let others = self.members.iter().filter(|(id, _)| !leaving.contains(*id)).map(|(_, member)| member);
        let kept: BTreeSet<&str> = others.clone().filter_map(|member| member.regex()).collect();
        let regexes = leaving.iter().filter_map(|member_id| self.members[member_id].regex());
        let gone: BTreeSet<&str> = regexes.filter(|regex| !kept.contains(regex)).collect();
        records.extend(gone.iter().map(|regex| ConsumerGroupRecord::RegularExpression {
            group_id: group_id.clone(),
            regex: (*regex).into(),
            value: None,
        }));
        let resolved = self.resolved.iter().filter(|(regex, _)| !gone.contains(&***regex));
        let names: BTreeSet<&Arc<str>> = others
            .flat_map(|member| &member.metadata.subscribed_topic_names)
            .chain(resolved.flat_map(|(_, resolved)| &resolved.topics))
            .collect();
        records.push(ConsumerGroupRecord::Metadata {
            group_id: group_id.clone(),
            value: Some(ConsumerGroupMetadata { epoch, metadata_hash: metadata_hash(names, topics) }),
        });
        if self.members.len() == leaving.len() {
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
