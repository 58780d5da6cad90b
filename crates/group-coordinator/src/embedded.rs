//! What members of a classic group of consumers tell each other: subscriptions and assignments. The coordinator reads
//! them only where such members meet those that speak the consumer protocol.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition,
};
use sharemark_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use sharemark_protocol::{Message, Reader, TopicId};

use crate::TopicPartitions;
use crate::topics::Topics;

/// The kind of members that the protocol of Kafka's consumers has.
pub(crate) const PROTOCOL_TYPE: &str = "consumer";

/// What a consumer says of itself when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// The names of the topics it wants.
    pub(crate) topics: BTreeSet<Arc<str>>,
    /// The partitions it has, as far as their topics exist.
    pub(crate) owned: Vec<(TopicId, Vec<i32>)>,
    /// Its rack, if it named one.
    pub(crate) rack_id: Option<Arc<str>>,
}

impl Subscription {
    /// Reads a member's metadata; `None` if it is no consumer's.
    pub(crate) fn read(metadata: &Bytes, topics: &impl Topics) -> Option<Self> {
        let mut reader = Reader::new(metadata);
        let version = known_version::<ConsumerProtocolSubscription>(&mut reader)?;
        let read = ConsumerProtocolSubscription::decode(version, &mut reader).ok()?;
        let owned = read.owned_partitions.into_iter();
        Some(Self {
            topics: read.topics.iter().map(|name| name.to_arc()).collect(),
            owned: owned
                .filter_map(|owned| Some((topics.topic(&owned.topic)?.id, owned.partitions)))
                .collect(),
            rack_id: read.rack_id.map(|rack_id| rack_id.to_arc()),
        })
    }
}

/// Returns the names of the topics that a consumer wants, which begin alike in every version.
pub(crate) fn read_topic_names(metadata: &Bytes) -> Option<Vec<Arc<str>>> {
    let mut reader = Reader::new(metadata);
    known_version::<ConsumerProtocolSubscription>(&mut reader)?;
    let subscription = ConsumerProtocolSubscription::decode(0, &mut reader).ok()?;
    Some(subscription.topics.iter().map(|name| name.to_arc()).collect())
}

/// Reads what a leader has assigned, as far as the topics exist; `None` if it is no assignment. Nothing is an empty one.
pub(crate) fn read_assignment(bytes: &Bytes, topics: &impl Topics) -> Option<TopicPartitions> {
    let mut partitions = TopicPartitions::new();
    if bytes.is_empty() {
        return Some(partitions);
    }
    let mut reader = Reader::new(bytes);
    let version = known_version::<ConsumerProtocolAssignment>(&mut reader)?;
    let read = ConsumerProtocolAssignment::decode(version, &mut reader).ok()?;
    for topic in read.assigned_partitions {
        // A topic that is named twice has what was said last, as in Kafka.
        if let Some(facts) = topics.topic(&topic.topic).filter(|_| !topic.partitions.is_empty()) {
            partitions.insert(facts.id, topic.partitions.into_iter().collect());
        }
    }
    Some(partitions)
}

/// Returns an assignment in the version of the metadata of the member that gets it.
pub(crate) fn write_assignment(
    partitions: &TopicPartitions,
    metadata: Option<&Bytes>,
    topics: &impl Topics,
) -> Bytes {
    let assigned = partitions.iter().filter_map(|(topic_id, partitions)| {
        let partitions = partitions.iter().copied().collect();
        Some(TopicPartition { topic: topics.name(*topic_id)?.into(), partitions })
    });
    let value = ConsumerProtocolAssignment {
        assigned_partitions: assigned.collect(),
        ..ConsumerProtocolAssignment::default()
    };
    let version =
        metadata.and_then(|metadata| known_version::<ConsumerProtocolAssignment>(&mut Reader::new(metadata)));
    value.to_versioned_bytes(version.unwrap_or(0))
}

/// Reads the version that leads a message; a newer one than is known begins like the newest known.
fn known_version<M: Message>(reader: &mut Reader<'_>) -> Option<i16> {
    let version = reader.read_i16().ok().filter(|version| 0 <= *version)?;
    Some(version.min(*M::VERSIONS_VALID.end()))
}
