//! A consumer group (KIP-848): its members, the target assignment, and how far each member is on its way there.
//!
//! ```text
//!           first member joins             target computed              all members have it
//!   Empty ---------------------> Assigning ----------------> Reconciling -------------------> Stable
//!     ^                             ^                             |                             |
//!     |                             +--- subscription or topics change, a member comes or goes--+
//!     +------------------ last member leaves or is silent
//! ```
//!
//! A member gives up what its target takes from it before it gets anything new, and a partition is given to a
//! member only after its last owner has confirmed that it gave it up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use sharemark_protocol::{MemberEpoch, Timestamp, TopicId};

use crate::record::{
    ConsumerGroupRecord, ConsumerMemberAssignment, ConsumerMemberMetadata, ConsumerMemberState,
    PartitionEpochs, ResolvedRegularExpression,
};
use crate::{GroupEpoch, TopicPartitions};

mod assignor;
mod classic;
mod describe;
mod heartbeat;
mod leave;
mod members;
mod offsets;
mod pattern;
mod reconcile;
mod regexes;
mod target;

pub use assignor::ConsumerAssignor;
pub(crate) use classic::ConvertedMember;
pub use describe::{DescribedConsumer, DescribedConsumerGroup};
pub(crate) use heartbeat::{ConsumerContext, DeadlineChange};
pub use heartbeat::{
    ConsumerHeartbeat, ConsumerHeartbeatAnswer, ConsumerHeartbeatDecision, ConsumerHeartbeatPlan,
};

/// What a consumer group waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConsumerGroupState {
    /// It has no members.
    Empty,
    /// Its target assignment is older than the group.
    Assigning,
    /// Some member does not have its target yet.
    Reconciling,
    /// Nothing.
    Stable,
}

impl ConsumerGroupState {
    /// Returns Kafka's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Stable => "Stable",
        }
    }
}

impl fmt::Display for ConsumerGroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ConsumerMember {
    pub(crate) metadata: ConsumerMemberMetadata,
    pub(crate) assignment: ConsumerMemberAssignment,
}

impl Default for ConsumerMember {
    fn default() -> Self {
        Self {
            metadata: ConsumerMemberMetadata {
                instance_id: None,
                rack_id: None,
                client_id: "".into(),
                client_host: "".into(),
                subscribed_topic_names: BTreeSet::new(),
                subscribed_topic_regex: Some("".into()),
                rebalance_timeout_ms: None,
                server_assignor: None,
                classic: None,
            },
            assignment: ConsumerMemberAssignment {
                member_epoch: MemberEpoch::new(0),
                previous_member_epoch: None,
                state: ConsumerMemberState::Stable,
                assigned: PartitionEpochs::new(),
                pending_revocation: PartitionEpochs::new(),
            },
        }
    }
}

impl ConsumerMember {
    /// Returns the member's regular expression, if it has one.
    pub(crate) fn regex(&self) -> Option<&str> {
        self.metadata.subscribed_topic_regex.as_deref().filter(|regex| !regex.is_empty())
    }

    /// Returns until when the member has to have given up what it is told to give up now.
    pub(crate) fn rebalance_deadline(&self, now: Timestamp) -> Timestamp {
        now.plus_ms(i64::from(self.metadata.rebalance_timeout_ms.unwrap_or(0)))
    }

    /// Returns whether the member is to give something up.
    pub(crate) fn is_revoking(&self) -> bool {
        self.assignment.state == ConsumerMemberState::UnrevokedPartitions
    }

    /// Returns the epoch at which the member got a partition that it has or is giving up.
    pub(crate) fn partition_epoch(&self, topic_id: TopicId, partition: i32) -> Option<i32> {
        let of = |partitions: &PartitionEpochs| partitions.get(&topic_id)?.get(&partition).copied();
        of(&self.assignment.assigned).or_else(|| of(&self.assignment.pending_revocation))
    }

    /// Returns every partition that nobody else may have.
    fn owned(&self) -> impl Iterator<Item = (TopicId, i32)> {
        let topics = self.assignment.assigned.iter().chain(&self.assignment.pending_revocation);
        topics.flat_map(|(topic_id, epochs)| epochs.keys().map(|partition| (*topic_id, *partition)))
    }
}

/// All that the log says of one consumer group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ConsumerGroup {
    epoch: GroupEpoch,
    metadata_hash: i64,
    assignment_epoch: GroupEpoch,
    assignment_timestamp: Option<Timestamp>,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// The target assignment, by member.
    targets: BTreeMap<Arc<str>, TopicPartitions>,
    /// What the members' regular expressions matched when they were last looked up.
    resolved: BTreeMap<Arc<str>, ResolvedRegularExpression>,
    /// Whether the log holds a record of type 4 that is to be removed.
    has_partition_metadata: bool,
    /// The members with an instance id, by that. Follows from `members`.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Who has each partition, or has not confirmed yet that it gave it up. Follows from `members`.
    owners: BTreeMap<(TopicId, i32), Arc<str>>,
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            epoch: GroupEpoch::FIRST,
            metadata_hash: 0,
            assignment_epoch: GroupEpoch::FIRST,
            assignment_timestamp: None,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            resolved: BTreeMap::new(),
            has_partition_metadata: false,
            static_members: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }
}

