//! Who sends a heartbeat: a member by its id, or an instance that comes back under another.

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, MemberEpoch, TopicId};

use super::leave::remove_member;
use super::{ConsumerAssignor, ConsumerGroup, ConsumerHeartbeat, ConsumerMember};
use crate::record::{ConsumerGroupRecord, PartitionEpochs};
use crate::{ConsumerGroupConfig, Refusal};

/// The members of a group as a decision sees them.
pub(super) type Members<'a> = BTreeMap<&'a Arc<str>, &'a ConsumerMember>;

/// The member that a request comes from.
pub(super) struct Joined {
    pub(super) member_id: Arc<str>,
    /// What is known of it before the request.
    pub(super) member: ConsumerMember,
    /// The id under which the log knows it so far, if that is another.
    pub(super) replaces: Option<Arc<str>>,
}

impl Joined {
    /// Has the log told what the member says of itself now, if that is something else.
    pub(super) fn note_updated(
        &self,
        group_id: &Arc<str>,
        updated: &ConsumerMember,
        records: &mut Vec<ConsumerGroupRecord>,
    ) {
        if *updated != self.member {
            records.push(ConsumerGroupRecord::MemberMetadata {
                group_id: group_id.clone(),
                member_id: self.member_id.clone(),
                value: Some(updated.metadata.clone()),
            });
        }
    }
}

impl ConsumerGroup {
    /// Returns the member that a request comes from, a new one if it joins.
    pub(super) fn judge_member(
        &self,
        group_id: &Arc<str>,
        request: &ConsumerHeartbeat<'_>,
        config: &ConsumerGroupConfig,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Result<Joined, Refusal> {
        let known = self.members.get_key_value(request.member_id);
        let instance = request.instance_id.and_then(|id| self.static_members.get(id));
        if instance.is_none() && known.is_none() && config.max_size <= self.members.len() {
            return Err(Refusal::with(ErrorCode::GroupMaxSizeReached, "the consumer group is full"));
        }
        let member_id: Arc<str> = match known {
            Some((member_id, _)) => member_id.clone(),
            None if request.member_id.is_empty() => request.fresh_member_id.into(),
            None => request.member_id.into(),
        };
        match (request.instance_id, instance) {
            (Some(_), Some(owner)) if request.is_join() => {
                self.judge_return(group_id, owner, member_id, records)
            }
            (Some(_), Some(owner)) => {
                check_instance(owner, request.member_id)?;
                let member = &self.members[owner];
                member.check_epoch(request)?;
                Ok(Joined { member_id: owner.clone(), member: member.clone(), replaces: None })
            }
            (Some(_), None) if !request.is_join() => {
                Err(Refusal::with(ErrorCode::UnknownMemberId, "the group has no such instance"))
            }
            (Some(_), None) | (None, _) => {
                let member = match known {
                    Some((_, member)) => member.clone(),
                    None if request.is_join() => ConsumerMember::default(),
                    None => {
                        return Err(Refusal::with(
                            ErrorCode::UnknownMemberId,
                            "the group has no such member",
                        ));
                    }
                };
                if request.instance_id.is_none() {
                    member.check_epoch(request)?;
                }
                Ok(Joined { member_id, member, replaces: None })
            }
        }
    }

    /// Judges an instance that joins while the group knows it: it takes over what it had when it left for a while.
    fn judge_return(
        &self,
        group_id: &Arc<str>,
        owner: &Arc<str>,
        member_id: Arc<str>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Result<Joined, Refusal> {
        let before = &self.members[owner];
        if before.metadata.classic.is_none() && before.assignment.member_epoch.get() != -2 {
            return Err(Refusal::with(
                ErrorCode::UnreleasedInstanceId,
                "the instance belongs to another member",
            ));
        }
        Ok(self.replace_instance(group_id, owner, member_id, records))
    }

    /// Puts a member in the place of the one that was the instance so far, with all that one had.
    pub(super) fn replace_instance(
        &self,
        group_id: &Arc<str>,
        owner: &Arc<str>,
        member_id: Arc<str>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Joined {
        let mut member = self.members[owner].clone();
        member.assignment.member_epoch = MemberEpoch::new(0);
        member.assignment.previous_member_epoch = Some(MemberEpoch::new(0));
        records.extend(remove_member(group_id, owner));
        let group_id = group_id.clone();
        records.push(ConsumerGroupRecord::MemberMetadata {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(member.metadata.clone()),
        });
        records.push(ConsumerGroupRecord::TargetAssignmentMember {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(self.targets.get(owner).cloned().unwrap_or_default()),
        });
        records.push(ConsumerGroupRecord::CurrentMemberAssignment {
            group_id,
            member_id: member_id.clone(),
            value: Some(member.assignment.clone()),
        });
        Joined { member_id, member, replaces: Some(owner.clone()) }
    }

    /// Returns the members as they are.
    pub(super) fn view(&self) -> Members<'_> {
        self.members.iter().collect()
    }

    /// Returns the members as they will be after a request.
    pub(super) fn members_with<'a>(&'a self, joined: &'a Joined, updated: &'a ConsumerMember) -> Members<'a> {
        let mut members = self.view();
        if let Some(replaced) = &joined.replaces {
            members.remove(replaced);
        }
        members.insert(&joined.member_id, updated);
        members
    }

