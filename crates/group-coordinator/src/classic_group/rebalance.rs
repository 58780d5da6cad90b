//! The rebalance: when it begins, whom it waits for, and what the next generation speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;

use super::answer::{ClassicAnswer, JoinAnswer, SyncAnswer};
use super::{ClassicGroup, ClassicGroupState, JoinDeadline, Step};
use crate::embedded::read_topic_names;

impl Step<'_> {
    /// Begins a rebalance, or ends the one that is under way if it was waiting for this.
    pub(super) fn rebalance_or_complete_join(&mut self) {
        match self.group.state {
            ClassicGroupState::Empty | ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => {
                self.prepare_rebalance()
            }
            ClassicGroupState::PreparingRebalance => self.complete_join_if_all_joined(),
        }
    }

    /// Has all members join anew.
    pub(super) fn prepare_rebalance(&mut self) {
        // Whoever waits for an assignment of the last generation has to join again.
        self.answer_syncing(ErrorCode::RebalanceInProgress);
        self.group.sync_deadline = None;
        let is_initial = self.group.state == ClassicGroupState::Empty;
        self.group.transition_to(ClassicGroupState::PreparingRebalance, self.now);
        if !is_initial {
            self.complete_join_or_wait();
            return;
        }
        // The group is new: more members may come.
        let delay_ms = i64::from(self.config.initial_rebalance_delay_ms);
        if delay_ms <= 0 {
            self.complete_join();
            return;
        }
        let remaining_ms = (self.group.rebalance_timeout_ms() - delay_ms).max(0);
        let at = self.now.plus_ms(delay_ms);
        self.group.join_deadline = Some(JoinDeadline { at, remaining_ms: Some(remaining_ms) });
    }

    fn complete_join_or_wait(&mut self) {
        if self.group.all_joined() {
            self.complete_join();
        } else {
            self.wait_for_joins();
        }
    }

    fn wait_for_joins(&mut self) {
        let at = self.now.plus_ms(self.group.rebalance_timeout_ms().max(1));
        self.group.join_deadline = Some(JoinDeadline { at, remaining_ms: None });
    }

    /// Ends a rebalance that all have joined, unless it is the first, which waits for more.
    pub(super) fn complete_join_if_all_joined(&mut self) {
        if self.group.state == ClassicGroupState::PreparingRebalance
            && self.group.previous_state != ClassicGroupState::Empty
            && self.group.all_joined()
        {
            self.complete_join();
        }
    }

    /// Ends the time to join, unless it is the first rebalance and somebody new has come.
    pub(super) fn end_join_time(&mut self, deadline: JoinDeadline) {
        match deadline.remaining_ms {
            Some(remaining_ms) if self.group.new_member_added && 0 < remaining_ms => {
                self.group.new_member_added = false;
                let delay_ms = i64::from(self.config.initial_rebalance_delay_ms);
                let at = self.now.plus_ms(delay_ms.min(remaining_ms).max(1));
                let remaining_ms = Some((remaining_ms - delay_ms).max(0));
                self.group.join_deadline = Some(JoinDeadline { at, remaining_ms });
            }
            Some(_) | None => self.complete_join(),
        }
    }

    /// Begins the next generation with those who have joined, and tells them.
    pub(super) fn complete_join(&mut self) {
        self.group.join_deadline = None;
        let is_late = |member: &super::Member| member.joining.is_none() && member.group_instance_id.is_none();
        let members = self.group.members.iter();
        let late: Vec<Arc<str>> =
            members.filter(|(_, member)| is_late(member)).map(|(id, _)| id.clone()).collect();
        for member_id in late {
            self.group.remove(&member_id);
        }
        if !self.group.elect_joined_leader() && !self.group.members.is_empty() {
            // Static members alone, of whom none is here: their sessions decide.
            self.wait_for_joins();
            return;
        }
        self.group.begin_generation(self.now);
        if self.group.state == ClassicGroupState::Empty {
            self.store();
            return;
        }
        self.group.pending_syncs = self.group.members.keys().cloned().collect();
        let callers: Vec<(Arc<str>, Option<super::Caller>)> =
            self.group.members.iter_mut().map(|(id, member)| (id.clone(), member.joining.take())).collect();
        for (member_id, caller) in callers {
            if let Some(caller) = caller {
                let answer = self.group.joined(&member_id);
                self.answers.push((caller, ClassicAnswer::Join(answer)));
            }
        }
        for member in self.group.members.values_mut() {
            member.extend_session(self.now);
            member.is_new = false;
        }
        self.group.sync_deadline = Some(self.now.plus_ms(self.group.rebalance_timeout_ms().max(1)));
    }

    /// Tells all who wait for their assignment that there is none; it is empty then.
    fn answer_syncing(&mut self, error: ErrorCode) {
        if self.group.state != ClassicGroupState::CompletingRebalance {
            return;
        }
        for member in self.group.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(caller) = member.syncing.take() {
                member.extend_session(self.now);
                self.answers.push((caller, ClassicAnswer::Sync(SyncAnswer::refused(error))));
            }
        }
    }

    /// Takes a member out whose JoinGroup may wait, and goes on without it.
    pub(super) fn remove_member(&mut self, member_id: &str) {
        let removed = self.group.remove(member_id);
        let Some(member) = removed else { return };
        if let Some(caller) = member.joining {
            let answer = JoinAnswer::refused(ErrorCode::UnknownMemberId, "");
            self.answers.push((caller, ClassicAnswer::Join(answer)));
        }
        if let Some(caller) = member.syncing {
            let answer = SyncAnswer::refused(ErrorCode::UnknownMemberId);
            self.answers.push((caller, ClassicAnswer::Sync(answer)));
        }
    }
}

