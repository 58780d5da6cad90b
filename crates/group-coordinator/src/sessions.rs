//! Until when each member has to be heard of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::Timestamp;

use crate::consumer_group::DeadlineChange;

/// The deadlines of all members of a shard. Not in the log: it starts anew when a shard is loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    by_member: BTreeMap<(Arc<str>, Arc<str>), Timestamp>,
    by_deadline: BTreeSet<(Timestamp, Arc<str>, Arc<str>)>,
}

impl Sessions {
    /// Sets the deadline of a member, in place of an earlier one.
    pub(crate) fn extend(&mut self, group_id: &Arc<str>, member_id: &Arc<str>, deadline: Timestamp) {
        let member = (group_id.clone(), member_id.clone());
        if let Some(before) = self.by_member.insert(member, deadline) {
            self.by_deadline.remove(&(before, group_id.clone(), member_id.clone()));
        }
        self.by_deadline.insert((deadline, group_id.clone(), member_id.clone()));
    }

    /// Forgets a member that is gone.
    pub(crate) fn remove(&mut self, group_id: &Arc<str>, member_id: &Arc<str>) {
        if let Some(deadline) = self.by_member.remove(&(group_id.clone(), member_id.clone())) {
            self.by_deadline.remove(&(deadline, group_id.clone(), member_id.clone()));
        }
    }

    /// Makes of a member's deadline what a decision has come to.
    pub(crate) fn change(&mut self, group_id: &Arc<str>, member_id: &Arc<str>, change: DeadlineChange) {
        match change {
            DeadlineChange::Kept => {}
            DeadlineChange::Ended => self.remove(group_id, member_id),
            DeadlineChange::At(deadline) => self.extend(group_id, member_id, deadline),
        }
    }

    /// Returns whether a member has a deadline.
    pub(crate) fn contains(&self, group_id: &Arc<str>, member_id: &Arc<str>) -> bool {
        self.by_member.contains_key(&(group_id.clone(), member_id.clone()))
    }

    /// Returns the earliest deadline with its group and member.
    pub(crate) fn first(&self) -> Option<&(Timestamp, Arc<str>, Arc<str>)> {
        self.by_deadline.first()
    }

    /// Returns every (group, member) that has a deadline.
    pub(crate) fn members(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        self.by_member.keys()
    }

    /// Checks that both indexes say the same.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        assert!(self.by_member.len() == self.by_deadline.len(), "each member has one deadline");
        for ((group_id, member_id), deadline) in &self.by_member {
            let entry = (*deadline, group_id.clone(), member_id.clone());
            assert!(self.by_deadline.contains(&entry), "a member's deadline is in the queue");
        }
    }
}
