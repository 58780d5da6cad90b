//! Who may commit and ask for offsets of a consumer group, and when they expire.

use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Timestamp};

use super::ConsumerGroup;
use crate::classic_group::{CommitOffsets, OffsetToCommit};
use crate::record::{CommittedOffset, GroupRecord};

impl ConsumerGroup {
    /// Judges who commits.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId` if there is no such member, or there are members and none commits.
    /// - `UnsupportedVersion` if the client does not know consumer groups.
    /// - `StaleMemberEpoch` if it is not the member's epoch, nor an earlier one at which it had the partitions already;
    ///   `IllegalGeneration` in its place to older clients.
    pub(crate) fn check_commit(&self, request: &CommitOffsets<'_>) -> Result<(), ErrorCode> {
        if request.generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        let names_nobody =
            request.generation == -1 && request.member_id.is_empty() && request.group_instance_id.is_none();
        // Producers that know nothing of members may commit in transactions all the same.
        if request.is_transactional && names_nobody {
            return Ok(());
        }
        let member = self.members.get(request.member_id).ok_or(ErrorCode::UnknownMemberId)?;
        let is_classic = member.metadata.classic.is_some();
        if !request.is_transactional && !is_classic && !request.knows_group_errors {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let epoch = member.assignment.member_epoch.get();
        // The member may not know of its newest epoch yet: what it has had since the one it knows is still its own
        // to commit (KIP-1251).
        let has_since = |offset: &OffsetToCommit| {
            let held = member.partition_epoch(offset.value.topic_id, offset.partition);
            held.is_some_and(|since| since <= request.generation)
        };
        let is_late = request.generation < epoch && request.offsets.iter().all(has_since);
        if request.generation == epoch || is_late {
            return Ok(());
        }
        let knows = request.knows_group_errors && !is_classic;
        Err(if knows { ErrorCode::StaleMemberEpoch } else { ErrorCode::IllegalGeneration })
    }

    /// Judges who asks for offsets.
    ///
    /// # Errors
    ///
    /// - `UnknownMemberId` if there is no such member.
    /// - `StaleMemberEpoch` if it is not the member's epoch.
    pub(crate) fn check_offset_fetch(
        &self,
        member_id: Option<&str>,
        member_epoch: i32,
    ) -> Result<(), ErrorCode> {
        let Some(member_id) = member_id.filter(|id| !id.is_empty() || 0 <= member_epoch) else {
            return Ok(());
        };
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if member_epoch == member.assignment.member_epoch.get() {
            return Ok(());
        }
        let is_classic = member.metadata.classic.is_some();
        Err(if is_classic { ErrorCode::IllegalGeneration } else { ErrorCode::StaleMemberEpoch })
    }

    /// Returns whether a member wants a topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        let by_name = self.members.values().any(|it| it.metadata.subscribed_topic_names.contains(topic));
        by_name || self.resolved.values().any(|resolved| resolved.topics.contains(topic))
    }

    /// Returns whether an offset of the group has expired; one of a subscribed topic never does.
    pub(crate) fn is_expired(&self, offset: &CommittedOffset, now: Timestamp, retention_ms: i64) -> bool {
        offset.is_over(offset.committed_at, now, retention_ms)
    }

    /// Decides the end of a group that has neither offsets nor members; changes nothing.
    pub(crate) fn decide_expired(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        if self.members.is_empty() { self.decide_delete(group_id) } else { Vec::new() }
    }
}
