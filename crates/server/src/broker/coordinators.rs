//! Coordinator shards: each stands over one partition of an internal topic, at the node that leads it, and is
//! what its log says. Taking over a partition and starting on an existing log are the same: replay.

use bytes::Bytes;
use sharemark_group_coordinator::{GroupCoordinatorConfig, GroupCoordinatorShard, GroupRecord};
use sharemark_log::batch::{MarkerRecord, Record, Records};
use sharemark_log::{BatchExtent, Isolation, ReadLimits};
use sharemark_protocol::{LeaderEpoch, NodeId, Offset, Producer, TopicId, TopicIdPartition};
use sharemark_share_coordinator::{
    EndTransactionMarker, ShareCoordinatorConfig, ShareCoordinatorShard, StateRecord, TransactionOutcome,
};
use sharemark_txn_coordinator::{TransactionRecord, TxnConfig, TxnCoordinatorShard};
use tracing::warn;

use super::Broker;
use super::cluster::{CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE};
use super::input::Now;
use crate::config::BrokerSettings;

/// How many groups one shard keeps. Kafka sets no limit.
const GROUPS_PER_SHARD_MAX: usize = 100_000;
/// How many offsets the groups of one shard have committed. Kafka sets no limit.
const OFFSETS_PER_SHARD_MAX: usize = 10_000_000;
/// How many topics one member may subscribe to. Kafka sets no limit.
const SUBSCRIBED_TOPICS_MAX: usize = 10_000;
/// How many transactional ids one shard keeps. Kafka sets no limit.
const TRANSACTIONAL_IDS_PER_SHARD_MAX: usize = 1_000_000;
/// How many partitions one transaction holds. Kafka sets no limit.
const TRANSACTION_PARTITIONS_MAX: usize = 100_000;
/// How many share partitions one shard keeps the state of. Kafka sets no limit.
const SHARE_PARTITIONS_PER_SHARD_MAX: usize = 1_000_000;
/// How many runs of equal states one share partition may have stored; above the widest window there can be.
const STATE_BATCHES_MAX: usize = 20_000;
/// How many cold snapshots are written in one go.
const COLD_SNAPSHOTS_MAX: usize = 100;
/// How many bytes of an internal topic's batch are decompressed at most.
const DECOMPRESSED_SIZE_BYTES_MAX: usize = 64 << 20;

impl Broker {
    /// Sets up the shards of an internal topic's partitions that have none yet, each at the partition's leader.
    pub(super) fn load_coordinators(&mut self, now: Now, topic_id: TopicId) {
        let Some(topic) = self.cluster.topic(topic_id).filter(|topic| topic.is_internal()) else { return };
        let name = topic.name.clone();
        let led: Vec<(TopicIdPartition, NodeId)> = topic
            .partitions
            .iter()
            .zip(0..)
            .map(|(partition, index)| (TopicIdPartition { topic_id, partition: index }, partition.leader))
            .collect();
        for (at, leader) in led {
            match &*name {
                CONSUMER_OFFSETS => self.load_group_shard(now, at, leader),
                TRANSACTION_STATE => self.load_txn_shard(now, at, leader),
                SHARE_GROUP_STATE => self.load_share_shard(at, leader),
                _ => {}
            }
        }
    }

    /// Drops the shards of an internal topic that is gone, and what stands on them: a topic that is created anew
    /// under its name begins an empty log.
    pub(super) fn unload_coordinators(&mut self, topic_name: &str) {
        if topic_name == CONSUMER_OFFSETS {
            let ids: Vec<NodeId> = self.nodes.keys().copied().collect();
            for id in ids {
                self.refuse_waiting_for_groups(id, None);
            }
        }
        for node in self.nodes.values_mut() {
            match topic_name {
                CONSUMER_OFFSETS => node.groups.clear(),
                TRANSACTION_STATE => node.transactions.clear(),
                SHARE_GROUP_STATE => node.share_states.clear(),
                _ => {}
            }
        }
        if topic_name == SHARE_GROUP_STATE {
            self.drop_all_share_partitions();
        }
    }

    /// Drops the shard of one partition at a node that leads it no longer.
    pub(super) fn unload_coordinator(&mut self, node: NodeId, at: TopicIdPartition) {
        let Some(topic) = self.cluster.topic(at.topic_id).filter(|topic| topic.is_internal()) else { return };
        let name = topic.name.clone();
        if &*name == CONSUMER_OFFSETS {
            self.refuse_waiting_for_groups(node, Some(at.partition));
        }
        let Some(state) = self.nodes.get_mut(&node) else { return };
        match &*name {
            CONSUMER_OFFSETS => drop(state.groups.remove(&at.partition)),
            TRANSACTION_STATE => drop(state.transactions.remove(&at.partition)),
            SHARE_GROUP_STATE => drop(state.share_states.remove(&at.partition)),
            _ => {}
        }
        self.owing.remove(&(node, at.partition));
    }

