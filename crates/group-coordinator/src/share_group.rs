//! A share group (KIP-932): its members, what each is to consume, and which share partitions have a state.
//!
//! ```text
//!            first member joins
//!   Empty ------------------------> Stable
//!     ^                               |
//!     +-------------------------------+
//!        last member leaves or is silent
//! ```
//!
//! There is no rebalance to wait for: an assignment holds from the heartbeat that brings it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sharemark_protocol::{MemberEpoch, Timestamp};

use crate::record::{GroupRecord, ShareMemberAssignment, ShareMemberMetadata, ShareStatePartitions};
use crate::{GroupEpoch, TopicPartitions};

mod admin;
mod describe;
mod heartbeat;
mod leave;
mod states;
mod target;

pub use admin::{
    AlterOffsetsDecision, AlterOffsetsTopic, AlteredTopic, DeleteGroupDecision, DeleteOffsetsDecision,
    DeleteShareStates,
};
pub use describe::{DescribedMember, DescribedShareGroup};
pub(crate) use heartbeat::{HeartbeatContext, HeartbeatPlanKind};
pub use heartbeat::{
    HeartbeatPlan, MEMBER_ID_LENGTH_MAX, ShareHeartbeat, ShareHeartbeatAnswer, ShareHeartbeatDecision,
};
pub use states::{InitialiseShareStates, InitialiseTopic};

/// Whether a share group has members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ShareGroupState {
    /// It has none.
    Empty,
    /// It has some.
    Stable,
}

impl ShareGroupState {
    /// Returns Kafka's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Stable => "Stable",
        }
    }
}

impl fmt::Display for ShareGroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ShareMember {
    pub(crate) metadata: ShareMemberMetadata,
    /// The epoch of the assignment it has; 0 before the first.
    pub(crate) epoch: MemberEpoch,
    /// The epoch before that.
    pub(crate) previous_epoch: Option<MemberEpoch>,
    /// The partitions it was told to consume.
    pub(crate) assigned: TopicPartitions,
}

impl Default for ShareMember {
    fn default() -> Self {
        Self {
            metadata: ShareMemberMetadata::default(),
            epoch: MemberEpoch::new(0),
            previous_epoch: None,
            assigned: TopicPartitions::new(),
        }
    }
}

impl ShareMember {
    /// Returns whether a request with this epoch comes from the member as it is known: with its epoch, or with
    /// the one before, since the answer that brought the newer may have been lost.
    pub(crate) fn accepts(&self, epoch: MemberEpoch) -> bool {
        epoch == self.epoch || (epoch < self.epoch && Some(epoch) == self.previous_epoch)
    }

    fn assignment(&self) -> ShareMemberAssignment {
        ShareMemberAssignment {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            partitions: self.assigned.clone(),
        }
    }
}

/// All that the log says of one share group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ShareGroup {
    epoch: GroupEpoch,
    metadata_hash: i64,
    assignment_epoch: GroupEpoch,
    assignment_timestamp: Option<Timestamp>,
    members: BTreeMap<Arc<str>, ShareMember>,
    /// The target assignment, by member.
    targets: BTreeMap<Arc<str>, TopicPartitions>,
    states: ShareStatePartitions,
}

impl Default for ShareGroup {
    fn default() -> Self {
        Self {
            epoch: GroupEpoch::FIRST,
            metadata_hash: 0,
            assignment_epoch: GroupEpoch::FIRST,
            assignment_timestamp: None,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            states: ShareStatePartitions::default(),
        }
    }
}

impl ShareGroup {
    /// The name of the only assignor.
    pub(crate) const ASSIGNOR: &'static str = "simple";

    pub(crate) fn state(&self) -> ShareGroupState {
        if self.members.is_empty() { ShareGroupState::Empty } else { ShareGroupState::Stable }
    }

    pub(crate) const fn members(&self) -> &BTreeMap<Arc<str>, ShareMember> {
        &self.members
    }

    pub(crate) const fn states(&self) -> &ShareStatePartitions {
        &self.states
    }

