//! AddOffsetsToTxn (25), versions 0-4: the partition of a group's offsets joins a transaction. Clients of
//! transaction.version 2 do without it.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use sharemark_protocol::messages::add_offsets_to_txn_response::AddOffsetsToTxnResponse;
use sharemark_protocol::{ErrorCode, TopicPartition, coordinator_partition};
use sharemark_txn_coordinator::{AddPartitions, FENCED_SINCE, TransactionVersion, fenced_error_for};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::CONSUMER_OFFSETS;
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_add_offsets_to_txn(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AddOffsetsToTxnRequest,
    ) {
        let outcome = self.add_offsets_to_txn(now, origin, request);
        let error = fenced_error_for(ErrorCode::of(&outcome), origin.api_version, FENCED_SINCE);
        let response =
            AddOffsetsToTxnResponse { error_code: error.code(), ..AddOffsetsToTxnResponse::default() };
        self.answer(origin, ResponseMessage::AddOffsetsToTxn(response));
    }

    fn add_offsets_to_txn(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AddOffsetsToTxnRequest,
    ) -> Result<(), ErrorCode> {
        let id = &*request.transactional_id;
        if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(id)) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        self.txn_shard(origin.node, id)?; // Kafka asks who coordinates before it looks at the producer.
        let producer = self.producer_of(origin.node, id, request.producer_id, request.producer_epoch)?;
        let partitions = [TopicPartition::new(CONSUMER_OFFSETS, self.offsets_partition(&request.group_id))];
        let add = AddPartitions {
            transactional_id: id,
            producer,
            partitions: &partitions,
            client_version: TransactionVersion::V0,
        };
        self.commit_added_partitions(now, origin.node, &add)
    }

    /// Returns the partition of a group's offsets, which need not be there yet.
    fn offsets_partition(&self, group_id: &str) -> i32 {
        self.coordinator_of(CONSUMER_OFFSETS, group_id).map_or_else(
            || {
                let count = self.cluster.configs.broker().offsets_topic_num_partitions;
                coordinator_partition(group_id, count)
            },
            |at| at.partition,
        )
    }
}
