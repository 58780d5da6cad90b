//! InitProducerId (22), versions 0-5 (6, two-phase commit, is not built).

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use sharemark_protocol::messages::init_producer_id_response::InitProducerIdResponse;
use sharemark_protocol::{ErrorCode, Producer};
use sharemark_txn_coordinator::{
    INIT_PRODUCER_ID_FENCED_SINCE, InitProducerId, InitProducerIdPlan, fenced_error_for, known_producer,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_init_producer_id(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &InitProducerIdRequest,
    ) {
        let outcome = match request.transactional_id.as_deref() {
            Some(id) => self.init_transactional(now, origin, request, id),
            None => self.init_idempotent(origin, request),
        };
        let error =
            fenced_error_for(ErrorCode::of(&outcome), origin.api_version, INIT_PRODUCER_ID_FENCED_SINCE);
        let (producer_id, producer_epoch) =
            outcome.map_or((-1, -1), |producer| (producer.id.get(), producer.epoch.get()));
        let response = InitProducerIdResponse {
            error_code: error.code(),
            producer_id,
            producer_epoch,
            ..InitProducerIdResponse::default()
        };
        self.answer(origin, ResponseMessage::InitProducerId(response));
    }

    fn init_idempotent(
        &mut self,
        origin: &Origin,
        request: &InitProducerIdRequest,
    ) -> Result<Producer, ErrorCode> {
        if !authorize(&origin.principal, Operation::IdempotentWrite, Resource::Cluster) {
            return Err(ErrorCode::ClusterAuthorizationFailed);
        }
        // Half a producer is refused; a whole one does not matter here.
        if (request.producer_id == -1) != (request.producer_epoch == -1) {
            return Err(ErrorCode::InvalidRequest);
        }
        self.fill_producer_ids(origin.node)?;
        let node = self.nodes.get_mut(&origin.node).ok_or(ErrorCode::UnknownServerError)?;
        node.producer_ids.take_idempotent()
    }

    fn init_transactional(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &InitProducerIdRequest,
        id: &str,
    ) -> Result<Producer, ErrorCode> {
        if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(id)) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        let known = known_producer(request.producer_id, request.producer_epoch)?;
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let (at, _) = self.txn_shard(origin.node, id)?;
        self.fill_producer_ids(origin.node)?;
        let version = self.transaction_version();
        let node = self.nodes.get_mut(&origin.node).ok_or(ErrorCode::UnknownServerError)?;
        let shard = node.transactions.get(&at.partition).ok_or(ErrorCode::NotCoordinator)?;
        let wanted =
            InitProducerId { transactional_id: id, timeout_ms: request.transaction_timeout_ms, known };
        match shard.decide_init_producer_id(now.clock, version, &wanted, &mut node.producer_ids)? {
            InitProducerIdPlan::Grant { record, producer } => {
                self.commit_txn_record(now, origin.node, at, &record)?;
                Ok(producer)
            }
            InitProducerIdPlan::Fence { record } => {
                self.commit_txn_record(now, origin.node, at, &record)?;
                // As in Kafka: the transaction in the way is being aborted, and the client asks again.
                Err(ErrorCode::ConcurrentTransactions)
            }
        }
    }
}
