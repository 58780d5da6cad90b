//! How a member comes from what it has to what it should have.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::{ErrorCode, MemberEpoch, TopicId};

use super::target::ConsumerTarget;
use super::{ConsumerGroup, ConsumerMember};
use crate::record::{ConsumerMemberState, PartitionEpochs};
use crate::topics::Topics;
use crate::{GroupEpoch, Refusal};

impl ConsumerGroup {
    /// Returns the member as far on its way to its target as it can go now. `owned` is what it says it has.
    ///
    /// # Errors
    ///
    /// - `FencedMemberEpoch` if the log has it in a state that is unknown, and it has partitions.
    pub(super) fn reconcile(
        &self,
        member: &ConsumerMember,
        target: &ConsumerTarget,
        resubscribed: bool,
        owned: Option<&[(TopicId, Vec<i32>)]>,
        topics: &impl Topics,
    ) -> Result<ConsumerMember, Refusal> {
        if !resubscribed && member.is_reconciled_to(target.epoch) {
            return Ok(member.clone());
        }
        let subscribed = self.subscribed_topic_ids(member, topics);
        let assignment = &member.assignment;
        Ok(match assignment.state {
            ConsumerMemberState::Stable if assignment.member_epoch == target.epoch.member() => {
                strip(member, &subscribed, owned)
            }
            ConsumerMemberState::UnrevokedPartitions if still_owns(owned, &assignment.pending_revocation) => {
                if resubscribed {
                    strip(member, &subscribed, owned)
                } else {
                    member.clone()
                }
            }
            ConsumerMemberState::Stable
            | ConsumerMemberState::UnrevokedPartitions
            | ConsumerMemberState::UnreleasedPartitions => {
                self.advance(member, target, &subscribed, assignment.member_epoch, owned)
            }
            ConsumerMemberState::Unknown if owned.is_some_and(<[_]>::is_empty) => {
                self.advance(member, target, &subscribed, target.epoch.member(), owned)
            }
            ConsumerMemberState::Unknown => {
                return Err(Refusal::with(
                    ErrorCode::FencedMemberEpoch,
                    "the member is in an unknown state; it has to join anew",
                ));
            }
        })
    }

    /// Takes from a member what its target does not give it; if there is nothing left to take, gives it what is free.
    fn advance(
        &self,
        member: &ConsumerMember,
        target: &ConsumerTarget,
        subscribed: &BTreeSet<TopicId>,
        member_epoch: MemberEpoch,
        owned: Option<&[(TopicId, Vec<i32>)]>,
    ) -> ConsumerMember {
        let wanted = |topic_id: &TopicId, partition: &i32| {
            subscribed.contains(topic_id)
                && target.partitions.get(topic_id).is_some_and(|wanted| wanted.contains(partition))
        };
        let (mut kept, revoked) = split(&member.assignment.assigned, wanted);
        if still_owns(owned, &revoked) {
            return member.moved(ConsumerMemberState::UnrevokedPartitions, member_epoch, kept, revoked);
        }
        let mut waits = false;
        for (topic_id, partitions) in target.partitions.iter().filter(|(id, _)| subscribed.contains(id)) {
            for partition in partitions {
                if kept.get(topic_id).is_some_and(|epochs| epochs.contains_key(partition)) {
                    continue;
                }
                // What the member itself was giving up is as good as free: nobody else can have it.
                let own = member.assignment.pending_revocation.get(topic_id);
                let is_own = own.is_some_and(|epochs| epochs.contains_key(partition));
                if !is_own && self.owners.contains_key(&(*topic_id, *partition)) {
                    waits = true;
                    continue;
                }
                kept.entry(*topic_id).or_default().insert(*partition, target.epoch.get());
            }
        }
        let state =
            if waits { ConsumerMemberState::UnreleasedPartitions } else { ConsumerMemberState::Stable };
        member.moved(state, target.epoch.member(), kept, PartitionEpochs::new())
    }
}

/// Takes the topics from a member that it does not subscribe to any more, without waiting for a new target.
fn strip(
    member: &ConsumerMember,
    subscribed: &BTreeSet<TopicId>,
    owned: Option<&[(TopicId, Vec<i32>)]>,
) -> ConsumerMember {
    let assignment = &member.assignment;
    let (kept, dropped) = split(&assignment.assigned, |topic_id, _| subscribed.contains(topic_id));
    if dropped.is_empty() {
        return member.clone();
    }
    let mut pending = assignment.pending_revocation.clone();
    for (topic_id, epochs) in dropped {
        pending.entry(topic_id).or_default().extend(epochs);
    }
    if still_owns(owned, &pending) {
        let state = ConsumerMemberState::UnrevokedPartitions;
        return member.moved(state, assignment.member_epoch, kept, pending);
    }
    // It has given them up already.
    let before = assignment.pending_revocation.clone();
    member.moved(assignment.state, assignment.member_epoch, kept, before)
}

/// Parts partitions into those that `keeps` is for and the others.
fn split(
    partitions: &PartitionEpochs,
    keeps: impl Fn(&TopicId, &i32) -> bool,
) -> (PartitionEpochs, PartitionEpochs) {
    let (mut kept, mut others) = (PartitionEpochs::new(), PartitionEpochs::new());
    for (topic_id, epochs) in partitions {
        let (keep, other): (BTreeMap<i32, i32>, BTreeMap<i32, i32>) =
            epochs.iter().partition(|(partition, _)| keeps(topic_id, partition));
        if !keep.is_empty() {
            kept.insert(*topic_id, keep);
        }
        if !other.is_empty() {
            others.insert(*topic_id, other);
        }
    }
    (kept, others)
}

/// Returns whether the member has some of what it is to give up. One that does not say counts as having it.
fn still_owns(owned: Option<&[(TopicId, Vec<i32>)]>, revoked: &PartitionEpochs) -> bool {
    let Some(owned) = owned else { return !revoked.is_empty() };
    owned.iter().any(|(topic_id, partitions)| {
        revoked
            .get(topic_id)
            .is_some_and(|epochs| partitions.iter().any(|partition| epochs.contains_key(partition)))
    })
}

impl ConsumerMember {
    /// Returns the member with another assignment; its epoch so far becomes the one before.
    fn moved(
        &self,
        state: ConsumerMemberState,
        epoch: MemberEpoch,
        assigned: PartitionEpochs,
        pending_revocation: PartitionEpochs,
    ) -> Self {
        let mut member = self.clone();
        let before = member.assignment.member_epoch;
        member.assignment.previous_member_epoch = Some(before).filter(|epoch| 0 <= epoch.get());
        member.assignment.member_epoch = epoch;
        member.assignment.state = state;
        member.assignment.assigned = assigned;
        member.assignment.pending_revocation = pending_revocation;
        member
    }

    /// Returns whether the member has all that the assignment of this epoch gives it.
    pub(super) fn is_reconciled_to(&self, epoch: GroupEpoch) -> bool {
        self.assignment.state == ConsumerMemberState::Stable && self.assignment.member_epoch == epoch.member()
    }
}
