//! Doors of classic groups.

use crate::ConsumerGroupConfig;
use crate::classic_group::{
    Caller, ClassicAnswer, ClassicChange, ClassicHeartbeat, ClassicHeartbeatDecision, DescribedClassicGroup,
    JoinAnswer, JoinGroup, LeaveAnswer, LeavingMember, Step, SyncAnswer, SyncGroup,
};
use crate::consumer_group::ConsumerContext;
use crate::record::ClassicGroupMetadata;

use super::*;

impl GroupCoordinatorShard {
    /// Applies the record of a classic group.
    pub(super) fn replay_classic_group(&mut self, group_id: &Arc<str>, value: Option<&ClassicGroupMetadata>) {
        let Some(value) = value else {
            self.remove_group(group_id);
            return;
        };
        if !matches!(self.groups.get(group_id), Some(Group::Classic(_))) {
            self.remove_group(group_id);
            self.groups.insert(group_id.clone(), Group::Classic(Box::default()));
        }
        if let Some(Group::Classic(group)) = self.groups.get_mut(group_id) {
            group.replay(value);
        }
    }

    /// Decides a `JoinGroup`; changes nothing. Whoever has to wait gets no answer from the plan.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `InvalidSessionTimeout` if the session is shorter or longer than allowed.
    /// - `UnknownMemberId` if the group is unknown and a member joins again.
    /// - `InconsistentGroupProtocol` if the group is a share group, or does not take such a member.
    /// - `GroupMaxSizeReached` if the shard is full.
    pub fn decide_join_group(
        &self,
        now: Timestamp,
        request: &JoinGroup<'_>,
        topics: &impl Topics,
        config: &ClassicGroupConfig,
        consumer: &ConsumerGroupConfig,
    ) -> Result<ClassicPlan, JoinAnswer> {
        let refused = |error| Err(JoinAnswer::refused(error, request.member_id));
        if request.group_id.is_empty() {
            return refused(ErrorCode::InvalidGroupId);
        }
        let lengths = config.min_session_timeout_ms..=config.max_session_timeout_ms;
        if !lengths.contains(&request.session_timeout_ms) {
            return refused(ErrorCode::InvalidSessionTimeout);
        }
        match self.groups.get_key_value(request.group_id) {
            Some((group_id, Group::Classic(group))) => {
                let mut step = Step::new(now, config, group_id.clone(), group);
                step.join(request);
                Ok(step.into_plan())
            }
            Some((group_id, Group::Consumer(group))) if group.members().is_empty() => {
                if !request.member_id.is_empty() {
                    return refused(ErrorCode::UnknownMemberId);
                }
                // A consumer group without members makes room; its offsets stay.
                let mut step = Step::new(now, config, group_id.clone(), &ClassicGroup::new(now));
                step.join(request);
                step.store_new();
                let mut plan = step.into_plan();
                plan.records.splice(..0, group.decide_delete(group_id));
                Ok(plan)
            }
            Some((group_id, Group::Consumer(group))) => {
                let topics_version = self.soft.get(group_id).and_then(|soft| soft.topics_version);
                let context = ConsumerContext { now, topics, config: consumer, topics_version };
                self.decide_join_consumer_group((group_id, group), request, &context, config)
            }
            Some((_, Group::Share(_))) => Err(JoinAnswer::refused(ErrorCode::InconsistentGroupProtocol, "")),
            None if !request.member_id.is_empty() => refused(ErrorCode::UnknownMemberId),
            None if self.check_room().is_err() => refused(ErrorCode::GroupMaxSizeReached),
            None => {
                let mut step = Step::new(now, config, request.group_id.into(), &ClassicGroup::new(now));
                step.join(request);
                step.store_new();
                Ok(step.into_plan())
            }
        }
    }