    /// Returns the names that members subscribe to, with `member_id` replaced by `replacement`.
    fn subscribed_names_with<'a>(
        &'a self,
        member_id: &str,
        replacement: Option<&'a ShareMember>,
    ) -> BTreeSet<&'a Arc<str>> {
        let others = self.members.iter().filter(|(id, _)| &***id != member_id).map(|(_, member)| member);
        others.chain(replacement).flat_map(|member| &member.metadata.subscribed_topic_names).collect()
    }

    /// Returns the names that members subscribe to.
    fn subscribed_names(&self) -> BTreeSet<&Arc<str>> {
        self.members.values().flat_map(|member| &member.metadata.subscribed_topic_names).collect()
    }

    /// Applies one record of this group that does not remove it.
    pub(crate) fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Consumer(_) => unreachable!("the shard hands a group its own records"),
            GroupRecord::ShareGroupMemberMetadata { member_id, value: Some(value), .. } => {
                self.members.entry(member_id.clone()).or_default().metadata = value.clone();
            }
            GroupRecord::ShareGroupMemberMetadata { member_id, value: None, .. } => {
                self.members.remove(member_id);
            }
            GroupRecord::ShareGroupMetadata { value, .. } => {
                if let Some(value) = value {
                    self.epoch = value.epoch;
                    self.metadata_hash = value.metadata_hash;
                }
            }
            GroupRecord::ShareGroupTargetAssignmentMetadata { value, .. } => {
                self.assignment_epoch = value.map_or(GroupEpoch::REMOVED, |value| value.epoch);
                self.assignment_timestamp = value.and_then(|value| value.timestamp);
            }
            GroupRecord::ShareGroupTargetAssignmentMember { member_id, value: Some(value), .. } => {
                self.targets.insert(member_id.clone(), value.clone());
            }
            GroupRecord::ShareGroupTargetAssignmentMember { member_id, value: None, .. } => {
                self.targets.remove(member_id);
            }
            GroupRecord::ShareGroupCurrentMemberAssignment { member_id, value, .. } => {
                self.replay_assignment(member_id, value.as_ref());
            }
            GroupRecord::ShareGroupStatePartitionMetadata { value, .. } => {
                self.states = value.clone().unwrap_or_default();
            }
            GroupRecord::OffsetCommit { .. } | GroupRecord::ClassicGroup { .. } => {}
        }
    }

    fn replay_assignment(&mut self, member_id: &Arc<str>, value: Option<&ShareMemberAssignment>) {
        let Some(value) = value else {
            if let Some(member) = self.members.get_mut(member_id) {
                // The tombstone of its metadata, which follows, removes the member itself.
                let metadata = std::mem::take(&mut member.metadata);
                *member = ShareMember { metadata, epoch: MemberEpoch::new(-1), ..ShareMember::default() };
            }
            return;
        };
        let member = self.members.entry(member_id.clone()).or_default();
        member.epoch = value.member_epoch;
        member.previous_epoch = value.previous_member_epoch;
        member.assigned = value.partitions.clone();
    }

    /// Checks what must hold between two requests.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub(crate) fn check_invariants(&self) {
        assert!(self.assignment_epoch <= self.epoch, "an assignment is computed for an epoch that was");
        if self.members.is_empty() {
            assert!(self.assignment_epoch == self.epoch, "an empty group's epochs are equal");
        }
        for member in self.members.values() {
            assert!(member.epoch <= self.assignment_epoch.member(), "a member follows the assignment");
            assert!(0 < member.epoch.get(), "a member has an epoch");
            assert!(
                member.previous_epoch < Some(member.epoch),
                "a member's epoch is higher than the one before"
            );
        }
        for member_id in self.targets.keys() {
            assert!(self.members.contains_key(member_id), "only members have a target");
        }
        let targets = self.targets.values();
        for assignment in targets.chain(self.members.values().map(|member| &member.assigned)) {
            assert!(
                assignment.values().all(|partitions| !partitions.is_empty()),
                "no topic without partitions"
            );
        }
        self.check_states();
    }

    fn check_states(&self) {
        let states = &self.states;
        for topic in states.initialising.values().chain(states.initialised.values()) {
            assert!(!topic.partitions.is_empty(), "no topic without partitions");
        }
        for topic_id in states.initialising.keys() {
            assert!(!states.deleting.contains_key(topic_id), "a state is made or deleted, not both");
        }
    }
}
