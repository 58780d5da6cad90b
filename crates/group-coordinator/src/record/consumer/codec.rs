//! The bytes of consumer-group records, by Kafka's schemas.

use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_protocol::messages::{
    consumer_group_current_member_assignment_key::ConsumerGroupCurrentMemberAssignmentKey,
    consumer_group_current_member_assignment_value::{
        ConsumerGroupCurrentMemberAssignmentValue, TopicPartitions as EpochTopic,
    },
    consumer_group_member_metadata_key::ConsumerGroupMemberMetadataKey,
    consumer_group_member_metadata_value::{
        ClassicMemberMetadata as ClassicValue, ClassicProtocol, ConsumerGroupMemberMetadataValue,
    },
    consumer_group_metadata_key::ConsumerGroupMetadataKey,
    consumer_group_metadata_value::ConsumerGroupMetadataValue,
    consumer_group_partition_metadata_key::ConsumerGroupPartitionMetadataKey,
    consumer_group_partition_metadata_value::ConsumerGroupPartitionMetadataValue,
    consumer_group_regular_expression_key::ConsumerGroupRegularExpressionKey,
    consumer_group_regular_expression_value::ConsumerGroupRegularExpressionValue,
    consumer_group_target_assignment_member_key::ConsumerGroupTargetAssignmentMemberKey,
    consumer_group_target_assignment_member_value::{
        ConsumerGroupTargetAssignmentMemberValue, TopicPartition,
    },
    consumer_group_target_assignment_metadata_key::ConsumerGroupTargetAssignmentMetadataKey,
    consumer_group_target_assignment_metadata_value::ConsumerGroupTargetAssignmentMetadataValue,
};
use sharemark_protocol::{CoordinatorRecord, DecodeError, MemberEpoch, Message, StrBytes, Timestamp};

use super::{
    ClassicMemberMetadata, ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord,
    ConsumerMemberAssignment, ConsumerMemberMetadata, ConsumerMemberState, PartitionEpochs,
    ResolvedRegularExpression,
};
use crate::record::codec::{pair, read, text, topic_partitions};
use crate::{GroupEpoch, TopicPartitions};

impl ConsumerGroupRecord {
    /// Returns the record's bytes.
    pub fn encode(&self) -> CoordinatorRecord {
        match self {
            Self::Metadata { group_id, value } => {
                let value = value.map(|value| ConsumerGroupMetadataValue {
                    epoch: value.epoch.get(),
                    metadata_hash: value.metadata_hash,
                });
                pair(&ConsumerGroupMetadataKey { group_id: text(group_id) }, value)
            }
            Self::PartitionMetadata { group_id, value } => {
                let key = ConsumerGroupPartitionMetadataKey { group_id: text(group_id) };
                CoordinatorRecord { key: key.to_key_bytes(), value: value.clone() }
            }
            Self::MemberMetadata { group_id, member_id, value } => {
                let key =
                    ConsumerGroupMemberMetadataKey { group_id: text(group_id), member_id: text(member_id) };
                pair(&key, value.as_ref().map(encode_member))
            }
            Self::TargetAssignmentMetadata { group_id, value } => {
                let value = value.map(|value| ConsumerGroupTargetAssignmentMetadataValue {
                    assignment_epoch: value.epoch.get(),
                    assignment_timestamp: value.timestamp.map_or(0, Timestamp::ms),
                });
                pair(&ConsumerGroupTargetAssignmentMetadataKey { group_id: text(group_id) }, value)
            }
            Self::TargetAssignmentMember { group_id, member_id, value } => {
                let key = ConsumerGroupTargetAssignmentMemberKey {
                    group_id: text(group_id),
                    member_id: text(member_id),
                };
                pair(&key, value.as_ref().map(encode_target))
            }
            Self::CurrentMemberAssignment { group_id, member_id, value } => {
                let key = ConsumerGroupCurrentMemberAssignmentKey {
                    group_id: text(group_id),
                    member_id: text(member_id),
                };
                pair(&key, value.as_ref().map(encode_assignment))
            }
            Self::RegularExpression { group_id, regex, value } => {
                let key = ConsumerGroupRegularExpressionKey {
                    group_id: text(group_id),
                    regular_expression: text(regex),
                };
                pair(&key, value.as_ref().map(encode_resolved))
            }
        }
    }

