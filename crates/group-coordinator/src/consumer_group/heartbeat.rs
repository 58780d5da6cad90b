//! `ConsumerGroupHeartbeat`: a member joins, stays, or changes what it wants.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, MemberEpoch, Timestamp, TopicId};

use super::members::{Joined, Members};
use super::regexes::RegexChange;
use super::{ConsumerGroup, ConsumerMember};
use crate::classic_group::{Caller, ClassicAnswer, ClassicPlan};
use crate::record::{ConsumerGroupMetadata, ConsumerGroupRecord, ConsumerMemberState, GroupRecord};
use crate::refusal::is_blank;
use crate::topics::{Topics, metadata_hash};
use crate::{ConsumerGroupConfig, GroupEpoch, Refusal, TopicPartitions};

/// One `ConsumerGroupHeartbeat` request.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeat<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member. One that joins by version 0 may leave it empty.
    pub member_id: &'a str,
    /// The id for a member that joins without one.
    pub fresh_member_id: &'a str,
    /// Whether the version of the request asks for a member id.
    pub member_id_required: bool,
    /// 0 to join, -1 to leave, -2 to leave for a while, else the epoch it was last told.
    pub member_epoch: i32,
    /// The instance, `None` for a dynamic member.
    pub instance_id: Option<&'a str>,
    /// The rack, `None` if it has not changed.
    pub rack_id: Option<&'a str>,
    /// How long it may take to give partitions up, `None` if that has not changed.
    pub rebalance_timeout_ms: Option<i32>,
    /// The names of the topics it wants, `None` if they have not changed.
    pub subscribed_topic_names: Option<Vec<&'a str>>,
    /// The expression that names further topics, `None` if it has not changed.
    pub subscribed_topic_regex: Option<&'a str>,
    /// The assignor it asks for, `None` if that has not changed.
    pub server_assignor: Option<&'a str>,
    /// The partitions it has, `None` if they have not changed.
    pub owned: Option<Vec<(TopicId, Vec<i32>)>>,
    /// The client id of the request's header.
    pub client_id: &'a str,
    /// Where the request comes from, as Kafka shows it: a slash and the address.
    pub client_host: &'a str,
}

impl ConsumerHeartbeat<'_> {
    /// Checks what needs no look at the group.
    pub(crate) fn check(&self, config: &ConsumerGroupConfig) -> Result<(), Refusal> {
        let invalid = |message| Err(Refusal::with(ErrorCode::InvalidRequest, message));
        let needs_member = self.member_id_required || 0 < self.member_epoch || self.member_epoch == -1;
        if needs_member && is_blank(self.member_id) {
            return invalid("the member id is empty");
        }
        if is_blank(self.group_id) {
            return invalid("the group id is empty");
        }
        if self.instance_id.is_some_and(is_blank) {
            return invalid("the instance id is empty");
        }
        if self.rack_id.is_some_and(is_blank) {
            return invalid("the rack id is empty");
        }
        if self.is_join() {
            if self.rebalance_timeout_ms.is_none() {
                return invalid("the first heartbeat tells no rebalance timeout");
            }
            if self.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
                return invalid("a member that joins has to own nothing, and to say so");
            }
            if self.subscribed_topic_names.is_none() && self.subscribed_topic_regex.is_none() {
                return invalid("the first heartbeat names no topics");
            }
        } else if self.member_epoch == -2 && self.instance_id.is_none() {
            return invalid("only an instance may leave for a while");
        } else if self.member_epoch < -2 {
            return invalid("the member epoch is below -2");
        }
        let assignors = &config.assignors;
        if self.server_assignor.is_some_and(|name| assignors.iter().all(|known| known.name() != name)) {
            return Err(Refusal::with(ErrorCode::UnsupportedAssignor, "there is no assignor of this name"));
        }
        Ok(())
    }

    pub(crate) const fn is_join(&self) -> bool {
        self.member_epoch == 0
    }

    pub(crate) const fn is_leave(&self) -> bool {
        matches!(self.member_epoch, -1 | -2)
    }

    /// Returns whether the member tells all, as it does after an error; it is told all in return.
    const fn is_full(&self) -> bool {
        self.rebalance_timeout_ms.is_some()
            && (self.subscribed_topic_names.is_some() || self.subscribed_topic_regex.is_some())
            && self.owned.is_some()
    }
}

