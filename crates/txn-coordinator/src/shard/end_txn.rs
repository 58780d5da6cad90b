//! EndTxn: the end of a transaction is decided.

use sharemark_protocol::{ErrorCode, Producer, Timestamp};

use super::TxnCoordinatorShard;
use super::add_partitions::check_producer;
use crate::producer_ids::ProducerIds;
use crate::record::{LAST_CLIENT_EPOCH, TransactionRecord, TransactionValue, bumped};
use crate::state::{Outcome, TransactionState};
use crate::version::TransactionVersion;

/// An EndTxn request.
#[derive(Clone, Copy, Debug)]
pub struct EndTxn<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer whose transaction it is.
    pub producer: Producer,
    /// How it shall end.
    pub outcome: Outcome,
    /// The version that the client speaks, see [`TransactionVersion::of_end_txn`].
    pub client_version: TransactionVersion,
}

/// What an EndTxn request comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndTxnPlan {
    /// What to append: the commit point. `None` when the request repeats one that is done.
    pub record: Option<TransactionRecord>,
    /// The producer of the next transaction, which version 5 answers.
    pub producer: Producer,
}

/// What a valid request asks for.
enum Step {
    /// The end is to be decided.
    Prepare,
    /// It is the end that is recorded already.
    Repeat,
}

impl TxnCoordinatorShard {
    /// Decides an EndTxn request; changes nothing but `ids`. Once the record is appended and replayed the outcome
    /// is certain and the answer may go out; the markers owed are in the queue.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` for an empty transactional id.
    /// - `InvalidProducerIdMapping` for an unknown transactional id or another's producer id.
    /// - `ProducerFenced` for an epoch that is neither the current one nor that of a repeat.
    /// - `ConcurrentTransactions` while the end of a transaction is decided and not recorded.
    /// - `InvalidTxnState` if there is nothing to commit, nothing to abort (before version 2), or a repeat asks
    ///   for the other outcome.
    /// - `CoordinatorLoadInProgress` if the epochs are used up and no producer id is at hand.
    pub fn decide_end_txn(
        &self,
        now: Timestamp,
        request: &EndTxn<'_>,
        ids: &mut ProducerIds,
    ) -> Result<EndTxnPlan, ErrorCode> {
        let current = self.find(request.transactional_id)?;
        let bumps = request.client_version.bumps_epoch();
        let step = if bumps { step_with_bump(current, request)? } else { step(current, request)? };
        let value = match step {
            Step::Repeat => return Ok(EndTxnPlan { record: None, producer: current.producer }),
            Step::Prepare if bumps => current.prepared_with_bump(request.outcome, now, ids)?,
            Step::Prepare => current.prepared(request.outcome, now),
        };
        // Told before the markers are written: nobody else can get between.
        let producer = value.producer_after_completion();
        let record =
            TransactionRecord { transactional_id: request.transactional_id.into(), value: Some(value) };
        Ok(EndTxnPlan { record: Some(record), producer })
    }
}

/// Judges a request of a client that keeps its epoch from one transaction to the next.
fn step(current: &TransactionValue, request: &EndTxn<'_>) -> Result<Step, ErrorCode> {
    check_producer(current, request.producer)?;
    match current.state {
        TransactionState::Ongoing => Ok(Step::Prepare),
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        TransactionState::CompleteCommit if request.outcome == Outcome::Commit => Ok(Step::Repeat),
        TransactionState::CompleteAbort if request.outcome == Outcome::Abort => Ok(Step::Repeat),
        TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
            Err(ErrorCode::InvalidTxnState)
        }
    }
}

/// Judges a request of a client whose epoch is bumped at the end of each transaction: one with the current epoch
/// is about the transaction now, one with the epoch before is a repeat.
fn step_with_bump(current: &TransactionValue, request: &EndTxn<'_>) -> Result<Step, ErrorCode> {
    let producer = request.producer;
    match current.state {
        TransactionState::Ongoing | TransactionState::Empty if had_id_before(current, producer) => {
            Err(ErrorCode::ProducerFenced)
        }
        TransactionState::Ongoing => {
            check_producer(current, producer)?;
            Ok(Step::Prepare)
        }
        TransactionState::CompleteCommit | TransactionState::CompleteAbort
            if had_epoch_before(current, producer) || had_id_before(current, producer) =>
        {
            if current.state.completed() == Some(request.outcome) {
                Ok(Step::Repeat)
            } else {
                Err(ErrorCode::InvalidTxnState)
            }
        }
        // A transaction that never began: a client may not know what became of its first write.
        TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
            check_producer(current, producer)?;
            match request.outcome {
                Outcome::Abort => Ok(Step::Prepare),
                Outcome::Commit => Err(ErrorCode::InvalidTxnState),
            }
        }
        // Whoever asks, as in Kafka, which looks at nothing else while an end is on its way.
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
            Err(ErrorCode::ConcurrentTransactions)
        }
    }
}

/// Returns whether `producer` is the one from before the last bump: the answer to its request may be lost.
fn had_epoch_before(current: &TransactionValue, producer: Producer) -> bool {
    let held = current.producer;
    producer.id == held.id && producer.epoch != held.epoch && bumped(producer.epoch) == held.epoch
}

/// Returns whether `producer` is the one from before its last epoch was used up and its id exchanged.
fn had_id_before(current: &TransactionValue, producer: Producer) -> bool {
    Some(producer.id) == current.previous_id
        && producer.epoch == LAST_CLIENT_EPOCH
        && current.producer.epoch.get() == 0
}
