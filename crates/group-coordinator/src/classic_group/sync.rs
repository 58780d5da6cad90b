//! SyncGroup: the leader assigns, and each member gets what it was assigned.

use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;

use super::answer::{Caller, ClassicAnswer, SyncAnswer};
use super::{ClassicGroup, ClassicGroupState, Step};

/// A SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member.
    pub member_id: &'a str,
    /// Its static place.
    pub group_instance_id: Option<&'a str>,
    /// The generation that it has joined.
    pub generation: i32,
    /// The kind of members, if it is told.
    pub protocol_type: Option<&'a str>,
    /// The protocol selected, if it is told.
    pub protocol: Option<&'a str>,
    /// What each member gets, from the leader.
    pub assignments: BTreeMap<&'a str, Bytes>,
    /// The request.
    pub caller: Caller,
}

impl Step<'_> {
    /// Tells a member its assignment, or has it wait for the leader.
    pub(crate) fn sync(&mut self, request: &SyncGroup<'_>) {
        if let Err(error) = self.group.check_sync(request) {
            self.refuse_sync(request, error);
            return;
        }
        match self.group.state {
            ClassicGroupState::Empty => self.refuse_sync(request, ErrorCode::UnknownMemberId),
            ClassicGroupState::PreparingRebalance => {
                self.refuse_sync(request, ErrorCode::RebalanceInProgress);
            }
            ClassicGroupState::CompletingRebalance => {
                if let Some(member) = self.group.members.get_mut(request.member_id) {
                    member.syncing = Some(request.caller);
                }
                self.note_synced(request.member_id);
                if self.group.is_leader(request.member_id) {
                    self.assign(request);
                }
            }
            ClassicGroupState::Stable => {
                self.note_synced(request.member_id);
                let answer = self.group.synced(request.member_id);
                self.answers.push((request.caller, ClassicAnswer::Sync(answer)));
            }
        }
    }

    fn refuse_sync(&mut self, request: &SyncGroup<'_>, error: ErrorCode) {
        self.answers.push((request.caller, ClassicAnswer::Sync(SyncAnswer::refused(error))));
    }

    fn note_synced(&mut self, member_id: &str) {
        self.group.pending_syncs.remove(member_id);
        if self.group.pending_syncs.is_empty() {
            self.group.sync_deadline = None;
        }
    }

    /// Takes the leader's assignment over, and tells it to all who wait.
    fn assign(&mut self, request: &SyncGroup<'_>) {
        for (member_id, member) in &mut self.group.members {
            // Whom the leader forgot has nothing.
            member.assignment = request.assignments.get(&**member_id).cloned().unwrap_or_default();
        }
        self.store();
        self.group.transition_to(ClassicGroupState::Stable, self.now);
        let waiting: Vec<_> = self
            .group
            .members
            .iter_mut()
            .filter_map(|(id, member)| {
                let caller = member.syncing.take()?;
                member.extend_session(self.now);
                Some((id.clone(), caller))
            })
            .collect();
        for (member_id, caller) in waiting {
            self.answers.push((caller, ClassicAnswer::Sync(self.group.synced(&member_id))));
        }
    }
}

impl ClassicGroup {
    fn check_sync(&self, request: &SyncGroup<'_>) -> Result<(), ErrorCode> {
        self.check_member(request.member_id, request.group_instance_id)?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs =
            |told: Option<&str>, own: &Option<_>| told.is_some() && own.is_some() && told != own.as_deref();
        if differs(request.protocol_type, &self.protocol_type) || differs(request.protocol, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn synced(&self, member_id: &str) -> SyncAnswer {
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members.get(member_id).map(|it| it.assignment.clone()).unwrap_or_default(),
        }
    }
}
