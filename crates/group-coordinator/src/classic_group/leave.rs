//! LeaveGroup: members leave, or an administrator has static ones leave.

use std::sync::Arc;

use sharemark_protocol::ErrorCode;

use super::Step;

/// A member that leaves.
#[derive(Clone, Copy, Debug)]
pub struct LeavingMember<'a> {
    /// Its id; empty if only its place is told.
    pub member_id: &'a str,
    /// Its static place.
    pub group_instance_id: Option<&'a str>,
}

/// What becomes of each member that leaves, in the order of the request.
pub type LeaveAnswer = Vec<ErrorCode>;

impl Step<'_> {
    /// Lets members leave, and goes on without them.
    pub(crate) fn leave(&mut self, members: &[LeavingMember<'_>]) -> LeaveAnswer {
        let outcomes: LeaveAnswer = members.iter().map(|member| self.leave_one(member)).collect();
        if outcomes.contains(&ErrorCode::None) && !self.group.is_empty() {
            self.rebalance_or_complete_join();
        }
        outcomes
    }

    fn leave_one(&mut self, member: &LeavingMember<'_>) -> ErrorCode {
        if member.member_id.is_empty() {
            let holder: Option<Arc<str>> =
                member.group_instance_id.and_then(|place| self.group.static_members.get(place)).cloned();
            let Some(holder) = holder else { return ErrorCode::UnknownMemberId };
            self.remove_member(&holder);
            return ErrorCode::None;
        }
        if self.group.pending_joins.contains_key(member.member_id) {
            self.group.remove(member.member_id);
            return ErrorCode::None;
        }
        if let Err(error) = self.group.check_member(member.member_id, member.group_instance_id) {
            return error;
        }
        self.remove_member(member.member_id);
        ErrorCode::None
    }
}
