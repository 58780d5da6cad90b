//! What the simulator reads of logs, behind the back of every request.

use bytes::Bytes;
use sharemark_log::batch::MarkerRecord;
use sharemark_protocol::{Offset, Producer, TopicId, TopicIdPartition};

use super::Broker;

/// A partition with the ends of its log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObservedPartition {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub at: TopicIdPartition,
    /// The first offset that is left.
    pub log_start: Offset,
    /// The offset of the next record.
    pub log_end: Offset,
}

/// A record of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObservedRecord {
    /// Its offset.
    pub offset: Offset,
    /// The producer of its batch, if the batch is part of a transaction or its end.
    pub producer: Option<Producer>,
    /// Whether the transaction was committed, if the record is a marker.
    pub marker: Option<bool>,
    /// The key, empty if there is none.
    pub key: Bytes,
    /// The value.
    pub value: Option<Bytes>,
}

impl Broker {
    /// Lists all partitions, internal ones included, in the order of their topics' names.
    pub fn observe_partitions(&self) -> Vec<ObservedPartition> {
        let partitions = self.cluster.topics().flat_map(|topic| {
            topic.partitions.iter().zip(0..).map(|(partition, index)| ObservedPartition {
                topic: topic.name.to_string(),
                at: TopicIdPartition { topic_id: topic.id, partition: index },
                log_start: partition.log.log_start(),
                log_end: partition.log.log_end(),
            })
        });
        partitions.collect()
    }

    /// Returns the id of a topic.
    pub fn observe_topic(&self, name: &str) -> Option<TopicId> {
        self.cluster.topic_named(name).map(|topic| topic.id)
    }

    /// Reads the log of a partition from `first` on, whatever has become of its transactions.
    pub fn observe_log(&self, at: TopicIdPartition, first: Offset) -> Vec<ObservedRecord> {
        let Some(partition) = self.cluster.partition(at) else { return Vec::new() };
        let first = first.max(partition.log.log_start());
        let mut records = Vec::new();
        if first < partition.log.log_end() {
            self.for_each_record_from(at, first, |batch, record, key, value| {
                if record.offset < first {
                    return; // The rest of its batch is asked for.
                }
                let marker = MarkerRecord::read(record).filter(|_| batch.control);
                records.push(ObservedRecord {
                    offset: record.offset,
                    producer: batch.producer.filter(|_| batch.transactional),
                    marker: marker.map(|marker| marker.committed),
                    key,
                    value,
                });
            });
        }
        records
    }
}
