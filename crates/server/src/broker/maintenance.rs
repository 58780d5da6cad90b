//! Keeps logs from growing for ever: retention, compaction, pruning of `__share_group_state`.
//!
//! Internal topics are looked after by bytes appended as well as by time, so that a busy test does not fill the
//! memory before the next interval comes round.

use sharemark_log::CompactionScope;
use sharemark_protocol::{NodeId, Timestamp, TopicIdPartition};
use sharemark_share_coordinator::{ShareCoordinatorShard, StateRecord};

use super::Broker;
use super::cluster::{SHARE_GROUP_STATE, is_internal};
use super::input::Now;
use super::ticks::REFUSED_BACKOFF_MS;

/// How large a partition of `__share_group_state` grows before it is pruned without waiting for the interval.
const STATE_LOG_SIZE_BYTES_MAX: u64 = 4 << 20;

impl Broker {
    /// Notes that an internal partition was appended to, in case it has grown enough to be looked after.
    pub(super) fn note_internal_append(&mut self, at: TopicIdPartition) {
        let Some(partition) = self.cluster.partition(at) else { return };
        let log = &partition.log;
        let is_large = log.config().delete && STATE_LOG_SIZE_BYTES_MAX < log.size_bytes();
        if is_large || log.is_compaction_due() {
            self.overgrown.insert(at);
        }
    }

    /// Compacts or prunes one internal partition that has grown.
    pub(super) fn shrink(&mut self, now: Now, at: TopicIdPartition) {
        let Some(topic) = self.cluster.topic(at.topic_id) else { return };
        if &*topic.name != SHARE_GROUP_STATE {
            self.with_log(at, |log, writes| log.compact(now.clock, CompactionScope::Whole, writes));
            return;
        }
        let Some(leader) = self.cluster.partition(at).map(|partition| partition.leader) else { return };
        self.prune_state_log(at, leader);
        let still_large =
            self.cluster.partition(at).is_some_and(|it| STATE_LOG_SIZE_BYTES_MAX / 2 < it.log.size_bytes());
        if still_large {
            let mut records = Vec::new();
            if let Some(shard) = self.nodes.get(&leader).and_then(|node| node.share_states.get(&at.partition))
            {
                shard.decide_lowest_snapshot(now.clock, &mut records);
            }
            let _refused = self.commit_state_records(now, leader, at, &records);
            self.prune_state_log(at, leader);
        }
        // Its own snapshot was an append too; the next one asks again.
        self.overgrown.remove(&at);
    }

    fn prune_state_log(&mut self, at: TopicIdPartition, leader: NodeId) {
        let shard = self.nodes.get(&leader).and_then(|node| node.share_states.get(&at.partition));
        if let Some(before) = shard.and_then(ShareCoordinatorShard::prune_before) {
            self.with_log(at, |log, writes| {
                let before = before.min(log.log_end());
                log.delete_records(before, writes);
            });
        }
    }

    /// Returns when the logs next want to be looked after.
    pub(super) fn maintenance_timeout(&self) -> Timestamp {
        let shards = self.connected().flat_map(|(_, node)| node.share_states.values());
        let cold = shards.filter_map(ShareCoordinatorShard::poll_timeout).min();
        let cold = cold.map(|due| due.max(self.snapshots_from));
        let checks = [
            self.next_retention,
            self.next_prune,
            self.next_producer_expiry,
            self.next_cleaning,
            self.next_offset_check,
        ];
        checks.into_iter().chain(cold).min().unwrap_or(Timestamp::MAX)
    }

    /// Does what is due for the logs by now.
    pub(super) fn maintain_logs(&mut self, now: Now) {
        self.write_cold_snapshots(now);
        let settings = self.cluster.configs.broker();
        let retention_ms = settings.log_retention_check_interval_ms.max(1);
        let offset_check_ms = settings.offsets_retention_check_interval_ms.max(1);
        let prune_ms = i64::from(settings.share_state_topic_prune_interval_ms).max(1);
        let producer_expiry_ms = settings.producer_id_expiration_check_interval_ms.max(1);
        let cleans = settings.log_cleaner_enable;
        let cleaning_ms = settings.log_cleaner_backoff_ms.max(1);
        if self.next_retention <= now.clock {
            self.next_retention = now.clock.plus_ms(retention_ms);
            self.apply_retention(now);
        }
        if self.next_producer_expiry <= now.clock {
            self.next_producer_expiry = now.clock.plus_ms(producer_expiry_ms);
            self.expire_producers(now);
        }
        if self.next_cleaning <= now.clock {
            self.next_cleaning = now.clock.plus_ms(cleaning_ms);
            if cleans {
                self.clean_logs(now);
            }
        }
        if self.next_offset_check <= now.clock {
            self.next_offset_check = now.clock.plus_ms(offset_check_ms);
            self.expire_offsets(now);
        }
        if self.next_prune <= now.clock {
            self.next_prune = now.clock.plus_ms(prune_ms);
            for (leader, at) in self.led_states() {
                self.prune_state_log(at, leader);
            }
        }
    }

    /// Forgets idle producers in every log.
    fn expire_producers(&mut self, now: Now) {
        for (_, _, partition) in self.cluster.partitions_mut() {
            partition.log.expire_producers(now.clock);
        }
    }

    /// Compacts users' topics that are due for it.
    fn clean_logs(&mut self, now: Now) {
        let due: Vec<TopicIdPartition> = self
            .cluster
            .partitions_mut()
            .filter(|(name, _, partition)| !is_internal(name) && partition.log.is_cleaning_due(now.clock))
            .map(|(_, at, _)| at)
            .collect();
        for at in due {
            self.with_log(at, |log, writes| log.compact(now.clock, CompactionScope::ClosedSegments, writes));
        }
    }

    fn led_states(&self) -> Vec<(NodeId, TopicIdPartition)> {
        let Some(topic_id) = self.cluster.topic_named(SHARE_GROUP_STATE).map(|topic| topic.id) else {
            return Vec::new();
        };
        let led =
            self.connected().flat_map(|(id, node)| node.share_states.keys().map(move |index| (id, *index)));
        led.map(|(id, partition)| (id, TopicIdPartition { topic_id, partition })).collect()
    }

    /// Writes new snapshots of share partitions that nobody changes, so that what is before them can go.
    fn write_cold_snapshots(&mut self, now: Now) {
        if now.clock < self.snapshots_from {
            return;
        }
        for (leader, at) in self.led_states() {
            let mut records: Vec<StateRecord> = Vec::new();
            if let Some(shard) = self.nodes.get(&leader).and_then(|node| node.share_states.get(&at.partition))
            {
                shard.decide_cold_snapshots(now.clock, &mut records);
            }
            if self.commit_state_records(now, leader, at, &records).is_err() {
                self.snapshots_from = now.clock.plus_ms(REFUSED_BACKOFF_MS);
            }
        }
    }

    /// Deletes what retention lets go in every log.
    fn apply_retention(&mut self, now: Now) {
        let all: Vec<TopicIdPartition> = self.cluster.partitions_mut().map(|(_, at, _)| at).collect();
        for at in all {
            self.with_log(at, |log, writes| log.apply_retention(now.clock, writes));
        }
    }
}
