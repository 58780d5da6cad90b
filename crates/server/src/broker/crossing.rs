//! Calls from one node to another: the seams of the cluster.
//!
//! In Kafka each of these is a request between brokers. Here a handler only queues it; [`Broker::settle`] carries
//! it out later in the same step, at the node it is meant for, and hands the outcome to the function that goes on
//! from there. Nothing that a crossing concerns may be decided between the two: it is *in transition*.

use std::sync::Arc;

use sharemark_group_coordinator::{DeleteShareStates, InitialiseShareStates, TopicPartitions};
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, MemberEpoch, NodeId, Producer, SharePartitionKey, TopicPartition,
};
use sharemark_share_coordinator::{ReadState, WriteState};
use sharemark_txn_coordinator::Marker;

use super::Broker;
use super::dead_letters::WriteDeadLetters;
use super::describe_share_group_offsets::Summaries;
use super::faults::{FaultPoint, NotInitialised, without_errors};
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

/// What the node that was called says.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Which share partitions were initialised, and which were not.
    Initialised(TopicPartitions, NotInitialised),
    /// Whether states are dropped, stored or written, or a member is who it says.
    Done(Result<(), ErrorCode>),
    /// A state.
    State(Result<ReadState, ErrorCode>),
    /// Whether each change is staged.
    Staged(Vec<Result<(), ErrorCode>>),
    /// What the transaction coordinator says of each partition.
    Added(Added),
    /// Whose transaction is open.
    Ongoing(Result<Producer, ErrorCode>),
    /// Whether each marker is written.
    Marked(Added),
    /// What is stored of each share partition.
    Summaries(Summaries),
}

impl Call {
    /// Returns the seam that the call crosses, if it leaves its node at all.
    pub(super) fn point(&self) -> Option<FaultPoint> {
        match self {
            Self::InitialiseShareStates { .. } => Some(FaultPoint::ShareStateInit),
            Self::DeleteShareStates { .. } => Some(FaultPoint::ShareStateDelete),
            Self::ReadShareState { .. } => Some(FaultPoint::ShareStateRead),
            Self::WriteShareState { .. } | Self::StageShareStates(_) => Some(FaultPoint::ShareStateWrite),
            Self::CheckMember { .. } => Some(FaultPoint::GroupMemberCheck),
            Self::AddToTransaction(request) if request.adds => Some(FaultPoint::TxnAddPartition),
            Self::AddToTransaction(_) | Self::FindOngoing { .. } => Some(FaultPoint::TxnVerify),
            Self::WriteMarkers { .. } => Some(FaultPoint::TxnMarkers),
            Self::WriteDeadLetters(_) => Some(FaultPoint::DlqWrite),
            Self::SummariseShareStates { .. } => Some(FaultPoint::ShareStateSummary),
            Self::ForgetShareGroup(_) => None,
        }
    }

    /// Returns whether a share coordinator is asked to store something of a group.
    pub(super) fn writes_group(&self, group_id: &str) -> bool {
        match self {
            Self::WriteShareState { write, .. } => &*write.key.group_id == group_id,
            Self::StageShareStates(states) => {
                states.writes.iter().any(|(_, _, write)| &*write.key.group_id == group_id)
            }
            Self::InitialiseShareStates { .. }
            | Self::DeleteShareStates { .. }
            | Self::ReadShareState { .. }
            | Self::CheckMember { .. }
            | Self::AddToTransaction(_)
            | Self::FindOngoing { .. }
            | Self::WriteMarkers { .. }
            | Self::WriteDeadLetters(_)
            | Self::ForgetShareGroup(_)
            | Self::SummariseShareStates { .. } => false,
        }
    }

