//! `ShareGroupHeartbeat`: a member joins, stays or changes what it wants.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, MemberEpoch, Timestamp, TopicId};

use super::states::InitialiseShareStates;
use super::target::Target;
use super::{ShareGroup, ShareMember};
use crate::record::{GroupRecord, ShareGroupMetadata};
use crate::refusal::is_blank;
use crate::topics::{Topics, metadata_hash, topic_ids};
use crate::{GroupEpoch, Refusal, ShareGroupConfig, TopicPartitions};

/// One `ShareGroupHeartbeat` request.
#[derive(Clone, Debug)]
pub struct ShareHeartbeat<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member, by the id that it made up.
    pub member_id: &'a str,
    /// 0 to join, -1 to leave, else the epoch it was last told.
    pub member_epoch: i32,
    /// The rack, `None` if it has not changed.
    pub rack_id: Option<&'a str>,
    /// The names of the topics it wants, `None` if they have not changed.
    pub subscribed_topic_names: Option<Vec<&'a str>>,
    /// The client id of the request's header.
    pub client_id: &'a str,
    /// Where the request comes from, as Kafka shows it: a slash and the address.
    pub client_host: &'a str,
}

/// So many characters, in UTF-16, has the id of a member at most. Only share groups have such a limit.
pub const MEMBER_ID_LENGTH_MAX: usize = 36;

impl ShareHeartbeat<'_> {
    /// Checks what needs no look at the group.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let invalid = |message| Err(Refusal::with(ErrorCode::InvalidRequest, message));
        if is_blank(self.member_id) {
            return invalid("the member id is empty");
        }
        if MEMBER_ID_LENGTH_MAX < self.member_id.encode_utf16().count() {
            return invalid("the member id is longer than 36 characters");
        }
        if is_blank(self.group_id) {
            return invalid("the group id is empty");
        }
        if self.rack_id.is_some_and(is_blank) {
            return invalid("the rack id is empty");
        }
        if self.member_epoch < -1 {
            return invalid("the member epoch is below -1");
        }
        if self.is_join() && self.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty) {
            return invalid("the first heartbeat names no topics");
        }
        Ok(())
    }

    pub(crate) const fn is_join(&self) -> bool {
        self.member_epoch == 0
    }

    pub(crate) const fn is_leave(&self) -> bool {
        self.member_epoch == -1
    }
}

/// What a member is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShareHeartbeatAnswer {
    /// The epoch to send next; -1 after it left.
    pub member_epoch: MemberEpoch,
    /// After how many milliseconds to send the next; 0 after it left.
    pub heartbeat_interval_ms: i32,
    /// What to consume, `None` if that has not changed.
    pub assignment: Option<TopicPartitions>,
}

/// A decided heartbeat.
#[derive(Clone, Debug)]
pub struct ShareHeartbeatDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// What to answer once the records are durable. It waits for no initialisation.
    pub answer: ShareHeartbeatAnswer,
    /// What to ask of the share coordinator after that.
    pub states_to_initialise: Option<InitialiseShareStates>,
    /// What to hand to `apply_share_heartbeat` after the records are replayed.
    pub plan: HeartbeatPlan,
}

/// What a heartbeat changes that is not in the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeartbeatPlan {
    pub(crate) group_id: Arc<str>,
    pub(crate) member_id: Arc<str>,
    pub(crate) kind: HeartbeatPlanKind,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HeartbeatPlanKind {
    /// The member is alive.
    Stays {
        /// When the heartbeat came.
        now: Timestamp,
        /// Until when the next one has to come.
        deadline: Timestamp,
        /// The version of the topics that the group's hash was computed for.
        topics_version: u64,
        /// The topics whose initialisation was asked for.
        initialising: BTreeSet<TopicId>,
        /// Whether the heartbeat found nothing left to do for the group as a whole.
        is_settled: bool,
    },
    /// The member left; replaying its tombstones is all.
    Leaves,
}

