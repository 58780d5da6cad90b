//! Groups that change from one protocol to the other while they have members: a classic group becomes a consumer group
//! when the first member joins that speaks the consumer protocol, and a consumer group a classic one when the last of
//! those is gone.

use crate::classic_group::{
    Caller, ClassicAnswer, ClassicChange, ClassicGroupConfig, ClassicHeartbeat, ClassicHeartbeatDecision,
    ClassicPlan, JoinAnswer, JoinGroup, LeaveAnswer, LeavingMember, MemberTimes, Step, SyncAnswer, SyncGroup,
};
use crate::consumer_group::{ConsumerContext, ConsumerMember, DeadlineChange};
use crate::{ConsumerGroupConfig, ConsumerHeartbeat, MigrationPolicy};

use super::*;

/// A classic group on its way to a consumer group.
#[derive(Default)]
pub(super) struct Upgrade {
    pub(super) records: Vec<GroupRecord>,
    /// Until when its members have to be heard of.
    pub(super) sessions: Vec<(Arc<str>, Timestamp)>,
    /// Whoever waits for it.
    pub(super) answers: Vec<(Caller, ClassicAnswer)>,
}

/// The end of members, and of their group if only such members stay that speak the classic protocol.
pub(super) struct Departure {
    pub(super) records: Vec<GroupRecord>,
    pub(super) downgraded: Option<ClassicPlan>,
}

impl GroupCoordinatorShard {
    /// Returns what makes a consumer group of a classic group with members, and that group.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if that is not allowed, or its members are no consumers that can be understood.
    /// - `UnknownServerError` if they have no protocol yet, or two of them have the same partition.
    pub(super) fn upgrade(
        now: Timestamp,
        group_id: &Arc<str>,
        group: &ClassicGroup,
        topics: &impl Topics,
        config: &ConsumerGroupConfig,
        migration: MigrationPolicy,
    ) -> Result<(Upgrade, ConsumerGroup), Refusal> {
        if !Self::may_upgrade(group, config, migration) {
            return Err(Self::no_consumer_group());
        }
        let members = group.convert_members(topics)?;
        let mut records = vec![GroupRecord::ClassicGroup { group_id: group_id.clone(), value: None }];
        records.extend(ConsumerGroup::records_of_classic(group_id, group.generation(), &members, topics));
        let mut answers = Vec::new();
        group.refuse_waiting(ErrorCode::RebalanceInProgress, &mut answers);
        let consumer = ConsumerGroup::default().after(&records);
        Ok((Upgrade { records, sessions: consumer.classic_sessions(now), answers }, consumer))
    }

    fn may_upgrade(group: &ClassicGroup, config: &ConsumerGroupConfig, migration: MigrationPolicy) -> bool {
        migration.upgrades() && group.has_consumers() && group.member_count() <= config.max_size
    }

    /// Decides what becomes of those who wait for a classic group when a consumer was refused: as in Kafka they are
    /// told to join anew before it turns out that the group cannot become a consumer group. Nothing is to be appended.
    pub fn decide_failed_upgrade(
        &self,
        now: Timestamp,
        request: &ConsumerHeartbeat<'_>,
        topics: &impl Topics,
        config: &ConsumerGroupConfig,
        classic: &ClassicGroupConfig,
    ) -> Option<ClassicPlan> {
        let (group_id, group) = self.classic_group(request.group_id).ok()?;
        let is_tried = request.is_join()
            && request.check(config).is_ok()
            && !group.is_empty()
            && Self::may_upgrade(group, config, classic.migration);
        if !is_tried || group.convert_members(topics).is_ok() {
            return None;
        }
        let mut step = Step::new(now, classic, group_id.clone(), group);
        step.send_waiting_away();
        Some(step.into_plan())
    }

