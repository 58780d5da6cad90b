//! Members of a consumer group that speak the classic protocol: they join by JoinGroup, get their assignment by
//! SyncGroup, and are told to join anew by Heartbeat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::{ErrorCode, MemberEpoch, Timestamp};

use super::heartbeat::ConsumerContext;
use super::leave::remove_member;
use super::members::Joined;
use super::{ConsumerGroup, ConsumerMember};
use crate::classic_group::{ClassicHeartbeat, JoinAnswer, JoinGroup, LeavingMember, SyncAnswer, SyncGroup};
use crate::embedded::{PROTOCOL_TYPE, Subscription, write_assignment};
use crate::record::{
    ClassicMemberMetadata, ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord,
    ConsumerMemberAssignment, ConsumerMemberMetadata, ConsumerMemberState, GroupRecord, PartitionEpochs,
};
use crate::topics::{Topics, metadata_hash};
use crate::{GroupEpoch, TopicPartitions};

/// A decided JoinGroup of a member that the consumer group takes.
pub(crate) struct ClassicJoin {
    pub(crate) records: Vec<GroupRecord>,
    pub(crate) answer: JoinAnswer,
    pub(crate) member_id: Arc<str>,
    /// The version of the topics that the group's hash was compared with, `None` if it was not.
    pub(crate) topics_version: Option<u64>,
    /// Whether the member takes the place of one that spoke the consumer protocol.
    pub(crate) replaces_consumer: bool,
}

/// A member of a classic group on its way into a consumer group.
pub(crate) struct ConvertedMember {
    pub(crate) member_id: Arc<str>,
    pub(crate) metadata: ConsumerMemberMetadata,
    pub(crate) assigned: TopicPartitions,
}

impl ConsumerMember {
    /// Returns how long the session of a member lasts that speaks the classic protocol.
    pub(crate) fn classic_session_ms(&self) -> Option<i64> {
        self.metadata.classic.as_ref().map(|classic| i64::from(classic.session_timeout_ms))
    }

    /// Returns what a member that speaks the classic protocol says of itself under the protocol it likes best.
    fn classic_protocol(&self) -> Option<&(Arc<str>, Bytes)> {
        self.metadata.classic.as_ref()?.supported_protocols.first()
    }
}

impl ConsumerGroup {
    /// Decides a JoinGroup: the member is put on its way to its target, as by a heartbeat.
    ///
    /// # Errors
    ///
    /// - `GroupMaxSizeReached` if the group is full.
    /// - `InconsistentGroupProtocol` if the member is no consumer, or speaks nothing that all classic members speak.
    /// - `MemberIdRequired` if it has to come back with the id it is told.
    /// - `UnknownMemberId`, `FencedInstanceId` if the instance is unknown, or another member.
    pub(crate) fn decide_join(
        &self,
        group_id: &Arc<str>,
        request: &JoinGroup<'_>,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> Result<ClassicJoin, JoinAnswer> {
        let refused = |error| JoinAnswer::refused(error, "");
        if !self.members.contains_key(request.member_id) && context.config.max_size <= self.members.len() {
            return Err(refused(ErrorCode::GroupMaxSizeReached));
        }
        let spoken = request.protocols.first().filter(|_| self.supports(request));
        let (protocol, metadata) = spoken.ok_or(refused(ErrorCode::InconsistentGroupProtocol))?;
        let is_new = request.member_id.is_empty();
        if is_new && request.group_instance_id.is_none() && request.requires_known_member_id {
            return Err(JoinAnswer::refused(ErrorCode::MemberIdRequired, request.fresh_member_id));
        }
        let subscription = Subscription::read(metadata, context.topics)
            .ok_or(refused(ErrorCode::InconsistentGroupProtocol))?;
        let mut records = Vec::new();
        let joined = self.judge_join(group_id, request, &mut records).map_err(refused)?;
        let mut updated = joined.member.clone();
        update_metadata(&mut updated, request, &subscription);
        joined.note_updated(group_id, &updated, &mut records);
        let progress = self
            .decide_progress(group_id, &joined, &updated, Some(&subscription.owned), context, &mut records)
            .map_err(|refusal| refused(refusal.error))?;
        let replaced = joined.replaces.as_ref().map(|replaced| &self.members[replaced]);
        Ok(ClassicJoin {
            records: records.into_iter().map(GroupRecord::Consumer).collect(),
            answer: JoinAnswer {
                generation: progress.member.assignment.member_epoch.get(),
                protocol_type: Some(PROTOCOL_TYPE.into()),
                protocol: Some(protocol.clone()),
                ..JoinAnswer::refused(ErrorCode::None, &joined.member_id)
            },
            member_id: joined.member_id,
            topics_version: progress.topics_version,
            replaces_consumer: replaced.is_some_and(|replaced| replaced.metadata.classic.is_none()),
        })
    }

