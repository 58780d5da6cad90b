//! Who may commit offsets of a classic group, and when they expire.

use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Timestamp};

use super::{ClassicGroup, ClassicGroupState};
use crate::record::{CommittedOffset, GroupRecord};

/// A commit of offsets, plain or as part of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct CommitOffsets<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member that commits; empty if none does.
    pub member_id: &'a str,
    /// Its static place.
    pub group_instance_id: Option<&'a str>,
    /// The generation or member epoch that it claims; negative for none.
    pub generation: i32,
    /// Whether it is part of a transaction.
    pub is_transactional: bool,
    /// Whether the client knows the errors that came with consumer groups (KIP-848).
    pub knows_group_errors: bool,
    /// How long a text may be that comes with an offset, in UTF-16 units: `offset.metadata.max.bytes`.
    pub metadata_size_max: usize,
    /// The offsets.
    pub offsets: &'a [OffsetToCommit],
}

/// An offset that is to be committed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OffsetToCommit {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// What is committed.
    pub value: CommittedOffset,
}

/// What a commit comes to: append the records and replay them, then apply it.
#[derive(Clone, Debug)]
pub struct CommitDecision {
    /// What to append.
    pub records: Vec<GroupRecord>,
    /// What becomes of each offset, in the order of the request.
    pub outcomes: Vec<Result<(), ErrorCode>>,
    /// The member whose session begins anew.
    pub(crate) heard_of: Option<(Arc<str>, Arc<str>)>,
}

impl ClassicGroup {
    /// Judges who commits.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId`, `FencedInstanceId` if it is no member, or there are members and it names none.
    /// - `IllegalGeneration` if it belongs to another generation.
    /// - `RebalanceInProgress` if it has not asked for its assignment.
    pub(crate) fn check_commit(&self, request: &CommitOffsets<'_>) -> Result<(), ErrorCode> {
        // An administrator, or a consumer that assigns itself, may commit for a group without members.
        if request.generation < 0 && self.state == ClassicGroupState::Empty {
            return Ok(());
        }
        let names_member = !request.member_id.is_empty() || request.group_instance_id.is_some();
        if 0 <= request.generation || names_member {
            self.check_member(request.member_id, request.group_instance_id)?;
            if request.generation != self.generation {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !request.is_transactional && self.state != ClassicGroupState::Empty {
            // Producers that know nothing of members may commit in transactions all the same.
            return Err(ErrorCode::UnknownMemberId);
        }
        if !request.is_transactional && self.state == ClassicGroupState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Returns the member that a plain commit shows to be there.
    pub(crate) fn heard_of_by_commit(&self, request: &CommitOffsets<'_>) -> Option<Arc<str>> {
        match self.state {
            ClassicGroupState::Stable | ClassicGroupState::PreparingRebalance => {
                self.members.get_key_value(request.member_id).map(|(member_id, _)| member_id.clone())
            }
            ClassicGroupState::Empty | ClassicGroupState::CompletingRebalance => None,
        }
    }

    /// Judges whether offsets may be deleted; those of subscribed topics stay.
    ///
    /// # Errors
    ///
    /// - `NonEmptyGroup` if it has members that are no consumers.
    pub(crate) fn check_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.state == ClassicGroupState::Empty || self.has_consumers() {
            return Ok(());
        }
        Err(ErrorCode::NonEmptyGroup)
    }

    /// Returns whether a member may want a topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        self.subscribed_topics.as_ref().map_or_else(|| self.has_consumers(), |topics| topics.contains(topic))
    }

    /// Returns whether an offset of the group has expired; one of a subscribed topic never does.
    pub(crate) fn is_expired(&self, offset: &CommittedOffset, now: Timestamp, retention_ms: i64) -> bool {
        let since = match (&self.protocol_type, self.state) {
            // Nobody was ever a member.
            (None, _) => offset.committed_at,
            // Nobody is left.
            (Some(_), ClassicGroupState::Empty) => self.state_since.unwrap_or(offset.committed_at),
            (Some(_), ClassicGroupState::Stable)
                if self.has_consumers() && self.subscribed_topics.is_some() =>
            {
                offset.committed_at
            }
            (
                Some(_),
                ClassicGroupState::PreparingRebalance
                | ClassicGroupState::CompletingRebalance
                | ClassicGroupState::Stable,
            ) => return false,
        };
        offset.is_over(since, now, retention_ms)
    }
}
