//! Committed offsets and classic groups: their records, and the bytes of those.

use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::messages::{
    group_metadata_key::GroupMetadataKey,
    group_metadata_value::{GroupMetadataValue, MemberMetadata},
    legacy_offset_commit_key::LegacyOffsetCommitKey,
    offset_commit_key::OffsetCommitKey,
    offset_commit_value::OffsetCommitValue,
};
use sharemark_protocol::{
    CoordinatorRecord, DecodeError, LeaderEpoch, Message, StrBytes, Timestamp, TopicId,
};

use super::GroupRecord;
use super::codec::{read, text};

/// The version of a committed offset that may name its topic's id.
const OFFSET_VERSION: i16 = 4;
/// The version of a committed offset that has a time of its own to expire, the only one that can.
const EXPIRING_OFFSET_VERSION: i16 = 1;
/// The version in which Kafka writes classic groups.
const GROUP_VERSION: i16 = 3;

/// An offset that a group has committed for a partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommittedOffset {
    /// The offset; Kafka takes any number.
    pub offset: i64,
    /// The leader epoch of the last record consumed, if it was told.
    pub leader_epoch: Option<LeaderEpoch>,
    /// A text that the client gets back.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub committed_at: Timestamp,
    /// When it expires whatever becomes of the group; only old clients ask for it.
    pub expires_at: Option<Timestamp>,
    /// The incarnation of the topic, if the client named it.
    pub topic_id: TopicId,
}

impl CommittedOffset {
    /// Returns whether its time is over: the one that its client has set, or `retention_ms` from `since` on.
    pub(crate) fn is_over(&self, since: Timestamp, now: Timestamp, retention_ms: i64) -> bool {
        match self.expires_at {
            Some(at) => at <= now,
            None => retention_ms <= now.ms_since(since),
        }
    }
}

/// A classic group as its last generation left it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClassicGroupMetadata {
    /// The kind of its members, such as `consumer`; empty if it never had one.
    pub protocol_type: Arc<str>,
    /// Counts its rebalances.
    pub generation: i32,
    /// The protocol that was selected, such as the name of an assignor.
    pub protocol: Option<Arc<str>>,
    /// The member that assigns.
    pub leader: Option<Arc<str>>,
    /// When it got into this state.
    pub state_since: Option<Timestamp>,
    /// Its members.
    pub members: Vec<ClassicGroupMember>,
}

/// A member of a classic group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassicGroupMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// The name of its place, if it is static.
    pub group_instance_id: Option<Arc<str>>,
    /// The client id of its requests.
    pub client_id: Arc<str>,
    /// The address its requests come from, with Java's leading slash.
    pub client_host: Arc<str>,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// After what silence it is removed.
    pub session_timeout_ms: i32,
    /// What it said of itself under the selected protocol.
    pub subscription: Bytes,
    /// What the leader assigned to it.
    pub assignment: Bytes,
}

pub(super) fn encode_offset(
    group_id: &Arc<str>,
    topic: &Arc<str>,
    partition: i32,
    value: Option<&CommittedOffset>,
) -> CoordinatorRecord {
    let key = OffsetCommitKey { group: text(group_id), topic: text(topic), partition };
    let value = value.map(|value| {
        let version = if value.expires_at.is_some() { EXPIRING_OFFSET_VERSION } else { OFFSET_VERSION };
        let value = OffsetCommitValue {
            offset: value.offset,
            leader_epoch: value.leader_epoch.map_or(-1, LeaderEpoch::get),
            metadata: text(&value.metadata),
            commit_timestamp: value.committed_at.ms(),
            expire_timestamp: value.expires_at.map_or(-1, Timestamp::ms),
            topic_id: value.topic_id,
        };
        value.to_versioned_bytes(version)
    });
    CoordinatorRecord { key: key.to_key_bytes(), value }
}

