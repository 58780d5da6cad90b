//! What a client's Produce or TxnOffsetCommit understands of transactions, by its version (KIP-890).

use sharemark_protocol::ErrorCode;

/// What a partition's leader may do and say for a request that writes in a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SupportedOperation {
    /// It verifies the partition, and says INVALID_TXN_STATE when it does not belong to the transaction.
    DefaultError,
    /// It verifies the partition, and says TRANSACTION_ABORTABLE.
    GenericErrorSupported,
    /// It adds the partition to the transaction.
    AddPartition,
}

impl SupportedOperation {
    /// Returns what a Produce request of this version supports.
    pub const fn of_produce(request_version: i16) -> Self {
        match request_version {
            ..=10 => Self::DefaultError,
            11 => Self::GenericErrorSupported,
            12.. => Self::AddPartition,
        }
    }

    /// Returns what a TxnOffsetCommit request of this version supports.
    pub const fn of_txn_offset_commit(request_version: i16) -> Self {
        match request_version {
            ..=3 => Self::DefaultError,
            4 => Self::GenericErrorSupported,
            5.. => Self::AddPartition,
        }
    }

    /// Returns whether the leader adds the partition rather than verify it.
    pub const fn adds_partition(self) -> bool {
        match self {
            Self::DefaultError | Self::GenericErrorSupported => false,
            Self::AddPartition => true,
        }
    }

    /// Returns the coordinator's refusal as the leader understands it for such a client.
    pub const fn leader_error(self, refusal: ErrorCode) -> ErrorCode {
        // A write is told of its epoch, never that its producer is fenced.
        if matches!(refusal, ErrorCode::ProducerFenced) {
            return ErrorCode::InvalidProducerEpoch;
        }
        if matches!(refusal, ErrorCode::TransactionAbortable) && matches!(self, Self::DefaultError) {
            return ErrorCode::InvalidTxnState;
        }
        refusal
    }

    /// Returns the coordinator's refusal as Produce answers it. Older clients do not ask again for every error
    /// that passes, but for NOT_ENOUGH_REPLICAS they all do, and without asking for metadata.
    pub const fn produce_error(self, refusal: ErrorCode) -> ErrorCode {
        let error = self.leader_error(refusal);
        let is_unreachable = matches!(
            error,
            ErrorCode::NetworkException
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
        );
        let is_busy = matches!(error, ErrorCode::ConcurrentTransactions) && !self.adds_partition();
        if is_unreachable || is_busy { ErrorCode::NotEnoughReplicas } else { error }
    }
}

#[cfg(test)]
mod tests;
