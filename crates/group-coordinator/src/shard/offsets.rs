//! Doors of committed offsets.

use sharemark_protocol::ProducerId;

use crate::classic_group::{CommitDecision, CommitOffsets};
use crate::record::CommittedOffset;

use super::*;

/// What is known of one partition's offset: it, nothing, or why it is not told.
pub type FetchedOffset<'a> = Result<Option<&'a CommittedOffset>, ErrorCode>;

/// What a deletion of offsets comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OffsetDeleteDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// What becomes of each offset, in the order of the request.
    pub outcomes: Vec<Result<(), ErrorCode>>,
}

impl GroupCoordinatorShard {
    /// Applies one record that is part of a producer's transaction, live or at recovery. It cannot fail.
    pub fn replay_transactional(&mut self, offset: Offset, producer: ProducerId, record: &GroupRecord) {
        self.note_replayed(offset);
        self.replay_offset(offset, Some(producer), record);
    }

    /// Applies the marker that ends a producer's transaction, live or at recovery. It cannot fail.
    pub fn replay_end_transaction_marker(&mut self, offset: Offset, producer: ProducerId, committed: bool) {
        self.note_replayed(offset);
        self.offsets.replay_end_transaction_marker(producer, committed);
    }

    pub(super) fn replay_offset(
        &mut self,
        offset: Offset,
        producer: Option<ProducerId>,
        record: &GroupRecord,
    ) {
        let GroupRecord::OffsetCommit { group_id, topic, partition, value } = record else { return };
        if value.is_some() && !self.groups.contains_key(group_id) {
            // Whoever commits without being a member makes a group without members.
            self.groups.insert(group_id.clone(), Group::Classic(Box::default()));
        }
        self.offsets.replay(offset, producer, group_id, (topic, *partition), value.as_ref());
    }

    /// Decides a commit of offsets, plain or as part of a transaction; changes nothing.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is a share group, or unknown and a member commits; `IllegalGeneration`
    ///   in its place to older clients.
    /// - What the group says of the member.
    pub fn decide_commit(&self, request: &CommitOffsets<'_>) -> Result<CommitDecision, ErrorCode> {
        let mut heard_of = None;
        match self.groups.get_key_value(request.group_id) {
            Some((group_id, Group::Classic(group))) => {
                group.check_commit(request)?;
                if !request.is_transactional {
                    let member_id = group.heard_of_by_commit(request);
                    heard_of = member_id.map(|member_id| (group_id.clone(), member_id));
                }
            }
            Some((_, Group::Consumer(group))) => group.check_commit(request)?,
            Some((_, Group::Share(_))) => return Err(ErrorCode::GroupIdNotFound),
            None if request.generation < 0 => self.check_room().map_err(|refusal| refusal.error)?,
            None if request.knows_group_errors => return Err(ErrorCode::GroupIdNotFound),
            None => return Err(ErrorCode::IllegalGeneration),
        }
        let group_id: Arc<str> = request.group_id.into();
        let mut records = Vec::with_capacity(request.offsets.len());
        let mut outcomes = Vec::with_capacity(request.offsets.len());
        for offset in request.offsets {
            let outcome = if request.metadata_size_max < offset.value.metadata.encode_utf16().count() {
                Err(ErrorCode::OffsetMetadataTooLarge)
            } else if self.config.offsets_max <= self.offsets.count() + records.len() {
                Err(ErrorCode::InvalidCommitOffsetSize)
            } else {
                records.push(GroupRecord::OffsetCommit {
                    group_id: group_id.clone(),
                    topic: offset.topic.clone(),
                    partition: offset.partition,
                    value: Some(offset.value.clone()),
                });
                Ok(())
            };
            outcomes.push(outcome);
        }
        Ok(CommitDecision { records, outcomes, heard_of })
    }

    /// Applies what a decided commit changes beside the log, after its records were replayed.
    pub fn apply_commit(&mut self, now: Timestamp, decision: &CommitDecision) {
        if let Some((group_id, member_id)) = &decision.heard_of
            && let Some(Group::Classic(group)) = self.groups.get_mut(group_id)
        {
            group.apply_heard_of(member_id, now);
        }
    }