impl ConsumerGroup {
    pub(crate) fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.assignment_epoch < self.epoch {
            ConsumerGroupState::Assigning
        } else if self.members.values().all(|member| member.is_reconciled_to(self.assignment_epoch)) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    pub(crate) const fn members(&self) -> &BTreeMap<Arc<str>, ConsumerMember> {
        &self.members
    }

    /// Applies one record of this group that does not remove it.
    pub(crate) fn replay(&mut self, record: &ConsumerGroupRecord) {
        match record {
            ConsumerGroupRecord::Metadata { value, .. } => {
                if let Some(value) = value {
                    self.epoch = value.epoch;
                    self.metadata_hash = value.metadata_hash;
                }
            }
            ConsumerGroupRecord::PartitionMetadata { value, .. } => {
                self.has_partition_metadata = value.is_some();
            }
            ConsumerGroupRecord::MemberMetadata { member_id, value: Some(value), .. } => {
                let mut member = self.members.get(member_id).cloned().unwrap_or_default();
                member.metadata = value.clone();
                self.set_member(member_id, Some(member));
            }
            ConsumerGroupRecord::MemberMetadata { member_id, value: None, .. } => {
                self.set_member(member_id, None);
            }
            ConsumerGroupRecord::TargetAssignmentMetadata { value, .. } => {
                self.assignment_epoch = value.map_or(GroupEpoch::REMOVED, |value| value.epoch);
                self.assignment_timestamp = value.and_then(|value| value.timestamp);
            }
            ConsumerGroupRecord::TargetAssignmentMember { member_id, value: Some(value), .. } => {
                self.targets.insert(member_id.clone(), value.clone());
            }
            ConsumerGroupRecord::TargetAssignmentMember { member_id, value: None, .. } => {
                self.targets.remove(member_id);
            }
            ConsumerGroupRecord::CurrentMemberAssignment { member_id, value, .. } => {
                self.replay_assignment(member_id, value.as_ref());
            }
            ConsumerGroupRecord::RegularExpression { regex, value: Some(value), .. } => {
                self.resolved.insert(regex.clone(), value.clone());
            }
            ConsumerGroupRecord::RegularExpression { regex, value: None, .. } => {
                self.resolved.remove(regex);
            }
        }
    }

    fn replay_assignment(&mut self, member_id: &Arc<str>, value: Option<&ConsumerMemberAssignment>) {
        let known = self.members.get(member_id).cloned();
        let member = match (value, known) {
            (Some(value), known) => ConsumerMember { assignment: value.clone(), ..known.unwrap_or_default() },
            (None, Some(known)) => {
                // The tombstone of its metadata, which follows, removes the member itself.
                let mut member = ConsumerMember { metadata: known.metadata, ..ConsumerMember::default() };
                member.assignment.member_epoch = MemberEpoch::new(-1);
                member
            }
            (None, None) => return,
        };
        self.set_member(member_id, Some(member));
    }

    /// Replaces a member, and what follows from it.
    fn set_member(&mut self, member_id: &Arc<str>, member: Option<ConsumerMember>) {
        if let Some(before) = self.members.remove(member_id) {
            for partition in before.owned() {
                if self.owners.get(&partition) == Some(member_id) {
                    self.owners.remove(&partition);
                }
            }
            if let Some(instance_id) = &before.metadata.instance_id
                && self.static_members.get(instance_id) == Some(member_id)
            {
                self.static_members.remove(instance_id);
            }
        }
        let Some(member) = member else { return };
        for partition in member.owned() {
            self.owners.insert(partition, member_id.clone());
        }
        if let Some(instance_id) = &member.metadata.instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        self.members.insert(member_id.clone(), member);
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
        for member_id in self.targets.keys() {
            assert!(self.members.contains_key(member_id), "only members have a target");
        }
        for target in self.targets.values() {
            assert!(target.values().all(|partitions| !partitions.is_empty()), "no topic without partitions");
        }
        let mut owned = 0;
        for (member_id, member) in &self.members {
            let assignment = &member.assignment;
            assert!(
                assignment.member_epoch <= self.assignment_epoch.member(),
                "a member follows the assignment"
            );
            for partition in member.owned() {
                assert!(self.owners.get(&partition) == Some(member_id), "a partition has one owner");
                owned += 1;
            }
            let epochs = assignment.assigned.values().chain(assignment.pending_revocation.values());
            assert!(epochs.clone().all(|epochs| !epochs.is_empty()), "no topic without partitions");
            assert!(
                assignment.state == ConsumerMemberState::UnrevokedPartitions
                    || assignment.pending_revocation.is_empty(),
                "only a member that is told to give up has what it gives up"
            );
            if let Some(instance_id) = &member.metadata.instance_id {
                assert!(
                    self.static_members.get(instance_id) == Some(member_id),
                    "an instance has one member"
                );
            }
        }
        assert!(self.owners.len() == owned, "what nobody has has no owner");
        let static_count = self.members.values().filter(|it| it.metadata.instance_id.is_some()).count();
        assert!(self.static_members.len() == static_count, "each instance is a member");
    }
}