impl ClassicGroup {
    pub(super) fn all_joined(&self) -> bool {
        self.pending_joins.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// Returns how long the slowest member may take to join.
    fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    /// Returns whether there is a leader who has joined, after another was found if need be.
    fn elect_joined_leader(&mut self) -> bool {
        let has_joined = |id: &Arc<str>| self.members.get(id).is_some_and(|member| member.joining.is_some());
        if !self.leader.as_ref().is_some_and(has_joined) {
            let Some(joined) = self.members.keys().find(|id| has_joined(id)).cloned() else { return false };
            self.leader = Some(joined);
        }
        true
    }

    fn begin_generation(&mut self, now: sharemark_protocol::Timestamp) {
        self.generation = self.generation.wrapping_add(1);
        self.pending_syncs.clear();
        self.new_member_added = false;
        if self.members.is_empty() {
            self.protocol = None;
            self.transition_to(ClassicGroupState::Empty, now);
        } else {
            self.protocol = self.select_protocol();
            self.transition_to(ClassicGroupState::CompletingRebalance, now);
        }
        self.subscribed_topics = self.compute_subscribed_topics();
    }

    /// Returns the protocol that most members like best of those that all of them speak.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let is_spoken_by_all =
            |name: &str| self.members.values().all(|member| member.metadata(name).is_some());
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for member in self.members.values() {
            let choice = member.protocols.iter().map(|(name, _)| name).find(|name| is_spoken_by_all(name));
            if let Some(choice) = choice {
                *votes.entry(choice).or_default() += 1;
            }
        }
        let most = votes.values().max().copied();
        votes.into_iter().find(|(_, count)| Some(*count) == most).map(|(name, _)| name.clone())
    }

    /// Returns the topics that the members want, if all of them can be read as consumers.
    pub(super) fn compute_subscribed_topics(&self) -> Option<BTreeSet<Arc<str>>> {
        if !self.has_consumers() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol = self.protocol.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.extend(read_topic_names(member.metadata(protocol)?)?);
        }
        Some(topics)
    }
}