    /// Returns whether who joins is a consumer and speaks something that all classic members speak.
    fn supports(&self, request: &JoinGroup<'_>) -> bool {
        let classic = self.members.values().filter_map(|member| member.metadata.classic.as_ref());
        let is_spoken_by_all = |name: &Arc<str>| {
            classic.clone().all(|member| member.supported_protocols.iter().any(|(known, _)| known == name))
        };
        request.protocol_type == PROTOCOL_TYPE
            && request.protocols.iter().any(|(name, _)| is_spoken_by_all(name))
    }

    /// Returns the member that joins, a new one unless its id or its instance is known.
    fn judge_join(
        &self,
        group_id: &Arc<str>,
        request: &JoinGroup<'_>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Result<Joined, ErrorCode> {
        let is_new = request.member_id.is_empty();
        let member_id: Arc<str> = if is_new { request.fresh_member_id } else { request.member_id }.into();
        let known = |member: &ConsumerMember| member.clone();
        let Some(instance_id) = request.group_instance_id else {
            let member = self.members.get(&member_id).map(known).unwrap_or_default();
            return Ok(Joined { member_id, member, replaces: None });
        };
        match self.static_members.get(instance_id) {
            Some(owner) if is_new => Ok(self.replace_instance(group_id, owner, member_id, records)),
            None if is_new => Ok(Joined { member_id, member: ConsumerMember::default(), replaces: None }),
            None => Err(ErrorCode::UnknownMemberId),
            Some(owner) if *owner != member_id => Err(ErrorCode::FencedInstanceId),
            Some(owner) => Ok(Joined { member: self.members[owner].clone(), member_id, replaces: None }),
        }
    }

    /// Returns the member of an id that speaks the classic protocol.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId` if there is none.
    /// - `FencedInstanceId` if the instance is another member.
    fn classic_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(&Arc<str>, &ConsumerMember), ErrorCode> {
        let member_id = self.judge_leave(member_id, instance_id).map_err(|refusal| refusal.error)?;
        let member = &self.members[member_id];
        if member.metadata.classic.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        Ok((member_id, member))
    }

    /// Decides a SyncGroup, for the member with this id.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId`, `FencedInstanceId` if it is no member that speaks the classic protocol.
    /// - `IllegalGeneration` if it names another epoch than the member's.
    /// - `InconsistentGroupProtocol` if it names another protocol than the one the member likes best.
    pub(crate) fn check_sync(
        &self,
        request: &SyncGroup<'_>,
    ) -> Result<(&Arc<str>, &ConsumerMember), ErrorCode> {
        let (member_id, member) = self.classic_member(request.member_id, request.group_instance_id)?;
        if request.generation != member.assignment.member_epoch.get() {
            return Err(ErrorCode::IllegalGeneration);
        }
        let protocol = member.classic_protocol().map(|(name, _)| &**name);
        let differs = |told: Option<&str>, own: Option<&str>| told.is_some() && told != own;
        if differs(request.protocol_type, Some(PROTOCOL_TYPE)) || differs(request.protocol, protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok((member_id, member))
    }

    /// Returns whether a member has to join anew before it is told an assignment. One that is to give partitions up is
    /// told what it keeps.
    pub(crate) fn is_behind(&self, member: &ConsumerMember) -> bool {
        member.assignment.member_epoch < self.epoch.member() && !member.is_revoking()
    }

    /// Returns the answer to a SyncGroup that is not refused.
    pub(crate) fn synced(
        request: &SyncGroup<'_>,
        member: &ConsumerMember,
        topics: &impl Topics,
    ) -> SyncAnswer {
        let assigned = member.assignment.assigned.iter();
        let assigned =
            assigned.map(|(topic_id, epochs)| (*topic_id, epochs.keys().copied().collect())).collect();
        let metadata = member.classic_protocol().map(|(_, metadata)| metadata);
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: request.protocol_type.map(Into::into),
            protocol: request.protocol.map(Into::into),
            assignment: write_assignment(&assigned, metadata, topics),
        }
    }

