//! A classic group: members that agree on a generation, of whom one assigns.
//!
//! ```text
//!            a member joins            all have joined, or time is up       the leader has assigned
//!   Empty -------------> PreparingRebalance -------------> CompletingRebalance -------------> Stable
//!     ^                      |  ^    ^                             |                            |
//!     +----------------------+  |    +-----------------------------+                            |
//!       nobody has joined       |      a member joins anew, leaves or is silent                 |
//!                               +---------------------------------------------------------------+
//! ```

use std::sync::Arc;

use crate::record::ClassicGroupMetadata;

/// Where a classic group is in its rebalance.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(dead_code, reason = "only a group that was loaded has a state so far")]
pub(crate) enum ClassicGroupState {
    /// It has no members.
    #[default]
    Empty,
    /// It waits for its members to join.
    PreparingRebalance,
    /// It waits for its leader to assign.
    CompletingRebalance,
    /// Its members have their assignments.
    Stable,
}

impl ClassicGroupState {
    /// Returns Kafka's name of the state.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A classic group. What its log says is its last generation; the rest begins anew when it is loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassicGroup {
    /// What the log says; nothing of a group that only ever committed offsets.
    stored: Option<ClassicGroupMetadata>,
}

impl PartialEq for ClassicGroup {
    /// Compares what the log says, as for every other group.
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for ClassicGroup {}

impl ClassicGroup {
    /// Applies a record of the group.
    pub(crate) fn replay(&mut self, value: &ClassicGroupMetadata) {
        self.stored = Some(value.clone());
    }

    /// Returns whether the log speaks of the group, and not only of its offsets.
    pub(crate) const fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns its state.
    pub(crate) fn state(&self) -> ClassicGroupState {
        match &self.stored {
            Some(stored) if !stored.members.is_empty() => ClassicGroupState::Stable,
            Some(_) | None => ClassicGroupState::Empty,
        }
    }

    /// Returns the kind of its members; empty if it never had any.
    pub(crate) fn protocol_type(&self) -> &str {
        self.stored.as_ref().map_or("", |stored| &stored.protocol_type)
    }

    /// Checks what must hold between two requests.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub(crate) fn check_invariants(&self) {
        let Some(stored) = &self.stored else { return };
        let leads = |leader: &Arc<str>| stored.members.iter().any(|member| member.member_id == *leader);
        assert!(stored.leader.as_ref().is_none_or(leads), "a leader is a member");
    }
}