/// What a member is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerHeartbeatAnswer {
    /// The member.
    pub member_id: Arc<str>,
    /// The epoch to send next; what it sent if it left.
    pub member_epoch: MemberEpoch,
    /// After how many milliseconds to send the next; 0 after it left.
    pub heartbeat_interval_ms: i32,
    /// What to consume, `None` if that has not changed.
    pub assignment: Option<TopicPartitions>,
}

/// A decided heartbeat.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeatDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// What to answer once the records are durable.
    pub answer: ConsumerHeartbeatAnswer,
    /// Whether the group's regular expressions are to be looked up, after the records are replayed.
    pub resolves_regexes: bool,
    /// What to hand to `apply_consumer_heartbeat` after the records are replayed.
    pub plan: ConsumerHeartbeatPlan,
}

/// What a heartbeat changes that is not in the log.
#[derive(Clone, Debug)]
pub struct ConsumerHeartbeatPlan {
    pub(crate) group_id: Arc<str>,
    pub(crate) member_id: Arc<str>,
    /// Until when the next heartbeat has to come; `None` if the member left, for a while or for good.
    pub(crate) session_deadline: Option<Timestamp>,
    /// Until when the member has to have given partitions up.
    pub(crate) rebalance: DeadlineChange,
    /// The version of the topics that the group's hash was compared with, `None` if it was not.
    pub(crate) topics_version: Option<u64>,
    /// Until when the members have to be heard of that a classic group has brought along.
    pub(crate) converted: Vec<(Arc<str>, Timestamp)>,
    /// Whoever waited for that classic group.
    pub(crate) answers: Vec<(Caller, ClassicAnswer)>,
    /// The classic group that is left.
    pub(crate) downgraded: Option<ClassicPlan>,
}

impl ConsumerHeartbeatPlan {
    /// Returns the plan of a heartbeat that changes nothing but that the member was heard of.
    fn heard_of(
        group_id: &Arc<str>,
        member_id: Arc<str>,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> Self {
        Self {
            session_deadline: Some(context.now.plus_ms(context.config.session_timeout_ms)),
            rebalance: DeadlineChange::Kept,
            ..Self::gone(group_id.clone(), member_id)
        }
    }

    /// Returns the plan of a member that leaves.
    pub(crate) const fn gone(group_id: Arc<str>, member_id: Arc<str>) -> Self {
        Self {
            group_id,
            member_id,
            session_deadline: None,
            rebalance: DeadlineChange::Ended,
            topics_version: None,
            converted: Vec::new(),
            answers: Vec::new(),
            downgraded: None,
        }
    }
}

/// Where a member has got by a request.
pub(super) struct Progress {
    pub(super) member: ConsumerMember,
    /// Whether the group's regular expressions are to be looked up.
    pub(super) resolves_regexes: bool,
    /// The version of the topics that the group's hash was compared with, `None` if it was not.
    pub(super) topics_version: Option<u64>,
}

/// What becomes of a time by which a member has to have done something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DeadlineChange {
    /// It stays as it is.
    Kept,
    /// There is none any more.
    Ended,
    /// It is this.
    At(Timestamp),
}

/// What of a group is not in the log but bears on a heartbeat.
pub(crate) struct ConsumerContext<'a, T> {
    pub(crate) now: Timestamp,
    pub(crate) topics: &'a T,
    pub(crate) config: &'a ConsumerGroupConfig,
    /// The version of the topics at which the group's hash was last compared.
    pub(crate) topics_version: Option<u64>,
}

