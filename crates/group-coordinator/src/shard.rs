//! The groups of one partition of `__consumer_offsets`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, MemberEpoch, Offset, Timestamp, TopicId};

use crate::classic_group::{ClassicGroup, ClassicGroupConfig, ClassicPlan};
use crate::consumer_group::ConsumerGroup;
use crate::group_deadlines::GroupDeadlines;
use crate::offsets::Offsets;
use crate::record::{ConsumerGroupRecord, GroupRecord, StateTopic};
use crate::sessions::Sessions;
use crate::share_group::{
    HeartbeatContext, HeartbeatPlan, HeartbeatPlanKind, ShareGroup, ShareHeartbeat, ShareHeartbeatAnswer,
    ShareHeartbeatDecision,
};
use crate::topics::Topics;
use crate::{
    AlterOffsetsDecision, AlterOffsetsTopic, DeleteGroupDecision, DeleteOffsetsDecision, DescribedShareGroup,
    GroupCoordinatorConfig, Refusal, ShareGroupConfig, TopicPartitions,
};

mod admin;
mod classic;
mod consumer;
mod migration;
mod offsets;

use migration::Departure;
pub use offsets::{FetchedOffset, OffsetDeleteDecision};

/// A group of any type; their ids are one namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Group {
    Classic(Box<ClassicGroup>),
    Consumer(Box<ConsumerGroup>),
    Share(ShareGroup),
}

/// What a loaded shard knows of a group beside the log.
#[derive(Clone, Debug, Default)]
struct GroupSoftState {
    /// The version of the topics at which the group's hash was last compared.
    topics_version: Option<u64>,
    /// Whether a heartbeat found nothing left to do for the group, and nothing was replayed into it since.
    is_settled: bool,
    /// When each initialising topic was last asked for by this shard.
    initialise_asked: BTreeMap<TopicId, Timestamp>,
}

/// The groups whose ids hash to one partition of `__consumer_offsets`.
#[derive(Clone, Debug)]
pub struct GroupCoordinatorShard {
    config: GroupCoordinatorConfig,
    /// What the log says.
    groups: BTreeMap<Arc<str>, Group>,
    /// What the log says of committed offsets, whatever the type of their group.
    offsets: Offsets,
    last_replayed: Option<Offset>,
    /// What it does not say, and what dies with the node.
    soft: BTreeMap<Arc<str>, GroupSoftState>,
    sessions: Sessions,
    /// Until when members of consumer groups have to have given partitions up.
    rebalances: Sessions,
    /// Until when classic members of consumer groups have to join anew that were told to.
    joins: Sessions,
    /// Until when those that have joined have to ask for their assignment.
    syncs: Sessions,
    /// When something happens in a classic group by itself.
    classic_deadlines: GroupDeadlines,
}

/// A member whose session ran out.
#[derive(Clone, Debug)]
pub struct ExpiredMember {
    /// The group.
    pub group_id: Arc<str>,
    /// The member.
    pub member_id: Arc<str>,
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// The classic group that is left of a consumer group, to hand to `apply_classic` after that.
    pub downgraded: Option<ClassicPlan>,
}

/// A group as `ListGroups` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedGroup {
    /// Its id.
    pub group_id: Arc<str>,
    /// The kind of its members.
    pub protocol_type: Arc<str>,
    /// The name of its state.
    pub state: &'static str,
    /// The name of its type.
    pub group_type: &'static str,
}

impl GroupCoordinatorShard {
    /// Returns a shard that knows no group; the log is replayed into it.
    pub fn new(config: GroupCoordinatorConfig) -> Self {
        assert!(0 < config.groups_max, "a shard has room for a group");
        assert!(0 < config.offsets_max, "a shard has room for an offset");
        assert!(0 < config.subscribed_topics_max, "a member may subscribe to a topic");
        Self {
            config,
            groups: BTreeMap::new(),
            offsets: Offsets::default(),
            last_replayed: None,
            soft: BTreeMap::new(),
            sessions: Sessions::default(),
            rebalances: Sessions::default(),
            joins: Sessions::default(),
            syncs: Sessions::default(),
            classic_deadlines: GroupDeadlines::default(),
        }
    }

