//! The counter that orders the changes of a group.

use std::fmt;

use sharemark_protocol::{MemberEpoch, StateEpoch};

/// Counts the changes of a group that ask for a new assignment.
///
/// A member that has an assignment carries the epoch it was computed for as its member epoch, and a share
/// partition carries the epoch at which it was initialised as its state epoch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct GroupEpoch(i32);

impl GroupEpoch {
    /// The epoch of a group that has no member yet, so that the first one makes it 2.
    pub const FIRST: Self = Self(1);
    /// Kafka's epoch of an assignment that was removed.
    pub(crate) const REMOVED: Self = Self(-1);

    /// Wraps the number as in a record.
    pub const fn new(raw: i32) -> Self {
        Self(raw)
    }

    /// Returns the number as in a record.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns the epoch that follows, saturating.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the epoch of a member that has the assignment of this epoch.
    pub const fn member(self) -> MemberEpoch {
        MemberEpoch::new(self.0)
    }

    /// Returns the state epoch of share partitions that are initialised at this epoch.
    pub const fn state(self) -> StateEpoch {
        StateEpoch::new(self.0)
    }
}

impl fmt::Display for GroupEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
