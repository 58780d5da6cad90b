//! Nodes that stop and start: leaderships move, soft state dies, coordinators are rebuilt from their logs.

use sharemark_protocol::{ErrorCode, NodeId, Producer, TopicIdPartition};
use sharemark_share_coordinator::TransactionOutcome as Reconciled;
use sharemark_txn_coordinator::{Outcome, TransactionOutcome};
use tracing::{error, warn};

use super::Broker;
use super::cluster::TRANSACTION_STATE;
use super::input::Now;
use super::node::Node;

/// Why a node cannot be stopped or started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeProblem {
    /// There is no such node.
    Unknown,
    /// It is stopped already.
    Stopped,
    /// It runs already.
    Running,
    /// It is cut off already.
    Isolated,
    /// It is not cut off.
    Connected,
    /// No other node runs that is not cut off.
    Alone,
}

/// How a node is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeState {
    /// It does not run.
    Stopped,
    /// It runs.
    Running,
    /// It runs and serves its clients, cut off from the other nodes.
    Isolated,
}

impl Broker {
    /// Stops a node: what it led is led by another from now on, and what it knew is forgotten. Nothing more is
    /// answered on its connections, which are to be closed.
    ///
    /// # Errors
    ///
    /// - `Unknown` if there is no such node.
    /// - `Stopped` if it does not run.
    pub fn stop_node(&mut self, now: Now, id: NodeId) -> Result<(), NodeProblem> {
        self.step_began = now;
        self.check_node(id)?;
        if self.nodes.remove(&id).is_none() {
            return Err(NodeProblem::Stopped);
        }
        self.cluster.running.retain(|node| *node != id);
        self.owing.retain(|(node, _)| *node != id);
        self.archiving.retain(|(node, _)| *node != id);
        self.faults.forget_node(id);
        self.elect_leaders(now, None);
        self.settle(now);
        Ok(())
    }

    /// Starts a stopped node: it knows nothing and leads nothing, but for what nobody has led since it stopped.
    ///
    /// # Errors
    ///
    /// - `Unknown` if there is no such node.
    /// - `Running` if it runs.
    pub fn start_node(&mut self, now: Now, id: NodeId) -> Result<(), NodeProblem> {
        self.step_began = now;
        self.check_node(id)?;
        if self.nodes.contains_key(&id) {
            return Err(NodeProblem::Running);
        }
        self.nodes.insert(id, Node::new(&self.cluster.configs.start().settings()));
        self.cluster.running = self.connected().map(|(node, _)| node).collect();
        self.elect_leaders(now, Some(id));
        self.settle(now);
        Ok(())
    }

    /// Cuts a node off from the others: it goes on serving its clients with what it knows and the records that it
    /// has, while others lead what it led. Nothing that it appends is accepted, and no call from or to it arrives.
    ///
    /// # Errors
    ///
    /// - `Unknown` if there is no such node.
    /// - `Stopped` if it does not run.
    /// - `Isolated` if it is cut off already.
    /// - `Alone` if no other would be left to lead.
    pub fn isolate_node(&mut self, now: Now, id: NodeId) -> Result<(), NodeProblem> {
        self.step_began = now;
        self.check_node(id)?;
        if self.is_cut_off(id) {
            return Err(NodeProblem::Isolated);
        }
        let view = self.view();
        let others = self.connected().any(|(node, _)| node != id);
        let node = self.nodes.get_mut(&id).ok_or(NodeProblem::Stopped)?;
        if !others {
            return Err(NodeProblem::Alone);
        }
        node.old_view = Some(Box::new(view));
        self.cluster.running.retain(|node| *node != id);
        self.elect_leaders(now, None);
        self.settle(now);
        Ok(())
    }

    /// Connects a node again that was cut off: it learns who leads by now, and forgets what it led.
    ///
    /// # Errors
    ///
    /// - `Unknown` if there is no such node.
    /// - `Stopped` if it does not run.
    /// - `Connected` if it is not cut off.
    pub fn rejoin_node(&mut self, now: Now, id: NodeId) -> Result<(), NodeProblem> {
        self.step_began = now;
        self.check_node(id)?;
        let node = self.nodes.get_mut(&id).ok_or(NodeProblem::Stopped)?;
        let view = node.old_view.take().ok_or(NodeProblem::Connected)?;
        for at in view.led_by(id) {
            self.forget_led(id, at);
            self.changed.insert(at);
        }
        self.cluster.running = self.connected().map(|(node, _)| node).collect();
        self.elect_leaders(now, None);
        self.settle(now);
        Ok(())
    }