    /// Judges the member that asks for offsets.
    ///
    /// # Errors
    ///
    /// - What a consumer group says of its member; all other groups let everybody ask.
    pub fn check_offset_fetch(
        &self,
        group_id: &str,
        member_id: Option<&str>,
        member_epoch: i32,
    ) -> Result<(), ErrorCode> {
        match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => group.check_offset_fetch(member_id, member_epoch),
            Some(Group::Classic(_) | Group::Share(_)) | None => Ok(()),
        }
    }

    /// Returns the committed offset of a partition, unless it belongs to another topic of that name. Who wants
    /// it stable is not told of one that an open transaction may change (KIP-447).
    pub fn fetch_offset(
        &self,
        group_id: &str,
        (topic, partition): (&str, i32),
        topic_id: TopicId,
        require_stable: bool,
    ) -> FetchedOffset<'_> {
        if let Some(Group::Share(_)) = self.groups.get(group_id) {
            return Ok(None);
        }
        if require_stable && self.offsets.is_pending(group_id, topic, partition) {
            return Err(ErrorCode::UnstableOffsetCommit);
        }
        let is_other = |offset: &CommittedOffset| {
            topic_id != TopicId::ZERO && offset.topic_id != TopicId::ZERO && offset.topic_id != topic_id
        };
        Ok(self.offsets.get(group_id, topic, partition).filter(|offset| !is_other(offset)))
    }

    /// Returns the partitions for which a group has committed an offset, by topic.
    pub fn committed_partitions(&self, group_id: &str) -> BTreeMap<Arc<str>, Vec<i32>> {
        if let Some(Group::Share(_)) = self.groups.get(group_id) {
            return BTreeMap::new();
        }
        let topics = self.offsets.of_group(group_id).into_iter().flatten();
        topics.map(|(topic, partitions)| (topic.clone(), partitions.keys().copied().collect())).collect()
    }

    /// Decides an `OffsetDelete`; changes nothing.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if the group is unknown or a share group.
    /// - `NonEmptyGroup` if it has members that are no consumers.
    pub fn decide_offset_delete(
        &self,
        group_id: &str,
        places: &[(Arc<str>, i32)],
    ) -> Result<OffsetDeleteDecision, ErrorCode> {
        let group = match self.groups.get(group_id) {
            Some(Group::Share(_)) | None => return Err(ErrorCode::GroupIdNotFound),
            Some(group) => group,
        };
        if let Group::Classic(group) = group {
            group.check_offset_delete()?;
        }
        let mut decision = OffsetDeleteDecision { records: Vec::new(), outcomes: Vec::new() };
        for (topic, partition) in places {
            if Self::is_subscribed(group, topic) {
                decision.outcomes.push(Err(ErrorCode::GroupSubscribedToTopic));
                continue;
            }
            let has_offset = self.offsets.get(group_id, topic, *partition).is_some()
                || self.offsets.is_pending(group_id, topic, *partition);
            if has_offset {
                decision.records.push(offset_tombstone(&group_id.into(), topic, *partition));
            }
            decision.outcomes.push(Ok(()));
        }
        Ok(decision)
    }

    fn is_subscribed(group: &Group, topic: &str) -> bool {
        match group {
            Group::Classic(group) => group.is_subscribed(topic),
            Group::Consumer(group) => group.is_subscribed(topic),
            Group::Share(_) => false,
        }
    }

    /// Returns the tombstones of all offsets of a group, pending ones included.
    pub(super) fn offset_tombstones(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        let places = self.offsets.places(group_id);
        places.iter().map(|(topic, partition)| offset_tombstone(group_id, topic, *partition)).collect()
    }

    /// Decides what the deletion of a topic changes in committed offsets; changes nothing.
    pub fn decide_offsets_of_deleted(&self, topic: &Arc<str>, id: TopicId) -> Vec<GroupRecord> {
        let places = self.offsets.of_topic(topic, id);
        places.iter().map(|(group_id, partition)| offset_tombstone(group_id, topic, *partition)).collect()
    }

    /// Decides what has expired by now: offsets, and groups that have neither offsets nor members; changes
    /// nothing.
    pub fn decide_expired_offsets(&self, now: Timestamp, retention_ms: i64) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for (group_id, group) in &self.groups {
            let mut has_offsets = self.offsets.has_pending(group_id);
            for (topic, partitions) in self.offsets.of_group(group_id).into_iter().flatten() {
                for (partition, stored) in partitions {
                    let is_expired = match group {
                        Group::Classic(group) => group.is_expired(&stored.value, now, retention_ms),
                        Group::Consumer(group) => group.is_expired(&stored.value, now, retention_ms),
                        Group::Share(_) => false,
                    };
                    if is_expired
                        && !Self::is_subscribed(group, topic)
                        && !self.offsets.is_pending(group_id, topic, *partition)
                    {
                        records.push(offset_tombstone(group_id, topic, *partition));
                    } else {
                        has_offsets = true;
                    }
                }
            }
            match group {
                Group::Classic(group) if !has_offsets && group.is_empty() => {
                    records.push(GroupRecord::ClassicGroup { group_id: group_id.clone(), value: None });
                }
                Group::Consumer(group) if !has_offsets => records.extend(group.decide_expired(group_id)),
                Group::Classic(_) | Group::Consumer(_) | Group::Share(_) => {}
            }
        }
        records
    }
}

fn offset_tombstone(group_id: &Arc<str>, topic: &Arc<str>, partition: i32) -> GroupRecord {
    GroupRecord::OffsetCommit { group_id: group_id.clone(), topic: topic.clone(), partition, value: None }
}