    /// Decides a `ShareGroupHeartbeat`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if an id is blank, the epoch is below -1, or a first heartbeat names no topic.
    /// - `GroupIdNotFound` if the group is of another type, or unknown and the member does not join.
    /// - `GroupMaxSizeReached` if the group, or the shard, is full.
    /// - `UnknownMemberId` if the member is unknown and does not join.
    /// - `FencedMemberEpoch` if the epoch is neither the member's nor the one before.
    pub fn decide_share_heartbeat(
        &self,
        now: Timestamp,
        request: &ShareHeartbeat<'_>,
        topics: &impl Topics,
        config: &ShareGroupConfig,
    ) -> Result<ShareHeartbeatDecision, Refusal> {
        assert!(0 <= config.assignment_interval_ms, "an interval is not negative");
        assert!(0 < config.heartbeat_interval_ms, "heartbeats have an interval");
        assert!(0 < config.session_timeout_ms, "a session lasts");
        assert!(0 < config.max_size, "a group may have a member");
        request.check()?;
        if request
            .subscribed_topic_names
            .as_ref()
            .is_some_and(|names| self.config.subscribed_topics_max < names.len())
        {
            return Err(Refusal::with(ErrorCode::InvalidRequest, "too many subscribed topics"));
        }
        if request.is_leave() {
            return self.decide_leave(request, topics);
        }
        let new_group;
        let (group_id, group) = match self.groups.get_key_value(request.group_id) {
            Some((group_id, Group::Share(group))) => (group_id.clone(), group),
            Some((_, Group::Classic(_) | Group::Consumer(_))) => return Err(Self::group_not_found()),
            None if !request.is_join() => return Err(Self::group_not_found()),
            None => {
                self.check_room()?;
                new_group = ShareGroup::default();
                (request.group_id.into(), &new_group)
            }
        };
        let soft = self.soft.get(&group_id);
        let context = HeartbeatContext {
            now,
            topics,
            config,
            topics_version: soft.and_then(|soft| soft.topics_version),
            is_settled: soft.is_some_and(|soft| soft.is_settled),
            // A topic that this shard never asked for was asked for by a shard that is gone.
            is_initialising_stale: &|topic_id| {
                let asked = soft.and_then(|soft| soft.initialise_asked.get(&topic_id));
                asked.is_none_or(|asked| asked.plus_ms(config.initialize_retry_interval_ms) <= now)
            },
        };
        group.decide_heartbeat(&group_id, request, &context)
    }

    fn decide_leave(
        &self,
        request: &ShareHeartbeat<'_>,
        topics: &impl Topics,
    ) -> Result<ShareHeartbeatDecision, Refusal> {
        let (group_id, group) = self.share_group(request.group_id)?;
        let Some((member_id, _)) = group.members().get_key_value(request.member_id) else {
            return Err(Refusal::with(ErrorCode::UnknownMemberId, "the group has no such member"));
        };
        Ok(ShareHeartbeatDecision {
            records: group.decide_removal(group_id, member_id, topics),
            answer: ShareHeartbeatAnswer {
                member_epoch: MemberEpoch::new(-1),
                heartbeat_interval_ms: 0,
                assignment: None,
            },
            states_to_initialise: None,
            plan: HeartbeatPlan {
                group_id: group_id.clone(),
                member_id: member_id.clone(),
                kind: HeartbeatPlanKind::Leaves,
            },
        })
    }

