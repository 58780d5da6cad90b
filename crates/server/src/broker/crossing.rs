//! Calls from one node to another: the seams of the cluster.
//!
//! In Kafka each of these is a request between brokers. Here a handler only queues it; [`Broker::settle`] carries
//! it out later in the same step, at the node it is meant for, and hands the outcome to the function that goes on
//! from there. Nothing that a crossing concerns may be decided between the two: it is *in transition*.

use std::sync::Arc;

use sharemark_group_coordinator::{DeleteShareStates, InitialiseShareStates};
use sharemark_protocol::{LeaderEpoch, MemberEpoch, NodeId, SharePartitionKey, TopicPartition};
use sharemark_share_coordinator::WriteState;
use sharemark_txn_coordinator::Marker;

use super::Broker;
use super::dead_letters::WriteDeadLetters;
use super::input::Now;
use super::operations::{Operation, OperationId};
use super::share_partitions::AfterWrite;
use super::stages::StageStates;
use super::transactions::{AddToTransaction, Added};

/// A call from a node to another, or to itself.
#[derive(Clone, Debug)]
pub(super) struct Crossing {
    /// The node that calls, and goes on with the outcome.
    pub(super) from: NodeId,
    /// The node that is called.
    pub(super) to: NodeId,
    /// What is asked, and what is done with the outcome.
    pub(super) call: Call,
}

/// What is asked of another node, and what it takes to go on with the outcome. One variant a seam.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// Group coordinator to share coordinator: initialise share partitions (`share.state.init`).
    InitialiseShareStates {
        /// The share partitions.
        states: InitialiseShareStates,
        /// The request that waits for it, if one does.
        then: Option<OperationId>,
    },
    /// Group coordinator to share coordinator: drop the states of share partitions.
    DeleteShareStates {
        /// The share partitions.
        states: DeleteShareStates,
        /// The request that waits for it.
        then: OperationId,
    },
    /// Share partition leader to share coordinator: tell a state (`share.state.read`).
    ReadShareState {
        /// The share partition.
        key: SharePartitionKey,
        /// The epoch of the leader that asks.
        leader_epoch: LeaderEpoch,
    },
    /// Share partition leader to share coordinator: store a change (`share.state.write`).
    WriteShareState {
        /// The change.
        write: WriteState,
        /// What goes on then.
        then: AfterWrite,
    },
    /// Share partition leader to share coordinator: stage a change as part of a transaction (`share.state.write`).
    StageShareStates(StageStates),
    /// Share partition leader to group coordinator: is that the member's epoch? (`group.member.check`)
    CheckMember {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// The epoch that it claims.
        epoch: MemberEpoch,
        /// The request that wants to know.
        then: OperationId,
    },
    /// Partition leader to transaction coordinator: add partitions to a transaction (`txn.add.partition`) or look
    /// them up in it (`txn.verify`).
    AddToTransaction(AddToTransaction),
    /// Share partition leader to transaction coordinator: whose transaction is open? (`txn.verify`)
    FindOngoing {
        /// The transactional id.
        transactional_id: Arc<str>,
        /// The partitions that the transaction has to hold.
        partitions: Vec<TopicPartition>,
        /// The request that wants to know.
        then: OperationId,
    },
    /// Transaction coordinator to partition leaders: end a transaction (`txn.markers`).
    WriteMarkers {
        /// The shard that owes the markers.
        shard: i32,
        /// The markers for one node.
        marker: Marker,
    },
    /// Share partition leader to the leader of a dead-letter topic's partition: append copies (`dlq.write`).
    WriteDeadLetters(Box<WriteDeadLetters>),
    /// No seam: a node reminds itself to forget a group's share partitions once their last writes are out.
    ForgetShareGroup(Arc<str>),
    /// Group coordinator to share coordinator: tell stored states in short (`share.state.summary`).
    SummariseShareStates {
        /// The share partitions.
        keys: Vec<SharePartitionKey>,
        /// The request that wants to know.
        then: OperationId,
    },
}

impl Broker {
    /// Carries out a crossing: asks the node it is meant for, and goes on with the outcome at the one that called.
    pub(super) fn carry_out(&mut self, now: Now, crossing: Crossing) {
        let Crossing { from, to, call } = crossing;
        match call {
            Call::InitialiseShareStates { states, then } => {
                let (done, failed) = self.initialise_share_states(now, to, &states);
                self.complete_initialise(now, from, &states.group_id, &done, &failed);
                if let Some(id) = then {
                    self.complete_altered(now, from, id, &failed);
                }
            }
            Call::DeleteShareStates { states, then } => {
                let outcome = self.delete_share_states(now, to, &states);
                self.complete_deleted(now, from, then, &states, outcome);
            }
            Call::ReadShareState { key, leader_epoch } => {
                let read = self.read_share_state(now, to, &key, leader_epoch);
                self.complete_read_state(now, from, &key, leader_epoch, read);
            }
            Call::WriteShareState { write, then } => {
                let outcome = self.write_share_state(now, to, &write);
                self.complete_write_state(now, from, &write.key, then, outcome);
            }
            Call::StageShareStates(states) => {
                let outcomes = self.stage_share_states(now, to, &states);
                self.complete_stage(now, from, &states, &outcomes);
            }
            Call::CheckMember { group_id, member_id, epoch, then } => {
                let outcome = self.check_stage_member(to, &group_id, &member_id, epoch);
                self.complete_member_check(from, then, outcome);
            }
            Call::AddToTransaction(request) => {
                let added = self.add_to_transaction(now, to, &request);
                self.complete_add_to_transaction(now, from, request.then, &added);
            }
            Call::FindOngoing { transactional_id, partitions, then } => {
                let found = self.find_ongoing(to, &transactional_id, &partitions);
                self.complete_find_ongoing(now, from, then, found);
            }
            Call::WriteMarkers { shard, marker } => {
                let outcomes = self.write_markers(now, to, &marker);
                self.complete_markers(now, from, shard, &marker.key, &outcomes);
            }
            Call::WriteDeadLetters(write) => {
                let outcome = self.write_dead_letters(now, to, &write);
                self.complete_dead_letters(now, from, &write, outcome);
            }
            Call::ForgetShareGroup(group_id) => self.forget_share_group(to, &group_id),
            Call::SummariseShareStates { keys, then } => {
                let summaries = self.summarise_share_states(to, keys);
                self.complete_summaries(from, then, summaries);
            }
        }
    }

    fn complete_add_to_transaction(&mut self, now: Now, node: NodeId, id: OperationId, added: &Added) {
        match self.nodes.get(&node).and_then(|node| node.operations.get(id)) {
            Some(Operation::Produce(_)) => self.complete_produce_join(now, node, id, added),
            Some(Operation::Stage(_)) => self.complete_stage_join(now, node, id, added),
            Some(Operation::TxnOffsetCommit(_)) => self.complete_txn_offset_join(now, node, id, added),
            Some(
                Operation::Acknowledge(_)
                | Operation::DescribeShareGroupOffsets(_)
                | Operation::GroupAdmin(_),
            )
            | None => {}
        }
    }
}
