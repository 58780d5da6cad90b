//! Deadlines: when the broker next wants to be called, and what it then does.

use sharemark_protocol::{NodeId, Timestamp};

use super::Broker;
use super::input::{Deadlines, Now};
use super::parked::Wake;

/// How long what is due waits if a log has refused it.
pub(super) const REFUSED_BACKOFF_MS: i64 = 500;

impl Broker {
    /// Returns when the next deadline passes, on each clock.
    pub fn poll_timeout(&self) -> Deadlines {
        let parked = self.nodes.values().filter_map(|node| node.parked.first_deadline());
        let real = parked.chain(self.faults.first_delayed()).min();
        let clock = [
            Some(self.maintenance_timeout()),
            self.group_timeout(),
            self.share_lock_timeout(),
            self.txn_timeout(),
            self.nodes.values().filter_map(|node| node.dead_letters.first_retry()).min(),
        ];
        let clock = clock.into_iter().flatten().min();
        Deadlines { clock, real }
    }

    /// Lets every deadline pass that is due, on both clocks.
    pub(super) fn handle_tick(&mut self, now: Now) {
        self.faults.release_due(now.real);
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            while let Some(parked) = self.nodes.get_mut(&id).and_then(|node| node.parked.pop_due(now.real)) {
                self.resume(now, parked, Wake::Deadline);
            }
        }
        self.expire_group_members(now);
        self.expire_share_locks(now);
        self.expire_transactions(now);
        self.retry_dead_letters(now);
        self.maintain_logs(now);
    }

    fn share_lock_timeout(&self) -> Option<Timestamp> {
        self.nodes
            .values()
            .filter_map(|node| node.share_deadlines.first().map(|(deadline, _)| *deadline))
            .min()
    }
}
