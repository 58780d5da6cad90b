//! What happens to a classic group when nobody asks: sessions end, rebalances stop waiting.

use std::sync::Arc;

use sharemark_protocol::Timestamp;

use super::{ClassicGroup, ClassicGroupState, Step};

/// Something that is due.
#[derive(Clone, Debug)]
enum Due {
    Join,
    Sync,
    Pending(Arc<str>),
    Member(Arc<str>),
}

impl Step<'_> {
    /// Lets every deadline pass that is due.
    pub(crate) fn expire(&mut self) {
        while let Some(due) = self.group.first_due().filter(|(at, _)| *at <= self.now) {
            match due.1 {
                Due::Join => {
                    if let Some(deadline) = self.group.join_deadline {
                        self.end_join_time(deadline);
                    }
                }
                Due::Sync => self.end_sync_time(),
                Due::Pending(member_id) => {
                    self.group.remove(&member_id);
                    self.complete_join_without(ClassicGroupState::PreparingRebalance);
                }
                Due::Member(member_id) => self.end_session(&member_id),
            }
        }
    }

    fn end_session(&mut self, member_id: &Arc<str>) {
        let Some(member) = self.group.members.get_mut(member_id) else { return };
        if member.is_excused() {
            // Its session begins anew when it is answered.
            member.deadline = None;
            return;
        }
        self.remove_member(member_id);
        match self.group.state {
            ClassicGroupState::Stable | ClassicGroupState::CompletingRebalance => {
                self.prepare_rebalance();
            }
            ClassicGroupState::Empty | ClassicGroupState::PreparingRebalance => {
                self.complete_join_without(ClassicGroupState::PreparingRebalance);
            }
        }
    }

    /// Ends a rebalance that only waited for whoever is gone now.
    fn complete_join_without(&mut self, state: ClassicGroupState) {
        if self.group.state == state && self.group.all_joined() {
            self.complete_join();
        }
    }

    /// Takes out those who have not asked for their assignment in time.
    fn end_sync_time(&mut self) {
        self.group.sync_deadline = None;
        let silent: Vec<Arc<str>> = self.group.pending_syncs.iter().cloned().collect();
        if silent.is_empty() {
            return;
        }
        for member_id in silent {
            self.remove_member(&member_id);
        }
        self.prepare_rebalance();
    }
}

impl ClassicGroup {
    /// Returns when something next happens by itself.
    pub(crate) fn first_deadline(&self) -> Option<Timestamp> {
        self.first_due().map(|(at, _)| at)
    }

    fn first_due(&self) -> Option<(Timestamp, Due)> {
        let join = self.join_deadline.map(|deadline| (deadline.at, Due::Join));
        let sync = self.sync_deadline.map(|at| (at, Due::Sync));
        let pending = self.pending_joins.iter().min_by_key(|(_, at)| **at);
        let pending = pending.map(|(id, at)| (*at, Due::Pending(id.clone())));
        let members = self.members.iter().filter_map(|(id, member)| Some((member.deadline?, id)));
        let member = members.min().map(|(at, id)| (at, Due::Member(id.clone())));
        [join, sync, pending, member].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}
