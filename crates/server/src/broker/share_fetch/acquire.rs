//! What a fetch acquires: each partition looked at, its log read, its records locked.

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_log::{AbortedTransaction, Isolation, ReadBatch, ReadLimits};
use sharemark_protocol::messages::share_fetch_response::{AcquiredRecords, PartitionData};
use sharemark_protocol::{ErrorCode, NodeId, OffsetRange, Records, SharePartitionKey, TopicIdPartition};
use sharemark_share_coordinator::{
    AcquireRequest, AcquiredRange, FetchedBatch, FetchedRun, SharePartitionConfig,
};

use super::super::Broker;
use super::super::input::{Now, Origin};
use super::super::share_acknowledge::acknowledge_error_message;
use super::super::share_partitions::{SharePartitionSlot, share_key};
use super::ShareFetchWait;

/// What one partition of a fetch has come to.
pub(super) enum Found {
    /// It can be fetched from.
    Acquirable(SharePartitionKey),
    /// Its state is still being read.
    Loading,
    /// There is nothing to acquire.
    Nothing,
    /// Its log has moved past what was asked for; that is all this fetch finds out.
    LogStartMoved,
    /// It has an error.
    Error(ErrorCode),
}

impl Broker {
    /// Looks at one partition of a fetch, and begins to load it if it is not there.
    pub(super) fn find_acquirable(
        &mut self,
        now: Now,
        node: NodeId,
        group_id: &Arc<str>,
        at: TopicIdPartition,
        config: &SharePartitionConfig,
    ) -> Found {
        let Some(partition) = self.cluster.partition(at) else {
            return Found::Error(self.missing_partition(at));
        };
        let (leader, leader_epoch) = self.leadership_of(node, at, partition);
        if leader != node {
            return Found::Error(ErrorCode::NotLeaderOrFollower);
        }
        let log_start = partition.log.log_start();
        let key = share_key(group_id, at);
        let is_known = self.nodes.get(&node).is_some_and(|node| node.share_partitions.contains_key(&key));
        if !is_known {
            self.load_share_partition(now, node, &key, leader_epoch); // May fail at once.
        }
        match self.nodes.get(&node).and_then(|node| node.share_partitions.get(&key)) {
            Some(SharePartitionSlot::Loading { .. }) | None => Found::Loading,
            Some(SharePartitionSlot::Failed(error)) => Found::Error(*error),
            Some(SharePartitionSlot::Active { partition, .. }) => {
                if partition.fetch_offset() < log_start && partition.start_offset() < log_start {
                    return Found::LogStartMoved;
                }
                if partition.can_acquire(config) { Found::Acquirable(key) } else { Found::Nothing }
            }
        }
    }

    /// Returns why a partition cannot be found: an id that was never a topic's, or one whose topic is gone.
    fn missing_partition(&self, at: TopicIdPartition) -> ErrorCode {
        if self.cluster.topic(at.topic_id).is_none() && !self.cluster.was_deleted(at.topic_id) {
            return ErrorCode::UnknownTopicId;
        }
        ErrorCode::UnknownTopicOrPartition
    }

    fn isolation(&self, group_id: &str) -> Isolation {
        if self.cluster.configs.share_group(group_id).read_committed {
            Isolation::ReadCommitted
        } else {
            Isolation::ReadUncommitted
        }
    }

    /// Returns how many bytes a fetch would find in a share partition, up to `max`.
    pub(super) fn readable_bytes(
        &self,
        node: NodeId,
        key: &SharePartitionKey,
        config: &SharePartitionConfig,
        max: usize,
    ) -> usize {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let (Some(active), Some(partition)) = (self.share_partition(node, key), self.cluster.partition(at))
        else {
            return 0;
        };
        let isolation = self.isolation(&key.group_id);
        let from = active.fetch_offset();
        // In a full window what lies behind it does not count.
        if active.last_acquirable_offset(config).is_some_and(|last| last < from) {
            return 0;
        }
        if self.is_past_copy(node, at, isolation, from) {
            return 0;
        }
        partition.log.readable_bytes(from, isolation, max)
    }

    /// Acquires what there is, unless `acquires` says not to, and answers.
    pub(super) fn finish_share_fetch(
        &mut self,
        now: Now,
        origin: Origin,
        wait: ShareFetchWait,
        acquires: bool,
    ) {
        let config = self.share_partition_config(&wait.session.group_id);
        let mut found = Vec::with_capacity(wait.partitions.len());
        if acquires {
            for &at in &wait.partitions {
                found.push((at, self.find_acquirable(now, origin.node, &wait.session.group_id, at, &config)));
            }
        }
        let acquirable_count =
            found.iter().filter(|(_, found)| matches!(found, Found::Acquirable(_))).count();
        let waited_ms = now.real.ms_since(wait.began_at);
        self.count(origin.node, |figures| {
            let group_id = &wait.session.group_id;
            figures.count_fetch(group_id, acquirable_count, wait.partitions.len(), waited_ms);
        });
        let mut budget = Budget {
            records_left: wait.acquire.max_records,
            partition_bytes: wait.max_bytes / acquirable_count.max(1),
            any_bytes: false,
        };
        let mut fetched: BTreeMap<TopicIdPartition, PartitionData> = BTreeMap::new();
        let mut order = Vec::with_capacity(found.len());
        for (at, found) in found {
            let data = match found {
                Found::Acquirable(key) => {
                    self.acquire_from(now, origin.node, &key, &wait, &config, &mut budget)
                }
                Found::LogStartMoved => {
                    self.move_share_start(origin.node, &share_key(&wait.session.group_id, at));
                    partition_data(at)
                }
                Found::Error(error) => {
                    self.forget_failed(origin.node, &share_key(&wait.session.group_id, at));
                    PartitionData { error_code: error.code(), ..partition_data(at) }
                }
                Found::Loading => continue,
                Found::Nothing => partition_data(at),
            };
            order.push(at);
            fetched.insert(at, data);
        }
        for &(at, error) in &wait.acknowledged {
            let data = fetched.entry(at).or_insert_with(|| {
                order.push(at);
                partition_data(at)
            });
            data.acknowledge_error_code = error.code();
            data.acknowledge_error_message = acknowledge_error_message(error);
        }
        self.answer_share_fetch(now, &origin, &wait, order, fetched);
    }

