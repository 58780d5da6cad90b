//! What the broker counts, in plain numbers: the shell gives them names and shows them.
//!
//! Kafka's metrics of share groups are counted where Kafka counts them, but without rates: whoever reads a counter
//! twice has one. What a node counted is gone with the node, as in Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_protocol::{NodeId, SharePartitionKey, Timestamp, TopicId, TopicIdPartition};
use sharemark_share_coordinator::{AcknowledgementBatch, RecordState, SharePartition};

use super::Broker;
use super::node::Node;
use super::share_partitions::SharePartitionSlot;

/// How many groups of one node have figures of their own; a further group is counted in the sums alone.
const METERED_GROUPS_MAX: usize = 10_000;

/// The classes of durations, in milliseconds.
const MS_BOUNDS: &[i64] = &[0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];
/// The classes of a share of a hundred.
const PERCENT_BOUNDS: &[i64] = &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// The classes of a number of records.
const RECORD_BOUNDS: &[i64] = &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
/// The classes of a delivery count.
const DELIVERY_BOUNDS: &[i64] = &[1, 2, 3, 4, 5, 10];

/// Numbers that were observed, by class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Distribution {
    bounds: &'static [i64],
    counts: Vec<u64>,
    sum: i64,
}

impl Distribution {
    const fn new(bounds: &'static [i64]) -> Self {
        Self { bounds, counts: Vec::new(), sum: 0 }
    }

    pub(super) fn observe(&mut self, value: i64, times: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; self.bounds.len() + 1]; // Not before there is something to count.
        }
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.counts[class] += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(i64::try_from(times).unwrap_or(i64::MAX)));
    }

    /// Returns the classes: the highest number of each, inclusive, `None` for the last, and how many it has.
    pub fn classes(&self) -> impl Iterator<Item = (Option<i64>, u64)> + '_ {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        bounds.enumerate().map(|(class, bound)| (bound, self.counts.get(class).copied().unwrap_or(0)))
    }

    /// Returns the sum of all numbers.
    pub const fn sum(&self) -> i64 {
        self.sum
    }

    /// Returns how many numbers there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// How many records were acknowledged, by type.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Acknowledged {
    /// Accepted (type 1).
    pub accept: u64,
    /// Released (type 2).
    pub release: u64,
    /// Rejected (type 3).
    pub reject: u64,
    /// Renewed (type 4).
    pub renew: u64,
}

impl Acknowledged {
    /// Counts what the acknowledgements of one partition say. Gaps (type 0) are counted nowhere.
    pub(super) fn of(batches: &[AcknowledgementBatch<'_>]) -> Self {
        let mut all = Self::default();
        for batch in batches {
            match *batch.types {
                [one] => {
                    let offset_count = batch.last_offset.saturating_sub(batch.first_offset).saturating_add(1);
                    all.add(one, u64::try_from(offset_count).unwrap_or(0));
                }
                _ => batch.types.iter().for_each(|one| all.add(*one, 1)),
            }
        }
        all
    }

    fn add(&mut self, acknowledge_type: i8, count: u64) {
        let counted = match acknowledge_type {
            1 => &mut self.accept,
            2 => &mut self.release,
            3 => &mut self.reject,
            4 => &mut self.renew,
            _ => return,
        };
        *counted = counted.saturating_add(count);
    }

    fn add_all(&mut self, other: Self) {
        self.accept = self.accept.saturating_add(other.accept);
        self.release = self.release.saturating_add(other.release);
        self.reject = self.reject.saturating_add(other.reject);
        self.renew = self.renew.saturating_add(other.renew);
    }
}

/// How many topics the requests of one kind named, and for how many of them they failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestedTopics {
    /// All.
    pub total: u64,
    /// Those with an error in one of their partitions, or of a request that failed as a whole.
    pub failed: u64,
}

