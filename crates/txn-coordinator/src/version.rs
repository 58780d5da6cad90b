//! Transaction versions, and what older request versions call things.

use sharemark_protocol::{ErrorCode, Producer};

/// A level of the feature `transaction.version`, or the one a client's request speaks.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TransactionVersion {
    /// The log's first format.
    V0,
    /// The log's flexible format.
    V1,
    /// Epochs are bumped with every transaction and partitions are added by the broker (KIP-890).
    V2,
}

impl TransactionVersion {
    /// Returns the version of a feature level, or `None` for a level that Kafka 4.4 does not know.
    pub const fn from_level(level: i16) -> Option<Self> {
        match level {
            0 => Some(Self::V0),
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Returns the feature level.
    pub const fn level(self) -> i16 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// Returns the version that an EndTxn request speaks: from its version 5 on, the second.
    pub const fn of_end_txn(request_version: i16) -> Self {
        if request_version < 5 { Self::V0 } else { Self::V2 }
    }

    /// Returns the version that adds partitions: those of brokers (version 4 and up) speak for a client of the
    /// second, the ones of clients do not. AddOffsetsToTxn and AddShareAcksToTxn count as version 0.
    pub const fn of_add_partitions(request_version: i16) -> Self {
        if request_version < 4 { Self::V0 } else { Self::V2 }
    }

    /// Returns whether every end of a transaction bumps the epoch.
    pub const fn bumps_epoch(self) -> bool {
        match self {
            Self::V0 | Self::V1 => false,
            Self::V2 => true,
        }
    }

    /// Returns the version of the values in `__transaction_state`.
    pub const fn value_version(self) -> i16 {
        match self {
            Self::V0 => 0,
            Self::V1 | Self::V2 => 1,
        }
    }
}

/// The first version of InitProducerId that says PRODUCER_FENCED.
pub const INIT_PRODUCER_ID_FENCED_SINCE: i16 = 4;

/// The first version of AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn that says
/// PRODUCER_FENCED.
pub const FENCED_SINCE: i16 = 2;

/// Returns the error as a request of `request_version` spells it: below `fenced_since`, a fenced producer is
/// told INVALID_PRODUCER_EPOCH.
pub const fn fenced_error_for(error: ErrorCode, request_version: i16, fenced_since: i16) -> ErrorCode {
    if matches!(error, ErrorCode::ProducerFenced) && request_version < fenced_since {
        return ErrorCode::InvalidProducerEpoch;
    }
    error
}

/// Returns the producer that an InitProducerId request names: `None` when both numbers are -1.
///
/// # Errors
///
/// - `InvalidRequest` if only one of the two is given.
/// - `ProducerFenced` for any other negative number: no producer has it.
pub fn known_producer(id: i64, epoch: i16) -> Result<Option<Producer>, ErrorCode> {
    match (id, epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ErrorCode::InvalidRequest),
        (_, _) => Producer::from_wire(id, epoch).map(Some).ok_or(ErrorCode::ProducerFenced),
    }
}

#[cfg(test)]
mod tests;