    fn load_group_shard(&mut self, now: Now, at: TopicIdPartition, leader: NodeId) {
        if self.nodes.get(&leader).is_none_or(|node| node.groups.contains_key(&at.partition)) {
            return;
        }
        let mut shard = self.replayed_group_shard(at);
        let configs = &self.cluster.configs;
        shard.apply_loaded(
            now.clock,
            |group| i64::from(configs.share_group(group).session_timeout_ms),
            |group| i64::from(configs.consumer_group(group).session_timeout_ms),
        );
        if let Some(node) = self.nodes.get_mut(&leader) {
            node.groups.insert(at.partition, shard);
        }
    }

    /// Returns the group shard that the log of a partition describes.
    pub(super) fn replayed_group_shard(&self, at: TopicIdPartition) -> GroupCoordinatorShard {
        let mut shard = GroupCoordinatorShard::new(GroupCoordinatorConfig {
            groups_max: GROUPS_PER_SHARD_MAX,
            offsets_max: OFFSETS_PER_SHARD_MAX,
            subscribed_topics_max: SUBSCRIBED_TOPICS_MAX,
        });
        self.for_each_record(at, |batch, record, key, value| {
            if batch.control {
                if let Some((producer, marker)) = batch.producer.zip(MarkerRecord::read(record)) {
                    shard.replay_end_transaction_marker(record.offset, producer.id, marker.committed);
                }
                return;
            }
            match (GroupRecord::decode(&key, value.as_ref()), batch.producer) {
                (Ok(decoded), Some(producer)) if batch.transactional => {
                    shard.replay_transactional(record.offset, producer.id, &decoded);
                }
                (Ok(decoded), _) => shard.replay(record.offset, &decoded),
                (Err(error), _) => {
                    warn!(offset = record.offset.get(), %error, "a record of {CONSUMER_OFFSETS} is passed over")
                }
            }
        });
        shard
    }

    fn load_txn_shard(&mut self, now: Now, at: TopicIdPartition, leader: NodeId) {
        if self.nodes.get(&leader).is_none_or(|node| node.transactions.contains_key(&at.partition)) {
            return;
        }
        let Some(leader_epoch) = self.cluster.partition(at).map(|partition| partition.leader_epoch) else {
            return;
        };
        let shard = self.replayed_txn_shard(now, at, leader_epoch);
        #[cfg(feature = "plants")]
        let shard = self.planted_shard(now, shard);
        if let Some(highest) = shard.producer_id_max() {
            self.cluster.producer_ids.skip_past(highest);
        }
        if let Some(node) = self.nodes.get_mut(&leader) {
            node.transactions.insert(at.partition, shard);
            // What a PREPARE record found in the log still owes is sent again.
            self.owing.insert((leader, at.partition));
        }
    }

    /// Returns the transaction shard that the log of a partition describes.
    pub(super) fn replayed_txn_shard(
        &self,
        now: Now,
        at: TopicIdPartition,
        leader_epoch: LeaderEpoch,
    ) -> TxnCoordinatorShard {
        let config = txn_config(self.cluster.configs.broker());
        let mut shard = TxnCoordinatorShard::new(config, leader_epoch, now.clock);
        self.for_each_record(at, |_, record, key, value| match TransactionRecord::decode(&key, value.as_ref()) {
            Ok(decoded) => shard.replay(record.offset, &decoded),
            Err(error) => warn!(offset = record.offset.get(), %error, "a record of {TRANSACTION_STATE} is passed over"),
        });
        shard
    }

    fn load_share_shard(&mut self, at: TopicIdPartition, leader: NodeId) {
        if self.nodes.get(&leader).is_none_or(|node| node.share_states.contains_key(&at.partition)) {
            return;
        }
        let shard = self.replayed_share_shard(at);
        if let Some(node) = self.nodes.get_mut(&leader) {
            node.share_states.insert(at.partition, shard);
            self.loaded_share_states.insert((leader, at));
        }
    }

