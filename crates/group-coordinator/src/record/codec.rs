//! The bytes of the records, by Kafka's schemas.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::messages::{
    share_group_current_member_assignment_key::ShareGroupCurrentMemberAssignmentKey,
    share_group_current_member_assignment_value::{self, ShareGroupCurrentMemberAssignmentValue},
    share_group_member_metadata_key::ShareGroupMemberMetadataKey,
    share_group_member_metadata_value::ShareGroupMemberMetadataValue,
    share_group_metadata_key::ShareGroupMetadataKey,
    share_group_metadata_value::ShareGroupMetadataValue,
    share_group_state_partition_metadata_key::ShareGroupStatePartitionMetadataKey,
    share_group_state_partition_metadata_value::{
        ShareGroupStatePartitionMetadataValue, TopicInfo, TopicPartitionsInfo,
    },
    share_group_target_assignment_member_key::ShareGroupTargetAssignmentMemberKey,
    share_group_target_assignment_member_value::{self, ShareGroupTargetAssignmentMemberValue},
    share_group_target_assignment_metadata_key::ShareGroupTargetAssignmentMetadataKey,
    share_group_target_assignment_metadata_value::ShareGroupTargetAssignmentMetadataValue,
};
use sharemark_protocol::{
    CoordinatorRecord, DecodeError, MemberEpoch, Message, StrBytes, Timestamp, TopicId,
};

use super::{
    ConsumerGroupRecord, GroupRecord, ShareAssignmentMetadata, ShareGroupMetadata, ShareMemberAssignment,
    ShareMemberMetadata, ShareStatePartitions, StateTopic, classic,
};
use crate::{GroupEpoch, TopicPartitions};

/// The only version of each value.
const VERSION: i16 = 0;
/// Kafka's number for a member whose assignment is settled, the only state of a share group's member.
const STABLE: i8 = 0;

impl GroupRecord {
    /// Returns the record's bytes.
    pub fn encode(&self) -> CoordinatorRecord {
        match self {
            Self::Consumer(record) => record.encode(),
            Self::OffsetCommit { group_id, topic, partition, value } => {
                classic::encode_offset(group_id, topic, *partition, value.as_ref())
            }
            Self::ClassicGroup { group_id, value } => classic::encode_group(group_id, value.as_ref()),
            Self::ShareGroupMemberMetadata { group_id, member_id, value } => {
                let key =
                    ShareGroupMemberMetadataKey { group_id: text(group_id), member_id: text(member_id) };
                pair(&key, value.as_ref().map(encode_member))
            }
            Self::ShareGroupMetadata { group_id, value } => {
                let value = value.map(|value| ShareGroupMetadataValue {
                    epoch: value.epoch.get(),
                    metadata_hash: value.metadata_hash,
                });
                pair(&ShareGroupMetadataKey { group_id: text(group_id) }, value)
            }
            Self::ShareGroupTargetAssignmentMetadata { group_id, value } => {
                let value = value.map(|value| ShareGroupTargetAssignmentMetadataValue {
                    assignment_epoch: value.epoch.get(),
                    assignment_timestamp: value.timestamp.map_or(0, Timestamp::ms),
                });
                pair(&ShareGroupTargetAssignmentMetadataKey { group_id: text(group_id) }, value)
            }
            Self::ShareGroupTargetAssignmentMember { group_id, member_id, value } => {
                let key = ShareGroupTargetAssignmentMemberKey {
                    group_id: text(group_id),
                    member_id: text(member_id),
                };
                pair(&key, value.as_ref().map(encode_target))
            }
            Self::ShareGroupCurrentMemberAssignment { group_id, member_id, value } => {
                let key = ShareGroupCurrentMemberAssignmentKey {
                    group_id: text(group_id),
                    member_id: text(member_id),
                };
                pair(&key, value.as_ref().map(encode_assignment))
            }
            Self::ShareGroupStatePartitionMetadata { group_id, value } => {
                let key = ShareGroupStatePartitionMetadataKey { group_id: text(group_id) };
                pair(&key, value.as_ref().map(encode_states))
            }
        }
    }