    /// Reads a record of a consumer group; `None` if its type is that of no such record.
    ///
    /// # Errors
    ///
    /// - An error if the bytes are no record of that type.
    pub(crate) fn decode(
        record_type: i16,
        key: &Bytes,
        value: Option<&Bytes>,
    ) -> Result<Option<Self>, DecodeError> {
        let record = match record_type {
            ConsumerGroupMetadataKey::API_KEY => {
                let group_id = ConsumerGroupMetadataKey::from_key_bytes(key)?.group_id.to_arc();
                let value = read(value)?.map(|value: ConsumerGroupMetadataValue| ConsumerGroupMetadata {
                    epoch: GroupEpoch::new(value.epoch),
                    metadata_hash: value.metadata_hash,
                });
                Self::Metadata { group_id, value }
            }
            ConsumerGroupPartitionMetadataKey::API_KEY => {
                let group_id = ConsumerGroupPartitionMetadataKey::from_key_bytes(key)?.group_id.to_arc();
                read::<ConsumerGroupPartitionMetadataValue>(value)?;
                Self::PartitionMetadata { group_id, value: value.cloned() }
            }
            ConsumerGroupMemberMetadataKey::API_KEY => {
                let key = ConsumerGroupMemberMetadataKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_member);
                Self::MemberMetadata {
                    group_id: key.group_id.to_arc(),
                    member_id: key.member_id.to_arc(),
                    value,
                }
            }
            ConsumerGroupTargetAssignmentMetadataKey::API_KEY => {
                let key = ConsumerGroupTargetAssignmentMetadataKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_assignment_metadata);
                Self::TargetAssignmentMetadata { group_id: key.group_id.to_arc(), value }
            }
            ConsumerGroupTargetAssignmentMemberKey::API_KEY => {
                let key = ConsumerGroupTargetAssignmentMemberKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_target);
                let (group_id, member_id) = (key.group_id.to_arc(), key.member_id.to_arc());
                Self::TargetAssignmentMember { group_id, member_id, value }
            }
            ConsumerGroupCurrentMemberAssignmentKey::API_KEY => {
                let key = ConsumerGroupCurrentMemberAssignmentKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_assignment);
                let (group_id, member_id) = (key.group_id.to_arc(), key.member_id.to_arc());
                Self::CurrentMemberAssignment { group_id, member_id, value }
            }
            ConsumerGroupRegularExpressionKey::API_KEY => {
                let key = ConsumerGroupRegularExpressionKey::from_key_bytes(key)?;
                let value = read(value)?.map(decode_resolved);
                let (group_id, regex) = (key.group_id.to_arc(), key.regular_expression.to_arc());
                Self::RegularExpression { group_id, regex, value }
            }
            _ => return Ok(None),
        };
        Ok(Some(record))
    }
}

fn encode_member(value: &ConsumerMemberMetadata) -> ConsumerGroupMemberMetadataValue {
    ConsumerGroupMemberMetadataValue {
        instance_id: value.instance_id.as_ref().map(text),
        rack_id: value.rack_id.as_ref().map(text),
        client_id: text(&value.client_id),
        client_host: text(&value.client_host),
        subscribed_topic_names: value.subscribed_topic_names.iter().map(text).collect(),
        subscribed_topic_regex: value.subscribed_topic_regex.as_ref().map(text),
        rebalance_timeout_ms: value.rebalance_timeout_ms.unwrap_or(-1),
        server_assignor: value.server_assignor.as_ref().map(text),
        classic_member_metadata: value.classic.as_ref().map(|classic| ClassicValue {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: classic
                .supported_protocols
                .iter()
                .map(|(name, metadata)| ClassicProtocol { name: text(name), metadata: metadata.clone() })
                .collect(),
        }),
    }
}

