//! Acknowledgements that become part of a transaction: from the request to the staged records, for both dialects.
//!
//! ```text
//! request -> member known? -> state partitions join the transaction -> each share partition judged, all or nothing
//!         -> one transactional batch per state partition -> records become TX_PENDING -> answer
//! ```
//!
//! Each arrow but the last is a crossing. Joining comes first: what is staged is known to a transaction that ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{
    CoordinatorRecord, ErrorCode, MemberEpoch, NodeId, Producer, SharePartitionKey, TopicIdPartition,
    TopicPartition,
};
use sharemark_share_coordinator::{
    AcknowledgementBatch, Change, StageRules, StatePlan, StateRecord, TransitionId, WriteState,
};

use super::Broker;
use super::authorize::{self, Resource, authorize};
use super::cluster::{CONSUMER_OFFSETS, SHARE_GROUP_STATE};
use super::coordinators::record_offset;
use super::crossing::{Call, Crossing};
use super::input::{Now, Origin};
use super::operations::{Operation, OperationId};
use super::share_partitions::{coordinator_error, share_key};
use super::transactions::{AddToTransaction, Added};

/// The acknowledgements of one partition in a transaction.
#[derive(Clone, Debug)]
pub(super) struct StagePart {
    pub(super) at: TopicIdPartition,
    /// First and last offset, and one type for the range or one for each offset.
    pub(super) batches: Vec<(i64, i64, Vec<i8>)>,
    /// What has come of it, once that is known.
    pub(super) outcome: Option<Result<(), ErrorCode>>,
}

/// Which request is answered in the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StageDialect {
    /// TxnShareAcknowledge of the newest text.
    Newest,
    /// The one of the early text, which names no producer and no member.
    Seed,
}

/// A request that stages acknowledgements, on its way.
#[derive(Clone, Debug)]
pub(super) struct StageOperation {
    pub(super) origin: Origin,
    pub(super) dialect: StageDialect,
    pub(super) transactional_id: Arc<str>,
    pub(super) group_id: Arc<str>,
    /// The producer of the transaction; in the early dialect known once the coordinator has told.
    pub(super) producer: Option<Producer>,
    /// The member and its epoch; the early dialect names none.
    pub(super) member: Option<(Arc<str>, MemberEpoch)>,
    pub(super) parts: Vec<StagePart>,
}

/// What is staged of one share partition: which part of the request, the transition, and what to store.
pub(super) type StageWrite = (usize, TransitionId, WriteState);

/// Asks a share coordinator to stage what belongs to one of its state partitions.
#[derive(Clone, Debug)]
pub(super) struct StageStates {
    pub(super) state_partition: TopicIdPartition,
    pub(super) transactional_id: Arc<str>,
    producer: Producer,
    /// What is staged, with the part of the request and the transition that it belongs to.
    pub(super) writes: Vec<StageWrite>,
    then: OperationId,
}

impl Broker {
    /// Begins to stage: the member first, if one is named.
    pub(super) fn begin_stage(&mut self, operation: StageOperation) {
        let from = operation.origin.node;
        let member = operation.member.clone();
        let group_id = operation.group_id.clone();
        let Some(node) = self.nodes.get_mut(&from) else { return };
        let id = node.operations.begin(Operation::Stage(Box::new(operation)));
        let Some((member_id, epoch)) = member else {
            self.look_up_transaction(from, id);
            return;
        };
        match self.group_coordinator(from, &group_id) {
            Ok(to) => {
                let call = Call::CheckMember { group_id, member_id, epoch, then: id };
                self.crossings.push_back(Crossing { from, to, call });
            }
            Err(error) => self.refuse_stage(from, id, error),
        }
    }