impl RequestedTopics {
    /// Counts the topics of one request, given by partition and whether that failed.
    pub(super) fn count(&mut self, partitions: impl Iterator<Item = (TopicId, bool)>) {
        let mut last = None;
        let mut several = BTreeMap::new();
        for (topic_id, has_failed) in partitions {
            match &mut last {
                None => last = Some((topic_id, has_failed)),
                Some((same, failed)) if *same == topic_id => *failed |= has_failed,
                Some(_) => *several.entry(topic_id).or_insert(false) |= has_failed,
            }
        }
        for has_failed in last.into_iter().map(|(_, failed)| failed).chain(several.into_values()) {
            self.total += 1;
            self.failed += u64::from(has_failed);
        }
    }
}

/// What became of a group's dead letters at one node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeadLetterCounts {
    /// Copies that were written.
    pub records: u64,
    /// Attempts to write copies.
    pub produce_requests: u64,
    /// Runs of copies that were given up because they could not be written.
    pub failed_produce_requests: u64,
}

/// The figures of one group at one node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupFigures {
    /// How many of a hundred partitions of a fetch could be acquired from.
    pub fetch_ratio: Distribution,
    /// How long a fetch waited for them, in milliseconds of real time.
    pub acquire_time_ms: Distribution,
    /// Its dead letters.
    pub dead_letters: DeadLetterCounts,
}

impl GroupFigures {
    const fn new() -> Self {
        Self {
            fetch_ratio: Distribution::new(PERCENT_BOUNDS),
            acquire_time_ms: Distribution::new(MS_BOUNDS),
            dead_letters: DeadLetterCounts { records: 0, produce_requests: 0, failed_produce_requests: 0 },
        }
    }
}

/// What one node has counted since its start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeFigures {
    /// Records acknowledged with success.
    pub acknowledged: Acknowledged,
    /// Topics in ShareFetch requests.
    pub share_fetches: RequestedTopics,
    /// Topics in ShareAcknowledge requests, and in ShareFetch requests that carried acknowledgements.
    pub share_acknowledges: RequestedTopics,
    /// How long share partitions took to load, in milliseconds of real time.
    pub partition_load_time_ms: Distribution,
    /// The delivery counts that records were handed out with.
    pub delivery_counts: Distribution,
    /// Figures by group.
    pub groups: BTreeMap<Arc<str>, GroupFigures>,
}

impl NodeFigures {
    pub(super) const fn new() -> Self {
        Self {
            acknowledged: Acknowledged { accept: 0, release: 0, reject: 0, renew: 0 },
            share_fetches: RequestedTopics { total: 0, failed: 0 },
            share_acknowledges: RequestedTopics { total: 0, failed: 0 },
            partition_load_time_ms: Distribution::new(MS_BOUNDS),
            delivery_counts: Distribution::new(DELIVERY_BOUNDS),
            groups: BTreeMap::new(),
        }
    }

    pub(super) fn count_acknowledged(&mut self, acknowledged: Acknowledged) {
        self.acknowledged.add_all(acknowledged);
    }

    /// Counts a fetch that went to its partitions.
    pub(super) fn count_fetch(
        &mut self,
        group_id: &Arc<str>,
        acquirable: usize,
        asked: usize,
        waited_ms: i64,
    ) {
        if asked == 0 {
            return;
        }
        if let Some(figures) = self.group(group_id).filter(|_| 0 < acquirable) {
            figures.fetch_ratio.observe(i64::try_from(acquirable * 100 / asked).unwrap_or(100), 1);
            figures.acquire_time_ms.observe(waited_ms.max(0), 1);
        }
    }

    /// Counts what became of a group's dead letters.
    pub(super) fn count_dead_letters(
        &mut self,
        group_id: &Arc<str>,
        count: impl FnOnce(&mut DeadLetterCounts),
    ) {
        if let Some(figures) = self.group(group_id) {
            count(&mut figures.dead_letters);
        }
    }

    /// Returns the figures of a group, `None` for one too many.
    fn group(&mut self, group_id: &Arc<str>) -> Option<&mut GroupFigures> {
        if !self.groups.contains_key(group_id) && METERED_GROUPS_MAX <= self.groups.len() {
            return None;
        }
        Some(self.groups.entry(group_id.clone()).or_insert_with(GroupFigures::new))
    }
}

/// What a share partition has counted since it was loaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharePartitionFigures {
    /// Records whose lock ran out.
    pub lock_timeouts: u64,
    /// How many records each acquired range had.
    pub acquired_range_sizes: Distribution,
}