/// What of a group's epoch and target a heartbeat arrives at.
pub(super) struct Epochs {
    /// The group's epoch.
    pub(super) group: GroupEpoch,
    /// Whether the group's hash was compared.
    pub(super) compared: bool,
}

impl ConsumerGroup {
    /// Decides a heartbeat that is not a leave. `self` is an empty group if the member creates it.
    pub(crate) fn decide_heartbeat(
        &self,
        group_id: &Arc<str>,
        request: &ConsumerHeartbeat<'_>,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> Result<ConsumerHeartbeatDecision, Refusal> {
        let mut records = Vec::new();
        let joined = self.judge_member(group_id, request, context.config, &mut records)?;
        let mut updated = joined.member.clone();
        update_metadata(&mut updated, request);
        joined.note_updated(group_id, &updated, &mut records);
        if self.is_settled_for(&joined, &updated, context) {
            // By far the most heartbeats; they cost the same however large the group is.
            return Ok(ConsumerHeartbeatDecision {
                records: Vec::new(),
                answer: answer(request, &joined, &updated, context.config),
                resolves_regexes: false,
                plan: ConsumerHeartbeatPlan::heard_of(group_id, joined.member_id, context),
            });
        }
        let owned = request.owned.as_deref();
        let progress = self.decide_progress(group_id, &joined, &updated, owned, context, &mut records)?;
        let answer = answer(request, &joined, &progress.member, context.config);
        Ok(ConsumerHeartbeatDecision {
            records: records.into_iter().map(GroupRecord::Consumer).collect(),
            answer,
            resolves_regexes: progress.resolves_regexes,
            plan: ConsumerHeartbeatPlan {
                rebalance: rebalance_deadline(&updated, &progress.member, context.now),
                topics_version: progress.topics_version,
                ..ConsumerHeartbeatPlan::heard_of(group_id, joined.member_id, context)
            },
        })
    }

    /// Takes over what a member says of itself now, raises the group's epoch and computes a new target if that asks for
    /// it, and puts the member on its way there. `owned` is what it says it has.
    pub(super) fn decide_progress(
        &self,
        group_id: &Arc<str>,
        joined: &Joined,
        updated: &ConsumerMember,
        owned: Option<&[(TopicId, Vec<i32>)]>,
        context: &ConsumerContext<'_, impl Topics>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Result<Progress, Refusal> {
        let names_changed =
            joined.member.metadata.subscribed_topic_names != updated.metadata.subscribed_topic_names;
        let members = self.members_with(joined, updated);
        let regex = self.judge_regex(group_id, &joined.member, updated, &members, context, records)?;
        let raises = names_changed
            || regex.change == RegexChange::Resolved
            || self.preferred_assignor(&self.view(), context.config)
                != self.preferred_assignor(&members, context.config);
        let epochs = self.decide_epoch(group_id, raises, &members, regex.dropped, context, records);
        let target = self.decide_target(group_id, epochs.group, joined, &members, context, records);
        let resubscribed = names_changed || regex.change != RegexChange::None;
        let member = self.reconcile(updated, &target, resubscribed, owned, context.topics)?;
        if member != *updated {
            records.push(ConsumerGroupRecord::CurrentMemberAssignment {
                group_id: group_id.clone(),
                member_id: joined.member_id.clone(),
                value: Some(member.assignment.clone()),
            });
        }
        Ok(Progress {
            member,
            resolves_regexes: regex.resolves,
            topics_version: epochs.compared.then(|| context.topics.version()),
        })
    }

    /// Returns whether a heartbeat that changes nothing of the member has nothing to do for the group either.
    fn is_settled_for(
        &self,
        joined: &Joined,
        updated: &ConsumerMember,
        context: &ConsumerContext<'_, impl Topics>,
    ) -> bool {
        joined.replaces.is_none()
            && *updated == joined.member
            && context.topics_version == Some(context.topics.version())
            && self.assignment_epoch == self.epoch
            && updated.is_reconciled_to(self.assignment_epoch)
            && self.resolved.is_empty()
            && updated.regex().is_none()
    }