    /// Returns the reply that says `error` and nothing else.
    pub(super) fn refused(&self, error: ErrorCode) -> Reply {
        let each = |partitions: &[TopicPartition]| -> Added {
            partitions.iter().map(|partition| (partition.clone(), Err(error))).collect()
        };
        match self {
            Self::InitialiseShareStates { states, .. } => {
                let topics = states.topics.iter();
                let failed = topics.map(|topic| {
                    (topic.topic_id, topic.partitions.keys().map(|partition| (*partition, error)).collect())
                });
                Reply::Initialised(TopicPartitions::new(), failed.collect())
            }
            Self::ReadShareState { .. } => Reply::State(Err(error)),
            Self::StageShareStates(states) => {
                Reply::Staged(states.writes.iter().map(|_| Err(error)).collect())
            }
            Self::AddToTransaction(request) => Reply::Added(each(&request.partitions)),
            Self::FindOngoing { .. } => Reply::Ongoing(Err(error)),
            Self::WriteMarkers { marker, .. } => Reply::Marked(each(&marker.partitions)),
            Self::SummariseShareStates { keys, .. } => {
                Reply::Summaries(keys.iter().map(|key| (key.clone(), Err(error))).collect())
            }
            Self::DeleteShareStates { .. }
            | Self::WriteShareState { .. }
            | Self::CheckMember { .. }
            | Self::WriteDeadLetters(_)
            | Self::ForgetShareGroup(_) => Reply::Done(Err(error)),
        }
    }
}

impl Broker {
    /// Makes calls in this step, after what is being done; returns how many.
    pub(super) fn cross_later(
        &mut self,
        from: NodeId,
        calls: impl IntoIterator<Item = (NodeId, Call)>,
    ) -> usize {
        let before = self.crossings.len();
        self.crossings.extend(calls.into_iter().map(|(to, call)| Crossing { from, to, call }));
        self.crossings.len() - before
    }

    /// Carries out a crossing: asks the node it is meant for, and goes on with the outcome at the one that called. One that
    /// `is_late` was kept back, and may have been made anew meanwhile.
    pub(super) fn carry_out(&mut self, now: Now, mut crossing: Crossing, attempt: u32, is_late: bool) {
        if !self.nodes.contains_key(&crossing.from) {
            return; // Nobody is there to go on.
        }
        if !self.nodes.contains_key(&crossing.to) {
            // It was kept back while its node stopped.
            match self.called_node(crossing.from, &crossing.call) {
                Some(to) => crossing.to = to,
                None => return self.fail_crossing(now, crossing, attempt, ErrorCode::NetworkException),
            }
        }
        if self.are_apart(crossing.from, crossing.to) {
            return self.fail_crossing(now, crossing, attempt, ErrorCode::NetworkException);
        }
        let reply = self.ask(now, crossing.to, &crossing.call, is_late || 0 < attempt);
        self.conclude(now, crossing, attempt, reply);
    }

    /// Returns the node that a call of `from` is for now, if that can be told from the call.
    pub(super) fn called_node(&self, from: NodeId, call: &Call) -> Option<NodeId> {
        let coordinator =
            |key: &SharePartitionKey| self.share_state_leader(from, key).map(|(_, leader)| leader);
        let node = match call {
            Call::ReadShareState { key, .. } => coordinator(key),
            Call::WriteShareState { write, .. } => coordinator(&write.key),
            Call::StageShareStates(states) => self.leader_seen_by(from, states.state_partition),
            Call::AddToTransaction(request) => self.txn_coordinator(from, &request.transactional_id).ok(),
            Call::FindOngoing { transactional_id, .. } => self.txn_coordinator(from, transactional_id).ok(),
            // One call may concern what several nodes keep; it is told that it failed, and is made anew.
            Call::InitialiseShareStates { .. }
            | Call::DeleteShareStates { .. }
            | Call::CheckMember { .. }
            | Call::WriteMarkers { .. }
            | Call::WriteDeadLetters(_)
            | Call::ForgetShareGroup(_)
            | Call::SummariseShareStates { .. } => None,
        };
        node.filter(|node| self.nodes.contains_key(node))
    }

