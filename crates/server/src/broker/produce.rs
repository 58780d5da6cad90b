//! Produce (0), versions 3-13 (announced from 0, as Kafka does).
//!
//! A partition that a transaction does not hold yet is first added to it at the transaction coordinator (version
//! 12 and on, KIP-890) or checked there (before), a crossing; the rest of the request is appended when that is
//! known, so that a request is applied in one go.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_log::RecordError;
use sharemark_log::batch::CheckedBatch;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::produce_request::{ProduceRequest, TopicProduceData};
use sharemark_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceResponse,
    TopicProduceResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, Producer, Timestamp, TopicId, TopicIdPartition, TopicPartition};
use sharemark_txn_coordinator::SupportedOperation;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::Topic;
use super::crossing::{Call, Crossing};
use super::input::{Now, Origin, Output, RefusedBatch};
use super::operations::{Operation as Waiting, OperationId};
use super::transactions::{AddToTransaction, Added};

/// The client id under which Kafka lets tools write to internal topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";
/// The acks of a producer that waits for all replicas which are in sync.
const ACKS_ALL: i16 = -1;

/// One partition of a Produce request.
#[derive(Clone, Debug)]
pub(super) struct ProducePart {
    /// The place of its answer: topic and partition in the request's order.
    slot: (usize, usize),
    /// The partition that it names, if there is one.
    at: Option<TopicIdPartition>,
    /// Where its batch goes, or why it goes nowhere.
    target: Result<(TopicIdPartition, CheckedBatch), ErrorCode>,
    /// The partition and the producer if its batch is one of a transaction. Also a batch that is wrong takes its
    /// partition into the transaction (KIP-890).
    transaction: Option<(TopicIdPartition, Producer)>,
}

/// A Produce request on its way.
#[derive(Clone, Debug)]
pub(super) struct ProduceOperation {
    pub(super) origin: Origin,
    acks: i16,
    response: ProduceResponse,
    parts: Vec<ProducePart>,
}