    /// Applies what a decided heartbeat changes beside the log, after its records were replayed.
    pub fn apply_share_heartbeat(&mut self, plan: HeartbeatPlan) {
        let HeartbeatPlan { group_id, member_id, kind } = plan;
        let is_member =
            self.share_group(&group_id).is_ok_and(|(_, group)| group.members().contains_key(&member_id));
        match kind {
            HeartbeatPlanKind::Leaves => {
                assert!(!is_member, "a leave is applied after its records are replayed")
            }
            HeartbeatPlanKind::Stays { now, deadline, topics_version, initialising, is_settled } => {
                assert!(is_member, "a heartbeat is applied after its records are replayed");
                self.sessions.extend(&group_id, &member_id, deadline);
                let soft = self.soft.entry(group_id).or_default();
                soft.topics_version = Some(topics_version);
                soft.is_settled = is_settled;
                soft.initialise_asked.extend(initialising.into_iter().map(|topic_id| (topic_id, now)));
            }
        }
    }

    /// Starts the sessions of all members anew, after the log was replayed into this shard. The functions tell how
    /// long a session of a share group and of a consumer group lasts, by the group's id.
    pub fn apply_loaded(
        &mut self,
        now: Timestamp,
        share_session_ms: impl Fn(&str) -> i64,
        consumer_session_ms: impl Fn(&str) -> i64,
    ) {
        self.load_rebalances(now);
        for (group_id, group) in &mut self.groups {
            let (session_ms, member_ids): (i64, Vec<&Arc<str>>) = match group {
                Group::Classic(group) => {
                    group.load(now);
                    self.classic_deadlines.set(group_id, group.first_deadline());
                    continue;
                }
                Group::Consumer(group) => {
                    for (member_id, deadline) in group.classic_sessions(now) {
                        self.sessions.extend(group_id, &member_id, deadline);
                    }
                    let members = group.members().iter();
                    let others = members.filter(|(_, member)| member.classic_session_ms().is_none());
                    (consumer_session_ms(group_id), others.map(|(member_id, _)| member_id).collect())
                }
                Group::Share(group) => (share_session_ms(group_id), group.members().keys().collect()),
            };
            for member_id in member_ids {
                self.sessions.extend(group_id, member_id, now.plus_ms(session_ms));
            }
        }
    }