    /// Returns the node that coordinates a group, as `node` sees it.
    fn group_coordinator(&self, node: NodeId, group_id: &str) -> Result<NodeId, ErrorCode> {
        // Without the topic there is no group at all.
        let at = self.coordinator_of(CONSUMER_OFFSETS, group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        self.leader_seen_by(node, at).ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// Judges, at the group coordinator, the member that a request names.
    pub(super) fn check_stage_member(
        &self,
        node: NodeId,
        group_id: &str,
        member_id: &str,
        epoch: MemberEpoch,
    ) -> Result<(), ErrorCode> {
        let (_, shard) = self.group_shard(node, group_id)?;
        shard.check_member(group_id, member_id, epoch)
    }

    /// Goes on at the source leader when the member is judged: the state partitions join the transaction.
    pub(super) fn complete_member_check(
        &mut self,
        node: NodeId,
        id: OperationId,
        outcome: Result<(), ErrorCode>,
    ) {
        if let Err(error) = outcome {
            self.refuse_stage(node, id, error);
            return;
        }
        self.judge_stage_topics(node, id);
        let Some(operation) = self.stage_operation(node, id) else { return };
        let (Some(producer), transactional_id) = (operation.producer, operation.transactional_id.clone())
        else {
            return;
        };
        let partitions = self.state_partitions_of(node, id);
        if partitions.is_empty() {
            self.finish_stage_if_done(node, id);
            return;
        }
        match self.txn_coordinator(node, &transactional_id) {
            Ok(to) => {
                let request = AddToTransaction {
                    transactional_id: transactional_id.to_string(),
                    producer,
                    partitions,
                    adds: true,
                    then: id,
                };
                #[cfg(feature = "plants")]
                let request = self.planted_join(request);
                self.crossings.push_back(Crossing { from: node, to, call: Call::AddToTransaction(request) });
            }
            Err(error) => self.refuse_stage(node, id, error),
        }
    }

    /// Refuses partitions that do not exist, are not for this principal or are named more than once, before anything
    /// joins the transaction.
    fn judge_stage_topics(&mut self, node: NodeId, id: OperationId) {
        let Some(operation) = self.stage_operation(node, id) else { return };
        let mut seen = BTreeSet::new();
        let again: BTreeSet<TopicIdPartition> =
            operation.parts.iter().map(|part| part.at).filter(|at| !seen.insert(*at)).collect();
        let judge = |part: &StagePart| match self.check_stage_topic(&operation.origin, part.at) {
            // Its outcomes could not be told apart, and a refused partition must have nothing staged.
            Ok(()) if again.contains(&part.at) => Err(ErrorCode::InvalidRequest),
            outcome => outcome,
        };
        let refused: Vec<(usize, ErrorCode)> = operation
            .parts
            .iter()
            .enumerate()
            .filter_map(|(index, part)| judge(part).err().map(|error| (index, error)))
            .collect();
        if let Some(operation) = self.stage_operation_mut(node, id) {
            for (index, error) in refused {
                operation.parts[index].outcome = Some(Err(error));
            }
        }
    }

    fn check_stage_topic(&self, origin: &Origin, at: TopicIdPartition) -> Result<(), ErrorCode> {
        let topic = self.cluster.topic(at.topic_id).ok_or(ErrorCode::UnknownTopicId)?;
        if !authorize(&origin.principal, authorize::Operation::Read, Resource::Topic(&topic.name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        // Nobody ever joined a share group, or the states of all were deleted.
        self.cluster.topic_named(SHARE_GROUP_STATE).map(|_| ()).ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    fn state_partitions_of(&self, node: NodeId, id: OperationId) -> Vec<TopicPartition> {
        let Some(operation) = self.stage_operation(node, id) else { return Vec::new() };
        let open = operation.parts.iter().filter(|part| part.outcome.is_none());
        let states: BTreeSet<i32> = open
            .filter_map(|part| self.share_state_leader(node, &share_key(&operation.group_id, part.at)))
            .map(|(at, _)| at.partition)
            .collect();
        states.into_iter().map(|partition| TopicPartition::new(SHARE_GROUP_STATE, partition)).collect()
    }

    /// Asks, in the early dialect, the coordinator for the producer of the open transaction.
    fn look_up_transaction(&mut self, node: NodeId, id: OperationId) {
        self.judge_stage_topics(node, id);
        let Some(operation) = self.stage_operation(node, id) else { return };
        let transactional_id = operation.transactional_id.clone();
        let partitions = self.state_partitions_of(node, id);
        match self.txn_coordinator(node, &transactional_id) {
            Ok(to) => {
                let call = Call::FindOngoing { transactional_id, partitions, then: id };
                self.crossings.push_back(Crossing { from: node, to, call });
            }
            Err(error) => self.refuse_stage(node, id, error),
        }
    }

    /// Tells, at the transaction coordinator, the producer of an open transaction that holds these partitions.
    ///
    /// # Errors
    ///
    /// - `InvalidTxnState` if none is open, or it does not hold them.
    pub(super) fn find_ongoing(
        &self,
        node: NodeId,
        transactional_id: &str,
        partitions: &[TopicPartition],
    ) -> Result<Producer, ErrorCode> {
        let (_, shard) = self.txn_shard(node, transactional_id)?;
        let producer = shard.ongoing(transactional_id).ok_or(ErrorCode::InvalidTxnState)?;
        let holds =
            |partition: &TopicPartition| shard.is_partition_in_transaction(transactional_id, partition);
        if !partitions.iter().all(holds) {
            return Err(ErrorCode::InvalidTxnState);
        }
        Ok(producer)
    }

    /// Goes on at the source leader with the producer of the open transaction.
    pub(super) fn complete_find_ongoing(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        found: Result<Producer, ErrorCode>,
    ) {
        match found {
            Ok(producer) => {
                if let Some(operation) = self.stage_operation_mut(node, id) {
                    operation.producer = Some(producer);
                }
                self.stage_parts(now, node, id);
            }
            Err(error) => self.refuse_stage(node, id, error),
        }
    }

    /// Goes on at the source leader when the state partitions have joined the transaction, or have not.
    pub(super) fn complete_stage_join(&mut self, now: Now, node: NodeId, id: OperationId, added: &Added) {
        let refused = added.iter().find_map(|(_, outcome)| outcome.err());
        #[cfg(feature = "plants")]
        let refused = refused.filter(|_| !self.is_planted(crate::config::Plant::StageBeforeRegistration));
        match refused {
            Some(error) => self.refuse_stage(node, id, error),
            None => self.stage_parts(now, node, id),
        }
    }

    /// Judges every share partition, puts what is staged in transition, and has it stored.
    fn stage_parts(&mut self, now: Now, node: NodeId, id: OperationId) {
        let Some(operation) = self.stage_operation(node, id) else { return };
        let Some(producer) = operation.producer else { return };
        let transactional_id = operation.transactional_id.clone();
        let mut by_state: BTreeMap<(NodeId, TopicIdPartition), Vec<StageWrite>> = BTreeMap::new();
        let mut plan = StatePlan::new();
        for index in 0..operation.parts.len() {
            match self.stage_part(now, node, id, index, &mut plan) {
                Some(Ok((transition, write))) => match self.share_state_leader(node, &write.key) {
                    Some((at, leader)) => {
                        by_state.entry((leader, at)).or_default().push((index, transition, write))
                    }
                    None => self.note_staged(node, id, index, Err(ErrorCode::CoordinatorNotAvailable)),
                },
                Some(Err(outcome)) => self.note_staged(node, id, index, outcome),
                None => {}
            }
        }
        for ((to, state_partition), writes) in by_state {
            let states = StageStates {
                state_partition,
                transactional_id: transactional_id.clone(),
                producer,
                writes,
                then: id,
            };
            self.crossings.push_back(Crossing { from: node, to, call: Call::StageShareStates(states) });
        }
        self.finish_stage_if_done(node, id);
    }

    /// Judges one share partition: what to store, or the outcome if there is nothing to store. `None` if it has an
    /// outcome already.
    fn stage_part(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        index: usize,
        plan: &mut StatePlan,
    ) -> Option<Result<(TransitionId, WriteState), Result<(), ErrorCode>>> {
        #[cfg(feature = "plants")]
        self.lose_planted_locks(now, node, id, index);
        let operation = self.stage_operation(node, id)?;
        let part = operation.parts.get(index).filter(|part| part.outcome.is_none())?;
        let key = share_key(&operation.group_id, part.at);
        let decided = self.decide_stage_part(node, operation, part, &key, plan);
        if decided.is_err() || plan.batches().is_empty() {
            return Some(Err(decided)); // All of it is staged already, as after a lost answer.
        }
        let config = self.share_partition_config(&key.group_id);
        let (transition, state_epoch, leader_epoch) =
            self.change_share_partition(node, &key, |partition| {
                let id = partition.hold(now.clock, &config, plan);
                ((id, partition.state_epoch(), partition.leader_epoch()), Change::default())
            })?;
        let write = WriteState {
            key,
            state_epoch: Some(state_epoch),
            leader_epoch: Some(leader_epoch),
            start_offset: Some(plan.start_offset()),
            delivery_complete_count: i32::try_from(plan.delivery_complete_count()).ok(),
            batches: plan.batches().to_vec(),
        };
        Some(Ok((transition, write)))
    }

    fn decide_stage_part(
        &self,
        node: NodeId,
        operation: &StageOperation,
        part: &StagePart,
        key: &SharePartitionKey,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        plan.clear();
        let producer = operation.producer.ok_or(ErrorCode::InvalidTxnState)?;
        let leader = self.leader_seen_by(node, part.at);
        if leader.is_some_and(|leader| leader != node) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let partition = self.share_partition(node, key).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let batches: Vec<AcknowledgementBatch<'_>> = part
            .batches
            .iter()
            .map(|(first_offset, last_offset, types)| AcknowledgementBatch {
                first_offset: *first_offset,
                last_offset: *last_offset,
                types,
            })
            .collect();
        let rules = StageRules { allows_gap: operation.dialect == StageDialect::Newest };
        let config = self.share_partition_config(&key.group_id);
        let member = operation.member.as_ref().map(|(member, _)| &**member);
        partition.decide_stage(member, producer, &batches, &rules, &config, plan)
    }

    /// Stages, at the share coordinator, what belongs to one state partition: one transactional batch.
    pub(super) fn stage_share_states(
        &mut self,
        now: Now,
        node: NodeId,
        states: &StageStates,
    ) -> Vec<Result<(), ErrorCode>> {
        // It may have come late: a transaction that has ended would never resolve it.
        let joined = TopicPartition::new(SHARE_GROUP_STATE, states.state_partition.partition);
        let ongoing = self
            .txn_coordinator(node, &states.transactional_id)
            .and_then(|coordinator| self.find_ongoing(coordinator, &states.transactional_id, &[joined]));
        #[cfg(feature = "plants")]
        let ongoing = self.planted_ongoing(ongoing, states.producer);
        if ongoing != Ok(states.producer) {
            let error =
                if ongoing.is_ok() { ErrorCode::InvalidProducerEpoch } else { ErrorCode::InvalidTxnState };
            return states.writes.iter().map(|_| Err(error)).collect();
        }
        let mut records: Vec<StateRecord> = Vec::new();
        let mut outcomes = Vec::with_capacity(states.writes.len());
        for (_, _, write) in &states.writes {
            let decided = self
                .share_state_shard(node, &write.key)
                .and_then(|(_, shard)| shard.decide_stage(states.producer, write));
            outcomes.push(decided.map(|record| records.extend(record)));
        }
        if records.is_empty() {
            return outcomes;
        }
        let encoded: Vec<CoordinatorRecord> = records.iter().map(StateRecord::encode).collect();
        match self.append_records(now, node, states.state_partition, &encoded, Some(states.producer)) {
            Ok(base) => {
                if let Some(shard) = self.share_state_shard_mut(node, states.state_partition) {
                    for (index, record) in records.iter().enumerate() {
                        shard.replay(record_offset(base, index), record);
                    }
                }
            }
            Err(error) => {
                for outcome in &mut outcomes {
                    *outcome = outcome.and(Err(error));
                }
            }
        }
        outcomes
    }

    /// Goes on at the source leader when a share coordinator has staged what it was asked to, or has not.
    pub(super) fn complete_stage(
        &mut self,
        now: Now,
        node: NodeId,
        states: &StageStates,
        outcomes: &[Result<(), ErrorCode>],
    ) {
        for ((index, transition, write), outcome) in states.writes.iter().zip(outcomes) {
            self.end_transition(now, node, &write.key, *transition, *outcome);
            if matches!(outcome, Err(ErrorCode::FencedStateEpoch | ErrorCode::FencedLeaderEpoch)) {
                self.drop_share_partition(node, &write.key);
            }
            self.note_staged(node, states.then, *index, outcome.map_err(stage_error));
        }
        self.finish_stage_if_done(node, states.then);
    }

    fn note_staged(&mut self, node: NodeId, id: OperationId, index: usize, outcome: Result<(), ErrorCode>) {
        if let Some(operation) = self.stage_operation_mut(node, id) {
            operation.parts[index].outcome = Some(outcome);
        }
    }

    fn finish_stage_if_done(&mut self, node: NodeId, id: OperationId) {
        let done = self
            .stage_operation(node, id)
            .is_some_and(|it| it.parts.iter().all(|part| part.outcome.is_some()));
        if done && let Some(operation) = self.take_stage_operation(node, id) {
            self.answer_stage(&operation, ErrorCode::None);
        }
    }

    /// Answers that nothing is staged.
    fn refuse_stage(&mut self, node: NodeId, id: OperationId, error: ErrorCode) {
        if let Some(operation) = self.take_stage_operation(node, id) {
            self.answer_stage(&operation, error);
        }
    }

    pub(super) fn stage_operation(&self, node: NodeId, id: OperationId) -> Option<&StageOperation> {
        match self.nodes.get(&node)?.operations.get(id)? {
            Operation::Stage(operation) => Some(operation),
            Operation::Acknowledge(_)
            | Operation::DescribeShareGroupOffsets(_)
            | Operation::GroupAdmin(_)
            | Operation::Produce(_)
            | Operation::TxnOffsetCommit(_) => None,
        }
    }

    fn stage_operation_mut(&mut self, node: NodeId, id: OperationId) -> Option<&mut StageOperation> {
        match self.nodes.get_mut(&node)?.operations.get_mut(id)? {
            Operation::Stage(operation) => Some(operation),
            Operation::Acknowledge(_)
            | Operation::DescribeShareGroupOffsets(_)
            | Operation::GroupAdmin(_)
            | Operation::Produce(_)
            | Operation::TxnOffsetCommit(_) => None,
        }
    }

    fn take_stage_operation(&mut self, node: NodeId, id: OperationId) -> Option<Box<StageOperation>> {
        match self.nodes.get_mut(&node)?.operations.finish(id)? {
            Operation::Stage(operation) => Some(operation),
            Operation::Acknowledge(_)
            | Operation::DescribeShareGroupOffsets(_)
            | Operation::GroupAdmin(_)
            | Operation::Produce(_)
            | Operation::TxnOffsetCommit(_) => None,
        }
    }
}

/// Returns what the client of a stage is told when the share coordinator refuses its leader.
const fn stage_error(error: ErrorCode) -> ErrorCode {
    // These say what has become of the transaction, or of the group's offsets.
    let is_told = matches!(
        error,
        ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidRecordState
            | ErrorCode::FencedStateEpoch
    );
    if is_told { error } else { coordinator_error(error) }
}
