//! What a group has to know about topics, and the hash that tells whether it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::TopicId;

mod xxh3;

/// Partitions by the id of their topic. No set of partitions is empty.
pub type TopicPartitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// The metadata of one topic that concerns its groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TopicFacts {
    /// The id of this incarnation.
    pub id: TopicId,
    /// How many partitions it has.
    pub partition_count: i32,
}

/// The topics as the coordinator's node sees them.
pub trait Topics {
    /// Returns a number that is another after every topic creation, deletion and added partition.
    fn version(&self) -> u64;
    /// Returns the version that the last topic creation led to.
    fn created_version(&self) -> u64;
    /// Returns the names of all topics, internal ones too.
    fn names(&self) -> impl Iterator<Item = &str>;
    /// Returns the topic called `name`, or `None` if there is none.
    fn topic(&self, name: &str) -> Option<TopicFacts>;
    /// Returns the name of the topic with this id, or `None` if there is none.
    fn name(&self, id: TopicId) -> Option<&str>;
}

/// Returns Kafka's hash of one topic's metadata; nodes have no rack here.
pub fn topic_hash(name: &str, facts: TopicFacts) -> i64 {
    let id = facts.id.bytes();
    let mut stream = Vec::with_capacity(64 + name.len() * 2);
    stream.push(0); // Version of the hash.
    // The id is two big-endian halves; the stream is little-endian throughout.
    stream.extend(id[..8].iter().rev());
    stream.extend(id[8..].iter().rev());
    put_string(name, &mut stream);
    stream.extend(facts.partition_count.to_le_bytes());
    for partition in 0..facts.partition_count {
        stream.extend(partition.to_le_bytes());
    }
    xxh3::hash(&stream)
}

/// Returns Kafka's hash over the hashes of a group's topics, which must come in order of their names.
/// No topic hashes to 0.
pub fn group_hash(topic_hashes: impl IntoIterator<Item = i64>) -> i64 {
    let stream: Vec<u8> = topic_hashes.into_iter().flat_map(i64::to_le_bytes).collect();
    if stream.is_empty() {
        return 0;
    }
    xxh3::hash(&stream)
}

/// Returns the hash over the topics among `names` that exist.
pub(crate) fn metadata_hash<'a>(names: impl IntoIterator<Item = &'a Arc<str>>, topics: &impl Topics) -> i64 {
    group_hash(names.into_iter().filter_map(|name| Some(topic_hash(name, topics.topic(name)?))))
}

/// Returns the ids of the topics among `names` that exist.
pub(crate) fn topic_ids<'a>(
    names: impl IntoIterator<Item = &'a Arc<str>>,
    topics: &impl Topics,
) -> BTreeSet<TopicId> {
    names.into_iter().filter_map(|name| Some(topics.topic(name)?.id)).collect()
}

/// Appends a string as the hash's library does: its UTF-16 units, then how many they are.
fn put_string(text: &str, stream: &mut Vec<u8>) {
    let mut unit_count = 0_i32;
    for unit in text.encode_utf16() {
        stream.extend(unit.to_le_bytes());
        unit_count += 1;
    }
    stream.extend(unit_count.to_le_bytes());
}

#[cfg(test)]
mod tests;