    /// Returns the share shard that the log of a partition describes.
    pub(super) fn replayed_share_shard(&self, at: TopicIdPartition) -> ShareCoordinatorShard {
        let mut shard = ShareCoordinatorShard::new(share_coordinator_config(self.cluster.configs.broker()));
        self.for_each_record(at, |batch, record, key, value| {
            if batch.control {
                let ended = end_of_transaction(batch, record);
                #[cfg(feature = "plants")]
                let ended = ended.map(|marker| self.planted_marker(marker));
                match ended {
                    Some(marker) => shard.replay_end_transaction_marker(record.offset, marker),
                    None => shard.replay_other(record.offset),
                }
                return;
            }
            match StateRecord::decode(&key, value.as_ref()) {
                Ok(decoded) => shard.replay(record.offset, &decoded),
                Err(error) => {
                    warn!(offset = record.offset.get(), %error, "a record of {SHARE_GROUP_STATE} is passed over");
                    shard.replay_other(record.offset);
                }
            }
        });
        shard
    }

    /// Reads a whole log, record by record, as a coordinator does: whatever its transactions have become.
    fn for_each_record(
        &self,
        at: TopicIdPartition,
        each: impl FnMut(&BatchExtent, &Record<'_>, Bytes, Option<Bytes>),
    ) {
        let Some(partition) = self.cluster.partition(at) else { return };
        self.for_each_record_from(at, partition.log.log_start(), each);
    }

    /// Reads a log from `first` on, whose batch is read whole.
    pub(super) fn for_each_record_from(
        &self,
        at: TopicIdPartition,
        first: Offset,
        mut each: impl FnMut(&BatchExtent, &Record<'_>, Bytes, Option<Bytes>),
    ) {
        let Some(partition) = self.cluster.partition(at) else { return };
        let limits = ReadLimits {
            size_bytes_max: usize::MAX,
            at_least_one: true,
            isolation: Isolation::ReadUncommitted,
        };
        let mut batches = Vec::new();
        if partition.log.read(first, limits, &mut batches).is_err() {
            warn!(partition = at.partition, "an internal topic cannot be read");
            return;
        }
        for batch in &batches {
            let Ok(records) = Records::read(&batch.bytes, DECOMPRESSED_SIZE_BYTES_MAX) else {
                warn!(
                    offset = batch.extent.range.first().get(),
                    "a batch of an internal topic is passed over"
                );
                continue;
            };
            for record in records.iter().flatten() {
                let key = record.key.map_or_else(Bytes::new, |key| records.slice(key));
                let value = record.value.map(|value| records.slice(value));
                each(&batch.extent, &record, key, value);
            }
        }
    }
}

/// Returns what a control record says of the transaction that it ends.
fn end_of_transaction(batch: &BatchExtent, record: &Record<'_>) -> Option<EndTransactionMarker> {
    let producer: Producer = batch.producer?;
    let marker = MarkerRecord::read(record)?;
    let outcome = if marker.committed { TransactionOutcome::Commit } else { TransactionOutcome::Abort };
    Some(EndTransactionMarker { producer, outcome })
}

fn txn_config(settings: &BrokerSettings) -> TxnConfig {
    TxnConfig {
        transaction_max_timeout_ms: settings.transaction_max_timeout_ms,
        transactional_id_expiration_ms: settings.transactional_id_expiration_ms,
        abort_timed_out_interval_ms: settings.transaction_abort_timed_out_interval_ms,
        remove_expired_interval_ms: settings.transaction_remove_expired_interval_ms,
        transactional_id_count_max: TRANSACTIONAL_IDS_PER_SHARD_MAX,
        partition_count_max: TRANSACTION_PARTITIONS_MAX,
        retry_backoff_ms: settings.add_partitions_to_txn_retry_backoff_ms.max(1),
    }
}

fn share_coordinator_config(settings: &BrokerSettings) -> ShareCoordinatorConfig {
    ShareCoordinatorConfig {
        updates_per_snapshot: u32::try_from(settings.share_snapshot_update_records_per_snapshot).unwrap_or(0),
        cold_snapshot_interval_ms: i64::from(settings.share_cold_partition_snapshot_interval_ms),
        cold_snapshot_count_max: COLD_SNAPSHOTS_MAX,
        share_partition_count_max: SHARE_PARTITIONS_PER_SHARD_MAX,
        state_batch_count_max: STATE_BATCHES_MAX,
    }
}

/// Returns the offset of the record at `index` in a batch that starts at `base`.
pub(super) fn record_offset(base: Offset, index: usize) -> Offset {
    base.plus(i64::try_from(index).unwrap_or(i64::MAX))
}
