//! TxnOffsetCommit (28), versions 0-6: offsets that count when a transaction commits. From version 5 on the group's
//! partition joins the transaction here (KIP-890), from 6 on topics are named by their ids (KIP-1319).

use sharemark_group_coordinator::{CommitOffsets, GroupRecord, OffsetToCommit};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic,
};
use sharemark_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use sharemark_protocol::{
    CoordinatorRecord, ErrorCode, NodeId, Producer, TopicId, TopicIdPartition, TopicPartition,
};
use sharemark_txn_coordinator::SupportedOperation;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::CONSUMER_OFFSETS;
use super::commit_topics::{CommitPartition, CommitPartitions, CommitTopic, CommittedTopic};
use super::coordinators::record_offset;
use super::crossing::{Call, Crossing};
use super::input::{Now, Origin};
use super::operations::{Operation as Waiting, OperationId};
use super::transactions::{AddToTransaction, Added};

/// The first version that knows COORDINATOR_LOAD_IN_PROGRESS.
const FIRST_VERSION_WITH_LOADING: i16 = 2;
/// The first version that knows the errors of consumer groups, and that names topics by their ids.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 6;

/// A TxnOffsetCommit whose transaction is being looked up.
#[derive(Clone, Debug)]
pub(super) struct TxnOffsetCommitOperation {
    origin: Origin,
    request: TxnOffsetCommitRequest,
    partitions: CommitPartitions,
}

impl Broker {
    pub(super) fn handle_txn_offset_commit(
        &mut self,
        now: Now,
        origin: Origin,
        request: TxnOffsetCommitRequest,
    ) {
        if let Err(error) = Self::authorize_txn_offset_commit(&origin, &request) {
            let topics = request.topics.iter().map(|topic| refused(topic, error)).collect();
            self.answer_txn_offset_commit(&origin, topics);
            return;
        }
        let by_id = FIRST_VERSION_WITH_TOPIC_IDS <= origin.api_version;
        let topics = request.topics.iter().map(|topic| read_topic(topic, by_id)).collect();
        let partitions = self.decide_commit_partitions(now, &origin, by_id, None, topics);
        if partitions.accepted.is_empty() {
            self.answer_txn_offset_commit(&origin, partitions.into_topics(&[]));
            return;
        }
        let operation = TxnOffsetCommitOperation { origin, request, partitions };
        match self.decide_join_of_offsets(&operation) {
            Ok(None) => self.finish_txn_offset_commit(now, operation),
            Ok(Some((to, partition, producer))) => self.join_offsets(operation, to, partition, producer),
            Err(error) => self.refuse_txn_offset_commit(operation, error),
        }
    }

    fn authorize_txn_offset_commit(
        origin: &Origin,
        request: &TxnOffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let id = Resource::TransactionalId(&request.transactional_id);
        if !authorize(&origin.principal, Operation::Write, id) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        Ok(())
    }

    /// Judges whether the transaction coordinator has to be asked, and returns which node that is.
    fn decide_join_of_offsets(
        &self,
        operation: &TxnOffsetCommitOperation,
    ) -> Result<Option<(NodeId, TopicPartition, Producer)>, ErrorCode> {
        let request = &operation.request;
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let (at, _) = self.group_shard(operation.origin.node, &request.group_id)?;
        let id = &*request.transactional_id;
        let node = operation.origin.node;
        let supported = SupportedOperation::of_txn_offset_commit(operation.origin.api_version);
        let producer = self
            .producer_of(node, id, request.producer_id, request.producer_epoch)
            .map_err(|error| supported.leader_error(error))?;
        let is_open =
            self.cluster.partition(at).is_some_and(|partition| partition.log.has_open_transaction(producer));
        let verifies = self.cluster.configs.broker().transaction_partition_verification_enable;
        if is_open || !(supported.adds_partition() || verifies) {
            return Ok(None);
        }
        let to = self.txn_coordinator(operation.origin.node, &request.transactional_id)?;
        Ok(Some((to, TopicPartition::new(CONSUMER_OFFSETS, at.partition), producer)))
    }

    fn join_offsets(
        &mut self,
        operation: TxnOffsetCommitOperation,
        to: NodeId,
        partition: TopicPartition,
        producer: Producer,
    ) {
        let from = operation.origin.node;
        let supported = SupportedOperation::of_txn_offset_commit(operation.origin.api_version);
        let transactional_id = operation.request.transactional_id.to_string();
        let Some(node) = self.nodes.get_mut(&from) else { return };
        let then = node.operations.begin(Waiting::TxnOffsetCommit(Box::new(operation)));
        let request = AddToTransaction {
            transactional_id,
            producer,
            partitions: vec![partition],
            adds: supported.adds_partition(),
            then,
        };
        self.crossings.push_back(Crossing { from, to, call: Call::AddToTransaction(request) });
    }

