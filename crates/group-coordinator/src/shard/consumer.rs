//! Doors of consumer groups.

use super::migration::{Departure, Upgrade};
use super::*;
use crate::classic_group::{Caller, ClassicAnswer, ClassicGroupState};
use crate::consumer_group::ConsumerContext;
use crate::{
    ConsumerGroupConfig, ConsumerHeartbeat, ConsumerHeartbeatAnswer, ConsumerHeartbeatDecision,
    ConsumerHeartbeatPlan, DescribedConsumerGroup,
};

impl GroupCoordinatorShard {
    /// Decides a `ConsumerGroupHeartbeat`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if an id is blank, the epoch is below -2, or a first heartbeat lacks what it has to tell.
    /// - `UnsupportedAssignor` if it asks for an assignor that there is not.
    /// - `GroupIdNotFound` if the group is of another type, or unknown and the member does not join.
    /// - `UnknownServerError` if it is a classic group in a state that Kafka did not think of.
    /// - `GroupMaxSizeReached` if the group, or the shard, is full.
    /// - `UnknownMemberId` if the member or the instance is unknown and does not join.
    /// - `UnreleasedInstanceId` if the instance joins while another member has it.
    /// - `FencedInstanceId` if the instance is another member by now.
    /// - `FencedMemberEpoch` if the epoch is neither the member's nor the one before.
    /// - `InvalidRegularExpression` if the subscription is none.
    pub fn decide_consumer_heartbeat(
        &self,
        now: Timestamp,
        request: &ConsumerHeartbeat<'_>,
        topics: &impl Topics,
        config: &ConsumerGroupConfig,
        classic: &ClassicGroupConfig,
    ) -> Result<ConsumerHeartbeatDecision, Refusal> {
        assert!(0 <= config.assignment_interval_ms, "an interval is not negative");
        assert!(0 < config.heartbeat_interval_ms, "heartbeats have an interval");
        assert!(0 < config.session_timeout_ms, "a session lasts");
        assert!(0 < config.max_size, "a group may have a member");
        request.check(config)?;
        let too_many = |names: &Vec<&str>| self.config.subscribed_topics_max < names.len();
        if request.subscribed_topic_names.as_ref().is_some_and(too_many) {
            return Err(Refusal::with(ErrorCode::InvalidRequest, "too many subscribed topics"));
        }
        if request.is_leave() {
            return self.decide_consumer_leave(now, request, topics, classic);
        }
        let new_group;
        let mut upgrade = Upgrade::default();
        let (group_id, group) = match self.groups.get_key_value(request.group_id) {
            Some((group_id, Group::Consumer(group))) => (group_id.clone(), &**group),
            Some((group_id, Group::Classic(group)))
                if request.is_join() && group.state() == ClassicGroupState::Empty =>
            {
                // A classic group without members makes room for a consumer group; its offsets stay.
                upgrade.records.push(GroupRecord::ClassicGroup { group_id: group_id.clone(), value: None });
                new_group = ConsumerGroup::default();
                (group_id.clone(), &new_group)
            }
            Some((group_id, Group::Classic(group))) if request.is_join() => {
                (upgrade, new_group) =
                    Self::upgrade(now, group_id, group, topics, config, classic.migration)?;
                (group_id.clone(), &new_group)
            }
            Some((_, Group::Classic(_) | Group::Share(_))) => return Err(Self::no_consumer_group()),
            None if !request.is_join() => return Err(Self::no_consumer_group()),
            None => {
                self.check_room()?;
                new_group = ConsumerGroup::default();
                (request.group_id.into(), &new_group)
            }
        };
        let topics_version = self.soft.get(&group_id).and_then(|soft| soft.topics_version);
        let context = ConsumerContext { now, topics, config, topics_version };
        let mut decision = group.decide_heartbeat(&group_id, request, &context)?;
        decision.records.splice(0..0, upgrade.records);
        decision.plan.converted = upgrade.sessions;
        decision.plan.answers = upgrade.answers;
        Ok(decision)
    }

    fn decide_consumer_leave(
        &self,
        now: Timestamp,
        request: &ConsumerHeartbeat<'_>,
        topics: &impl Topics,
        classic: &ClassicGroupConfig,
    ) -> Result<ConsumerHeartbeatDecision, Refusal> {
        let (group_id, group) = self.consumer_group(request.group_id)?;
        let member_id = group.judge_leave(request.member_id, request.instance_id)?;
        let pauses = request.instance_id.is_some() && request.member_epoch == -2;
        let departure = if pauses {
            Departure { records: group.decide_pause(group_id, member_id), downgraded: None }
        } else {
            let leaving = [member_id.clone()].into();
            Self::decide_departure(now, (group_id, group), &leaving, topics, classic)
        };
        Ok(ConsumerHeartbeatDecision {
            records: departure.records,
            answer: ConsumerHeartbeatAnswer {
                member_id: member_id.clone(),
                member_epoch: MemberEpoch::new(request.member_epoch),
                heartbeat_interval_ms: 0,
                assignment: None,
            },
            resolves_regexes: false,
            plan: ConsumerHeartbeatPlan {
                downgraded: departure.downgraded,
                ..ConsumerHeartbeatPlan::gone(group_id.clone(), member_id.clone())
            },
        })
    }