    /// Returns every node of the cluster, and how it is.
    pub fn inspect_nodes(&self) -> Vec<(NodeId, NodeState)> {
        let state = |id: NodeId| match self.nodes.get(&id) {
            None => NodeState::Stopped,
            Some(node) if node.old_view.is_some() => NodeState::Isolated,
            Some(_) => NodeState::Running,
        };
        let nodes = self.cluster.configs.start().nodes.iter();
        nodes.map(|node| (node.id, state(node.id))).collect()
    }

    fn check_node(&self, id: NodeId) -> Result<(), NodeProblem> {
        let exists = self.cluster.configs.start().nodes.iter().any(|node| node.id == id);
        if exists { Ok(()) } else { Err(NodeProblem::Unknown) }
    }

    /// Gives each partition whose leader does not run, or has just come back, its next one, and has that load what
    /// it coordinates.
    fn elect_leaders(&mut self, now: Now, back: Option<NodeId>) {
        if self.cluster.running.is_empty() {
            return; // Nobody is there to lead, nor to be asked.
        }
        let mut moves = self.cluster.decide_leaders(back);
        // Transactions come last: what they owe goes to leaders that are there.
        let transactions = self.cluster.topic_named(TRANSACTION_STATE).map(|topic| topic.id);
        moves.sort_by_key(|(at, ..)| Some(at.topic_id) == transactions);
        for (at, leader, replicas) in moves {
            if let Some(partition) = self.cluster.partition_mut(at) {
                partition.replicas = replicas;
            }
            self.move_leader(now, at, leader);
        }
    }

    /// Ends what is staged in transactions that nobody will end, once a share shard is loaded.
    ///
    /// All transactions are loaded: a step that loads some loads all. What a PREPARE owes has been sent before this.
    pub(super) fn reconcile(&mut self, now: Now, node: NodeId, at: TopicIdPartition) {
        let shard = self.nodes.get(&node).and_then(|node| node.share_states.get(&at.partition));
        let Some(owners) = shard.map(|shard| shard.pending_producers()) else { return };
        for owner in owners {
            let known = self.outcome_of(owner);
            #[cfg(feature = "plants")]
            let known = self.planted_outcome(known);
            let outcome = match known {
                TransactionOutcome::Ongoing | TransactionOutcome::Prepared(_) => continue,
                TransactionOutcome::Unknown | TransactionOutcome::Completed(Outcome::Abort) => {
                    warn!(
                        producer = owner.id.get(),
                        "acknowledgements of an unknown transaction are aborted"
                    );
                    Reconciled::Abort
                }
                TransactionOutcome::Completed(Outcome::Commit) => {
                    error!(producer = owner.id.get(), "acknowledgements of a finished transaction were left");
                    Reconciled::Commit
                }
            };
            if let Err(error) = self.end_staged(now, node, at, owner, outcome) {
                warn!(producer = owner.id.get(), error = error.name(), "acknowledgements stay pending");
            }
        }
    }

    /// Returns what the coordinators know of the transaction in which a producer wrote.
    fn outcome_of(&self, owner: Producer) -> TransactionOutcome {
        let shards = self.connected().flat_map(|(_, node)| node.transactions.values());
        let mut outcomes = shards.map(|shard| shard.outcome_of(owner));
        outcomes
            .find(|outcome| *outcome != TransactionOutcome::Unknown)
            .unwrap_or(TransactionOutcome::Unknown)
    }

    fn end_staged(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        owner: Producer,
        outcome: Reconciled,
    ) -> Result<(), ErrorCode> {
        let shard = self.nodes.get(&node).and_then(|node| node.share_states.get(&at.partition));
        let shard = shard.ok_or(ErrorCode::NotCoordinator)?;
        let policy = |key: &sharemark_protocol::SharePartitionKey| self.resolution_policy(key);
        let resolution = shard.decide_reconcile(owner, outcome, policy, now.clock);
        self.commit_state_records(now, node, at, &resolution.records)?;
        for resolved in &resolution.partitions {
            self.resolve_share_partition(now, resolved, outcome);
        }
        Ok(())
    }
}