/// What of a group is not in the log but bears on a heartbeat.
pub(crate) struct HeartbeatContext<'a, T> {
    pub(crate) now: Timestamp,
    pub(crate) topics: &'a T,
    pub(crate) config: &'a ShareGroupConfig,
    /// The version of the topics at which the group's hash was last compared.
    pub(crate) topics_version: Option<u64>,
    /// Whether nothing was left to do for the group as a whole, and nothing happened to it since.
    pub(crate) is_settled: bool,
    /// The topics whose initialisation may be asked for again, since nobody answers any more.
    pub(crate) is_initialising_stale: &'a dyn Fn(TopicId) -> bool,
}

impl ShareGroup {
    /// Decides a heartbeat that is not a leave. `self` is an empty group if the member creates it.
    pub(crate) fn decide_heartbeat(
        &self,
        group_id: &Arc<str>,
        request: &ShareHeartbeat<'_>,
        context: &HeartbeatContext<'_, impl Topics>,
    ) -> Result<ShareHeartbeatDecision, Refusal> {
        let (member_id, member) = self.judge_member(request, context.config)?;
        let mut records = Vec::new();
        let mut updated = member.clone();
        update_metadata(&mut updated, request);
        if updated != member {
            records.push(GroupRecord::ShareGroupMemberMetadata {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                value: Some(updated.metadata.clone()),
            });
        }
        let is_known = context.is_settled && context.topics_version == Some(context.topics.version());
        if is_known && updated == member && member.epoch == self.assignment_epoch.member() {
            // By far the most heartbeats; they cost the same however large the group is.
            return Ok(self.conclude(
                (group_id, member_id),
                &member,
                updated,
                request,
                context,
                (records, None),
            ));
        }
        let names = self.subscribed_names_with(&member_id, Some(&updated));
        let (epoch, raised) = self.decide_epoch(group_id, &member, &updated, &names, context, &mut records);
        let target = self.decide_target(group_id, epoch, (&member_id, &updated), context, &mut records);
        let reconciled = reconcile(&updated, target, raised, context.topics);
        if reconciled != updated {
            records.push(GroupRecord::ShareGroupCurrentMemberAssignment {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                value: Some(reconciled.assignment()),
            });
        }
        let crossing = self.decide_initialisation(group_id, epoch, &names, context, &mut records);
        let outcome = (records, crossing);
        Ok(self.conclude((group_id, member_id), &member, reconciled, request, context, outcome))
    }

    /// Puts a decision together for a member that was `before` and is now `after`.
    fn conclude(
        &self,
        (group_id, member_id): (&Arc<str>, Arc<str>),
        before: &ShareMember,
        after: ShareMember,
        request: &ShareHeartbeat<'_>,
        context: &HeartbeatContext<'_, impl Topics>,
        (records, states_to_initialise): (Vec<GroupRecord>, Option<InitialiseShareStates>),
    ) -> ShareHeartbeatDecision {
        let is_full = request.is_join() || request.subscribed_topic_names.is_some();
        let is_told = is_full || after.assigned != before.assigned;
        let initialising = states_to_initialise.iter().flat_map(InitialiseShareStates::topic_ids);
        let kind = HeartbeatPlanKind::Stays {
            now: context.now,
            deadline: context.now.plus_ms(context.config.session_timeout_ms),
            topics_version: context.topics.version(),
            initialising: initialising.collect(),
            is_settled: records.is_empty()
                && self.assignment_epoch == self.epoch
                && self.states.initialising.is_empty(),
        };
        ShareHeartbeatDecision {
            records,
            answer: ShareHeartbeatAnswer {
                member_epoch: after.epoch,
                heartbeat_interval_ms: context.config.heartbeat_interval_ms,
                assignment: is_told.then_some(after.assigned),
            },
            states_to_initialise,
            plan: HeartbeatPlan { group_id: group_id.clone(), member_id, kind },
        }
    }

