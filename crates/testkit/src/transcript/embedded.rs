//! What the members of a classic group of consumers tell each other: subscriptions and assignments, in bytes that the
//! coordinator reads only when it has to.

use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_protocol::messages as m;
use sharemark_protocol::{Message, Reader};

use m::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition as AssignedTopic};
use m::consumer_protocol_subscription::{ConsumerProtocolSubscription, TopicPartition as OwnedTopic};

use super::arguments::{CommandError, topic_partition};
use super::groups::shown_partitions;
use super::names::Names;

/// The version in which a leader assigns here.
const ASSIGNMENT_VERSION: i16 = 0;

/// Returns a consumer's subscription.
pub(super) fn subscription(names: &Names, topics: &[String], owned: &[(String, i32)], version: i16) -> Bytes {
    let owned = by_topic(owned).into_iter();
    let value = ConsumerProtocolSubscription {
        topics: topics.iter().map(|topic| names.wire(topic)).collect(),
        owned_partitions: owned
            .map(|(topic, partitions)| OwnedTopic { topic: names.wire(topic), partitions })
            .collect(),
        ..ConsumerProtocolSubscription::default()
    };
    value.to_versioned_bytes(version)
}

/// Returns the assignment of partitions that are given as `t-0+t-1`.
pub(super) fn assignment(names: &Names, words: &str) -> Result<Bytes, CommandError> {
    let partitions = words.split('+').map(topic_partition).collect::<Result<Vec<_>, _>>()?;
    let topics = by_topic(&partitions).into_iter();
    let value = ConsumerProtocolAssignment {
        assigned_partitions: topics
            .map(|(topic, partitions)| AssignedTopic { topic: names.wire(topic), partitions })
            .collect(),
        ..ConsumerProtocolAssignment::default()
    };
    Ok(value.to_versioned_bytes(ASSIGNMENT_VERSION))
}

fn by_topic(partitions: &[(String, i32)]) -> BTreeMap<&str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in partitions {
        topics.entry(topic).or_default().push(*partition);
    }
    topics
}

/// Returns what an assignment says, with its version.
pub(super) fn shown_assignment(names: &Names, bytes: &Bytes) -> String {
    let mut reader = Reader::new(bytes);
    let Ok(version) = reader.read_i16() else { return "-".to_owned() };
    let Ok(value) = ConsumerProtocolAssignment::decode(version, &mut reader) else {
        return "unreadable".to_owned();
    };
    let mut partitions: Vec<(String, i32)> = Vec::new();
    for topic in &value.assigned_partitions {
        partitions.extend(topic.partitions.iter().map(|index| (names.shown(&topic.topic), *index)));
    }
    partitions.sort();
    format!("{version}:{}", shown_partitions(&partitions, false))
}
