//! Names of partitions, and which coordinator partition they belong to.

use std::fmt;
use std::sync::Arc;

use crate::TopicId;

/// A partition by the name of its topic.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's index in the topic.
    pub partition: i32,
}

impl TopicPartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A partition by the id of its topic.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TopicIdPartition {
    /// The topic's id.
    pub topic_id: TopicId,
    /// The partition's index in the topic.
    pub partition: i32,
}

/// A share partition: one partition as one share group sees it.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SharePartitionKey {
    /// The share group's id.
    pub group_id: Arc<str>,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The partition's index in the topic.
    pub partition: i32,
}

impl SharePartitionKey {
    /// Returns the partition of `__share_group_state` that keeps this share partition.
    ///
    /// # Panics
    ///
    /// If `partition_count` is not positive.
    pub fn state_partition(&self, partition_count: i32) -> i32 {
        coordinator_partition(&self.to_string(), partition_count)
    }
}

impl fmt::Display for SharePartitionKey {
    /// Writes the key of a FindCoordinator request of type 2.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.group_id, self.topic_id, self.partition)
    }
}

/// Returns the hash that Java gives to a string: over its UTF-16 units.
pub fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Returns the partition of an internal topic that keeps `key` (a group id, a transactional id, or a
/// share partition's key).
///
/// # Panics
///
/// If `partition_count` is not positive.
pub fn coordinator_partition(key: &str, partition_count: i32) -> i32 {
    assert!(0 < partition_count, "a topic has at least one partition");
    let hash = java_string_hash(key);
    // Kafka's Utils.abs: the smallest integer has no positive twin and becomes zero.
    hash.checked_abs().unwrap_or(0) % partition_count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_partition_of_the_specifications_example() {
        let topic_id = TopicId::from_bytes([
            0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]);
        let key = SharePartitionKey { group_id: "g1".into(), topic_id, partition: 3 };
        assert_eq!(key.to_string(), "g1:ABEiM0RVZneImaq7zN3u_w:3");
        assert_eq!(java_string_hash(&key.to_string()), -1_719_994_315);
        assert_eq!(key.state_partition(50), 15);
    }
}
