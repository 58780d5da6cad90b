//! What the requests of transactions have in common: their shard, its records, the markers it owes.

use std::collections::BTreeMap;

use sharemark_protocol::{
    CoordinatorRecord, ErrorCode, NodeId, Producer, Timestamp, TopicIdPartition, TopicPartition,
};
use sharemark_txn_coordinator::{
    AddPartitions, Marker, MarkerKey, MarkerProgress, TransactionRecord, TransactionVersion,
    TxnCoordinatorShard,
};

use super::Broker;
use super::cluster::TRANSACTION_STATE;
use super::crossing::{Call, Crossing};
use super::input::Now;
use super::operations::OperationId;

/// Asks the transaction coordinator to add partitions to a transaction, or whether they belong to it.
#[derive(Clone, Debug)]
pub(super) struct AddToTransaction {
    pub(super) transactional_id: String,
    pub(super) producer: Producer,
    pub(super) partitions: Vec<TopicPartition>,
    /// Whether they are added; otherwise each is only looked up.
    pub(super) adds: bool,
    /// The request that goes on with the outcome.
    pub(super) then: OperationId,
}

/// What the transaction coordinator says of each partition.
pub(super) type Added = Vec<(TopicPartition, Result<(), ErrorCode>)>;

impl Broker {
    /// Returns the finalized transaction version.
    pub(super) fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion::from_level(self.cluster.features.transaction_version())
            .unwrap_or(TransactionVersion::V0)
    }

    /// Returns the shard of a transactional id at `node`, with its partition.
    ///
    /// # Errors
    ///
    /// - `NotCoordinator` if another node leads the partition, or the topic does not exist yet.
    pub(super) fn txn_shard(
        &self,
        node: NodeId,
        transactional_id: &str,
    ) -> Result<(TopicIdPartition, &TxnCoordinatorShard), ErrorCode> {
        let at = self.decide_coordinator(node, TRANSACTION_STATE, transactional_id)?;
        let shard = self.nodes.get(&node).and_then(|node| node.transactions.get(&at.partition));
        Ok((at, shard.ok_or(ErrorCode::CoordinatorLoadInProgress)?))
    }

    fn txn_shard_mut(&mut self, node: NodeId, partition: i32) -> Option<&mut TxnCoordinatorShard> {
        self.nodes.get_mut(&node)?.transactions.get_mut(&partition)
    }

    /// Returns the node that coordinates a transactional id, as `node` sees it.
    pub(super) fn txn_coordinator(&self, node: NodeId, transactional_id: &str) -> Result<NodeId, ErrorCode> {
        let at = self.coordinator_of(TRANSACTION_STATE, transactional_id).ok_or(ErrorCode::NotCoordinator)?;
        self.leader_seen_by(node, at).ok_or(ErrorCode::NotCoordinator)
    }

    /// Returns the producer that a request at `node` names beside its transactional id.
    ///
    /// # Errors
    ///
    /// For negative numbers, what the transaction coordinator says of them.
    pub(super) fn producer_of(
        &self,
        node: NodeId,
        transactional_id: &str,
        id: i64,
        epoch: i16,
    ) -> Result<Producer, ErrorCode> {
        if let Some(producer) = Producer::from_wire(id, epoch) {
            return Ok(producer);
        }
        let coordinator = self.txn_coordinator(node, transactional_id)?;
        let (_, shard) = self.txn_shard(coordinator, transactional_id)?;
        Err(shard.refusal_of_negative(transactional_id, id))
    }

    /// Appends what a transaction shard has decided, and replays it. Markers that it owes are sent in this step.
    ///
    /// # Errors
    ///
    /// - What the log refuses; nothing has changed then.
    pub(super) fn commit_txn_record(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        record: &TransactionRecord,
    ) -> Result<(), ErrorCode> {
        let encoded: CoordinatorRecord = record.encode(self.transaction_version());
        let offset = self.append_records(now, node, at, &[encoded], None)?;
        if let Some(shard) = self.txn_shard_mut(node, at.partition) {
            shard.replay(offset, record);
        }
        self.owing.insert((node, at.partition));
        Ok(())
    }

    /// Sends what a shard owes: markers to the leaders of their partitions, and its own word when all are written.
    pub(super) fn pump_markers(&mut self, now: Now, node: NodeId, partition: i32) {
        while let Some(marker) =
            self.txn_shard_mut(node, partition).and_then(|shard| shard.poll_marker(now.clock))
        {
            self.send_marker(node, partition, &marker);
        }
        while let Some(key) =
            self.txn_shard_mut(node, partition).and_then(|shard| shard.poll_completion(now.clock))
        {
            self.complete_transaction(now, node, partition, &key);
        }
    }

    fn send_marker(&mut self, from: NodeId, shard: i32, marker: &Marker) {
        let mut by_node: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
        for partition in &marker.partitions {
            // A partition that is gone is told by whoever is asked.
            let leader =
                self.named_partition(partition).and_then(|at| self.leader_seen_by(from, at)).unwrap_or(from);
            by_node.entry(leader).or_default().push(partition.clone());
        }
        for (to, partitions) in by_node {
            let call = Call::WriteMarkers { shard, marker: Marker { partitions, ..marker.clone() } };
            self.crossings.push_back(Crossing { from, to, call });
        }
    }

    /// Returns the place of a partition that is known by name.
    pub(super) fn named_partition(&self, partition: &TopicPartition) -> Option<TopicIdPartition> {
        let topic = self.cluster.topic_named(&partition.topic)?;
        let at = TopicIdPartition { topic_id: topic.id, partition: partition.partition };
        self.cluster.partition(at).map(|_| at)
    }

    /// Goes on at the transaction coordinator with what the leader of some partitions says of their markers.
    pub(super) fn complete_markers(
        &mut self,
        now: Now,
        node: NodeId,
        shard_index: i32,
        key: &MarkerKey,
        outcomes: &[(TopicPartition, Result<(), ErrorCode>)],
    ) {
        for (partition, outcome) in outcomes {
            let is_gone = *outcome == Err(ErrorCode::UnknownTopicOrPartition)
                && self.named_partition(partition).is_none();
            let Some(shard) = self.txn_shard_mut(node, shard_index) else { return };
            let progress = match outcome {
                Ok(()) => shard.confirm_marker(key, partition),
                // A newer coordinator has taken over this transaction: nothing is owed.
                Err(ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced) => {
                    shard.confirm_marker(key, partition)
                }
                Err(_) if is_gone => shard.confirm_marker(key, partition),
                Err(_) => shard.fail_marker(now.clock, key, partition),
            };
            match progress {
                MarkerProgress::Owed | MarkerProgress::Complete | MarkerProgress::Stale => {}
            }
        }
        self.owing.insert((node, shard_index));
    }

    fn complete_transaction(&mut self, now: Now, node: NodeId, partition: i32, key: &MarkerKey) {
        let Some(topic_id) = self.cluster.topic_named(TRANSACTION_STATE).map(|topic| topic.id) else {
            return;
        };
        let at = TopicIdPartition { topic_id, partition };
        let Some(record) =
            self.txn_shard_mut(node, partition).and_then(|shard| shard.decide_complete(now.clock, key))
        else {
            return;
        };
        if self.commit_txn_record(now, node, at, &record).is_err()
            && let Some(shard) = self.txn_shard_mut(node, partition)
        {
            shard.fail_completion(now.clock, key);
        }
    }

    /// Adds partitions to a transaction, or looks them up, at its coordinator.
    pub(super) fn add_to_transaction(&mut self, now: Now, node: NodeId, request: &AddToTransaction) -> Added {
        let all = |outcome: Result<(), ErrorCode>| -> Added {
            request.partitions.iter().map(|partition| (partition.clone(), outcome)).collect()
        };
        let shard = match self.txn_shard(node, &request.transactional_id) {
            Ok((_, shard)) => shard,
            Err(error) => return all(Err(error)),
        };
        if !request.adds {
            let verify = |partition: &TopicPartition| {
                shard.verify_partition(&request.transactional_id, request.producer, partition)
            };
            return request
                .partitions
                .iter()
                .map(|partition| (partition.clone(), verify(partition)))
                .collect();
        }
        let add = AddPartitions {
            transactional_id: &request.transactional_id,
            producer: request.producer,
            partitions: &request.partitions,
            client_version: TransactionVersion::V2,
        };
        all(self.commit_added_partitions(now, node, &add))
    }

    /// Adds partitions to a transaction of this coordinator, and stores what that changes.
    ///
    /// # Errors
    ///
    /// - As [`Self::txn_shard`], `decide_add_partitions` and the append.
    pub(super) fn commit_added_partitions(
        &mut self,
        now: Now,
        node: NodeId,
        add: &AddPartitions<'_>,
    ) -> Result<(), ErrorCode> {
        let (at, shard) = self.txn_shard(node, add.transactional_id)?;
        match shard.decide_add_partitions(now.clock, add)? {
            Some(record) => self.commit_txn_record(now, node, at, &record),
            None => Ok(()),
        }
    }

    /// Takes care that a node has producer ids at hand.
    ///
    /// # Errors
    ///
    /// - `UnknownServerError` if there are none left.
    pub(super) fn fill_producer_ids(&mut self, node: NodeId) -> Result<(), ErrorCode> {
        let Some(node) = self.nodes.get_mut(&node) else { return Ok(()) };
        if node.producer_ids.needs_block() {
            node.producer_ids.add_block(self.cluster.producer_ids.allocate_block()?);
        }
        Ok(())
    }

    /// Returns when a transaction shard next has something to do.
    pub(super) fn txn_timeout(&self) -> Option<Timestamp> {
        // What is due at a node that is cut off could not be written.
        let shards = self.connected().flat_map(|(_, node)| node.transactions.values());
        shards.filter_map(TxnCoordinatorShard::poll_timeout).min()
    }

    /// Aborts transactions that are open too long, forgets ids that nobody uses, and tries again what failed.
    pub(super) fn expire_transactions(&mut self, now: Now) {
        let Some(topic_id) = self.cluster.topic_named(TRANSACTION_STATE).map(|topic| topic.id) else {
            return;
        };
        let due: Vec<(NodeId, i32)> = self
            .connected()
            .flat_map(|(id, node)| {
                node.transactions.iter().map(move |(partition, shard)| (id, *partition, shard))
            })
            .filter(|(_, _, shard)| shard.poll_timeout().is_some_and(|date| date <= now.clock))
            .map(|(id, partition, _)| (id, partition))
            .collect();
        for (node, partition) in due {
            self.expire_in_shard(now, node, TopicIdPartition { topic_id, partition });
            self.owing.insert((node, partition));
        }
    }

    fn expire_in_shard(&mut self, now: Now, id: NodeId, at: TopicIdPartition) {
        loop {
            let version = self.transaction_version();
            let filled = self.fill_producer_ids(id);
            let Some(node) = self.nodes.get_mut(&id) else { return };
            let Some(shard) = node.transactions.get(&at.partition) else { return };
            let decided =
                filled.and_then(|()| shard.decide_expired(now.clock, version, &mut node.producer_ids));
            let outcome = match decided {
                Ok(None) => return,
                Ok(Some(record)) => self.commit_txn_record(now, id, at, &record),
                Err(error) => Err(error),
            };
            if outcome.is_err() {
                if let Some(shard) = self.txn_shard_mut(id, at.partition) {
                    shard.fail_expired(now.clock);
                }
                return;
            }
        }
    }
}
