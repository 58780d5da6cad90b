//! When each classic group next wants to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::Timestamp;

/// The deadlines of all classic groups of a shard. One may be early: a heartbeat puts its member's session off and
/// leaves the group's place here.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupDeadlines {
    by_group: BTreeMap<Arc<str>, Timestamp>,
    by_deadline: BTreeSet<(Timestamp, Arc<str>)>,
}

impl GroupDeadlines {
    /// Sets the deadline of a group, or takes it away.
    pub(crate) fn set(&mut self, group_id: &Arc<str>, deadline: Option<Timestamp>) {
        if let Some(before) = self.by_group.remove(group_id) {
            self.by_deadline.remove(&(before, group_id.clone()));
        }
        if let Some(deadline) = deadline {
            self.by_group.insert(group_id.clone(), deadline);
            self.by_deadline.insert((deadline, group_id.clone()));
        }
    }

    /// Returns the earliest deadline with its group.
    pub(crate) fn first(&self) -> Option<&(Timestamp, Arc<str>)> {
        self.by_deadline.first()
    }

    /// Returns the deadline of a group.
    pub(crate) fn of(&self, group_id: &str) -> Option<Timestamp> {
        self.by_group.get(group_id).copied()
    }

    /// Returns every group that has a deadline.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_group.keys()
    }
}
