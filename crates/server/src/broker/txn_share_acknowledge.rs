//! TxnShareAcknowledge (95), version 0 (KIP-1289), and the early text's pair: AddShareAcksToTxn (32025) and its
//! TxnShareAcknowledge (32093).
//!
//! Differences from the public draft: each partition of a request is staged as a whole or not at all; a repeat of
//! what is staged already succeeds; what lies below the start offset is refused, since it may have been acknowledged by
//! another transaction, and then both would commit an output for one record. See `docs/protocol.md`.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::add_share_acks_to_txn_request::AddShareAcksToTxnRequest;
use sharemark_protocol::messages::add_share_acks_to_txn_response::AddShareAcksToTxnResponse;
use sharemark_protocol::messages::seed_txn_share_acknowledge_request::SeedTxnShareAcknowledgeRequest;
use sharemark_protocol::messages::seed_txn_share_acknowledge_response as seed;
use sharemark_protocol::messages::txn_share_acknowledge_request::TxnShareAcknowledgeRequest;
use sharemark_protocol::messages::txn_share_acknowledge_response as newest;
use sharemark_protocol::{
    ErrorCode, MemberEpoch, Producer, SharePartitionKey, StrBytes, TopicIdPartition, TopicPartition,
};
use sharemark_txn_coordinator::{AddPartitions, TransactionVersion};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::SHARE_GROUP_STATE;
use super::input::{Now, Origin};
use super::stages::{StageDialect, StageOperation, StagePart};
use super::topics::by_topic;

/// The level of `share.version` that brings transactional acknowledgements.
const SHARE_VERSION_MIN: i16 = 3;