    /// Decides the end of members of a consumer group.
    pub(super) fn decide_departure(
        now: Timestamp,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        leaving: &BTreeSet<Arc<str>>,
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> Departure {
        if !Self::is_downgraded(group, leaving, config) {
            let records = group.decide_removal(group_id, leaving, topics);
            return Departure { records, downgraded: None };
        }
        let mut plan = Self::downgrade(now, (group_id, group), leaving, topics, config);
        Departure { records: std::mem::take(&mut plan.records), downgraded: Some(plan) }
    }

    fn is_downgraded(
        group: &ConsumerGroup,
        leaving: &BTreeSet<Arc<str>>,
        config: &ClassicGroupConfig,
    ) -> bool {
        config.migration.downgrades()
            && group.is_classic_without(leaving)
            && group.members().len() - leaving.len() <= config.max_size
    }

    /// Makes a classic group of the members that stay. They join anew if somebody leaves.
    fn downgrade(
        now: Timestamp,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        leaving: &BTreeSet<Arc<str>>,
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> ClassicPlan {
        let classic = ClassicGroup::of_consumer_group(now, group, leaving, topics);
        let mut step = Step::new(now, config, group_id.clone(), &classic);
        step.begin_converted(!leaving.is_empty());
        let mut plan = step.into_plan();
        plan.records.splice(..0, group.decide_dissolve(group_id));
        plan
    }

    /// Decides a JoinGroup to a consumer group that has members.
    pub(super) fn decide_join_consumer_group(
        &self,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        request: &JoinGroup<'_>,
        context: &ConsumerContext<'_, impl Topics>,
        config: &ClassicGroupConfig,
    ) -> Result<ClassicPlan, JoinAnswer> {
        if config.migration == MigrationPolicy::Disabled {
            return Err(JoinAnswer::refused(ErrorCode::InconsistentGroupProtocol, ""));
        }
        let join = group.decide_join(group_id, request, context)?;
        let answers = vec![(request.caller, ClassicAnswer::Join(join.answer))];
        let (now, mut records) = (context.now, join.records);
        if join.replaces_consumer {
            // The last instance that spoke the consumer protocol may have come back by the classic one.
            let (after, nobody) = (group.after(&records), BTreeSet::new());
            if Self::is_downgraded(&after, &nobody, config) {
                let downgraded = Self::downgrade(now, (group_id, &after), &nobody, context.topics, config);
                records.extend(downgraded.records.iter().cloned());
                return Ok(ClassicPlan { records, answers, ..downgraded });
            }
        }
        let change = ClassicChange::Member(MemberTimes {
            member_id: join.member_id,
            session: after_ms(now, i64::from(request.session_timeout_ms)),
            join: DeadlineChange::Ended,
            sync: after_ms(now, i64::from(request.rebalance_timeout_ms.max(0))),
            topics_version: join.topics_version,
        });
        Ok(ClassicPlan { group_id: group_id.clone(), change, records, answers })
    }

    /// Decides a SyncGroup of a consumer group's member.
    pub(super) fn decide_sync_consumer_group(
        &self,
        now: Timestamp,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        request: &SyncGroup<'_>,
        topics: &impl Topics,
    ) -> Result<ClassicPlan, SyncAnswer> {
        let (member_id, member) = group.check_sync(request).map_err(SyncAnswer::refused)?;
        let mut times = MemberTimes::kept(member_id.clone());
        let answer = if group.is_behind(member) {
            times.join = self.join_deadline(now, group_id, member_id, member);
            SyncAnswer::refused(ErrorCode::RebalanceInProgress)
        } else {
            times.session = after_ms(now, member.classic_session_ms().unwrap_or(0));
            times.sync = DeadlineChange::Ended;
            ConsumerGroup::synced(request, member, topics)
        };
        Ok(ClassicPlan {
            group_id: group_id.clone(),
            change: ClassicChange::Member(times),
            records: Vec::new(),
            answers: vec![(request.caller, ClassicAnswer::Sync(answer))],
        })
    }

    /// Decides a Heartbeat of a consumer group's member.
    pub(super) fn decide_heartbeat_of_consumer_group(
        &self,
        now: Timestamp,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        request: &ClassicHeartbeat<'_>,
    ) -> Result<ClassicHeartbeatDecision, ErrorCode> {
        let (member, is_called) = group.judge_classic_heartbeat(request)?;
        let member_id: Arc<str> = request.member_id.into();
        let mut times = MemberTimes::kept(member_id.clone());
        times.session = after_ms(now, member.classic_session_ms().unwrap_or(0));
        let mut error = ErrorCode::None;
        if is_called {
            times.join = self.join_deadline(now, group_id, &member_id, member);
            error = ErrorCode::RebalanceInProgress;
        }
        Ok(ClassicHeartbeatDecision { error, group_id: group_id.clone(), member_id, times: Some(times) })
    }

    /// Decides a LeaveGroup of a consumer group's members.
    pub(super) fn decide_leave_consumer_group(
        now: Timestamp,
        (group_id, group): (&Arc<str>, &ConsumerGroup),
        members: &[LeavingMember<'_>],
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> (ClassicPlan, LeaveAnswer) {
        let mut leaving = BTreeSet::new();
        let outcomes = members.iter().map(|member| match group.leaving_member(member) {
            Ok(member_id) => {
                leaving.insert(member_id.clone());
                ErrorCode::None
            }
            Err(error) => error,
        });
        let outcomes = outcomes.collect();
        let mut plan = ClassicPlan {
            group_id: group_id.clone(),
            change: ClassicChange::Nothing,
            records: Vec::new(),
            answers: Vec::new(),
        };
        if !leaving.is_empty() {
            let departure = Self::decide_departure(now, (group_id, group), &leaving, topics, config);
            plan = ClassicPlan { records: departure.records, ..departure.downgraded.unwrap_or(plan) };
        }
        (plan, outcomes)
    }

    /// Returns until when a member has to join that is told to. Telling it again gives it no more time.
    fn join_deadline(
        &self,
        now: Timestamp,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        member: &ConsumerMember,
    ) -> DeadlineChange {
        if self.joins.contains(group_id, member_id) {
            return DeadlineChange::Kept;
        }
        DeadlineChange::At(member.rebalance_deadline(now))
    }

    /// Applies what has become of the deadlines of a consumer group's member.
    pub(super) fn apply_member_times(&mut self, group_id: &Arc<str>, times: &MemberTimes) {
        let group = self.consumer_group(group_id);
        let is_member = group.is_ok_and(|(_, group)| group.members().contains_key(&times.member_id));
        assert!(is_member, "deadlines are applied after the records are replayed");
        self.sessions.change(group_id, &times.member_id, times.session);
        self.joins.change(group_id, &times.member_id, times.join);
        self.syncs.change(group_id, &times.member_id, times.sync);
        if times.topics_version.is_some() {
            self.soft.entry(group_id.clone()).or_default().topics_version = times.topics_version;
        }
    }

    /// Forgets all deadlines of a member that is gone.
    pub(super) fn forget_deadlines(&mut self, group_id: &Arc<str>, member_id: &Arc<str>) {
        for deadlines in [&mut self.sessions, &mut self.rebalances, &mut self.joins, &mut self.syncs] {
            deadlines.remove(group_id, member_id);
        }
    }
}

impl MemberTimes {
    /// Returns what changes none of a member's deadlines.
    const fn kept(member_id: Arc<str>) -> Self {
        Self {
            member_id,
            session: DeadlineChange::Kept,
            join: DeadlineChange::Kept,
            sync: DeadlineChange::Kept,
            topics_version: None,
        }
    }
}

const fn after_ms(now: Timestamp, ms: i64) -> DeadlineChange {
    DeadlineChange::At(now.plus_ms(ms))
}
