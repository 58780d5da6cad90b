//! The stored form of a run of records.

use sharemark_protocol::{OffsetRange, Producer};

use crate::{AcknowledgeType, RecordState};

/// A run of records with one state, as the share coordinator stores it.
///
/// Staged data is there if and only if the state is [`RecordState::TxPending`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StateBatch {
    /// The offsets.
    pub range: OffsetRange,
    /// Their state; never [`RecordState::Acquired`].
    pub state: RecordState,
    /// How often they were delivered.
    pub delivery_count: i16,
    /// The transaction that they wait for.
    pub staged: Option<Staged>,
}

/// An acknowledgement that waits for the end of a transaction.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Staged {
    /// The owner: the producer whose transaction it is.
    pub producer: Producer,
    /// What the member said.
    pub acknowledge_type: AcknowledgeType,
    /// The state that a commit leads to.
    pub state: RecordState,
}