    /// Applies what a decided heartbeat changes beside the log, after its records were replayed, and returns whom it
    /// answers of those who waited for a classic group.
    pub fn apply_consumer_heartbeat(&mut self, plan: ConsumerHeartbeatPlan) -> Vec<(Caller, ClassicAnswer)> {
        let ConsumerHeartbeatPlan { group_id, member_id, session_deadline, rebalance, .. } = plan;
        for (member_id, deadline) in &plan.converted {
            // An instance may have come back by this very heartbeat.
            let group = self.consumer_group(&group_id);
            if group.is_ok_and(|(_, group)| group.members().contains_key(member_id)) {
                self.sessions.extend(&group_id, member_id, *deadline);
            }
        }
        self.joins.remove(&group_id, &member_id);
        self.syncs.remove(&group_id, &member_id);
        if let Some(deadline) = session_deadline {
            let group = self.consumer_group(&group_id);
            let is_member = group.is_ok_and(|(_, group)| group.members().contains_key(&member_id));
            assert!(is_member, "a heartbeat is applied after its records are replayed");
            self.sessions.extend(&group_id, &member_id, deadline);
        }
        self.rebalances.change(&group_id, &member_id, rebalance);
        if plan.topics_version.is_some() {
            self.soft.entry(group_id).or_default().topics_version = plan.topics_version;
        }
        let mut answers = plan.answers;
        answers.extend(plan.downgraded.map(|plan| self.apply_classic(plan)).unwrap_or_default());
        answers
    }

    /// Decides what a lookup of a group's regular expressions changes; changes nothing. Only topics that `may_see`
    /// lets through count.
    pub fn decide_regexes_resolved(
        &self,
        now: Timestamp,
        group_id: &str,
        topics: &impl Topics,
        may_see: impl Fn(&str) -> bool,
    ) -> Vec<GroupRecord> {
        let group = self.consumer_group(group_id);
        let records =
            group.map(|(group_id, group)| group.decide_regexes_resolved(group_id, now, topics, may_see));
        records.unwrap_or_default()
    }

    /// Describes a consumer group, for `ConsumerGroupDescribe`.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is unknown or of another type.
    pub fn describe_consumer_group(
        &self,
        group_id: &str,
        config: &ConsumerGroupConfig,
    ) -> Result<DescribedConsumerGroup, Refusal> {
        self.consumer_group(group_id).map(|(_, group)| group.describe(config))
    }

    /// Returns the group of this id if it is a consumer group.
    pub(super) fn consumer_group(&self, group_id: &str) -> Result<(&Arc<str>, &ConsumerGroup), Refusal> {
        match self.groups.get_key_value(group_id) {
            Some((group_id, Group::Consumer(group))) => Ok((group_id, group)),
            Some((_, Group::Classic(_) | Group::Share(_))) | None => Err(Self::no_consumer_group()),
        }
    }

    pub(super) const fn no_consumer_group() -> Refusal {
        Refusal::with(ErrorCode::GroupIdNotFound, "there is no consumer group of this id")
    }

    /// Gives the members that are giving partitions up their time anew.
    pub(super) fn load_rebalances(&mut self, now: Timestamp) {
        for (group_id, group) in &self.groups {
            let Group::Consumer(group) = group else { continue };
            for (member_id, member) in group.members().iter().filter(|(_, member)| member.is_revoking()) {
                self.rebalances.extend(group_id, member_id, member.rebalance_deadline(now));
            }
        }
    }

    /// Applies one record of a consumer group.
    pub(super) fn replay_consumer(&mut self, record: &ConsumerGroupRecord) {
        let group_id = record.group_id();
        if matches!(record, ConsumerGroupRecord::Metadata { value: None, .. }) {
            self.remove_group(group_id);
            return;
        }
        let is_consumer = matches!(self.groups.get(group_id), Some(Group::Consumer(_)));
        if !is_consumer {
            // The group is gone already: the log was compacted.
            if record.is_tombstone() {
                return;
            }
            self.remove_group(group_id);
            self.groups.insert(group_id.clone(), Group::Consumer(Box::default()));
        }
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else {
            unreachable!("the group was made if it was missing")
        };
        group.replay(record);
        if let ConsumerGroupRecord::MemberMetadata { group_id, member_id, value: None } = record {
            self.forget_deadlines(group_id, member_id);
        }
    }
}