    /// Returns the group's epoch after this heartbeat, which rises if a subscription or a subscribed topic changed.
    fn decide_epoch(
        &self,
        group_id: &Arc<str>,
        raises: bool,
        members: &Members<'_>,
        dropped_regex: Option<&str>,
        context: &ConsumerContext<'_, impl Topics>,
        records: &mut Vec<ConsumerGroupRecord>,
    ) -> Epochs {
        if !raises && context.topics_version == Some(context.topics.version()) {
            return Epochs { group: self.epoch, compared: false };
        }
        let names = self.subscribed_names(members, dropped_regex);
        let metadata_hash = metadata_hash(names, context.topics);
        let mut group = self.epoch;
        if raises || metadata_hash != self.metadata_hash {
            group = group.next();
            records.push(ConsumerGroupRecord::Metadata {
                group_id: group_id.clone(),
                value: Some(ConsumerGroupMetadata { epoch: group, metadata_hash }),
            });
        }
        if self.has_partition_metadata {
            records.push(ConsumerGroupRecord::PartitionMetadata { group_id: group_id.clone(), value: None });
        }
        Epochs { group, compared: true }
    }

    /// Returns the names of all topics that somebody subscribes to, by name or by a regular expression.
    pub(super) fn subscribed_names<'a>(
        &'a self,
        members: &Members<'a>,
        dropped_regex: Option<&str>,
    ) -> BTreeSet<&'a Arc<str>> {
        let by_name = members.values().flat_map(|member| &member.metadata.subscribed_topic_names);
        let resolved = self.resolved.iter().filter(|(regex, _)| Some(&***regex) != dropped_regex);
        by_name.chain(resolved.flat_map(|(_, resolved)| &resolved.topics)).collect()
    }
}

fn answer(
    request: &ConsumerHeartbeat<'_>,
    joined: &Joined,
    reconciled: &ConsumerMember,
    config: &ConsumerGroupConfig,
) -> ConsumerHeartbeatAnswer {
    let assigned = &reconciled.assignment.assigned;
    let is_told = request.is_join() || request.is_full() || *assigned != joined.member.assignment.assigned;
    let told = || assigned.iter().map(|(topic_id, epochs)| (*topic_id, epochs.keys().copied().collect()));
    ConsumerHeartbeatAnswer {
        member_id: joined.member_id.clone(),
        member_epoch: reconciled.assignment.member_epoch,
        heartbeat_interval_ms: config.heartbeat_interval_ms,
        assignment: is_told.then(|| told().collect()),
    }
}

fn rebalance_deadline(before: &ConsumerMember, after: &ConsumerMember, now: Timestamp) -> DeadlineChange {
    if before == after {
        return DeadlineChange::Kept;
    }
    match after.assignment.state {
        ConsumerMemberState::UnrevokedPartitions => DeadlineChange::At(after.rebalance_deadline(now)),
        ConsumerMemberState::Stable
        | ConsumerMemberState::UnreleasedPartitions
        | ConsumerMemberState::Unknown => DeadlineChange::Ended,
    }
}

/// Takes over what the request says of the member.
fn update_metadata(member: &mut ConsumerMember, request: &ConsumerHeartbeat<'_>) {
    let metadata = &mut member.metadata;
    let set = |field: &mut Option<Arc<str>>, value: Option<&str>| {
        if value.is_some() && field.as_deref() != value {
            *field = value.map(Arc::from);
        }
    };
    set(&mut metadata.instance_id, request.instance_id);
    set(&mut metadata.rack_id, request.rack_id);
    set(&mut metadata.server_assignor, request.server_assignor);
    set(&mut metadata.subscribed_topic_regex, request.subscribed_topic_regex);
    if let Some(timeout_ms) = request.rebalance_timeout_ms {
        metadata.rebalance_timeout_ms = Some(timeout_ms.max(0));
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
    metadata.classic = None;
}