    /// Returns the assignor that most members ask for, or the default one.
    pub(super) fn preferred_assignor(
        &self,
        members: &Members<'_>,
        config: &ConsumerGroupConfig,
    ) -> ConsumerAssignor {
        let asked = members.values().filter_map(|member| member.metadata.server_assignor.as_deref());
        let mut votes: BTreeMap<ConsumerAssignor, usize> = BTreeMap::new();
        for assignor in asked.filter_map(ConsumerAssignor::from_name) {
            *votes.entry(assignor).or_default() += 1;
        }
        // Of two with equally many votes Kafka's hash table has "uniform" first.
        let most = votes.into_iter().max_by_key(|(assignor, votes)| (*votes, *assignor));
        most.map_or_else(|| config.default_assignor(), |(assignor, _)| assignor)
    }

    /// Returns the member of an instance that leaves, or the member of an id.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId` if there is none.
    /// - `FencedInstanceId` if the instance is another member.
    pub(crate) fn judge_leave(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&Arc<str>, Refusal> {
        let Some(instance_id) = instance_id else {
            let member = self.members.get_key_value(member_id);
            return member
                .map(|(member_id, _)| member_id)
                .ok_or(Refusal::with(ErrorCode::UnknownMemberId, "the group has no such member"));
        };
        let Some(owner) = self.static_members.get(instance_id) else {
            return Err(Refusal::with(ErrorCode::UnknownMemberId, "the group has no such instance"));
        };
        check_instance(owner, member_id)?;
        Ok(owner)
    }
}

fn check_instance(owner: &Arc<str>, member_id: &str) -> Result<(), Refusal> {
    if **owner != *member_id {
        return Err(Refusal::with(ErrorCode::FencedInstanceId, "the instance belongs to another member"));
    }
    Ok(())
}

impl ConsumerMember {
    /// Refuses an epoch that is not the member's. The one before it passes if the member has no more than it was
    /// told: the answer that brought the newer one may have been lost.
    fn check_epoch(&self, request: &ConsumerHeartbeat<'_>) -> Result<(), Refusal> {
        let epoch = MemberEpoch::new(request.member_epoch);
        let current = self.assignment.member_epoch;
        if request.is_join() || epoch == current {
            return Ok(());
        }
        let is_retry = epoch < current
            && Some(epoch) == self.assignment.previous_member_epoch
            && request.owned.as_deref().is_some_and(|owned| is_within(owned, &self.assignment.assigned));
        if is_retry {
            return Ok(());
        }
        Err(Refusal::with(
            ErrorCode::FencedMemberEpoch,
            "the epoch is neither the member's nor the one before; it has to join anew",
        ))
    }
}

/// Returns whether everything owned is among what is assigned.
fn is_within(owned: &[(TopicId, Vec<i32>)], assigned: &PartitionEpochs) -> bool {
    owned.iter().all(|(topic_id, partitions)| {
        assigned
            .get(topic_id)
            .is_some_and(|epochs| partitions.iter().all(|partition| epochs.contains_key(partition)))
    })
}