impl SharePartitionFigures {
    pub(super) const fn new() -> Self {
        Self { lock_timeouts: 0, acquired_range_sizes: Distribution::new(RECORD_BOUNDS) }
    }
}

/// A share partition as it is now, with what it has counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharePartitionMetrics {
    /// Its group.
    pub group_id: Arc<str>,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// How many offsets its window holds.
    pub in_flight_message_count: i64,
    /// How many batches it keeps track of.
    pub in_flight_batch_count: usize,
    /// What it has counted.
    pub figures: SharePartitionFigures,
}

/// A node as it is now, with what it has counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeMetrics {
    /// The node.
    pub id: NodeId,
    /// What it has counted.
    pub figures: NodeFigures,
    /// How many records of partitions that it leads wait for their transaction.
    pub txn_pending_records_count: i64,
    /// How many groups it coordinates, by type and state.
    pub groups: BTreeMap<(&'static str, &'static str), usize>,
    /// The share partitions that it serves.
    pub share_partitions: Vec<SharePartitionMetrics>,
}

impl Broker {
    /// Returns what each node has counted, and what it holds now.
    pub fn metrics(&self) -> Vec<NodeMetrics> {
        let pending = self.stored_pending_counts();
        let of = |id: &NodeId| pending.get(id).copied().unwrap_or(0);
        self.nodes.iter().map(|(id, node)| self.node_metrics(*id, node, of(id))).collect()
    }

    /// Returns by leader how many records wait for their transaction where nobody fetches, so that the share coordinator
    /// alone knows of them.
    fn stored_pending_counts(&self) -> BTreeMap<NodeId, i64> {
        let mut counts = BTreeMap::new();
        for shard in self.connected().flat_map(|(_, node)| node.share_states.values()) {
            for key in shard.keys() {
                let count: i64 = shard.pending_batches(key).map(|batch| batch.range.offset_count()).sum();
                let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
                let leader = self.cluster.partition(at).map(|partition| partition.leader);
                if let Some(leader) = leader.filter(|leader| self.share_partition(*leader, key).is_none()) {
                    *counts.entry(leader).or_insert(0) += count;
                }
            }
        }
        counts
    }

    fn node_metrics(&self, id: NodeId, node: &Node, stored_pending_count: i64) -> NodeMetrics {
        let mut groups = BTreeMap::new();
        for shard in node.groups.values() {
            for group in shard.list_groups(&[], &[]) {
                *groups.entry((group.group_type, group.state)).or_insert(0) += 1;
            }
        }
        let mut share_partitions = Vec::new();
        let mut txn_pending_records_count = stored_pending_count;
        for (key, slot) in &node.share_partitions {
            let SharePartitionSlot::Active { partition, figures, .. } = slot else { continue };
            txn_pending_records_count += pending_count(partition);
            share_partitions.push(self.share_partition_metrics(key, partition, figures));
        }
        NodeMetrics { id, figures: node.figures.clone(), txn_pending_records_count, groups, share_partitions }
    }

    fn share_partition_metrics(
        &self,
        key: &SharePartitionKey,
        partition: &SharePartition,
        figures: &SharePartitionFigures,
    ) -> SharePartitionMetrics {
        let topic = self.cluster.topic(key.topic_id).map_or_else(|| "".into(), |topic| topic.name.clone());
        SharePartitionMetrics {
            group_id: key.group_id.clone(),
            topic,
            partition: key.partition,
            in_flight_message_count: partition.in_flight_count(),
            in_flight_batch_count: partition.batch_count(),
            figures: figures.clone(),
        }
    }

    /// Changes what a node has counted.
    pub(super) fn count(&mut self, node: NodeId, count: impl FnOnce(&mut NodeFigures)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            count(&mut node.figures);
        }
    }
}

/// Returns how many records wait for their transaction.
fn pending_count(partition: &SharePartition) -> i64 {
    let mut runs = Vec::new();
    partition.records(Timestamp::from_ms(0), &mut runs);
    let pending = runs.iter().filter(|run| run.state == RecordState::TxPending);
    pending.map(|run| run.range.offset_count()).sum()
}

#[cfg(test)]
mod tests;
