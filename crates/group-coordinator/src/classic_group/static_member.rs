//! A static member that comes back without its id: it takes its old place over (KIP-345).

use std::sync::Arc;

use sharemark_protocol::ErrorCode;

use super::answer::{ClassicAnswer, JoinAnswer, SyncAnswer};
use super::join::JoinGroup;
use super::{ClassicGroupState, Step};

impl Step<'_> {
    /// Puts who joins in the place of `holder`.
    pub(super) fn replace_static_member(
        &mut self,
        request: &JoinGroup<'_>,
        holder: &Arc<str>,
        member_id: Arc<str>,
    ) {
        let leader_before = self.group.leader.clone();
        let Some(mut member) = self.group.members.remove(holder) else { return };
        // Whoever held the place and waits is fenced at once.
        if let Some(caller) = member.joining.take() {
            let answer = JoinAnswer::refused(ErrorCode::FencedInstanceId, holder);
            self.answers.push((caller, ClassicAnswer::Join(answer)));
        }
        if let Some(caller) = member.syncing.take() {
            let answer = SyncAnswer::refused(ErrorCode::FencedInstanceId);
            self.answers.push((caller, ClassicAnswer::Sync(answer)));
        }
        if let Some(place) = &member.group_instance_id {
            self.group.static_members.insert(place.clone(), member_id.clone());
        }
        if self.group.is_leader(holder) {
            self.group.leader = Some(member_id.clone());
        }
        self.group.pending_syncs.remove(holder);
        member.extend_session(self.now);
        self.group.members.insert(member_id.clone(), member);
        self.group.update(request, &member_id);
        match self.group.state {
            ClassicGroupState::Stable => {
                if self.group.select_protocol() == self.group.protocol {
                    self.keep_generation(request, &member_id, leader_before);
                } else {
                    self.rebalance_or_complete_join();
                }
            }
            // The member before may never ask for its assignment, so a new generation begins.
            ClassicGroupState::CompletingRebalance => self.prepare_rebalance(),
            ClassicGroupState::PreparingRebalance => self.complete_join_if_all_joined(),
            ClassicGroupState::Empty => unreachable!("an empty group has no static members"),
        }
    }

    /// Tells who has come back of the generation that goes on.
    fn keep_generation(
        &mut self,
        request: &JoinGroup<'_>,
        member_id: &Arc<str>,
        leader_before: Option<Arc<str>>,
    ) {
        if let Some(member) = self.group.members.get_mut(member_id) {
            member.joining = None;
        }
        self.store();
        let mut answer = self.group.joined(member_id);
        if request.supports_skipping_assignment {
            answer.skips_assignment = self.group.is_leader(member_id);
        } else {
            // An older client that is told it leads would assign, though nobody asks.
            answer.leader = leader_before.unwrap_or_default();
            answer.members.clear();
        }
        self.answers.push((request.caller, ClassicAnswer::Join(answer)));
    }
}
