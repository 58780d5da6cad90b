//! What a test may look at: share partitions, transactions, leaders.

use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_protocol::{LeaderEpoch, NodeId, OffsetRange, StateEpoch, TopicIdPartition};
use sharemark_share_coordinator::{RecordRun, RecordState, Staged};
use sharemark_txn_coordinator::{ListFilter, TransactionView};

use super::Broker;
use super::input::Now;
use super::share_partitions::share_key;

/// Why there is nothing to look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    /// There is no such partition.
    Partition,
    /// The partition is there, but no state of it is stored for such a group.
    SharePartition,
    /// No coordinator knows such a transactional id.
    Transaction,
}

/// A share partition at its leader; as it is stored, if nobody fetches there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharePartitionView {
    /// The node that leads it.
    pub node: NodeId,
    /// Whether that node serves it; else this is what the share coordinator stores, which tells of no locks.
    pub is_loaded: bool,
    /// The epoch of that leader.
    pub leader_epoch: LeaderEpoch,
    /// The generation of its state.
    pub state_epoch: StateEpoch,
    /// The lowest offset that is not done with.
    pub start_offset: i64,
    /// The highest offset that was ever acquired; below `start_offset` if the window is empty.
    pub end_offset: i64,
    /// How many offsets from `start_offset` on are acknowledged or archived.
    pub delivery_complete_count: i64,
    /// The tracked records in runs of equals, ascending. What was never acquired is in none.
    pub records: Vec<RecordsView>,
}

/// A run of tracked records that are alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordsView {
    /// The offsets.
    pub range: OffsetRange,
    /// Their state; while a change is being stored, the one before it.
    pub state: RecordState,
    /// Whether a change is being stored.
    pub in_transition: bool,
    /// How often they were delivered.
    pub delivery_count: i16,
    /// Who holds them, if they are acquired.
    pub member: Option<String>,
    /// What is left of their lock, if they are acquired.
    pub lock_ms_left: Option<i64>,
    /// The transaction they wait for and what becomes of them when it commits, if they are pending.
    pub staged: Option<Staged>,
}

/// A transaction at its coordinator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TransactionInspection {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The node that coordinates it.
    pub node: NodeId,
    /// How long ago it began, if one ever did.
    pub age_ms: Option<i64>,
    /// What DescribeTransactions tells.
    pub view: TransactionView,
}

/// Who leads a partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaderView {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The node.
    pub leader: NodeId,
    /// How many leaders it has had before this one.
    pub leader_epoch: LeaderEpoch,
    /// The nodes named as its replicas.
    pub replicas: Vec<NodeId>,
}

impl Broker {
    /// Shows the share partition of a group in a partition of a topic.
    ///
    /// # Errors
    ///
    /// - `Partition` if there is no such partition.
    /// - `SharePartition` if such a group has no state there.
    pub fn inspect_share_partition(
        &self,
        now: Now,
        group_id: &str,
        topic: &str,
        partition: i32,
    ) -> Result<SharePartitionView, Missing> {
        let topic_id = self.cluster.topic_named(topic).ok_or(Missing::Partition)?.id;
        let at = TopicIdPartition { topic_id, partition };
        let led = self.cluster.partition(at).ok_or(Missing::Partition)?;
        let node = led.leader;
        let key = share_key(&group_id.into(), at);
        let loaded = self.share_partition(node, &key);
        let stored = match loaded {
            Some(_) => None,
            None => self.stored_share_partition(now, node, &key, led.leader_epoch),
        };
        let shown = loaded.or(stored.as_ref()).ok_or(Missing::SharePartition)?;
        let mut runs = Vec::new();
        shown.records(now.clock, &mut runs);
        // A batch is kept whole until all of it is done with; what is below the start and final is of no interest.
        let is_shown =
            |run: &RecordRun<'_>| shown.start_offset() <= run.range.last() || !run.state.is_final();
        let records = runs.into_iter().filter(is_shown).map(|run| RecordsView {
            range: run.range,
            state: run.state,
            in_transition: run.in_transition,
            delivery_count: run.delivery_count,
            member: run.member.map(str::to_owned),
            lock_ms_left: run.lock_ms_left,
            staged: run.staged,
        });
        Ok(SharePartitionView {
            node,
            is_loaded: loaded.is_some(),
            leader_epoch: shown.leader_epoch(),
            state_epoch: shown.state_epoch(),
            start_offset: shown.start_offset().get(),
            end_offset: shown.next_offset().get() - 1,
            delivery_complete_count: shown.delivery_complete_count(),
            records: records.collect(),
        })
    }

    /// Shows every transactional id that a coordinator knows, in order.
    pub fn inspect_transactions(&self, now: Now) -> Vec<TransactionInspection> {
        let mut found = BTreeMap::new();
        for (id, node) in self.connected() {
            for shard in node.transactions.values() {
                let mut listings = Vec::new();
                shard.list(now.clock, &ListFilter::default(), &mut listings);
                for listing in listings {
                    let Ok(view) = shard.describe(&listing.transactional_id) else { continue };
                    let age_ms = view.started_at.map(|start| now.clock.ms_since(start));
                    let transactional_id = listing.transactional_id;
                    let shown = TransactionInspection {
                        transactional_id: transactional_id.clone(),
                        node: id,
                        age_ms,
                        view,
                    };
                    found.insert(transactional_id, shown);
                }
            }
        }
        found.into_values().collect()
    }

    /// Shows one transactional id.
    ///
    /// # Errors
    ///
    /// - `Transaction` if no coordinator knows it.
    pub fn inspect_transaction(
        &self,
        now: Now,
        transactional_id: &str,
    ) -> Result<TransactionInspection, Missing> {
        let found = self.inspect_transactions(now).into_iter();
        found
            .into_iter()
            .find(|shown| *shown.transactional_id == *transactional_id)
            .ok_or(Missing::Transaction)
    }

    /// Shows who leads each partition, internal topics included, in the order of topics and partitions.
    pub fn inspect_leaders(&self) -> Vec<LeaderView> {
        let partitions = self.cluster.topics().flat_map(|topic| {
            topic.partitions.iter().zip(0..).map(|(partition, index)| LeaderView {
                topic: topic.name.clone(),
                partition: index,
                leader: partition.leader,
                leader_epoch: partition.leader_epoch,
                replicas: partition.replicas.clone(),
            })
        });
        partitions.collect()
    }
}
