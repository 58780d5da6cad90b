//! Heartbeat: a member is there, and learns whether it has to join again.

use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Timestamp};

use super::{ClassicGroup, ClassicGroupState, MemberTimes};

/// A Heartbeat.
#[derive(Clone, Copy, Debug)]
pub struct ClassicHeartbeat<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member.
    pub member_id: &'a str,
    /// Its static place.
    pub group_instance_id: Option<&'a str>,
    /// The generation that it has joined.
    pub generation: i32,
}

/// What a Heartbeat comes to.
#[derive(Clone, Debug)]
pub struct ClassicHeartbeatDecision {
    /// What it is answered; a rebalance is no refusal.
    pub error: ErrorCode,
    pub(crate) group_id: Arc<str>,
    pub(crate) member_id: Arc<str>,
    /// What becomes of the member's deadlines, if its group is a consumer group.
    pub(crate) times: Option<MemberTimes>,
}

impl ClassicGroup {
    /// Judges a heartbeat.
    ///
    /// # Errors
    ///
    /// - `FencedInstanceId` if another member has its static place.
    /// - `UnknownMemberId` if there is no such member.
    /// - `IllegalGeneration` if it belongs to another generation.
    pub(crate) fn decide_heartbeat(&self, request: &ClassicHeartbeat<'_>) -> Result<ErrorCode, ErrorCode> {
        self.check_member(request.member_id, request.group_instance_id)?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        match self.state {
            ClassicGroupState::Empty => Err(ErrorCode::UnknownMemberId),
            ClassicGroupState::PreparingRebalance => Ok(ErrorCode::RebalanceInProgress),
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => Ok(ErrorCode::None),
        }
    }

    /// Starts the session of a member anew that was heard of.
    pub(crate) fn apply_heard_of(&mut self, member_id: &str, now: Timestamp) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.extend_session(now);
        }
    }
}