    /// Goes on at the group coordinator with what the transaction coordinator says.
    pub(super) fn complete_txn_offset_join(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        added: &Added,
    ) {
        let waiting = self.nodes.get_mut(&node).and_then(|node| node.operations.finish(id));
        let Some(Waiting::TxnOffsetCommit(operation)) = waiting else { return };
        let refusal = added.iter().find_map(|(_, outcome)| outcome.err());
        match refusal {
            Some(error) => {
                let supported = SupportedOperation::of_txn_offset_commit(operation.origin.api_version);
                let error = supported.leader_error(error);
                self.refuse_txn_offset_commit(*operation, error);
            }
            None => self.finish_txn_offset_commit(now, *operation),
        }
    }

    fn finish_txn_offset_commit(&mut self, now: Now, operation: TxnOffsetCommitOperation) {
        match self.commit_txn_offsets(now, &operation) {
            Ok(outcomes) => {
                let topics = operation.partitions.into_topics(&outcomes);
                self.answer_txn_offset_commit(&operation.origin, topics);
            }
            Err(error) => self.refuse_txn_offset_commit(operation, error),
        }
    }

    fn commit_txn_offsets(
        &mut self,
        now: Now,
        operation: &TxnOffsetCommitOperation,
    ) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
        let TxnOffsetCommitOperation { origin, request, partitions } = operation;
        let offsets: Vec<OffsetToCommit> =
            partitions.accepted.iter().map(|(_, offset)| offset.clone()).collect();
        let commit = CommitOffsets {
            group_id: &request.group_id,
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id_or_member_epoch,
            is_transactional: true,
            knows_group_errors: FIRST_VERSION_WITH_TOPIC_IDS <= origin.api_version,
            metadata_size_max: self.offset_metadata_size_max(),
            offsets: &offsets,
        };
        let id = &*request.transactional_id;
        let producer = self.producer_of(origin.node, id, request.producer_id, request.producer_epoch)?;
        let (at, shard) = self.group_shard(origin.node, &request.group_id)?;
        let decision = shard.decide_commit(&commit)?;
        self.commit_transactional_records(now, origin.node, at, producer, &decision.records)?;
        Ok(decision.outcomes)
    }

    /// Appends what a group shard has decided as part of a transaction, and replays it.
    fn commit_transactional_records(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        producer: Producer,
        records: &[GroupRecord],
    ) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        let encoded: Vec<CoordinatorRecord> = records.iter().map(GroupRecord::encode).collect();
        let base = self.append_records(now, node, at, &encoded, Some(producer))?;
        if let Some(shard) = self.group_shard_mut(node, at) {
            for (index, record) in records.iter().enumerate() {
                shard.replay_transactional(record_offset(base, index), producer.id, record);
            }
        }
        Ok(())
    }

    fn refuse_txn_offset_commit(&mut self, operation: TxnOffsetCommitOperation, error: ErrorCode) {
        // Older clients do not ask again for an error of the network, but for this they all do.
        let error =
            if error == ErrorCode::NetworkException { ErrorCode::CoordinatorLoadInProgress } else { error };
        let topics = operation.partitions.into_refused(error);
        self.answer_txn_offset_commit(&operation.origin, topics);
    }

    fn answer_txn_offset_commit(&mut self, origin: &Origin, topics: Vec<CommittedTopic>) {
        let is_old = origin.api_version < FIRST_VERSION_WITH_LOADING;
        let spelled = |error: ErrorCode| {
            if is_old && error == ErrorCode::CoordinatorLoadInProgress {
                ErrorCode::CoordinatorNotAvailable
            } else {
                error
            }
        };
        let topics = topics.into_iter().map(|topic| TxnOffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(partition_index, error)| TxnOffsetCommitResponsePartition {
                    partition_index,
                    error_code: spelled(error).code(),
                })
                .collect(),
        });
        let response = TxnOffsetCommitResponse { throttle_time_ms: 0, topics: topics.collect() };
        self.answer(origin, ResponseMessage::TxnOffsetCommit(response));
    }
}

fn read_topic(topic: &TxnOffsetCommitRequestTopic, by_id: bool) -> CommitTopic<'_> {
    let partitions = topic.partitions.iter().map(|partition| CommitPartition {
        index: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.as_ref(),
    });
    CommitTopic {
        name: &topic.name,
        topic_id: if by_id { topic.topic_id } else { TopicId::ZERO },
        partitions: partitions.collect(),
    }
}

fn refused(topic: &TxnOffsetCommitRequestTopic, error: ErrorCode) -> CommittedTopic {
    let partitions = topic.partitions.iter().map(|partition| (partition.partition_index, error));
    CommittedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: partitions.collect() }
}