    /// Has the node that is called do what it is asked. What `is_repeated` may have been done before.
    pub(super) fn ask(&mut self, now: Now, to: NodeId, call: &Call, is_repeated: bool) -> Reply {
        match call {
            Call::InitialiseShareStates { states, .. } => {
                let (done, failed) = self.initialise_share_states(now, to, states, is_repeated);
                Reply::Initialised(done, failed)
            }
            Call::DeleteShareStates { states, .. } => Reply::Done(self.delete_share_states(now, to, states)),
            Call::ReadShareState { key, leader_epoch } => {
                Reply::State(self.read_share_state(now, to, key, *leader_epoch))
            }
            Call::WriteShareState { write, .. } => Reply::Done(self.write_share_state(now, to, write)),
            Call::StageShareStates(states) => Reply::Staged(self.stage_share_states(now, to, states)),
            Call::CheckMember { group_id, member_id, epoch, .. } => {
                Reply::Done(self.check_stage_member(to, group_id, member_id, *epoch))
            }
            Call::AddToTransaction(request) => Reply::Added(self.add_to_transaction(now, to, request)),
            Call::FindOngoing { transactional_id, partitions, .. } => {
                Reply::Ongoing(self.find_ongoing(to, transactional_id, partitions))
            }
            Call::WriteMarkers { marker, .. } => Reply::Marked(self.write_markers(now, to, marker)),
            Call::WriteDeadLetters(write) => Reply::Done(self.write_dead_letters(now, to, write)),
            Call::ForgetShareGroup(group_id) => {
                self.forget_share_group(to, group_id);
                Reply::Done(Ok(()))
            }
            Call::SummariseShareStates { keys, .. } => {
                Reply::Summaries(self.summarise_share_states(to, keys.clone()))
            }
        }
    }

    /// Goes on, at the node that called, with what the other has said.
    pub(super) fn complete(&mut self, now: Now, crossing: Crossing, reply: Reply) {
        let Crossing { from, to: _, call } = crossing;
        match (call, reply) {
            (Call::InitialiseShareStates { states, then }, Reply::Initialised(done, failed)) => {
                let failed = without_errors(&failed);
                self.complete_initialise(now, from, &states.group_id, &done, &failed);
                if let Some(id) = then {
                    self.complete_altered(now, from, id, &failed);
                }
            }
            (Call::DeleteShareStates { states, then }, Reply::Done(outcome)) => {
                self.complete_deleted(now, from, then, &states, outcome);
            }
            (Call::ReadShareState { key, leader_epoch }, Reply::State(read)) => {
                self.complete_read_state(now, from, &key, leader_epoch, read);
            }
            (Call::WriteShareState { write, then }, Reply::Done(outcome)) => {
                self.complete_write_state(now, from, &write.key, then, outcome);
            }
            (Call::StageShareStates(states), Reply::Staged(outcomes)) => {
                self.complete_stage(now, from, &states, &outcomes);
            }
            (Call::CheckMember { then, .. }, Reply::Done(outcome)) => {
                self.complete_member_check(from, then, outcome);
            }
            (Call::AddToTransaction(request), Reply::Added(added)) => {
                self.complete_add_to_transaction(now, from, request.then, &added);
            }
            (Call::FindOngoing { then, .. }, Reply::Ongoing(found)) => {
                self.complete_find_ongoing(now, from, then, found);
            }
            (Call::WriteMarkers { shard, marker }, Reply::Marked(outcomes)) => {
                self.complete_markers(now, from, shard, &marker.key, &outcomes);
            }
            (Call::WriteDeadLetters(write), Reply::Done(outcome)) => {
                self.complete_dead_letters(now, from, &write, outcome);
            }
            (Call::SummariseShareStates { then, .. }, Reply::Summaries(summaries)) => {
                self.complete_summaries(from, then, summaries);
            }
            (Call::ForgetShareGroup(_), _) => {}
            (call, reply) => unreachable!("a reply is of its call's kind: {call:?} {reply:?}"),
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
