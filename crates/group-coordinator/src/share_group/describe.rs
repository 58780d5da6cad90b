//! What `ShareGroupDescribe` shows of a group.

use std::sync::Arc;

use sharemark_protocol::MemberEpoch;

use super::{ShareGroup, ShareGroupState, ShareMember};
use crate::record::ShareMemberMetadata;
use crate::{GroupEpoch, TopicPartitions};

/// A share group as `ShareGroupDescribe` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedShareGroup {
    /// Whether it has members.
    pub state: ShareGroupState,
    /// Its epoch.
    pub epoch: GroupEpoch,
    /// The epoch of its target assignment, equal to `epoch` unless a new one is due.
    pub assignment_epoch: GroupEpoch,
    /// The name of its assignor.
    pub assignor_name: &'static str,
    /// Its members in order of their ids.
    pub members: Vec<DescribedMember>,
}

/// A member as `ShareGroupDescribe` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its epoch.
    pub epoch: MemberEpoch,
    /// Rack, client and subscription.
    pub metadata: ShareMemberMetadata,
    /// What it was told to consume. A topic deleted since is left out of the answer.
    pub assigned: TopicPartitions,
}

impl ShareGroup {
    pub(crate) fn describe(&self) -> DescribedShareGroup {
        DescribedShareGroup {
            state: self.state(),
            epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor_name: Self::ASSIGNOR,
            members: self.members.iter().map(|(id, member)| member.describe(id)).collect(),
        }
    }
}

impl ShareMember {
    fn describe(&self, member_id: &Arc<str>) -> DescribedMember {
        DescribedMember {
            member_id: member_id.clone(),
            epoch: self.epoch,
            metadata: self.metadata.clone(),
            assigned: self.assigned.clone(),
        }
    }
}