impl Broker {
    pub(super) fn handle_txn_share_acknowledge(
        &mut self,
        origin: Origin,
        request: &TxnShareAcknowledgeRequest,
    ) {
        match self.decide_txn_share_acknowledge(&origin, request) {
            Ok(producer) => {
                let parts = request.topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|partition| StagePart {
                        at: TopicIdPartition {
                            topic_id: topic.topic_id,
                            partition: partition.partition_index,
                        },
                        batches: partition
                            .acknowledgement_batches
                            .iter()
                            .map(|batch| {
                                (batch.first_offset, batch.last_offset, batch.acknowledge_types.clone())
                            })
                            .collect(),
                        outcome: None,
                    })
                });
                let operation = StageOperation {
                    dialect: StageDialect::Newest,
                    transactional_id: request.transactional_id.as_deref().unwrap_or_default().into(),
                    group_id: (&*request.group_id).into(),
                    producer: Some(producer),
                    member: Some(((&*request.member_id).into(), MemberEpoch::new(request.member_epoch))),
                    parts: parts.collect(),
                    origin,
                };
                self.begin_stage(operation);
            }
            Err(error) => {
                let response = newest::TxnShareAcknowledgeResponse {
                    error_code: error.code(),
                    ..newest::TxnShareAcknowledgeResponse::default()
                };
                self.answer(&origin, ResponseMessage::TxnShareAcknowledge(response));
            }
        }
    }

    fn decide_txn_share_acknowledge(
        &self,
        origin: &Origin,
        request: &TxnShareAcknowledgeRequest,
    ) -> Result<Producer, ErrorCode> {
        // A client of an older transaction version adds no partition by itself, and nobody does it for it.
        let supported = SHARE_VERSION_MIN <= self.cluster.features.share_version()
            && self.transaction_version() == TransactionVersion::V2;
        if !supported {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let id = request.transactional_id.as_deref().ok_or(ErrorCode::InvalidRequest)?;
        super::share_acknowledge::session_key(Some(&request.group_id), Some(&request.member_id))?;
        self.decide_stage_access(origin, id, &request.group_id)?;
        Producer::from_wire(request.producer_id, request.producer_epoch)
            .ok_or(ErrorCode::InvalidProducerIdMapping)
    }

    fn decide_stage_access(
        &self,
        origin: &Origin,
        transactional_id: &str,
        group_id: &str,
    ) -> Result<(), ErrorCode> {
        if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(transactional_id)) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if !authorize(&origin.principal, Operation::Read, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        Ok(())
    }

    pub(super) fn handle_seed_txn_share_acknowledge(
        &mut self,
        origin: Origin,
        request: &SeedTxnShareAcknowledgeRequest,
    ) {
        let supported = SHARE_VERSION_MIN <= self.cluster.features.share_version();
        let access = if supported {
            self.decide_stage_access(&origin, &request.transaction_id, &request.group_id)
        } else {
            Err(ErrorCode::UnsupportedVersion)
        };
        if let Err(error) = access {
            let response = seed::SeedTxnShareAcknowledgeResponse {
                error_code: error.code(),
                ..seed::SeedTxnShareAcknowledgeResponse::default()
            };
            self.answer(&origin, ResponseMessage::SeedTxnShareAcknowledge(response));
            return;
        }
        let parts = request.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| StagePart {
                at: TopicIdPartition { topic_id: topic.topic_id, partition: partition.partition },
                batches: partition
                    .acknowledgement_batches
                    .iter()
                    .map(|batch| (batch.first_offset, batch.last_offset, vec![batch.acknowledge_type]))
                    .collect(),
                outcome: None,
            })
        });
        let operation = StageOperation {
            dialect: StageDialect::Seed,
            transactional_id: (&*request.transaction_id).into(),
            group_id: (&*request.group_id).into(),
            producer: None,
            member: None,
            parts: parts.collect(),
            origin,
        };
        self.begin_stage(operation);
    }

    pub(super) fn handle_add_share_acks_to_txn(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AddShareAcksToTxnRequest,
    ) {
        let outcome = self.add_share_acks(now, origin, request);
        let response = AddShareAcksToTxnResponse {
            error_code: ErrorCode::of(&outcome).code(),
            ..AddShareAcksToTxnResponse::default()
        };
        self.answer(origin, ResponseMessage::AddShareAcksToTxn(response));
    }

    fn add_share_acks(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AddShareAcksToTxnRequest,
    ) -> Result<(), ErrorCode> {
        if self.cluster.features.share_version() < SHARE_VERSION_MIN {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let id = &*request.transactional_id;
        self.decide_stage_access(origin, id, &request.group_id)?;
        let producer = Producer::from_wire(request.producer_id, request.producer_epoch)
            .ok_or(ErrorCode::InvalidProducerIdMapping)?;
        let mut partitions: Vec<TopicPartition> = Vec::new();
        for topic in &request.topics {
            let topic_id =
                self.cluster.topic_named(&topic.topic_name).ok_or(ErrorCode::UnknownTopicOrPartition)?.id;
            for &partition in &topic.partitions {
                let at = TopicIdPartition { topic_id, partition };
                self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
                let key = SharePartitionKey { group_id: (&*request.group_id).into(), topic_id, partition };
                let (state, _) =
                    self.share_state_leader(origin.node, &key).ok_or(ErrorCode::CoordinatorNotAvailable)?;
                partitions.push(TopicPartition::new(SHARE_GROUP_STATE, state.partition));
            }
        }
        partitions.sort();
        partitions.dedup();
        let add = AddPartitions {
            transactional_id: id,
            producer,
            partitions: &partitions,
            client_version: TransactionVersion::V0,
        };
        self.commit_added_partitions(now, origin.node, &add)
    }

    /// Answers a request that stages: with one error for all of it, or an outcome for each partition.
    pub(super) fn answer_stage(&mut self, operation: &StageOperation, error: ErrorCode) {
        let failed = error != ErrorCode::None;
        let parts = if failed { &[][..] } else { &operation.parts[..] };
        let told = by_topic(parts.iter().map(|part| {
            let error = part.outcome.and_then(Result::err).unwrap_or(ErrorCode::None);
            let text: Option<StrBytes> = (error != ErrorCode::None).then(|| error.name().into());
            (part.at, (part.at.partition, error.code(), text))
        }));
        let message = match operation.dialect {
            StageDialect::Newest => {
                let data = |(partition_index, error_code, error_message)| newest::PartitionData {
                    partition_index,
                    error_code,
                    error_message,
                };
                let responses = told
                    .into_iter()
                    .map(|(topic_id, partitions)| newest::TxnShareAcknowledgeTopicResponse {
                        topic_id,
                        partitions: partitions.into_iter().map(data).collect(),
                    })
                    .collect();
                ResponseMessage::TxnShareAcknowledge(newest::TxnShareAcknowledgeResponse {
                    throttle_time_ms: 0,
                    error_code: error.code(),
                    responses,
                })
            }
            StageDialect::Seed => {
                let data = |(partition_index, error_code, error_message)| seed::PartitionData {
                    partition_index,
                    error_code,
                    error_message,
                };
                let responses = told
                    .into_iter()
                    .map(|(topic_id, partitions)| seed::TxnShareAcknowledgeTopicResponse {
                        topic_id,
                        partitions: partitions.into_iter().map(data).collect(),
                    })
                    .collect();
                ResponseMessage::SeedTxnShareAcknowledge(seed::SeedTxnShareAcknowledgeResponse {
                    throttle_time_ms: 0,
                    error_code: error.code(),
                    responses,
                })
            }
        };
        self.answer(&operation.origin, message);
    }
}