impl Broker {
    pub(super) fn handle_produce(
        &mut self,
        now: Now,
        origin: Origin,
        request: ProduceRequest,
        checked: Vec<Result<CheckedBatch, RefusedBatch>>,
    ) {
        let refusal = self.decide_produce(&origin, &request, &checked).err();
        let mut checked = checked.into_iter();
        let mut operation = ProduceOperation {
            acks: request.acks,
            response: ProduceResponse::default(),
            parts: Vec::with_capacity(request.topic_data.len()),
            origin,
        };
        let last = last_mentions(&request);
        let mut mention = 0;
        for topic in &request.topic_data {
            let topic_index = operation.response.responses.len();
            let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
            for data in &topic.partition_data {
                let nothing = RefusedBatch { error: ErrorCode::CorruptMessage, transaction: None };
                let batch = checked.next().unwrap_or(Err(nothing));
                mention += 1;
                if last.get(&(topic.topic_id, &*topic.name, data.index)) != Some(&mention) {
                    continue;
                }
                let index = partition_responses.len();
                let producer = producer_in_transaction(&batch);
                let place = match refusal {
                    Some(error) => Err(error),
                    None => self.decide_produce_place(&operation.origin, topic, data.index),
                };
                let transaction = place.ok().zip(producer);
                let target = place.and_then(|at| Ok((at, batch.map_err(|refused| refused.error)?)));
                let at = self
                    .produce_topic(&operation.origin, topic)
                    .ok()
                    .map(|found| TopicIdPartition { topic_id: found.id, partition: data.index });
                operation.parts.push(ProducePart { slot: (topic_index, index), at, target, transaction });
                partition_responses.push(PartitionProduceResponse {
                    index: data.index,
                    ..PartitionProduceResponse::default()
                });
            }
            if partition_responses.is_empty() {
                continue; // Its partitions are all mentioned again.
            }
            operation.response.responses.push(TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partition_responses,
            });
        }
        let transactional_id = request.transactional_id.as_deref().unwrap_or_default();
        self.verify_produce(now, transactional_id, operation);
    }

    /// Asks the transaction coordinator about partitions that their producer's transaction does not hold yet.
    fn verify_produce(&mut self, now: Now, transactional_id: &str, mut operation: ProduceOperation) {
        let supported = SupportedOperation::of_produce(operation.origin.api_version);
        // As in Kafka the version of the request decides, whatever level of transactions is finalized.
        let adds = supported.adds_partition();
        let verifies = self.cluster.configs.broker().transaction_partition_verification_enable;
        if Self::refuse_several_producers(&mut operation) {
            self.finish_produce(now, operation);
            return;
        }
        self.refuse_outdated(&mut operation);
        let unverified = self.unverified(&operation);
        let Some(producer) = unverified.values().next().copied().filter(|_| adds || verifies) else {
            self.finish_produce(now, operation);
            return;
        };
        let partitions: Vec<TopicPartition> = unverified
            .into_keys()
            .filter_map(|at| {
                let topic = self.cluster.topic(at.topic_id)?;
                Some(TopicPartition::new(topic.name.clone(), at.partition))
            })
            .collect();
        let from = operation.origin.node;
        let coordinator = self.txn_coordinator(from, transactional_id);
        let Some(node) = self.nodes.get_mut(&from) else { return };
        let id = node.operations.begin(Waiting::Produce(Box::new(operation)));
        match coordinator {
            Ok(to) => {
                let transactional_id = transactional_id.to_owned();
                let request = AddToTransaction { transactional_id, producer, partitions, adds, then: id };
                self.crossings.push_back(Crossing { from, to, call: Call::AddToTransaction(request) });
            }
            Err(error) => {
                let added = partitions.into_iter().map(|partition| (partition, Err(error))).collect();
                self.complete_produce_join(now, from, id, &added);
            }
        }
    }

    /// Refuses every partition of a request whose transactional batches are of more than one producer, as Kafka
    /// does: one transactional id has one. Returns whether they are.
    fn refuse_several_producers(operation: &mut ProduceOperation) -> bool {
        let producers: BTreeSet<Producer> = operation
            .parts
            .iter()
            .filter_map(|part| part.transaction)
            .map(|(_, producer)| producer)
            .collect();
        if producers.len() <= 1 {
            return false;
        }
        let judged = |part: &&mut ProducePart| part.target.is_ok() || part.transaction.is_some();
        for part in operation.parts.iter_mut().filter(judged) {
            part.target = Err(ErrorCode::InvalidProducerIdMapping);
        }
        true
    }

    /// Goes on at the partition leader with what the transaction coordinator says.
    pub(super) fn complete_produce_join(&mut self, now: Now, node: NodeId, id: OperationId, added: &Added) {
        let waiting = self.nodes.get_mut(&node).and_then(|node| node.operations.finish(id));
        let Some(Waiting::Produce(mut operation)) = waiting else { return };
        let supported = SupportedOperation::of_produce(operation.origin.api_version);
        let mut refused = BTreeMap::new();
        for (partition, outcome) in added {
            if let (Some(at), Err(error)) = (self.named_partition(partition), outcome) {
                refused.insert(at, supported.produce_error(*error));
            }
        }
        Self::refuse_unverified(&mut operation, &refused);
        self.finish_produce(now, *operation);
    }

    /// Judges the request as a whole.
    fn decide_produce(
        &self,
        origin: &Origin,
        request: &ProduceRequest,
        checked: &[Result<CheckedBatch, RefusedBatch>],
    ) -> Result<(), ErrorCode> {
        let transactional = checked.iter().any(|batch| match batch {
            Ok(batch) => batch.header().transactional,
            Err(refused) => refused.transaction.is_some(),
        });
        if transactional {
            let Some(id) = request.transactional_id.as_deref() else {
                return Err(ErrorCode::TransactionalIdAuthorizationFailed);
            };
            if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(id)) {
                return Err(ErrorCode::TransactionalIdAuthorizationFailed);
            }
        }
        if !matches!(request.acks, ACKS_ALL..=1) {
            return Err(ErrorCode::InvalidRequiredAcks);
        }
        Ok(())
    }

    /// Finds the partition that records are for, if they may be written to it, here.
    fn decide_produce_place(
        &self,
        origin: &Origin,
        data: &TopicProduceData,
        index: i32,
    ) -> Result<TopicIdPartition, ErrorCode> {
        let topic = self.produce_topic(origin, data)?;
        let at = TopicIdPartition { topic_id: topic.id, partition: index };
        let leader = self.leader_seen_by(origin.node, at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let written_by_tools = origin.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
        if topic.is_internal() && !written_by_tools {
            return Err(ErrorCode::InvalidTopicException);
        }
        if leader != origin.node {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(at)
    }

    fn produce_topic(&self, origin: &Origin, data: &TopicProduceData) -> Result<&Topic, ErrorCode> {
        let by_id = 13 <= origin.api_version;
        let topic =
            if by_id { self.cluster.topic(data.topic_id) } else { self.cluster.topic_named(&data.name) };
        let missing = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        let name = match topic {
            Some(topic) => &*topic.name,
            None if by_id => return Err(missing),
            None => &*data.name,
        };
        if !authorize(&origin.principal, Operation::Write, Resource::Topic(name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        topic.ok_or(missing)
    }

    /// Refuses what goes to partitions that have seen a higher epoch of its producer. As in Kafka they tell so
    /// themselves: the coordinator may know another producer id by now, which would sound worse.
    fn refuse_outdated(&self, operation: &mut ProduceOperation) {
        for part in &mut operation.parts {
            let Some((at, producer)) = part.transaction else { continue };
            let seen = self.cluster.partition(at).and_then(|it| it.log.producer_epoch(producer.id));
            if seen.is_some_and(|seen| producer.epoch < seen) {
                part.transaction = None;
                if part.target.is_ok() {
                    part.target = Err(ErrorCode::InvalidProducerEpoch);
                }
            }
        }
    }

    /// Returns the partitions of a Produce request that the transaction coordinator has to be asked about first,
    /// with their producer.
    pub(super) fn unverified(&self, operation: &ProduceOperation) -> BTreeMap<TopicIdPartition, Producer> {
        let mut unverified = BTreeMap::new();
        for (at, producer) in operation.parts.iter().filter_map(|part| part.transaction) {
            let open = self
                .cluster
                .partition(at)
                .is_some_and(|partition| partition.log.has_open_transaction(producer));
            if !open {
                unverified.insert(at, producer);
            }
        }
        unverified
    }

    /// Refuses the parts of a Produce request that the transaction coordinator refused.
    pub(super) fn refuse_unverified(
        operation: &mut ProduceOperation,
        refused: &BTreeMap<TopicIdPartition, ErrorCode>,
    ) {
        for part in &mut operation.parts {
            let error = part.transaction.and_then(|(at, _)| refused.get(&at));
            if let Some(error) = error {
                part.target = Err(*error);
            }
        }
    }

    /// Judges whether as many replicas run as a Produce for all of them wants: `min.insync.replicas` of them, or all
    /// if there are not so many.
    fn decide_in_sync(&self, acks: i16, at: TopicIdPartition) -> Result<(), ErrorCode> {
        if acks != ACKS_ALL {
            return Ok(());
        }
        let Some(partition) = self.cluster.partition(at) else { return Ok(()) };
        let in_sync = self.cluster.in_sync(partition).count();
        if in_sync == partition.replicas.len() {
            return Ok(()); // Nearly always; settings are looked up only if it is not so.
        }
        let Some(topic) = self.cluster.topic(at.topic_id) else { return Ok(()) };
        let wanted = self.cluster.configs.topic(&topic.name).min_insync_replicas;
        let wanted = usize::try_from(wanted).unwrap_or(1).min(partition.replicas.len());
        if in_sync < wanted { Err(ErrorCode::NotEnoughReplicas) } else { Ok(()) }
    }

    /// Appends what may be appended and answers.
    pub(super) fn finish_produce(&mut self, now: Now, operation: ProduceOperation) {
        let ProduceOperation { origin, acks, mut response, parts } = operation;
        let mut failed = false;
        let mut leaders = BTreeSet::new();
        for part in parts {
            let mut record_errors = Vec::new();
            let (at, outcome) = match part.target {
                Ok((at, batch)) => {
                    let outcome = self.decide_in_sync(acks, at).and_then(|()| {
                        self.append_produced(now, origin.node, at, batch, true, &mut record_errors)
                    });
                    (Some(at), outcome)
                }
                Err(error) => (part.at, Err(error)),
            };
            failed |= outcome.is_err();
            let answer = &mut response.responses[part.slot.0].partition_responses[part.slot.1];
            match outcome {
                Ok(appended) => {
                    answer.base_offset = appended.base_offset.get();
                    answer.log_append_time_ms = appended.log_append_time.map_or(-1, Timestamp::ms);
                    answer.log_start_offset = appended.log_start.get();
                }
                Err(error) => {
                    answer.error_code = error.code();
                    answer.base_offset = -1;
                    answer.log_append_time_ms = -1;
                    answer.log_start_offset = -1;
                    answer.record_errors = record_errors.iter().map(on_wire).collect();
                    if let Some((leader, epoch)) = self.leader_hint(origin.node, error, at) {
                        answer.current_leader =
                            LeaderIdAndEpoch { leader_id: leader.get(), leader_epoch: epoch.get() };
                        leaders.insert(leader);
                    }
                }
            }
        }
        response.node_endpoints = self
            .addresses(&origin, &leaders)
            .map(|(node_id, host, port, rack)| NodeEndpoint { node_id, host, port, rack })
            .collect();
        if acks != 0 {
            self.answer(&origin, ResponseMessage::Produce(response));
        } else if failed {
            // Without an answer a closed connection is the only way to make the producer look again.
            self.output(Output::Close { connection: origin.connection });
        } else {
            self.output(Output::NoAnswer { connection: origin.connection });
        }
    }
}

/// Returns which mention of each partition is its last, counted from 1: as in Kafka that one counts.
fn last_mentions(request: &ProduceRequest) -> BTreeMap<(TopicId, &str, i32), usize> {
    let mentions = request
        .topic_data
        .iter()
        .flat_map(|topic| topic.partition_data.iter().map(|data| (topic.topic_id, &*topic.name, data.index)));
    mentions.zip(1..).collect()
}

/// Returns the producer of a batch that is part of a transaction, right or wrong.
fn producer_in_transaction(batch: &Result<CheckedBatch, RefusedBatch>) -> Option<Producer> {
    match batch {
        Ok(batch) => batch.header().producer.filter(|_| batch.header().transactional),
        Err(refused) => refused.transaction,
    }
}

/// Says which record of a batch was refused, in Kafka's words (KIP-467).
fn on_wire(refused: &RecordError) -> BatchIndexAndErrorMessage {
    let text = if refused.code == ErrorCode::InvalidTimestamp {
        "Timestamp of the record is out of range"
    } else {
        "Compacted topic cannot accept message without key"
    };
    BatchIndexAndErrorMessage { batch_index: refused.index, batch_index_error_message: Some(text.into()) }
}