    /// Judges a Heartbeat of a member that speaks the classic protocol, and returns whether it has to join anew: the
    /// group has moved on, it has something to give up, or what it waits for is free.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId`, `FencedInstanceId` if it is no member that speaks the classic protocol.
    /// - `IllegalGeneration` if it names another epoch than the member's.
    pub(crate) fn judge_classic_heartbeat(
        &self,
        request: &ClassicHeartbeat<'_>,
    ) -> Result<(&ConsumerMember, bool), ErrorCode> {
        let (member_id, member) = self.classic_member(request.member_id, request.group_instance_id)?;
        let assignment = &member.assignment;
        if request.generation != assignment.member_epoch.get() {
            return Err(ErrorCode::IllegalGeneration);
        }
        let is_called = assignment.member_epoch < self.epoch.member()
            || match assignment.state {
                ConsumerMemberState::UnrevokedPartitions => true,
                ConsumerMemberState::UnreleasedPartitions => !self.waits_for_others(member_id),
                ConsumerMemberState::Stable | ConsumerMemberState::Unknown => false,
            };
        Ok((member, is_called))
    }

    /// Returns whether somebody else has some of what a member should have.
    fn waits_for_others(&self, member_id: &Arc<str>) -> bool {
        let target = self.targets.get(member_id).into_iter().flatten();
        let mut wanted =
            target.flat_map(|(topic_id, indexes)| indexes.iter().map(|index| (*topic_id, *index)));
        wanted.any(|partition| self.owners.get(&partition).is_some_and(|owner| owner != member_id))
    }

    /// Returns the member that a LeaveGroup names, whichever protocol it speaks.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId`, `FencedInstanceId` if there is none, or its place is another's.
    pub(crate) fn leaving_member(&self, leaving: &LeavingMember<'_>) -> Result<&Arc<str>, ErrorCode> {
        match leaving.group_instance_id {
            Some(place) if leaving.member_id.is_empty() => {
                self.static_members.get(place).ok_or(ErrorCode::UnknownMemberId)
            }
            Some(_) | None => {
                let member = self.judge_leave(leaving.member_id, leaving.group_instance_id);
                member.map_err(|refusal| refusal.error)
            }
        }
    }

    /// Returns whether the group has members besides those who leave, and all of them speak the classic protocol.
    pub(crate) fn is_classic_without(&self, leaving: &BTreeSet<Arc<str>>) -> bool {
        let mut stay = self.members.iter().filter(|(member_id, _)| !leaving.contains(*member_id)).peekable();
        stay.peek().is_some() && stay.all(|(_, member)| member.metadata.classic.is_some())
    }

    /// Returns the epoch of the group.
    pub(crate) const fn epoch(&self) -> GroupEpoch {
        self.epoch
    }

    /// Returns what a member should have.
    pub(crate) fn target(&self, member_id: &Arc<str>) -> Option<&TopicPartitions> {
        self.targets.get(member_id)
    }

    /// Decides the end of the group with all of its members, who go on in another.
    pub(crate) fn decide_dissolve(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        let tombstones: Vec<_> =
            self.members.keys().map(|member_id| remove_member(group_id, member_id)).collect();
        let nth = |index: usize| tombstones.iter().map(move |of_member| of_member[index].clone());
        let group = self.group_tombstones(group_id);
        let (head, tail) = group.split_at(1);
        let records =
            nth(0).chain(nth(1)).chain(head.iter().cloned()).chain(nth(2)).chain(tail.iter().cloned());
        records.map(GroupRecord::Consumer).collect()
    }