    /// Reads a record of `__consumer_offsets`.
    ///
    /// # Errors
    ///
    /// - `UnexpectedRecordType` for a record of a type that `GroupRecord` lacks.
    /// - Another error if the bytes are no such record.
    pub fn decode(key: &Bytes, value: Option<&Bytes>) -> Result<Self, DecodeError> {
        let record_type = key.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
        let record_type = record_type.ok_or(DecodeError::UnexpectedRecordType)?;
        if let Some(record) = ConsumerGroupRecord::decode(record_type, key, value)? {
            return Ok(Self::Consumer(record));
        }
        match record_type {
            ShareGroupMemberMetadataKey::API_KEY => {
                let key = ShareGroupMemberMetadataKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_member);
                let (group_id, member_id) = (key.group_id.to_arc(), key.member_id.to_arc());
                Ok(Self::ShareGroupMemberMetadata { group_id, member_id, value })
            }
            ShareGroupMetadataKey::API_KEY => {
                let group_id = ShareGroupMetadataKey::from_key_bytes(key)?.group_id.to_arc();
                let value = read(value)?.map(|value: ShareGroupMetadataValue| ShareGroupMetadata {
                    epoch: GroupEpoch::new(value.epoch),
                    metadata_hash: value.metadata_hash,
                });
                Ok(Self::ShareGroupMetadata { group_id, value })
            }
            ShareGroupTargetAssignmentMetadataKey::API_KEY => {
                let group_id = ShareGroupTargetAssignmentMetadataKey::from_key_bytes(key)?.group_id.to_arc();
                let value = read(value)?.map(decode_assignment_metadata);
                Ok(Self::ShareGroupTargetAssignmentMetadata { group_id, value })
            }
            ShareGroupTargetAssignmentMemberKey::API_KEY => {
                let key = ShareGroupTargetAssignmentMemberKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_target);
                let (group_id, member_id) = (key.group_id.to_arc(), key.member_id.to_arc());
                Ok(Self::ShareGroupTargetAssignmentMember { group_id, member_id, value })
            }
            ShareGroupCurrentMemberAssignmentKey::API_KEY => {
                let key = ShareGroupCurrentMemberAssignmentKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_assignment);
                let (group_id, member_id) = (key.group_id.to_arc(), key.member_id.to_arc());
                Ok(Self::ShareGroupCurrentMemberAssignment { group_id, member_id, value })
            }
            ShareGroupStatePartitionMetadataKey::API_KEY => {
                let group_id = ShareGroupStatePartitionMetadataKey::from_key_bytes(key)?.group_id.to_arc();
                let value = read(value)?.map(decode_states);
                Ok(Self::ShareGroupStatePartitionMetadata { group_id, value })
            }
            other => classic::decode(other, key, value),
        }
    }
}

pub(super) fn pair<K: Message, V: Message>(key: &K, value: Option<V>) -> CoordinatorRecord {
    CoordinatorRecord { key: key.to_key_bytes(), value: value.map(|value| value.to_versioned_bytes(VERSION)) }
}

pub(super) fn read<V: Message>(value: Option<&Bytes>) -> Result<Option<V>, DecodeError> {
    value.map(|bytes| V::from_versioned_bytes(bytes).map(|(_, value)| value)).transpose()
}

pub(super) fn text(text: &Arc<str>) -> StrBytes {
    StrBytes::from(&**text)
}

fn encode_member(value: &ShareMemberMetadata) -> ShareGroupMemberMetadataValue {
    ShareGroupMemberMetadataValue {
        rack_id: value.rack_id.as_ref().map(text),
        client_id: text(&value.client_id),
        client_host: text(&value.client_host),
        subscribed_topic_names: value.subscribed_topic_names.iter().map(text).collect(),
    }
}

fn decode_member(value: ShareGroupMemberMetadataValue) -> ShareMemberMetadata {
    ShareMemberMetadata {
        rack_id: value.rack_id.map(|rack_id| rack_id.to_arc()),
        client_id: value.client_id.to_arc(),
        client_host: value.client_host.to_arc(),
        subscribed_topic_names: value.subscribed_topic_names.iter().map(StrBytes::to_arc).collect(),
    }
}

