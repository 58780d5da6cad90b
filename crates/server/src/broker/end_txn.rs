//! EndTxn (26), versions 0-5. Version 5 speaks for a client of transaction.version 2 (KIP-890).
//!
//! The answer goes out in the step that appended the PREPARE record, whatever becomes of the markers. Without a
//! fault they are written in that same step too, so a test may look at once.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::end_txn_request::EndTxnRequest;
use sharemark_protocol::messages::end_txn_response::EndTxnResponse;
use sharemark_protocol::{ErrorCode, Producer};
use sharemark_txn_coordinator::{EndTxn, FENCED_SINCE, Outcome, TransactionVersion, fenced_error_for};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

impl Broker {
    pub(super) fn handle_end_txn(&mut self, now: Now, origin: &Origin, request: &EndTxnRequest) {
        let outcome = self.end_txn(now, origin, request);
        let error = fenced_error_for(ErrorCode::of(&outcome), origin.api_version, FENCED_SINCE);
        let (producer_id, producer_epoch) =
            outcome.map_or((-1, -1), |producer| (producer.id.get(), producer.epoch.get()));
        let response = EndTxnResponse {
            error_code: error.code(),
            producer_id,
            producer_epoch,
            ..EndTxnResponse::default()
        };
        self.answer(origin, ResponseMessage::EndTxn(response));
    }

    fn end_txn(&mut self, now: Now, origin: &Origin, request: &EndTxnRequest) -> Result<Producer, ErrorCode> {
        let id = &*request.transactional_id;
        if !authorize(&origin.principal, Operation::Write, Resource::TransactionalId(id)) {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        let (at, _) = self.txn_shard(origin.node, id)?;
        let producer = self.producer_of(origin.node, id, request.producer_id, request.producer_epoch)?;
        self.fill_producer_ids(origin.node)?;
        let end = EndTxn {
            transactional_id: id,
            producer,
            outcome: if request.committed { Outcome::Commit } else { Outcome::Abort },
            client_version: TransactionVersion::of_end_txn(origin.api_version),
        };
        let node = self.nodes.get_mut(&origin.node).ok_or(ErrorCode::UnknownServerError)?;
        let shard = node.transactions.get(&at.partition).ok_or(ErrorCode::NotCoordinator)?;
        let plan = shard.decide_end_txn(now.clock, &end, &mut node.producer_ids)?;
        if let Some(record) = &plan.record {
            self.commit_txn_record(now, origin.node, at, record)?;
        }
        Ok(plan.producer)
    }
}
