//! The states of a record in a share group.

/// The state of one record in one share group.
///
/// ```text
///              acquire                accept
///  AVAILABLE ───────────► ACQUIRED ────────────────────► ACKNOWLEDGED
///      ▲  ◄───────────────  │ │ │                             ▲
///      │   release, lapse   │ │ │  reject, gap, limit         │ commit
///      │                    │ │ └──────────────► ARCHIVED     │
///      │            stage   │ │                   ▲  ▲        │
///      │                    │ └──► ARCHIVING ─────┘  │        │
///      │     abort          ▼          ▲             │        │
///      └─────────────── TX_PENDING ────┴─────────────┴────────┘
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum RecordState {
    /// May be acquired.
    Available = 0,
    /// Locked for one member until its lock runs out.
    Acquired = 1,
    /// Accepted; final.
    Acknowledged = 2,
    /// Waits for its copy in the dead-letter queue; not acquirable and not final.
    Archiving = 3,
    /// Rejected, a gap, delivered too often, or below the log start; final.
    Archived = 4,
    /// Acknowledged in a transaction that has not ended.
    TxPending = 5,
}

impl RecordState {
    /// All states, in the order of their ids.
    pub const ALL: [Self; 6] = [
        Self::Available,
        Self::Acquired,
        Self::Acknowledged,
        Self::Archiving,
        Self::Archived,
        Self::TxPending,
    ];

    /// Returns the id as on the wire and in the log.
    pub const fn id(self) -> i8 {
        self as i8
    }

    /// Returns the state with this id, or `None` if there is none.
    pub const fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Available),
            1 => Some(Self::Acquired),
            2 => Some(Self::Acknowledged),
            3 => Some(Self::Archiving),
            4 => Some(Self::Archived),
            5 => Some(Self::TxPending),
            _ => None,
        }
    }

    /// Returns the name in capitals, such as `TX_PENDING`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Available => "AVAILABLE",
            Self::Acquired => "ACQUIRED",
            Self::Acknowledged => "ACKNOWLEDGED",
            Self::Archiving => "ARCHIVING",
            Self::Archived => "ARCHIVED",
            Self::TxPending => "TX_PENDING",
        }
    }

    /// Returns whether a record may go from `self` to `next`. No other function decides this.
    ///
    /// Two doors stand beside the table: a log start that moved archives what was available below it, and
    /// a stage whose write failed gives the record back to its member.
    pub const fn can_become(self, next: Self) -> bool {
        use RecordState::{Acknowledged, Acquired, Archived, Archiving, Available, TxPending};
        match self {
            Available => matches!(next, Acquired),
            Acquired => matches!(next, Available | Acknowledged | Archiving | Archived | TxPending),
            TxPending => matches!(next, Available | Acknowledged | Archiving | Archived),
            Archiving => matches!(next, Archived),
            Acknowledged | Archived => false, // Final.
        }
    }

    /// Returns whether nothing can happen to the record any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Acknowledged | Self::Archived => true,
            Self::Available | Self::Acquired | Self::Archiving | Self::TxPending => false,
        }
    }
}

#[cfg(test)]
mod tests;