fn decode_assignment_metadata(value: ShareGroupTargetAssignmentMetadataValue) -> ShareAssignmentMetadata {
    let ms = value.assignment_timestamp;
    ShareAssignmentMetadata {
        epoch: GroupEpoch::new(value.assignment_epoch),
        timestamp: (ms != 0).then(|| Timestamp::from_ms(ms)),
    }
}

fn encode_target(value: &TopicPartitions) -> ShareGroupTargetAssignmentMemberValue {
    let topics = value.iter();
    ShareGroupTargetAssignmentMemberValue {
        topic_partitions: topics
            .map(|(topic_id, partitions)| share_group_target_assignment_member_value::TopicPartition {
                topic_id: *topic_id,
                partitions: partitions.iter().copied().collect(),
            })
            .collect(),
    }
}

fn decode_target(value: ShareGroupTargetAssignmentMemberValue) -> TopicPartitions {
    topic_partitions(value.topic_partitions.into_iter().map(|topic| (topic.topic_id, topic.partitions)))
}

fn encode_assignment(value: &ShareMemberAssignment) -> ShareGroupCurrentMemberAssignmentValue {
    let topics = value.partitions.iter();
    ShareGroupCurrentMemberAssignmentValue {
        member_epoch: value.member_epoch.get(),
        previous_member_epoch: value.previous_member_epoch.map_or(-1, MemberEpoch::get),
        state: STABLE,
        assigned_partitions: topics
            .map(|(topic_id, partitions)| share_group_current_member_assignment_value::TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.iter().copied().collect(),
            })
            .collect(),
    }
}

fn decode_assignment(value: ShareGroupCurrentMemberAssignmentValue) -> ShareMemberAssignment {
    let topics = value.assigned_partitions.into_iter();
    ShareMemberAssignment {
        member_epoch: MemberEpoch::new(value.member_epoch),
        previous_member_epoch: (0 <= value.previous_member_epoch)
            .then(|| MemberEpoch::new(value.previous_member_epoch)),
        partitions: topic_partitions(topics.map(|topic| (topic.topic_id, topic.partitions))),
    }
}

/// Collects partitions by topic, without the topics that have none: Kafka writes them now and then.
pub(super) fn topic_partitions(topics: impl Iterator<Item = (TopicId, Vec<i32>)>) -> TopicPartitions {
    let topics = topics.filter(|(_, partitions)| !partitions.is_empty());
    topics.map(|(topic_id, partitions)| (topic_id, partitions.into_iter().collect())).collect()
}

fn encode_states(value: &ShareStatePartitions) -> ShareGroupStatePartitionMetadataValue {
    let info = |(topic_id, topic): (&TopicId, &StateTopic)| TopicPartitionsInfo {
        topic_id: *topic_id,
        topic_name: text(&topic.name),
        partitions: topic.partitions.iter().copied().collect(),
    };
    let deleting = value.deleting.iter();
    ShareGroupStatePartitionMetadataValue {
        initializing_topics: value.initialising.iter().map(info).collect(),
        initialized_topics: value.initialised.iter().map(info).collect(),
        deleting_topics: deleting
            .map(|(topic_id, name)| TopicInfo { topic_id: *topic_id, topic_name: text(name) })
            .collect(),
    }
}

fn decode_states(value: ShareGroupStatePartitionMetadataValue) -> ShareStatePartitions {
    let collect = |topics: Vec<TopicPartitionsInfo>| {
        let topics = topics.into_iter().filter(|topic| !topic.partitions.is_empty());
        topics
            .map(|topic| {
                let partitions: BTreeSet<i32> = topic.partitions.into_iter().collect();
                (topic.topic_id, StateTopic { name: topic.topic_name.to_arc(), partitions })
            })
            .collect()
    };
    let deleting = value.deleting_topics.into_iter();
    ShareStatePartitions {
        initialising: collect(value.initializing_topics),
        initialised: collect(value.initialized_topics),
        deleting: deleting.map(|topic| (topic.topic_id, topic.topic_name.to_arc())).collect(),
    }
}

#[cfg(test)]
mod tests;