    /// Decides a `SyncGroup`; changes nothing. Whoever has to wait gets no answer from the plan.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `UnknownMemberId` if the group is unknown or a share group.
    pub fn decide_sync_group(
        &self,
        now: Timestamp,
        request: &SyncGroup<'_>,
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> Result<ClassicPlan, SyncAnswer> {
        if let Ok((group_id, group)) = self.consumer_group(request.group_id) {
            return self.decide_sync_consumer_group(now, (group_id, group), request, topics);
        }
        let (group_id, group) = self.classic_group(request.group_id).map_err(SyncAnswer::refused)?;
        let mut step = Step::new(now, config, group_id.clone(), group);
        step.sync(request);
        Ok(step.into_plan())
    }

    /// Decides a `LeaveGroup`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `UnknownMemberId` if the group is unknown or a share group.
    pub fn decide_leave_group(
        &self,
        now: Timestamp,
        group_id: &str,
        members: &[LeavingMember<'_>],
        topics: &impl Topics,
        config: &ClassicGroupConfig,
    ) -> Result<(ClassicPlan, LeaveAnswer), ErrorCode> {
        if let Ok((group_id, group)) = self.consumer_group(group_id) {
            return Ok(Self::decide_leave_consumer_group(now, (group_id, group), members, topics, config));
        }
        let (group_id, group) = self.classic_group(group_id)?;
        let mut step = Step::new(now, config, group_id.clone(), group);
        let answer = step.leave(members);
        Ok((step.into_plan(), answer))
    }

    /// Decides a `Heartbeat`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `InvalidGroupId` if the id is empty.
    /// - `UnknownMemberId` if the group is unknown or a share group, or has no such member.
    /// - `FencedInstanceId` if another member has its static place.
    /// - `IllegalGeneration` if it belongs to another generation.
    pub fn decide_classic_heartbeat(
        &self,
        now: Timestamp,
        request: &ClassicHeartbeat<'_>,
    ) -> Result<ClassicHeartbeatDecision, ErrorCode> {
        if let Ok((group_id, group)) = self.consumer_group(request.group_id) {
            return self.decide_heartbeat_of_consumer_group(now, (group_id, group), request);
        }
        let (group_id, group) = self.classic_group(request.group_id)?;
        let error = group.decide_heartbeat(request)?;
        let member_id = request.member_id.into();
        Ok(ClassicHeartbeatDecision { error, group_id: group_id.clone(), member_id, times: None })
    }

    /// Applies a heartbeat: the member's session begins anew.
    pub fn apply_classic_heartbeat(&mut self, now: Timestamp, decision: &ClassicHeartbeatDecision) {
        if let Some(times) = &decision.times {
            self.apply_member_times(&decision.group_id, times);
        } else if let Some(Group::Classic(group)) = self.groups.get_mut(&decision.group_id) {
            group.apply_heard_of(&decision.member_id, now);
        }
    }

    /// Decides what has come to its end by now in one classic group; changes nothing. Append, replay, apply and
    /// call again until it returns `None`.
    pub fn decide_classic_expired(&self, now: Timestamp, config: &ClassicGroupConfig) -> Option<ClassicPlan> {
        let (deadline, group_id) = self.classic_deadlines.first()?;
        if now < *deadline {
            return None;
        }
        let Some(Group::Classic(group)) = self.groups.get(group_id) else {
            unreachable!("only classic groups have deadlines of their own")
        };
        let mut step = Step::new(now, config, group_id.clone(), group);
        step.expire();
        Some(step.into_plan())
    }

    /// Applies what a step of a classic group has decided, after its records were replayed, and returns whom it
    /// answers.
    pub fn apply_classic(&mut self, plan: ClassicPlan) -> Vec<(Caller, ClassicAnswer)> {
        let ClassicPlan { group_id, change, answers, .. } = plan;
        match change {
            ClassicChange::Group(stepped) => {
                if let Some(Group::Classic(group)) = self.groups.get_mut(&group_id) {
                    group.take_over(*stepped);
                    self.classic_deadlines.set(&group_id, group.first_deadline());
                }
            }
            ClassicChange::Member(times) => self.apply_member_times(&group_id, &times),
            ClassicChange::Nothing => {}
        }
        answers
    }

    /// Returns whoever waits for a classic group, each with the answer it gets when this shard goes.
    pub fn callers_when_unloaded(&self) -> Vec<(Caller, ClassicAnswer)> {
        let mut answers = Vec::new();
        for group in self.groups.values() {
            if let Group::Classic(group) = group {
                group.refuse_waiting(ErrorCode::NotCoordinator, &mut answers);
            }
        }
        answers
    }

    /// Describes a classic group, for `DescribeGroups`; nothing if there is no such group or it is of another type.
    pub fn describe_classic_group(&self, group_id: &str) -> Option<DescribedClassicGroup> {
        self.classic_group(group_id).ok().map(|(_, group)| group.describe())
    }

    /// Returns whether there is a group of this id, of whichever type.
    pub fn has_group(&self, group_id: &str) -> bool {
        self.groups.contains_key(group_id)
    }

    pub(super) fn classic_group(&self, group_id: &str) -> Result<(&Arc<str>, &ClassicGroup), ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        match self.groups.get_key_value(group_id) {
            Some((group_id, Group::Classic(group))) => Ok((group_id, group)),
            Some((_, Group::Consumer(_) | Group::Share(_))) | None => Err(ErrorCode::UnknownMemberId),
        }
    }

    /// Checks that whatever happens by itself is seen in time.
    pub(super) fn check_classic_deadlines(&self) {
        for (group_id, group) in &self.groups {
            if let Group::Classic(group) = group
                && let Some(deadline) = group.first_deadline()
            {
                let noted = self.classic_deadlines.of(group_id);
                assert!(noted.is_some_and(|noted| noted <= deadline), "a group's next deadline is noted");
            }
        }
        for group_id in self.classic_deadlines.groups() {
            let is_classic = matches!(self.groups.get(group_id), Some(Group::Classic(_)));
            assert!(is_classic, "only classic groups have deadlines of their own");
        }
    }
}
