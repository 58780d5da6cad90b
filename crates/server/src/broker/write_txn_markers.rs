//! WriteTxnMarkers (27), versions 1-2 (KIP-1228), and the same work for markers of our own coordinators.
//!
//! Difference from Kafka, which has no staged acknowledgements: a request that would commit those of a transaction
//! that its coordinator still has open is refused.

use std::collections::BTreeSet;

use sharemark_log::EndTransactionMarker as LogMarker;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::write_txn_markers_request::WriteTxnMarkersRequest;
use sharemark_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, Producer, SharePartitionKey, TopicIdPartition, TopicPartition};
use sharemark_share_coordinator::{
    EndTransactionMarker, RecordState, Resolution, ResolutionPolicy, ResolvedPartition, TransactionOutcome,
};
use sharemark_txn_coordinator::{
    Marker, Outcome, TransactionOutcome as TransactionState, TxnCoordinatorShard,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::{CONSUMER_OFFSETS, SHARE_GROUP_STATE};
use super::input::{Now, Origin};

/// Where a marker comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MarkerSource {
    /// A coordinator of ours, which has decided the end of the transaction.
    Coordinator,
    /// A request, which may be late, or an administrator's.
    Request,
}

impl Broker {
    pub(super) fn handle_write_txn_markers(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &WriteTxnMarkersRequest,
    ) {
        let allowed = authorize(&origin.principal, Operation::ClusterAction, Resource::Cluster)
            || authorize(&origin.principal, Operation::Alter, Resource::Cluster);
        let mut markers = Vec::with_capacity(request.markers.len());
        for asked in &request.markers {
            let marker =
                Producer::from_wire(asked.producer_id, asked.producer_epoch).map(|producer| LogMarker {
                    producer,
                    committed: asked.transaction_result,
                    coordinator_epoch: asked.coordinator_epoch,
                    transaction_version: asked.transaction_version,
                });
            let mut topics = Vec::with_capacity(asked.topics.len());
            for topic in &asked.topics {
                let mut partitions = Vec::with_capacity(topic.partition_indexes.len());
                for &partition_index in &topic.partition_indexes {
                    let at = TopicPartition::new(&*topic.name, partition_index);
                    let outcome = match marker {
                        _ if !allowed => Err(ErrorCode::ClusterAuthorizationFailed),
                        Some(marker) => {
                            self.write_marker(now, origin.node, &at, marker, MarkerSource::Request)
                        }
                        None => Err(ErrorCode::InvalidProducerEpoch),
                    };
                    partitions.push(WritableTxnMarkerPartitionResult {
                        partition_index,
                        error_code: ErrorCode::of(&outcome).code(),
                    });
                }
                topics.push(WritableTxnMarkerTopicResult { name: topic.name.clone(), partitions });
            }
            markers.push(WritableTxnMarkerResult { producer_id: asked.producer_id, topics });
        }
        self.answer(origin, ResponseMessage::WriteTxnMarkers(WriteTxnMarkersResponse { markers }));
    }

    /// Writes the markers that a transaction coordinator of ours owes, at the node that leads their partitions.
    pub(super) fn write_markers(
        &mut self,
        now: Now,
        node: NodeId,
        marker: &Marker,
    ) -> Vec<(TopicPartition, Result<(), ErrorCode>)> {
        let log_marker = LogMarker {
            producer: marker.producer,
            committed: marker.outcome == Outcome::Commit,
            coordinator_epoch: marker.key.coordinator_epoch.get(),
            transaction_version: i8::try_from(marker.transaction_version.level()).unwrap_or(0),
        };
        let write = |partition: &TopicPartition| {
            let outcome = self.write_marker(now, node, partition, log_marker, MarkerSource::Coordinator);
            (partition.clone(), outcome)
        };
        marker.partitions.iter().map(write).collect()
    }