    /// Forgets that a share partition could not be loaded: it was told, and the next fetch tries again.
    fn forget_failed(&mut self, node: NodeId, key: &SharePartitionKey) {
        if let Some(node) = self.nodes.get_mut(&node)
            && matches!(node.share_partitions.get(key), Some(SharePartitionSlot::Failed(_)))
        {
            node.share_partitions.remove(key);
        }
    }

    fn move_share_start(&mut self, node: NodeId, key: &SharePartitionKey) {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        if let Some(log_start) = self.cluster.partition(at).map(|partition| partition.log.log_start()) {
            self.change_share_partition(node, key, |partition| ((), partition.archive_below(log_start)));
        }
    }

    /// Reads the log of one share partition and acquires from what was read.
    fn acquire_from(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        wait: &ShareFetchWait,
        config: &SharePartitionConfig,
        budget: &mut Budget,
    ) -> PartitionData {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let mut data = partition_data(at);
        let isolation = self.isolation(&key.group_id);
        let (Some(active), Some(partition)) = (self.share_partition(node, key), self.cluster.partition(at))
        else {
            return data;
        };
        if budget.records_left <= 0 {
            return data;
        }
        let from = active.fetch_offset();
        let limits =
            ReadLimits { size_bytes_max: budget.partition_bytes, at_least_one: !budget.any_bytes, isolation };
        let mut batches: Vec<ReadBatch> = Vec::new();
        if partition.log.read(from.max(partition.log.log_start()), limits, &mut batches).is_err() {
            return data;
        }
        self.keep_copied(node, at, isolation, &mut batches);
        budget.any_bytes |= !batches.is_empty();
        let mut fetched: Vec<FetchedBatch> = Vec::with_capacity(batches.len());
        let aborted = self.aborted_within(at, isolation, &batches);
        fetched.extend(batches.iter().map(|batch| FetchedBatch {
            range: batch.extent.range,
            is_aborted: is_aborted(batch, &aborted),
        }));
        let request = AcquireRequest { max_records: budget.records_left, ..wait.acquire };
        let mut acquired: Vec<AcquiredRange> = Vec::new();
        let run = FetchedRun { fetch_offset: from, batches: &fetched };
        let member = &wait.session.member_id;
        let count = self.change_share_partition(node, key, |partition| {
            partition.acquire(now.clock, member, config, &request, &run, &mut acquired)
        });
        budget.records_left -= count.unwrap_or(0);
        self.count(node, |figures| {
            for range in &acquired {
                let count = u64::try_from(range.range.offset_count()).unwrap_or(0);
                figures.delivery_counts.observe(i64::from(range.delivery_count), count);
            }
        });
        self.count_at(node, key, |figures| {
            for range in &acquired {
                figures.acquired_range_sizes.observe(range.range.offset_count(), 1);
            }
        });
        data.records = overlapping(&batches, &acquired);
        data.acquired_records = acquired.iter().map(on_wire).collect();
        data
    }

    fn aborted_within(
        &self,
        at: TopicIdPartition,
        isolation: Isolation,
        batches: &[ReadBatch],
    ) -> Vec<AbortedTransaction> {
        let mut aborted = Vec::new();
        let ends = batches.first().zip(batches.last());
        let range = ends
            .and_then(|(first, last)| OffsetRange::new(first.extent.range.first(), last.extent.range.last()));
        if let (Isolation::ReadCommitted, Some(range), Some(partition)) =
            (isolation, range, self.cluster.partition(at))
        {
            partition.log.aborted_transactions(range, &mut aborted);
        }
        aborted
    }
}

/// What is left of a fetch's limits while its partitions get their turns.
struct Budget {
    records_left: i64,
    /// How many bytes each partition may read: an even share.
    partition_bytes: usize,
    /// Whether something was read: until then the first batch is read whatever its size.
    any_bytes: bool,
}

fn partition_data(at: TopicIdPartition) -> PartitionData {
    PartitionData { partition_index: at.partition, ..PartitionData::default() }
}

fn is_aborted(batch: &ReadBatch, aborted: &[AbortedTransaction]) -> bool {
    let Some(producer) =
        batch.extent.producer.filter(|_| batch.extent.transactional && !batch.extent.control)
    else {
        return false;
    };
    aborted.iter().any(|transaction| {
        transaction.producer_id == producer.id
            && transaction.first_offset <= batch.extent.range.first()
            && batch.extent.range.last() <= transaction.last_offset
    })
}

/// Returns the whole batches from the first acquired offset to the last.
fn overlapping(batches: &[ReadBatch], acquired: &[AcquiredRange]) -> Records {
    let mut records = Records::new();
    let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else { return records };
    let (first, last) = (first.range.first(), last.range.last());
    for batch in batches {
        if first <= batch.extent.range.last() && batch.extent.range.first() <= last {
            records.push(batch.bytes.clone());
        }
    }
    records
}

fn on_wire(acquired: &AcquiredRange) -> AcquiredRecords {
    AcquiredRecords {
        first_offset: acquired.range.first().get(),
        last_offset: acquired.range.last().get(),
        delivery_count: acquired.delivery_count,
    }
}
