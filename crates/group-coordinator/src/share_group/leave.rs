//! A member goes: by its own word, or because nothing was heard of it for too long.

use std::sync::Arc;

use super::ShareGroup;
use crate::record::{GroupRecord, ShareAssignmentMetadata, ShareGroupMetadata};
use crate::topics::{Topics, metadata_hash};

impl ShareGroup {
    /// Decides the removal of a member. What it held is dealt out by the next heartbeat of another.
    pub(crate) fn decide_removal(
        &self,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        topics: &impl Topics,
    ) -> Vec<GroupRecord> {
        assert!(self.members.contains_key(member_id), "only a member can be removed");
        let epoch = self.epoch.next();
        let names = self.subscribed_names_with(member_id, None);
        let mut records = vec![
            GroupRecord::ShareGroupCurrentMemberAssignment {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                value: None,
            },
            GroupRecord::ShareGroupTargetAssignmentMember {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                value: None,
            },
            GroupRecord::ShareGroupMemberMetadata {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                value: None,
            },
            GroupRecord::ShareGroupMetadata {
                group_id: group_id.clone(),
                value: Some(ShareGroupMetadata { epoch, metadata_hash: metadata_hash(names, topics) }),
            },
        ];
        if self.members.len() == 1 {
            // Nobody is left who would compute an assignment, so the epochs are made equal here.
            records.push(GroupRecord::ShareGroupTargetAssignmentMetadata {
                group_id: group_id.clone(),
                value: Some(ShareAssignmentMetadata { epoch, timestamp: None }),
            });
        }
        records
    }
}