    /// Returns when the next member may have to be removed.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let member = self.first_deadlines().map(|(deadline, _, _)| *deadline).min();
        let classic = self.classic_deadlines.first().map(|(deadline, _)| *deadline);
        [member, classic].into_iter().flatten().min()
    }

    /// Returns the first deadline of each kind that members of share and consumer groups have.
    fn first_deadlines(&self) -> impl Iterator<Item = &(Timestamp, Arc<str>, Arc<str>)> {
        [&self.sessions, &self.rebalances, &self.joins, &self.syncs].into_iter().filter_map(Sessions::first)
    }

    /// Decides the removal of one member whose session ran out by `now`, or that did not give partitions up, join anew
    /// or ask for its assignment in time; changes nothing. Append, replay, apply and call again until it returns `None`.
    pub fn decide_expired(
        &self,
        now: Timestamp,
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> Option<ExpiredMember> {
        let (_, group_id, member_id) = self.first_deadlines().find(|(deadline, _, _)| *deadline <= now)?;
        let departure = match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => {
                let leaving = [member_id.clone()].into();
                Self::decide_departure(now, (group_id, group), &leaving, topics, config)
            }
            Some(Group::Share(group)) => {
                Departure { records: group.decide_removal(group_id, member_id, topics), downgraded: None }
            }
            Some(Group::Classic(_)) | None => unreachable!("only members of groups have sessions"),
        };
        let Departure { records, downgraded } = departure;
        Some(ExpiredMember { group_id: group_id.clone(), member_id: member_id.clone(), records, downgraded })
    }

    /// Applies one record of the log, live or at recovery. It cannot fail.
    pub fn replay(&mut self, offset: Offset, record: &GroupRecord) {
        self.note_replayed(offset);
        match record {
            GroupRecord::Consumer(record) => self.replay_consumer(record),
            GroupRecord::OffsetCommit { .. } => self.replay_offset(offset, None, record),
            GroupRecord::ClassicGroup { group_id, value } => {
                self.replay_classic_group(group_id, value.as_ref())
            }
            GroupRecord::ShareGroupMemberMetadata { .. }
            | GroupRecord::ShareGroupMetadata { .. }
            | GroupRecord::ShareGroupTargetAssignmentMetadata { .. }
            | GroupRecord::ShareGroupTargetAssignmentMember { .. }
            | GroupRecord::ShareGroupCurrentMemberAssignment { .. }
            | GroupRecord::ShareGroupStatePartitionMetadata { .. } => self.replay_share(record),
        }
    }

    fn note_replayed(&mut self, offset: Offset) {
        assert!(self.last_replayed < Some(offset), "records are replayed in log order");
        self.last_replayed = Some(offset);
    }

    fn replay_share(&mut self, record: &GroupRecord) {
        let group_id = record.group_id();
        if matches!(record, GroupRecord::ShareGroupMetadata { value: None, .. }) {
            self.remove_group(group_id);
            return;
        }
        let is_share = matches!(self.groups.get(group_id), Some(Group::Share(_)));
        if !is_share {
            // The group is gone already: the log was compacted.
            if record.is_tombstone() {
                return;
            }
            self.remove_group(group_id);
            self.groups.insert(group_id.clone(), Group::Share(ShareGroup::default()));
        }
        let Some(Group::Share(group)) = self.groups.get_mut(group_id) else {
            unreachable!("the group was made if it was missing")
        };
        group.replay(record);
        if let GroupRecord::ShareGroupMemberMetadata { group_id, member_id, value: None } = record {
            self.sessions.remove(group_id, member_id);
        }
        if let Some(soft) = self.soft.get_mut(group_id) {
            soft.is_settled = false;
            let initialising = &group.states().initialising;
            soft.initialise_asked.retain(|topic_id, _| initialising.contains_key(topic_id));
        }
    }

    fn remove_group(&mut self, group_id: &Arc<str>) {
        let member_ids: Vec<Arc<str>> = match self.groups.remove(group_id) {
            Some(Group::Consumer(group)) => group.members().keys().cloned().collect(),
            Some(Group::Share(group)) => group.members().keys().cloned().collect(),
            Some(Group::Classic(_)) | None => Vec::new(),
        };
        for member_id in member_ids {
            self.forget_deadlines(group_id, &member_id);
        }
        self.soft.remove(group_id);
        self.classic_deadlines.set(group_id, None);
    }

    /// Decides the completion of a crossing that initialised share partitions; changes nothing. The next
    /// heartbeat of any member assigns them.
    ///
    /// The record replaces all that is known of the group's states: replay it before the next is decided.
    pub fn decide_states_initialised(
        &self,
        group_id: &str,
        partitions: &TopicPartitions,
    ) -> Vec<GroupRecord> {
        let group = self.share_group(group_id);
        group.map(|(group_id, group)| group.decide_initialised(group_id, partitions)).unwrap_or_default()
    }

    /// Decides the failure of such a crossing; changes nothing. The next heartbeat of any member asks again.
    ///
    /// The record replaces all that is known of the group's states: replay it before the next is decided.
    pub fn decide_states_not_initialised(
        &self,
        group_id: &str,
        partitions: &TopicPartitions,
    ) -> Vec<GroupRecord> {
        let group = self.share_group(group_id);
        group.map(|(group_id, group)| group.decide_not_initialised(group_id, partitions)).unwrap_or_default()
    }

    /// Decides what the deletion of topics changes in all groups; changes nothing.
    pub fn decide_topics_deleted(&self, deleted: &BTreeSet<TopicId>) -> Vec<GroupRecord> {
        let groups = self.groups.iter();
        groups
            .filter_map(|(group_id, group)| match group {
                // The next heartbeat sees that the topic is gone.
                Group::Classic(_) | Group::Consumer(_) => None,
                Group::Share(group) => group.decide_topics_deleted(group_id, deleted),
            })
            .collect()
    }

    /// Judges the member that a transactional acknowledgement names.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is unknown or of another type.
    /// - `UnknownMemberId` if the group has no such member.
    /// - `FencedMemberEpoch` if the epoch is neither the member's nor the one before. Unlike in a heartbeat 0
    ///   stands for no joining here, so it is refused too.
    pub fn check_member(&self, group_id: &str, member_id: &str, epoch: MemberEpoch) -> Result<(), ErrorCode> {
        let (_, group) = self.share_group(group_id).map_err(|refusal| refusal.error)?;
        let member = group.members().get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if epoch.get() <= 0 || !member.accepts(epoch) {
            return Err(ErrorCode::FencedMemberEpoch);
        }
        Ok(())
    }

    /// Returns the group of this id if it is a share group.
    fn share_group(&self, group_id: &str) -> Result<(&Arc<str>, &ShareGroup), Refusal> {
        match self.groups.get_key_value(group_id) {
            Some((group_id, Group::Share(group))) => Ok((group_id, group)),
            Some((_, Group::Classic(_) | Group::Consumer(_))) | None => Err(Self::group_not_found()),
        }
    }

    const fn group_not_found() -> Refusal {
        Refusal::with(ErrorCode::GroupIdNotFound, "there is no share group of this id")
    }

    fn check_room(&self) -> Result<(), Refusal> {
        if self.groups.len() < self.config.groups_max {
            return Ok(());
        }
        Err(Refusal::with(ErrorCode::GroupMaxSizeReached, "the coordinator has no room for another group"))
    }

    /// Returns whether another shard holds the same durable state.
    pub fn is_same_state(&self, other: &Self) -> bool {
        // A group that the log does not speak of is known by its offsets, if it has any.
        let said = |shard: &Self| -> Vec<(Arc<str>, Group)> {
            let groups = shard.groups.iter();
            let said = groups.filter(|(_, group)| match group {
                Group::Classic(group) => group.is_stored(),
                Group::Consumer(_) | Group::Share(_) => true,
            });
            said.map(|(group_id, group)| (group_id.clone(), group.clone())).collect()
        };
        said(self) == said(other) && self.offsets == other.offsets
    }

    /// Checks what must hold between two inputs.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check_invariants(&self) {
        assert!(self.groups.len() <= self.config.groups_max, "the groups are bounded");
        for group in self.groups.values() {
            match group {
                Group::Consumer(group) => group.check_invariants(),
                Group::Classic(group) => group.check_invariants(),
                Group::Share(group) => group.check_invariants(),
            }
        }
        self.offsets.check_invariants();
        let deadlines = [&self.sessions, &self.rebalances, &self.joins, &self.syncs];
        deadlines.into_iter().for_each(Sessions::check_invariants);
        self.check_classic_deadlines();
        for (group_id, member_id) in deadlines.into_iter().flat_map(Sessions::members) {
            let is_member = match self.groups.get(group_id) {
                Some(Group::Consumer(group)) => group.members().contains_key(member_id),
                Some(Group::Share(group)) => group.members().contains_key(member_id),
                Some(Group::Classic(_)) | None => false,
            };
            assert!(is_member, "only members have sessions");
        }
        for (group_id, soft) in &self.soft {
            assert!(self.groups.contains_key(group_id), "only groups that are there are remembered");
            let group = self.share_group(group_id);
            let initialising =
                group.map(|(_, group)| group.states().initialising.clone()).unwrap_or_default();
            let is_known = soft.initialise_asked.keys().all(|topic_id| initialising.contains_key(topic_id));
            assert!(is_known, "only initialising topics of a group were asked for");
        }
    }
}

#[cfg(test)]
mod tests;