    /// Returns the records that make a consumer group of a classic one, whose generation becomes its epoch.
    pub(crate) fn records_of_classic(
        group_id: &Arc<str>,
        generation: i32,
        members: &[ConvertedMember],
        topics: &impl Topics,
    ) -> Vec<GroupRecord> {
        let (epoch, member_epoch) = (GroupEpoch::new(generation), MemberEpoch::new(generation));
        let names = members.iter().flat_map(|member| &member.metadata.subscribed_topic_names);
        let names: BTreeSet<&Arc<str>> = names.collect();
        let mut records: Vec<ConsumerGroupRecord> = Vec::new();
        for member in members {
            let (member_id, value) = (member.member_id.clone(), Some(member.metadata.clone()));
            records.push(ConsumerGroupRecord::MemberMetadata {
                group_id: group_id.clone(),
                member_id,
                value,
            });
        }
        let value = Some(ConsumerGroupMetadata { epoch, metadata_hash: metadata_hash(names, topics) });
        records.push(ConsumerGroupRecord::Metadata { group_id: group_id.clone(), value });
        for member in members {
            let (member_id, value) = (member.member_id.clone(), Some(member.assigned.clone()));
            let group_id = group_id.clone();
            records.push(ConsumerGroupRecord::TargetAssignmentMember { group_id, member_id, value });
        }
        let value = Some(ConsumerAssignmentMetadata { epoch, timestamp: None });
        records.push(ConsumerGroupRecord::TargetAssignmentMetadata { group_id: group_id.clone(), value });
        for member in members {
            let value = Some(ConsumerMemberAssignment {
                member_epoch,
                previous_member_epoch: Some(member_epoch),
                state: ConsumerMemberState::Stable,
                assigned: since(&member.assigned, generation),
                pending_revocation: PartitionEpochs::new(),
            });
            let (group_id, member_id) = (group_id.clone(), member.member_id.clone());
            records.push(ConsumerGroupRecord::CurrentMemberAssignment { group_id, member_id, value });
        }
        records.into_iter().map(GroupRecord::Consumer).collect()
    }

    /// Returns the group after these records.
    pub(crate) fn after(&self, records: &[GroupRecord]) -> Self {
        let mut group = self.clone();
        for record in records {
            if let GroupRecord::Consumer(record) = record {
                group.replay(record);
            }
        }
        group
    }

    /// Returns until when each classic member has to be heard of, if all were heard of now.
    pub(crate) fn classic_sessions(&self, now: Timestamp) -> Vec<(Arc<str>, Timestamp)> {
        let members = self.members.iter();
        members
            .filter_map(|(member_id, member)| {
                Some((member_id.clone(), now.plus_ms(member.classic_session_ms()?)))
            })
            .collect()
    }
}

/// Returns partitions that were all got at one epoch.
fn since(partitions: &TopicPartitions, epoch: i32) -> PartitionEpochs {
    let topics = partitions.iter();
    topics
        .map(|(topic_id, indexes)| {
            (*topic_id, indexes.iter().map(|index| (*index, epoch)).collect::<BTreeMap<i32, i32>>())
        })
        .collect()
}

/// Takes over what the request says of the member.
fn update_metadata(member: &mut ConsumerMember, request: &JoinGroup<'_>, subscription: &Subscription) {
    let metadata = &mut member.metadata;
    if let Some(instance_id) = request.group_instance_id {
        metadata.instance_id = Some(instance_id.into());
    }
    if subscription.rack_id.is_some() {
        metadata.rack_id.clone_from(&subscription.rack_id);
    }
    if 0 <= request.rebalance_timeout_ms {
        metadata.rebalance_timeout_ms = Some(request.rebalance_timeout_ms);
    }
    metadata.subscribed_topic_names.clone_from(&subscription.topics);
    metadata.client_id = request.client_id.into();
    metadata.client_host = request.client_host.into();
    metadata.classic = Some(ClassicMemberMetadata {
        session_timeout_ms: request.session_timeout_ms,
        supported_protocols: request.protocols.clone(),
    });
}
