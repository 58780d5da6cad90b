//! Partitions join a transaction: AddPartitionsToTxn, AddOffsetsToTxn, AddShareAcksToTxn, and what a partition's
//! leader adds or verifies for a request of its own.

use sharemark_protocol::{ErrorCode, Producer, Timestamp, TopicPartition};

use super::TxnCoordinatorShard;
use crate::record::{TransactionRecord, TransactionValue};
use crate::state::TransactionState;
use crate::version::TransactionVersion;

/// A request to add partitions to a transaction.
#[derive(Clone, Copy, Debug)]
pub struct AddPartitions<'a> {
    /// The transactional id.
    pub transactional_id: &'a str,
    /// The producer that writes there.
    pub producer: Producer,
    /// The partitions; those of internal topics are partitions like others.
    pub partitions: &'a [TopicPartition],
    /// The version that the client speaks, see [`TransactionVersion::of_add_partitions`].
    pub client_version: TransactionVersion,
}

impl TxnCoordinatorShard {
    /// Decides whether partitions join a transaction; changes nothing. Returns what to append, if anything is new.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` for an empty transactional id.
    /// - `InvalidProducerIdMapping` for an unknown transactional id or another's producer id.
    /// - `ConcurrentTransactions` while the end of a transaction is decided and not recorded.
    /// - `ProducerFenced` if the epoch is not the current one.
    /// - `TransactionAbortable` if the transaction has no room for more partitions.
    pub fn decide_add_partitions(
        &self,
        now: Timestamp,
        request: &AddPartitions<'_>,
    ) -> Result<Option<TransactionRecord>, ErrorCode> {
        let current = self.find(request.transactional_id)?;
        if current.state.prepared().is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        check_producer(current, request.producer)?;
        let are_known = request.partitions.iter().all(|partition| current.partitions.contains(partition));
        if current.state == TransactionState::Ongoing && are_known {
            return Ok(None);
        }
        let value = current.with_partitions(request.partitions, request.client_version, now);
        // Kafka has no such bound; the client can do nothing but give this transaction up.
        if self.config.partition_count_max < value.partitions.len() {
            return Err(ErrorCode::TransactionAbortable);
        }
        Ok(Some(TransactionRecord { transactional_id: request.transactional_id.into(), value: Some(value) }))
    }

    /// Checks that a partition belongs to the producer's open transaction, as AddPartitionsToTxn with VerifyOnly.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest`, `InvalidProducerIdMapping`, `ProducerFenced`, `ConcurrentTransactions` as
    ///   [`Self::decide_add_partitions`].
    /// - `TransactionAbortable` if the partition does not belong to it.
    pub fn verify_partition(
        &self,
        transactional_id: &str,
        producer: Producer,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let current = self.find(transactional_id)?;
        check_producer(current, producer)?;
        if current.state.prepared().is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if !current.partitions.contains(partition) {
            return Err(ErrorCode::TransactionAbortable);
        }
        Ok(())
    }

    /// Returns why a request is refused whose producer id or epoch is negative, as no producer's are: with the right
    /// id it comes from another epoch than the current one.
    pub fn refusal_of_negative(&self, transactional_id: &str, producer_id: i64) -> ErrorCode {
        match self.find(transactional_id) {
            Ok(current) if current.producer.id.get() == producer_id => ErrorCode::ProducerFenced,
            Ok(_) => ErrorCode::InvalidProducerIdMapping,
            Err(error) => error,
        }
    }

    /// Returns what is known of the transactional id of a request by a producer.
    pub(super) fn find(&self, transactional_id: &str) -> Result<&TransactionValue, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let transaction = self.transactions.get(transactional_id);
        transaction.map(|found| &found.value).ok_or(ErrorCode::InvalidProducerIdMapping)
    }
}

/// Checks that `producer` is the one that may use the transactional id now.
pub(super) fn check_producer(current: &TransactionValue, producer: Producer) -> Result<(), ErrorCode> {
    if current.producer.id != producer.id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    if current.producer.epoch != producer.epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    Ok(())
}
