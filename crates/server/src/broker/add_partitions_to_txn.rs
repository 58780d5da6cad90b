//! AddPartitionsToTxn (24), versions 0-5: up to 3 from clients, from 4 on in batches from brokers.

use std::collections::BTreeMap;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use sharemark_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
};
use sharemark_protocol::{ErrorCode, StrBytes, TopicPartition};
use sharemark_txn_coordinator::{AddPartitions, FENCED_SINCE, TransactionVersion, fenced_error_for};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::is_internal;
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_add_partitions_to_txn(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AddPartitionsToTxnRequest,
    ) {
        let response = if origin.api_version < 4 {
            let transaction = AddPartitionsToTxnTransaction {
                transactional_id: request.v3_and_below_transactional_id.clone(),
                producer_id: request.v3_and_below_producer_id,
                producer_epoch: request.v3_and_below_producer_epoch,
                verify_only: false,
                topics: request.v3_and_below_topics.clone(),
            };
            AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below: self.add_one(now, origin, &transaction),
                ..AddPartitionsToTxnResponse::default()
            }
        } else if authorize(&origin.principal, Operation::ClusterAction, Resource::Cluster) {
            let results = request.transactions.iter().map(|transaction| AddPartitionsToTxnResult {
                transactional_id: transaction.transactional_id.clone(),
                topic_results: self.add_one(now, origin, transaction),
            });
            AddPartitionsToTxnResponse {
                results_by_transaction: results.collect(),
                ..AddPartitionsToTxnResponse::default()
            }
        } else {
            AddPartitionsToTxnResponse {
                error_code: ErrorCode::ClusterAuthorizationFailed.code(),
                ..AddPartitionsToTxnResponse::default()
            }
        };
        self.answer(origin, ResponseMessage::AddPartitionsToTxn(response));
    }

    fn add_one(
        &mut self,
        now: Now,
        origin: &Origin,
        transaction: &AddPartitionsToTxnTransaction,
    ) -> Vec<AddPartitionsToTxnTopicResult> {
        let id = &*transaction.transactional_id;
        if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(id)) {
            return every(&transaction.topics, |_, _| ErrorCode::TransactionalIdAuthorizationFailed);
        }
        let refused = self.refused_partitions(origin, &transaction.topics);
        if !refused.is_empty() {
            // One that cannot be added keeps the others out: a transaction holds what was asked for, or nothing.
            return every(&transaction.topics, |name, partition| {
                let error = refused.get(&TopicPartition::new(&**name, partition));
                error.copied().unwrap_or(ErrorCode::OperationNotAttempted)
            });
        }
        let partitions: Vec<TopicPartition> = transaction
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|index| TopicPartition::new(&*topic.name, *index)))
            .collect();
        let spelled = |error| fenced_error_for(error, origin.api_version, FENCED_SINCE);
        if transaction.verify_only {
            return every(&transaction.topics, |name, partition| {
                spelled(ErrorCode::of(&self.verify_one(
                    origin,
                    transaction,
                    &TopicPartition::new(&**name, partition),
                )))
            });
        }
        let error = spelled(ErrorCode::of(&self.add_partitions(now, origin, transaction, &partitions)));
        every(&transaction.topics, |_, _| error)
    }

    /// Returns which partitions cannot be added, and why. Clients may not write to internal topics.
    fn refused_partitions(
        &self,
        origin: &Origin,
        topics: &[AddPartitionsToTxnTopic],
    ) -> BTreeMap<TopicPartition, ErrorCode> {
        let comes_from_client = origin.api_version < 4;
        let may_write = |name: &str| {
            !comes_from_client
                || (!is_internal(name)
                    && authorize(&origin.principal, Operation::Write, Resource::Topic(name)))
        };
        let mut refused = BTreeMap::new();
        for topic in topics {
            let is_allowed = may_write(&topic.name);
            for &index in &topic.partitions {
                let partition = TopicPartition::new(&*topic.name, index);
                if !is_allowed {
                    refused.insert(partition, ErrorCode::TopicAuthorizationFailed);
                } else if self.named_partition(&partition).is_none() {
                    refused.insert(partition, ErrorCode::UnknownTopicOrPartition);
                }
            }
        }
        refused
    }

    fn verify_one(
        &self,
        origin: &Origin,
        transaction: &AddPartitionsToTxnTransaction,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let id = &*transaction.transactional_id;
        let (_, shard) = self.txn_shard(origin.node, id)?;
        let (producer_id, epoch) = (transaction.producer_id, transaction.producer_epoch);
        shard.verify_partition(id, self.producer_of(origin.node, id, producer_id, epoch)?, partition)
    }

    fn add_partitions(
        &mut self,
        now: Now,
        origin: &Origin,
        transaction: &AddPartitionsToTxnTransaction,
        partitions: &[TopicPartition],
    ) -> Result<(), ErrorCode> {
        let id = &*transaction.transactional_id;
        self.txn_shard(origin.node, id)?; // Kafka asks who coordinates before it looks at the producer.
        let (producer_id, epoch) = (transaction.producer_id, transaction.producer_epoch);
        let request = AddPartitions {
            transactional_id: id,
            producer: self.producer_of(origin.node, id, producer_id, epoch)?,
            partitions,
            client_version: TransactionVersion::of_add_partitions(origin.api_version),
        };
        self.commit_added_partitions(now, origin.node, &request)
    }
}

fn every(
    topics: &[AddPartitionsToTxnTopic],
    error: impl Fn(&StrBytes, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    topics
        .iter()
        .map(|topic| AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic
                .partitions
                .iter()
                .map(|&partition_index| AddPartitionsToTxnPartitionResult {
                    partition_index,
                    partition_error_code: error(&topic.name, partition_index).code(),
                })
                .collect(),
        })
        .collect()
}