pub(super) fn encode_group(group_id: &Arc<str>, value: Option<&ClassicGroupMetadata>) -> CoordinatorRecord {
    let key = GroupMetadataKey { group: text(group_id) };
    let value = value.map(|value| {
        let value = GroupMetadataValue {
            protocol_type: text(&value.protocol_type),
            generation: value.generation,
            protocol: value.protocol.as_ref().map(text),
            leader: value.leader.as_ref().map(text),
            current_state_timestamp: value.state_since.map_or(-1, Timestamp::ms),
            members: value.members.iter().map(encode_member).collect(),
        };
        value.to_versioned_bytes(GROUP_VERSION)
    });
    CoordinatorRecord { key: key.to_key_bytes(), value }
}

fn encode_member(member: &ClassicGroupMember) -> MemberMetadata {
    MemberMetadata {
        member_id: text(&member.member_id),
        group_instance_id: member.group_instance_id.as_ref().map(text),
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.clone(),
        assignment: member.assignment.clone(),
    }
}

/// Reads a record of one of the types 0 to 2.
pub(super) fn decode(
    record_type: i16,
    key: &Bytes,
    value: Option<&Bytes>,
) -> Result<GroupRecord, DecodeError> {
    match record_type {
        LegacyOffsetCommitKey::API_KEY => {
            let key = LegacyOffsetCommitKey::from_key_bytes(key)?;
            decode_offset(&key.group, &key.topic, key.partition, value)
        }
        OffsetCommitKey::API_KEY => {
            let key = OffsetCommitKey::from_key_bytes(key)?;
            decode_offset(&key.group, &key.topic, key.partition, value)
        }
        GroupMetadataKey::API_KEY => {
            let group_id = GroupMetadataKey::from_key_bytes(key)?.group.to_arc();
            let value = read(value)?.map(decode_group);
            Ok(GroupRecord::ClassicGroup { group_id, value })
        }
        _ => Err(DecodeError::UnexpectedRecordType),
    }
}

fn decode_offset(
    group_id: &StrBytes,
    topic: &StrBytes,
    partition: i32,
    value: Option<&Bytes>,
) -> Result<GroupRecord, DecodeError> {
    let value = read(value)?.map(|value: OffsetCommitValue| CommittedOffset {
        offset: value.offset,
        leader_epoch: (0 <= value.leader_epoch).then(|| LeaderEpoch::new(value.leader_epoch)),
        metadata: value.metadata.to_arc(),
        committed_at: Timestamp::from_ms(value.commit_timestamp),
        expires_at: (0 <= value.expire_timestamp).then(|| Timestamp::from_ms(value.expire_timestamp)),
        topic_id: value.topic_id,
    });
    Ok(GroupRecord::OffsetCommit { group_id: group_id.to_arc(), topic: topic.to_arc(), partition, value })
}

fn decode_group(value: GroupMetadataValue) -> ClassicGroupMetadata {
    let since = value.current_state_timestamp;
    ClassicGroupMetadata {
        protocol_type: value.protocol_type.to_arc(),
        generation: value.generation,
        protocol: value.protocol.map(|text| text.to_arc()),
        leader: value.leader.map(|text| text.to_arc()),
        state_since: (0 <= since).then(|| Timestamp::from_ms(since)),
        members: value.members.into_iter().map(decode_member).collect(),
    }
}

fn decode_member(member: MemberMetadata) -> ClassicGroupMember {
    ClassicGroupMember {
        member_id: member.member_id.to_arc(),
        group_instance_id: member.group_instance_id.map(|text| text.to_arc()),
        client_id: member.client_id.to_arc(),
        client_host: member.client_host.to_arc(),
        rebalance_timeout_ms: member.rebalance_timeout,
        session_timeout_ms: member.session_timeout,
        // A copy, so that the batch that it came in does not stay.
        subscription: Bytes::copy_from_slice(&member.subscription),
        assignment: Bytes::copy_from_slice(&member.assignment),
    }
}

#[cfg(test)]
mod tests;