    /// Writes one marker, whatever is open there, and resolves what waited for it.
    ///
    /// # Errors
    ///
    /// - `UnknownTopicOrPartition` if the partition is gone.
    /// - `NotLeaderOrFollower` if another node leads it.
    /// - `NotEnoughReplicas` if `node` is cut off.
    /// - `InvalidTxnState` if a request would commit acknowledgements whose transaction is open.
    /// - What the log refuses.
    fn write_marker(
        &mut self,
        now: Now,
        node: NodeId,
        partition: &TopicPartition,
        marker: LogMarker,
        source: MarkerSource,
    ) -> Result<(), ErrorCode> {
        #[cfg(feature = "plants")]
        let (marker, source) = self.planted_version(marker, source);
        let at = self.named_partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        self.meet_append(at)?;
        let leader = self.decide_leader(node, at, -1)?;
        if self.is_cut_off(node) {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        let plan = leader.log.decide_end_transaction_marker(now.clock, marker, leader.leader_epoch)?;
        let resolution = if &*partition.topic == SHARE_GROUP_STATE {
            self.decide_resolution(now, node, at, marker)
        } else {
            Resolution::default()
        };
        match source {
            MarkerSource::Coordinator => {}
            MarkerSource::Request if marker.committed => self.check_commit_decided(&resolution)?,
            MarkerSource::Request => {}
        }
        let appended = self
            .with_log(at, |log, writes| log.append_end_transaction_marker(plan, writes))
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        if &*partition.topic == CONSUMER_OFFSETS
            && let Some(shard) = self.group_shard_mut(node, at)
        {
            shard.replay_end_transaction_marker(appended.offset, marker.producer.id, marker.committed);
        }
        if &*partition.topic == SHARE_GROUP_STATE {
            let ended = self.share_marker(marker);
            if let Some(shard) = self.share_state_shard_mut(node, at) {
                shard.replay_end_transaction_marker(appended.offset, ended);
            }
            // The same flush as the control batch, so both are there after a crash or neither is.
            self.commit_state_records(now, node, at, &resolution.records)?;
            for resolved in &resolution.partitions {
                self.resolve_share_partition(now, resolved, ended.outcome);
            }
        }
        Ok(())
    }

    /// Checks that no coordinator has the transactions open that a marker commits.
    ///
    /// Below transaction version 2 a producer keeps its epoch, so that the log cannot tell a late duplicate of the last
    /// commit from that of the transaction that is open.
    fn check_commit_decided(&self, resolution: &Resolution) -> Result<(), ErrorCode> {
        let ranges = resolution.partitions.iter().flat_map(|partition| &partition.ranges);
        let owners: BTreeSet<Producer> = ranges.map(|range| range.producer).collect();
        let mut shards = self.connected().flat_map(|(_, node)| node.transactions.values());
        let is_open = |owner: &Producer, shard: &TxnCoordinatorShard| {
            shard.outcome_of(*owner) == TransactionState::Ongoing
        };
        if shards.any(|shard| owners.iter().any(|owner| is_open(owner, shard))) {
            return Err(ErrorCode::InvalidTxnState);
        }
        Ok(())
    }

    fn decide_resolution(
        &self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        marker: LogMarker,
    ) -> Resolution {
        let Some(shard) = self.nodes.get(&node).and_then(|node| node.share_states.get(&at.partition)) else {
            return Resolution::default();
        };
        let policy = |key: &SharePartitionKey| self.resolution_policy(key);
        let version = i16::from(marker.transaction_version);
        let ended = self.share_marker(marker);
        #[cfg(feature = "plants")]
        let ended = self.planted_search(ended, &marker);
        let resolution = shard.decide_end_transaction_marker(ended, version, policy, now.clock);
        #[cfg(feature = "plants")]
        let resolution = self.planted_resolution(resolution);
        resolution
    }

    pub(super) fn resolution_policy(&self, key: &SharePartitionKey) -> ResolutionPolicy {
        let config = self.share_partition_config(&key.group_id);
        let ignores_limit = self.cluster.configs.broker().share_txn_abort_ignores_delivery_limit;
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        ResolutionPolicy {
            delivery_count_limit: (!ignores_limit).then_some(config.delivery_count_limit),
            has_dead_letter_queue: config.dead_letter_queue,
            log_start_offset: self.cluster.partition(at).map(|it| it.log.log_start()).unwrap_or_default(),
        }
    }

    /// Tells the leader of a share partition what became of a transaction's acknowledgements.
    pub(super) fn resolve_share_partition(
        &mut self,
        now: Now,
        resolved: &ResolvedPartition,
        outcome: TransactionOutcome,
    ) {
        let at = TopicIdPartition { topic_id: resolved.key.topic_id, partition: resolved.key.partition };
        let Some(leader) = self.cluster.partition(at).map(|partition| partition.leader) else { return };
        let config = self.share_partition_config(&resolved.key.group_id);
        if let (TransactionOutcome::Commit, Some(node)) = (outcome, self.nodes.get_mut(&leader)) {
            let dead = resolved.ranges.iter().filter(|range| range.state == RecordState::Archiving);
            node.dead_letters.note_rejected(&resolved.key, dead.map(|range| range.range).collect());
        }
        #[cfg(feature = "plants")]
        let was_marked = self.changed.contains(&at);
        self.change_share_partition(leader, &resolved.key, |partition| {
            // A copy of another generation knows nothing of these acknowledgements.
            if partition.state_epoch() != resolved.state_epoch {
                return ((), sharemark_share_coordinator::Change::default());
            }
            ((), partition.resolve(now.clock, &config, &resolved.ranges))
        });
        #[cfg(feature = "plants")]
        if outcome == TransactionOutcome::Abort
            && !was_marked
            && self.is_planted(crate::config::Plant::FetchNotWokenByAbort)
        {
            self.changed.remove(&at);
        }
    }

    /// Returns a marker as the share coordinator takes it.
    fn share_marker(&self, marker: LogMarker) -> EndTransactionMarker {
        let outcome = if marker.committed { TransactionOutcome::Commit } else { TransactionOutcome::Abort };
        let ended = EndTransactionMarker { producer: marker.producer, outcome };
        #[cfg(feature = "plants")]
        let ended = self.planted_marker(ended);
        ended
    }
}
