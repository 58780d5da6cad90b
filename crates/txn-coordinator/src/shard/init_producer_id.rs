//! InitProducerId: a producer id and epoch for a transactional id.

use sharemark_protocol::{ErrorCode, Producer, ProducerEpoch, Timestamp};

use super::TxnCoordinatorShard;
use crate::producer_ids::ProducerIds;
use crate::record::{TransactionRecord, TransactionValue, bumped, is_exhausted};
use crate::state::TransactionState;
use crate::version::TransactionVersion;

/// An InitProducerId request with a transactional id.
#[derive(Clone, Copy, Debug)]
pub struct InitProducerId<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// How long its transactions may stay open, in ms.
    pub timeout_ms: i32,
    /// The producer that the client has and wants to go on with.
    pub known: Option<Producer>,
}

/// What an InitProducerId request comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InitProducerIdPlan {
    /// Append the record, then answer the producer.
    Grant {
        /// What to append.
        record: TransactionRecord,
        /// What to answer.
        producer: Producer,
    },
    /// Append the record, which aborts the transaction in the way. Then answer CONCURRENT_TRANSACTIONS; or, once
    /// its markers are written and its end is recorded, decide the request again.
    Fence {
        /// What to append.
        record: TransactionRecord,
    },
}

impl TxnCoordinatorShard {
    /// Decides an InitProducerId request with a transactional id; changes nothing but `ids`. Requests without
    /// one need [`ProducerIds::take_idempotent`] only. `version` is the finalized `transaction.version`.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` for an empty transactional id.
    /// - `InvalidTransactionTimeout` for a timeout that is not positive or above the configured maximum.
    /// - `ConcurrentTransactions` while the end of a transaction is decided and not recorded.
    /// - `ProducerFenced` if the known producer is not the current one, nor repeats its own last request.
    /// - `CoordinatorNotAvailable` if there is no room for another id.
    /// - `CoordinatorLoadInProgress` if no producer id is at hand.
    pub fn decide_init_producer_id(
        &self,
        now: Timestamp,
        version: TransactionVersion,
        request: &InitProducerId<'_>,
        ids: &mut ProducerIds,
    ) -> Result<InitProducerIdPlan, ErrorCode> {
        if request.transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if request.timeout_ms <= 0 || self.config.transaction_max_timeout_ms < request.timeout_ms {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        let Some((id, transaction)) = self.transactions.get_key_value(request.transactional_id) else {
            return self.decide_first(now, request, ids);
        };
        let current = &transaction.value;
        if current.state.prepared().is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if !request.known.is_none_or(|known| may_go_on(current, known)) {
            return Err(ErrorCode::ProducerFenced);
        }
        if current.state == TransactionState::Ongoing {
            let value = Some(current.fenced(version, now, ids)?);
            let record = TransactionRecord { transactional_id: id.clone(), value };
            return Ok(InitProducerIdPlan::Fence { record });
        }
        let (producer, last_epoch) = next_producer(current, request.known, ids)?;
        let value = Some(current.initialised(producer, last_epoch, request.timeout_ms, now));
        let record = TransactionRecord { transactional_id: id.clone(), value };
        Ok(InitProducerIdPlan::Grant { record, producer })
    }

    fn decide_first(
        &self,
        now: Timestamp,
        request: &InitProducerId<'_>,
        ids: &mut ProducerIds,
    ) -> Result<InitProducerIdPlan, ErrorCode> {
        // Kafka has no such bound. This error makes a client ask again, and ids without a transaction expire.
        if self.config.transactional_id_count_max <= self.transactions.len() {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let value = TransactionValue::first(ids.take()?, request.timeout_ms, now);
        let producer = value.producer;
        let record =
            TransactionRecord { transactional_id: request.transactional_id.into(), value: Some(value) };
        Ok(InitProducerIdPlan::Grant { record, producer })
    }
}

/// Returns whether a producer may go on: it has the current id, or the one before and no epoch left, which may be
/// a repeat of the request that exchanged the id. The epoch of the former is looked at later.
fn may_go_on(current: &TransactionValue, known: Producer) -> bool {
    known.id == current.producer.id || (Some(known.id) == current.previous_id && is_exhausted(known.epoch))
}

/// Returns the producer to grant and the epoch that its owner may repeat the request with.
fn next_producer(
    current: &TransactionValue,
    known: Option<Producer>,
    ids: &mut ProducerIds,
) -> Result<(Producer, Option<ProducerEpoch>), ErrorCode> {
    let held = current.producer;
    let is_current = known.is_none_or(|known| known.epoch == held.epoch);
    if is_current {
        let last_epoch = known.map(|known| known.epoch);
        let granted = if is_exhausted(held.epoch) {
            Producer { id: ids.take()?, epoch: ProducerEpoch::new(0) }
        } else {
            Producer { id: held.id, epoch: bumped(held.epoch) }
        };
        return Ok((granted, last_epoch));
    }
    // A repeat: whoever else had asked in between would have left no last epoch.
    if known.map(|known| known.epoch) == current.last_epoch {
        return Ok((held, current.last_epoch));
    }
    Err(ErrorCode::ProducerFenced)
}
