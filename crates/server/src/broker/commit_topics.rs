//! What OffsetCommit and TxnOffsetCommit have in common: which of their partitions are there, and the answer's order.

use std::collections::BTreeMap;

use sharemark_group_coordinator::{CommittedOffset, OffsetToCommit};
use sharemark_protocol::{ErrorCode, LeaderEpoch, StrBytes, Timestamp, TopicId, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// A topic of a request to commit.
pub(super) struct CommitTopic<'a> {
    pub(super) name: &'a StrBytes,
    pub(super) topic_id: TopicId,
    pub(super) partitions: Vec<CommitPartition<'a>>,
}

/// A partition of a request to commit.
pub(super) struct CommitPartition<'a> {
    pub(super) index: i32,
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: Option<&'a StrBytes>,
}

/// A topic of the answer.
#[derive(Clone, Debug)]
pub(super) struct CommittedTopic {
    pub(super) name: StrBytes,
    pub(super) topic_id: TopicId,
    pub(super) partitions: Vec<(i32, ErrorCode)>,
}

/// The partitions of a request, those that are refused in the answer already.
#[derive(Clone, Debug, Default)]
pub(super) struct CommitPartitions {
    topics: Vec<CommittedTopic>,
    slots: BTreeMap<(StrBytes, TopicId), usize>,
    /// What the group coordinator is asked to commit, with the topic as the client named it.
    pub(super) accepted: Vec<((StrBytes, TopicId), OffsetToCommit)>,
}

impl CommitPartitions {
    fn answer(&mut self, topic: (StrBytes, TopicId), index: i32, error: ErrorCode) {
        let slot = *self.slots.entry(topic.clone()).or_insert_with(|| {
            let (name, topic_id) = topic;
            self.topics.push(CommittedTopic { name, topic_id, partitions: Vec::new() });
            self.topics.len() - 1
        });
        self.topics[slot].partitions.push((index, error));
    }

    /// Returns the answer; as in Kafka the partitions that never got to the coordinator come first.
    pub(super) fn into_topics(mut self, outcomes: &[Result<(), ErrorCode>]) -> Vec<CommittedTopic> {
        let accepted = std::mem::take(&mut self.accepted);
        for ((topic, offset), outcome) in accepted.into_iter().zip(outcomes) {
            self.answer(topic, offset.partition, ErrorCode::of(outcome));
        }
        self.topics
    }

    /// Returns the answer if the coordinator refuses all that it was asked.
    pub(super) fn into_refused(self, error: ErrorCode) -> Vec<CommittedTopic> {
        let outcomes = vec![Err(error); self.accepted.len()];
        self.into_topics(&outcomes)
    }
}

impl Broker {
    /// Judges which partitions of a commit are there and may be read.
    pub(super) fn decide_commit_partitions(
        &self,
        now: Now,
        origin: &Origin,
        by_id: bool,
        expires_at: Option<Timestamp>,
        topics: Vec<CommitTopic<'_>>,
    ) -> CommitPartitions {
        let mut decided = CommitPartitions::default();
        for topic in topics {
            let found =
                if by_id { self.cluster.topic(topic.topic_id) } else { self.cluster.topic_named(topic.name) };
            let outcome = match found {
                None if by_id => Err(ErrorCode::UnknownTopicId),
                _ => {
                    let name = found.map_or_else(|| topic.name.as_str(), |found| &found.name);
                    if authorize(&origin.principal, Operation::Read, Resource::Topic(name)) {
                        found.ok_or(ErrorCode::UnknownTopicOrPartition)
                    } else {
                        Err(ErrorCode::TopicAuthorizationFailed)
                    }
                }
            };
            let named = (topic.name.clone(), topic.topic_id);
            for partition in topic.partitions {
                let known = outcome.and_then(|found| {
                    let at = TopicIdPartition { topic_id: found.id, partition: partition.index };
                    self.cluster.partition(at).map(|_| found).ok_or(ErrorCode::UnknownTopicOrPartition)
                });
                let found = match known {
                    Ok(found) => found,
                    Err(error) => {
                        decided.answer(named.clone(), partition.index, error);
                        continue;
                    }
                };
                let value = CommittedOffset {
                    offset: partition.offset,
                    leader_epoch: (0 <= partition.leader_epoch)
                        .then(|| LeaderEpoch::new(partition.leader_epoch)),
                    metadata: partition.metadata.map(StrBytes::to_arc).unwrap_or_default(),
                    committed_at: now.clock,
                    expires_at,
                    topic_id: found.id,
                };
                let offset = OffsetToCommit { topic: found.name.clone(), partition: partition.index, value };
                decided.accepted.push((named.clone(), offset));
            }
        }
        decided
    }

    /// Returns how long a text may be that is committed with an offset.
    pub(super) fn offset_metadata_size_max(&self) -> usize {
        usize::try_from(self.cluster.configs.broker().offset_metadata_max_bytes).unwrap_or(0)
    }
}
