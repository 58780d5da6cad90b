//! The states of a transaction.

/// How a transaction ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Outcome {
    /// Everything written takes effect.
    Commit,
    /// Nothing written takes effect.
    Abort,
}

impl Outcome {
    /// Returns the outcome that the wire spells as a bool.
    pub const fn from_committed(committed: bool) -> Self {
        if committed { Self::Commit } else { Self::Abort }
    }

    /// Returns the wire form: whether it is a commit.
    pub const fn is_commit(self) -> bool {
        match self {
            Self::Commit => true,
            Self::Abort => false,
        }
    }
}

/// A state of a transaction that can stand in the log.
///
/// ```text
///   Empty ───────────► Ongoing ──► PrepareCommit ──► CompleteCommit ─┐
///     ▲  │               │ ▲                                         │
///     │  └─ version 2 ─┐ │ └──────────── next transaction ───────────┤
///     │                ▼ ▼                                           │
///     │             PrepareAbort ──► CompleteAbort ──────────────────┤
///     └──────────────────────── InitProducerId ──────────────────────┘
/// ```
///
/// Kafka's `Dead` and `PrepareEpochFence` live between two appends only. Here both happen in one step, so
/// they do not exist. The order of the variants is that of the stored numbers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TransactionState {
    /// A producer id was handed out and nothing was done with it.
    Empty,
    /// At least one partition was added.
    Ongoing,
    /// The commit is decided; markers are owed.
    PrepareCommit,
    /// The abort is decided; markers are owed.
    PrepareAbort,
    /// Every commit marker is written.
    CompleteCommit,
    /// Every abort marker is written.
    CompleteAbort,
}

impl TransactionState {
    /// Every state, in the order of the stored numbers.
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// Returns whether a transaction may go from `self` to `next`. No other function decides this.
    pub const fn can_become(self, next: Self) -> bool {
        use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
        match self {
            // The abort of a transaction without partitions comes with version 2 (KIP-890).
            Empty | CompleteCommit | CompleteAbort => matches!(next, Empty | Ongoing | PrepareAbort),
            Ongoing => matches!(next, Ongoing | PrepareCommit | PrepareAbort),
            PrepareCommit => matches!(next, CompleteCommit),
            PrepareAbort => matches!(next, CompleteAbort),
        }
    }

    /// Returns how the transaction ends, if that is decided and markers are owed.
    pub const fn prepared(self) -> Option<Outcome> {
        match self {
            Self::PrepareCommit => Some(Outcome::Commit),
            Self::PrepareAbort => Some(Outcome::Abort),
            Self::Empty | Self::Ongoing | Self::CompleteCommit | Self::CompleteAbort => None,
        }
    }

    /// Returns how the transaction ended, if it did.
    pub const fn completed(self) -> Option<Outcome> {
        match self {
            Self::CompleteCommit => Some(Outcome::Commit),
            Self::CompleteAbort => Some(Outcome::Abort),
            Self::Empty | Self::Ongoing | Self::PrepareCommit | Self::PrepareAbort => None,
        }
    }

    /// Returns whether a transaction is under way: it holds partitions, and its id never expires.
    pub const fn is_open(self) -> bool {
        match self {
            Self::Ongoing | Self::PrepareCommit | Self::PrepareAbort => true,
            Self::Empty | Self::CompleteCommit | Self::CompleteAbort => false,
        }
    }

    /// Returns the number that stands in the log.
    pub const fn status(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
        }
    }

    /// Returns the state with this number, or `None` for a number that never stands in a log.
    pub fn from_status(status: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.status() == status)
    }

    /// Returns the name that DescribeTransactions and ListTransactions use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Returns the state with this name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[cfg(test)]
mod tests;
