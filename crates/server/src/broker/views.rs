//! Who leads what, as a node sees it. A node that is cut off goes on with what it knew then, and with the records that
//! it had then; every other sees what is.

use std::collections::BTreeMap;

use sharemark_log::{Isolation, ReadBatch};
use sharemark_protocol::{ApiKey, LeaderEpoch, NodeId, Offset, TopicIdPartition};

use super::Broker;
use super::cluster::{Partition, Topic};
use super::node::Node;

/// What a node knew when it was cut off.
#[derive(Clone, Debug)]
pub(super) struct OldView {
    running: Vec<NodeId>,
    partitions: BTreeMap<TopicIdPartition, SeenPartition>,
}

#[derive(Clone, Copy, Debug)]
struct SeenPartition {
    leader: NodeId,
    leader_epoch: LeaderEpoch,
    high_watermark: Offset,
    last_stable_offset: Offset,
}

impl OldView {
    /// Returns the partitions that `node` leads in it.
    pub(super) fn led_by(&self, node: NodeId) -> impl Iterator<Item = TopicIdPartition> {
        let led = self.partitions.iter().filter(move |(_, seen)| seen.leader == node);
        led.map(|(at, _)| *at)
    }
}

impl Broker {
    /// Returns what every node sees now.
    pub(super) fn view(&self) -> OldView {
        let topics = self.cluster.topics();
        let partitions = topics.flat_map(|topic| {
            topic.partitions.iter().zip(0..).map(|(partition, index)| {
                let seen = SeenPartition {
                    leader: partition.leader,
                    leader_epoch: partition.leader_epoch,
                    high_watermark: partition.log.high_watermark(),
                    last_stable_offset: partition.log.last_stable_offset(),
                };
                (TopicIdPartition { topic_id: topic.id, partition: index }, seen)
            })
        });
        OldView { running: self.cluster.running.clone(), partitions: partitions.collect() }
    }

    fn old_view(&self, node: NodeId) -> Option<&OldView> {
        self.nodes.get(&node)?.old_view.as_deref()
    }

    /// Returns whether a node runs and is cut off from the others.
    pub(super) fn is_cut_off(&self, node: NodeId) -> bool {
        self.old_view(node).is_some()
    }

    /// Returns whether nothing gets from one node to another. A node always reaches itself.
    pub(super) fn are_apart(&self, one: NodeId, other: NodeId) -> bool {
        one != other && (self.is_cut_off(one) || self.is_cut_off(other))
    }

    /// Returns the nodes that run and are not cut off.
    pub(super) fn connected(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.old_view.is_none()).map(|(id, node)| (*id, node))
    }

    /// Returns the leader of a partition and its epoch, as `node` sees them.
    pub(super) fn leadership(&self, node: NodeId, at: TopicIdPartition) -> Option<(NodeId, LeaderEpoch)> {
        self.cluster.partition(at).map(|partition| self.leadership_of(node, at, partition))
    }

    /// Returns the leader of this partition and its epoch, as `node` sees them.
    pub(super) fn leadership_of(
        &self,
        node: NodeId,
        at: TopicIdPartition,
        partition: &Partition,
    ) -> (NodeId, LeaderEpoch) {
        let old = self.old_view(node).and_then(|view| view.partitions.get(&at));
        old.map_or((partition.leader, partition.leader_epoch), |seen| (seen.leader, seen.leader_epoch))
    }

    /// Returns the partitions of a topic with their numbers, and their leaders and epochs as `node` sees them.
    pub(super) fn partitions_seen_by<'a>(
        &'a self,
        node: NodeId,
        topic: &'a Topic,
    ) -> impl Iterator<Item = (&'a Partition, i32, (NodeId, LeaderEpoch))> {
        let topic_id = topic.id;
        topic.partitions.iter().zip(0..).map(move |(partition, index)| {
            let at = TopicIdPartition { topic_id, partition: index };
            (partition, index, self.leadership_of(node, at, partition))
        })
    }

    /// Returns the leader of a partition, as `node` sees it.
    pub(super) fn leader_seen_by(&self, node: NodeId, at: TopicIdPartition) -> Option<NodeId> {
        self.leadership(node, at).map(|(leader, _)| leader)
    }

    /// Returns the nodes that run, as `node` sees it.
    pub(super) fn running_seen_by(&self, node: NodeId) -> &[NodeId] {
        self.old_view(node).map_or(&self.cluster.running, |view| &view.running)
    }

    /// Returns the node that stands for the controller, as `node` sees it.
    pub(super) fn controller_seen_by(&self, node: NodeId) -> NodeId {
        self.running_seen_by(node).first().copied().unwrap_or_else(|| self.controller())
    }

    /// Returns where the records end that a node which is cut off has of a partition; `None` if it has all.
    pub(super) fn copy_end(
        &self,
        node: NodeId,
        at: TopicIdPartition,
        isolation: Isolation,
    ) -> Option<Offset> {
        let seen = self.old_view(node)?.partitions.get(&at)?;
        Some(match isolation {
            Isolation::ReadUncommitted => seen.high_watermark,
            Isolation::ReadCommitted => seen.last_stable_offset,
        })
    }

    /// Returns whether a node which is cut off has no record at an offset or after it.
    pub(super) fn is_past_copy(
        &self,
        node: NodeId,
        at: TopicIdPartition,
        isolation: Isolation,
        offset: Offset,
    ) -> bool {
        self.copy_end(node, at, isolation).is_some_and(|end| end <= offset)
    }

    /// Drops, of what was read from a log, the batches that a node which is cut off does not have.
    pub(super) fn keep_copied(
        &self,
        node: NodeId,
        at: TopicIdPartition,
        isolation: Isolation,
        batches: &mut Vec<ReadBatch>,
    ) {
        batches.retain(|batch| !self.is_past_copy(node, at, isolation, batch.extent.range.first()));
    }
}

/// Returns whether a broker hands requests of this API on to the controller.
pub(super) const fn is_for_controller(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::AlterClientQuotas
            | ApiKey::AlterConfigs
            | ApiKey::AlterPartitionReassignments
            | ApiKey::AlterUserScramCredentials
            | ApiKey::CreateAcls
            | ApiKey::CreatePartitions
            | ApiKey::CreateTopics
            | ApiKey::DeleteAcls
            | ApiKey::DeleteTopics
            | ApiKey::ElectLeaders
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ListPartitionReassignments
            | ApiKey::UnregisterBroker
            | ApiKey::UpdateFeatures
    )
}
