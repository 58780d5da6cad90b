//! Deadlines: when the broker next wants to be called, and what it then does.

use sharemark_protocol::{NodeId, Timestamp, TopicIdPartition};

use super::Broker;
use super::input::{Deadlines, Now};
use super::parked::Wake;

impl Broker {
    /// Returns when the next deadline passes, on each clock.
    pub fn poll_timeout(&self) -> Deadlines {
        let real = self.nodes.values().filter_map(|node| node.parked.first_deadline()).min();
        let clock = Some(self.next_retention)
            .into_iter()
            .chain(self.group_timeout())
            .chain(self.share_lock_timeout())
            .min();
        Deadlines { clock, real }
    }

    /// Lets every deadline pass that is due, on both clocks.
    pub(super) fn handle_tick(&mut self, now: Now) {
        let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in ids {
            while let Some(parked) = self.nodes.get_mut(&id).and_then(|node| node.parked.pop_due(now.real)) {
                self.resume(now, parked, Wake::Deadline);
            }
        }
        self.expire_group_members(now);
        self.expire_share_locks(now);
        if self.next_retention <= now.clock {
            self.apply_retention(now);
            self.next_retention =
                next_after(now.clock, self.cluster.configs.broker().log_retention_check_interval_ms);
        }
    }

    fn share_lock_timeout(&self) -> Option<Timestamp> {
        self.nodes
            .values()
            .filter_map(|node| node.share_deadlines.first().map(|(deadline, _)| *deadline))
            .min()
    }

    /// Deletes what retention lets go, forgets idle producers and compacts what is due, in every log.
    fn apply_retention(&mut self, now: Now) {
        let all: Vec<TopicIdPartition> = self.cluster.partitions_mut().map(|(_, at, _)| at).collect();
        for at in all {
            self.with_log(at, |log, writes| {
                log.apply_retention(now.clock, writes);
                log.expire_producers(now.clock);
            });
        }
    }
}

fn next_after(now: Timestamp, interval_ms: i64) -> Timestamp {
    now.plus_ms(interval_ms.max(1))
}
