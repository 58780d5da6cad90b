//! The server-side assignors of consumer groups, "uniform" and "range", with Kafka's results.
//!
//! Where Kafka goes through members in the order of a hash table, these go through them in the order of their ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sharemark_protocol::TopicId;

use crate::TopicPartitions;

mod range;
mod uneven;
mod uniform;

/// A way to deal partitions out to members.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ConsumerAssignor {
    /// Each topic apart, in ranges of partitions over the members in order.
    Range,
    /// All topics together, so that no two members' shares differ by more than one; what a member has it keeps.
    Uniform,
}

impl ConsumerAssignor {
    /// Returns the assignor of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "range" => Some(Self::Range),
            "uniform" => Some(Self::Uniform),
            _ => None,
        }
    }

    /// Returns the name of the assignor.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Uniform => "uniform",
        }
    }

    /// Deals out all partitions and returns the share of each member, in the order of `members`.
    ///
    /// `even` says that all members subscribe to the same topics.
    pub(super) fn assign(
        self,
        members: &[MemberSpec<'_>],
        even: bool,
        partition_counts: &BTreeMap<TopicId, i32>,
    ) -> Vec<TopicPartitions> {
        match self {
            Self::Range => range::assign(members, partition_counts),
            Self::Uniform if even => uniform::assign(members, partition_counts),
            Self::Uniform => uneven::assign(members, partition_counts),
        }
    }
}

impl fmt::Display for ConsumerAssignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One member as an assignor sees it.
#[derive(Clone, Debug)]
pub(super) struct MemberSpec<'a> {
    /// Its instance, if it is static.
    pub(super) instance_id: Option<&'a str>,
    /// The subscribed topics that exist.
    pub(super) subscribed: BTreeSet<TopicId>,
    /// What the assignment before this one gave it.
    pub(super) target: Option<&'a TopicPartitions>,
}

#[cfg(test)]
mod tests;
