//! Who leads what, and what a client that asked elsewhere is told.

use std::collections::BTreeSet;

use sharemark_protocol::{ErrorCode, LeaderEpoch, NodeId, SharePartitionKey, StrBytes, TopicIdPartition};

use super::Broker;
use super::cluster::Partition;
use super::input::{Now, Origin};
use crate::config::Endpoint;

impl Broker {
    /// Returns a partition that `node` leads as it sees it, for a client that knows its leader epoch or none (-1).
    ///
    /// # Errors
    ///
    /// - `UnknownTopicOrPartition` if there is none.
    /// - `NotLeaderOrFollower` if another node leads it.
    /// - `FencedLeaderEpoch` if the client's epoch is over.
    /// - `UnknownLeaderEpoch` if the client's epoch is still to come.
    pub(super) fn decide_leader(
        &self,
        node: NodeId,
        at: TopicIdPartition,
        known_epoch: i32,
    ) -> Result<&Partition, ErrorCode> {
        let partition = self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (leader, epoch) = self.leadership_of(node, at, partition);
        let epoch = epoch.get();
        if 0 <= known_epoch && known_epoch < epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if epoch < known_epoch {
            return Err(ErrorCode::UnknownLeaderEpoch);
        }
        if leader != node {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(partition)
    }

    /// Returns the leader that `node` names beside an error that means "not here" or "not this leader".
    pub(super) fn leader_hint(
        &self,
        node: NodeId,
        error: ErrorCode,
        at: Option<TopicIdPartition>,
    ) -> Option<(NodeId, LeaderEpoch)> {
        if !matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
            return None;
        }
        self.leadership(node, at?)
    }

    /// Lets another node lead a partition, in a new leader epoch: what the one before kept in memory for it is gone,
    /// and a coordinator is built anew from the log.
    pub(super) fn move_leader(&mut self, now: Now, at: TopicIdPartition, to: NodeId) {
        let Some(partition) = self.cluster.partition_mut(at) else { return };
        let from = std::mem::replace(&mut partition.leader, to);
        partition.leader_epoch = LeaderEpoch::new(partition.leader_epoch.get() + 1);
        partition.log.begin_leader_epoch(partition.leader_epoch);
        if !self.is_cut_off(from) {
            self.forget_led(from, at);
        }
        self.load_coordinators(now, at.topic_id);
        self.changed.insert(at);
    }

    /// Has a node forget what it kept in memory as the leader of a partition.
    pub(super) fn forget_led(&mut self, node: NodeId, at: TopicIdPartition) {
        // One that has stopped holds nothing any more.
        let held = self.nodes.get(&node).into_iter().flat_map(|node| node.share_partitions.keys());
        let held: Vec<SharePartitionKey> = held
            .filter(|key| key.topic_id == at.topic_id && key.partition == at.partition)
            .cloned()
            .collect();
        for key in held {
            self.drop_share_partition(node, &key);
        }
        self.unload_coordinator(node, at);
    }

    /// Returns the nodes that run, as the node that is asked sees it, with the address that its clients are told.
    pub(super) fn endpoints(&self, origin: &Origin) -> impl Iterator<Item = (NodeId, &Endpoint)> {
        let (listener, running) = (origin.listener, self.running_seen_by(origin.node));
        let nodes = self.cluster.configs.start().nodes.iter();
        let running = nodes.filter(|node| running.contains(&node.id));
        running.filter_map(move |node| {
            let listener = node.listeners.get(usize::from(listener.0))?;
            Some((node.id, &listener.advertised))
        })
    }

    /// Returns the address of one node that clients are told.
    pub(super) fn endpoint(&self, node: NodeId, origin: &Origin) -> Option<&Endpoint> {
        self.endpoints(origin).find(|(id, _)| *id == node).map(|(_, endpoint)| endpoint)
    }

    /// Returns the addresses of `nodes` as answers list them: id, host, port and rack.
    pub(super) fn addresses<'a>(
        &'a self,
        origin: &'a Origin,
        nodes: &'a BTreeSet<NodeId>,
    ) -> impl Iterator<Item = (i32, StrBytes, i32, Option<StrBytes>)> + 'a {
        self.endpoints(origin).filter(|(node, _)| nodes.contains(node)).map(move |(node, endpoint)| {
            (node.get(), endpoint.host.as_str().into(), i32::from(endpoint.port), self.rack(node))
        })
    }

    /// Returns the node that stands for the controller.
    pub(super) fn controller(&self) -> NodeId {
        self.cluster.running.first().copied().unwrap_or(self.cluster.nodes[0])
    }

    /// Returns the rack that a node is in, as clients are told.
    pub(super) fn rack(&self, node: NodeId) -> Option<StrBytes> {
        self.cluster.configs.start().rack(node).map(Into::into)
    }
}