fn decode_member(value: ConsumerGroupMemberMetadataValue) -> ConsumerMemberMetadata {
    ConsumerMemberMetadata {
        instance_id: value.instance_id.map(|id| id.to_arc()),
        rack_id: value.rack_id.map(|id| id.to_arc()),
        client_id: value.client_id.to_arc(),
        client_host: value.client_host.to_arc(),
        subscribed_topic_names: value.subscribed_topic_names.iter().map(StrBytes::to_arc).collect(),
        subscribed_topic_regex: value.subscribed_topic_regex.map(|regex| regex.to_arc()),
        rebalance_timeout_ms: (0 <= value.rebalance_timeout_ms).then_some(value.rebalance_timeout_ms),
        server_assignor: value.server_assignor.map(|name| name.to_arc()),
        classic: value.classic_member_metadata.map(|classic| ClassicMemberMetadata {
            session_timeout_ms: classic.session_timeout_ms,
            supported_protocols: classic
                .supported_protocols
                .into_iter()
                .map(|protocol| (protocol.name.to_arc(), protocol.metadata))
                .collect(),
        }),
    }
}

fn decode_assignment_metadata(
    value: ConsumerGroupTargetAssignmentMetadataValue,
) -> ConsumerAssignmentMetadata {
    let ms = value.assignment_timestamp;
    ConsumerAssignmentMetadata {
        epoch: GroupEpoch::new(value.assignment_epoch),
        timestamp: (ms != 0).then(|| Timestamp::from_ms(ms)),
    }
}

fn encode_target(value: &TopicPartitions) -> ConsumerGroupTargetAssignmentMemberValue {
    let topics = value.iter();
    ConsumerGroupTargetAssignmentMemberValue {
        topic_partitions: topics
            .map(|(topic_id, partitions)| TopicPartition {
                topic_id: *topic_id,
                partitions: partitions.iter().copied().collect(),
            })
            .collect(),
    }
}

fn decode_target(value: ConsumerGroupTargetAssignmentMemberValue) -> TopicPartitions {
    topic_partitions(value.topic_partitions.into_iter().map(|topic| (topic.topic_id, topic.partitions)))
}

impl ConsumerMemberState {
    /// Returns Kafka's number of the state.
    const fn to_wire(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => i8::MAX,
        }
    }

    const fn from_wire(number: i8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

fn encode_assignment(value: &ConsumerMemberAssignment) -> ConsumerGroupCurrentMemberAssignmentValue {
    let topics = |partitions: &PartitionEpochs| {
        let topics = partitions.iter();
        topics
            .map(|(topic_id, epochs)| EpochTopic {
                topic_id: *topic_id,
                partitions: epochs.keys().copied().collect(),
                assignment_epochs: Some(epochs.values().copied().collect()),
            })
            .collect()
    };
    ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: value.member_epoch.get(),
        previous_member_epoch: value.previous_member_epoch.map_or(-1, MemberEpoch::get),
        state: value.state.to_wire(),
        assigned_partitions: topics(&value.assigned),
        partitions_pending_revocation: topics(&value.pending_revocation),
    }
}

fn decode_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMemberAssignment {
    // A partition whose record tells no epoch of its own counts as assigned at the member's.
    let partitions = |topics: Vec<EpochTopic>| -> PartitionEpochs {
        let topics = topics.into_iter().filter(|topic| !topic.partitions.is_empty());
        topics
            .map(|topic| {
                let told = topic.assignment_epochs.unwrap_or_default();
                let epochs = told.into_iter().map(Some).chain(std::iter::repeat(None));
                let epochs = epochs.map(|epoch| epoch.unwrap_or(value.member_epoch));
                (topic.topic_id, topic.partitions.into_iter().zip(epochs).collect::<BTreeMap<i32, i32>>())
            })
            .collect()
    };
    ConsumerMemberAssignment {
        member_epoch: MemberEpoch::new(value.member_epoch),
        previous_member_epoch: (0 <= value.previous_member_epoch)
            .then(|| MemberEpoch::new(value.previous_member_epoch)),
        state: ConsumerMemberState::from_wire(value.state),
        assigned: partitions(value.assigned_partitions),
        pending_revocation: partitions(value.partitions_pending_revocation),
    }
}

fn encode_resolved(value: &ResolvedRegularExpression) -> ConsumerGroupRegularExpressionValue {
    ConsumerGroupRegularExpressionValue {
        topics: value.topics.iter().map(text).collect(),
        version: value.version,
        timestamp: value.timestamp_ms,
    }
}

fn decode_resolved(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegularExpression {
    ResolvedRegularExpression {
        topics: value.topics.iter().map(StrBytes::to_arc).collect(),
        version: value.version,
        timestamp_ms: value.timestamp,
    }
}

#[cfg(test)]
mod tests;
