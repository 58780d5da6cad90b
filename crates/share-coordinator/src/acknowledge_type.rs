//! What a member says about a record that it holds.

/// What a member says about a record that it holds.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum AcknowledgeType {
    /// The offset holds no record for the client: a control record, or one that compaction removed.
    Gap = 0,
    /// The record is done.
    Accept = 1,
    /// The record is to be delivered again.
    Release = 2,
    /// The record can never be dealt with.
    Reject = 3,
    /// The member needs more time: a full new lock.
    Renew = 4,
}

impl AcknowledgeType {
    /// All types, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::Gap, Self::Accept, Self::Release, Self::Reject, Self::Renew];

    /// Returns the id as on the wire and in the log.
    pub const fn id(self) -> i8 {
        self as i8
    }

    /// Returns the type with this id, or `None` if there is none.
    pub const fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Gap),
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            4 => Some(Self::Renew),
            _ => None,
        }
    }
}