    /// Returns the member that a request comes from, a new one if it joins.
    fn judge_member(
        &self,
        request: &ShareHeartbeat<'_>,
        config: &ShareGroupConfig,
    ) -> Result<(Arc<str>, ShareMember), Refusal> {
        let known = self.members.get_key_value(request.member_id);
        if known.is_none() && config.max_size <= self.members.len() {
            return Err(Refusal::with(ErrorCode::GroupMaxSizeReached, "the share group is full"));
        }
        let Some((member_id, member)) = known else {
            if request.is_join() {
                return Ok((request.member_id.into(), ShareMember::default()));
            }
            return Err(Refusal::with(ErrorCode::UnknownMemberId, "the group has no such member"));
        };
        // A member that lost track joins again under its id and keeps its epoch.
        if !request.is_join() && !member.accepts(MemberEpoch::new(request.member_epoch)) {
            return Err(Refusal::with(
                ErrorCode::FencedMemberEpoch,
                "the epoch is neither the member's nor the one before",
            ));
        }
        Ok((member_id.clone(), member.clone()))
    }

    /// Returns the group's epoch after this heartbeat and whether it was raised.
    fn decide_epoch(
        &self,
        group_id: &Arc<str>,
        member: &ShareMember,
        updated: &ShareMember,
        names: &BTreeSet<&Arc<str>>,
        context: &HeartbeatContext<'_, impl Topics>,
        records: &mut Vec<GroupRecord>,
    ) -> (GroupEpoch, bool) {
        let subscription_changed =
            member.metadata.subscribed_topic_names != updated.metadata.subscribed_topic_names;
        let mut raise = subscription_changed || self.is_initialised_unassigned();
        if !raise && context.topics_version == Some(context.topics.version()) {
            return (self.epoch, false);
        }
        let metadata_hash = metadata_hash(names.iter().copied(), context.topics);
        raise |= metadata_hash != self.metadata_hash;
        if !raise {
            return (self.epoch, false);
        }
        let epoch = self.epoch.next();
        records.push(GroupRecord::ShareGroupMetadata {
            group_id: group_id.clone(),
            value: Some(ShareGroupMetadata { epoch, metadata_hash }),
        });
        (epoch, true)
    }

    /// Returns whether a subscribed share partition was initialised after the last assignment.
    fn is_initialised_unassigned(&self) -> bool {
        if self.assignment_epoch < self.epoch || self.members.is_empty() {
            return false;
        }
        let names = self.subscribed_names();
        self.states.initialised.iter().any(|(topic_id, topic)| {
            let assigned: BTreeSet<i32> =
                self.targets.values().filter_map(|target| target.get(topic_id)).flatten().copied().collect();
            names.contains(&topic.name) && assigned != topic.partitions
        })
    }
}

/// Takes over what the request says of the member.
fn update_metadata(member: &mut ShareMember, request: &ShareHeartbeat<'_>) {
    let metadata = &mut member.metadata;
    if let Some(rack_id) = request.rack_id {
        metadata.rack_id = Some(rack_id.into());
    }
    if let Some(names) = &request.subscribed_topic_names {
        metadata.subscribed_topic_names = names.iter().map(|name| Arc::from(*name)).collect();
    }
    if *metadata.client_id != *request.client_id {
        metadata.client_id = request.client_id.into();
    }
    if *metadata.client_host != *request.client_host {
        metadata.client_host = request.client_host.into();
    }
}

/// Returns the member moved on to its target.
fn reconcile(member: &ShareMember, target: Target, epoch_raised: bool, topics: &impl Topics) -> ShareMember {
    let mut member = member.clone();
    let target_epoch = target.epoch.member();
    if !epoch_raised && member.epoch == target_epoch {
        return member;
    }
    let wanted = topic_ids(&member.metadata.subscribed_topic_names, topics);
    member.assigned = target.partitions;
    member.assigned.retain(|topic_id, _| wanted.contains(topic_id));
    if member.epoch != target_epoch {
        member.previous_epoch = Some(member.epoch);
        member.epoch = target_epoch;
    }
    member
}
