//! What of a call or a request the selectors of faults look at.

use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::{SharePartitionKey, StrBytes, TopicId, TopicIdPartition, TopicPartition};

use super::super::Broker;
use super::super::crossing::{Call, Crossing};
use super::super::input::Request;
use super::Facts;

impl Broker {
    pub(super) fn place(&self, at: TopicIdPartition) -> Option<(String, i32)> {
        Some((self.topic_name(at.topic_id)?, at.partition))
    }

    fn topic_name(&self, id: TopicId) -> Option<String> {
        self.cluster.topic(id).map(|topic| topic.name.to_string())
    }

    pub(super) fn facts_of_crossing(&self, crossing: &Crossing) -> Facts {
        let mut facts = Facts { from: Some(crossing.from), to: Some(crossing.to), ..Facts::default() };
        let mut keys: Vec<&SharePartitionKey> = Vec::new();
        match &crossing.call {
            Call::InitialiseShareStates { states, .. } => {
                facts.groups.push(states.group_id.to_string());
                for topic in &states.topics {
                    let name = self.topic_name(topic.topic_id).unwrap_or_default();
                    facts.places.extend(topic.partitions.keys().map(|partition| (name.clone(), *partition)));
                }
            }
            Call::DeleteShareStates { states, .. } => {
                facts.groups.push(states.group_id.to_string());
                for (topic_id, partitions) in &states.partitions {
                    let name = self.topic_name(*topic_id).unwrap_or_default();
                    facts.places.extend(partitions.iter().map(|partition| (name.clone(), *partition)));
                }
            }
            Call::ReadShareState { key, .. } => keys.push(key),
            Call::WriteShareState { write, .. } => keys.push(&write.key),
            Call::StageShareStates(states) => {
                facts.transactional_ids.push(states.transactional_id.to_string());
                keys.extend(states.writes.iter().map(|(_, _, write)| &write.key));
            }
            Call::CheckMember { group_id, .. } => facts.groups.push(group_id.to_string()),
            Call::AddToTransaction(request) => {
                facts.transactional_ids.push(request.transactional_id.clone());
                facts.places.extend(named_places(&request.partitions));
            }
            Call::FindOngoing { transactional_id, partitions, .. } => {
                facts.transactional_ids.push(transactional_id.to_string());
                facts.places.extend(named_places(partitions));
            }
            Call::WriteMarkers { marker, .. } => {
                facts.transactional_ids.push(marker.key.transactional_id.to_string());
                facts.places.extend(named_places(&marker.partitions));
            }
            Call::WriteDeadLetters(write) => facts.places.extend(self.place(write.place())),
            Call::ForgetShareGroup(_) => {}
            Call::SummariseShareStates { keys: asked, .. } => keys.extend(asked),
        }
        for key in keys {
            facts.groups.push(key.group_id.to_string());
            facts
                .places
                .extend(self.place(TopicIdPartition { topic_id: key.topic_id, partition: key.partition }));
        }
        facts
    }

    pub(super) fn facts_of_request(&self, request: &Request) -> Facts {
        let mut facts = Facts {
            api: Some(request.message.api_key()),
            node: Some(request.origin.node),
            ..Facts::default()
        };
        facts.note_names(&request.message);
        self.note_places(&request.message, &mut facts);
        facts
    }

    /// Notes the partitions that a request is about.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other requests name no partitions")]
    fn note_places(&self, message: &RequestMessage, facts: &mut Facts) {
        macro_rules! places {
            ($topics:expr, $topic:ident: $id:expr, $name:expr, $partitions:ident.$index:ident) => {
                for $topic in &$topics {
                    let name = self.name_of($id, $name);
                    facts.places.extend($topic.$partitions.iter().map(|it| (name.clone(), it.$index)));
                }
            };
        }
        match message {
            RequestMessage::Produce(body) => {
                places!(body.topic_data, topic: topic.topic_id, Some(&topic.name), partition_data.index);
            }
            RequestMessage::Fetch(body) => {
                places!(body.topics, topic: topic.topic_id, Some(&topic.topic), partitions.partition);
            }
            RequestMessage::ListOffsets(body) => {
                places!(body.topics, topic: TopicId::default(), Some(&topic.name), partitions.partition_index);
            }
            RequestMessage::OffsetCommit(body) => {
                places!(body.topics, topic: topic.topic_id, Some(&topic.name), partitions.partition_index);
            }
            RequestMessage::TxnOffsetCommit(body) => {
                places!(body.topics, topic: topic.topic_id, Some(&topic.name), partitions.partition_index);
            }
            RequestMessage::DeleteRecords(body) => {
                places!(body.topics, topic: TopicId::default(), Some(&topic.name), partitions.partition_index);
            }
            RequestMessage::OffsetForLeaderEpoch(body) => {
                places!(body.topics, topic: TopicId::default(), Some(&topic.topic), partitions.partition);
            }
            RequestMessage::ShareFetch(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition_index);
            }
            RequestMessage::ShareAcknowledge(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition_index);
            }
            RequestMessage::TxnShareAcknowledge(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition_index);
            }
            RequestMessage::SeedTxnShareAcknowledge(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition);
            }
            RequestMessage::ReadShareGroupState(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition);
            }
            RequestMessage::WriteShareGroupState(body) => {
                places!(body.topics, topic: topic.topic_id, None, partitions.partition);
            }
            RequestMessage::AddPartitionsToTxn(body) => {
                let later = body.transactions.iter().flat_map(|transaction| &transaction.topics);
                for topic in body.v3_and_below_topics.iter().chain(later) {
                    facts
                        .places
                        .extend(topic.partitions.iter().map(|index| (topic.name.to_string(), *index)));
                }
            }
            _ => self.note_topics(message, facts),
        }
    }

    /// Notes the topics that a request is about as a whole.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other requests are about no topics")]
    fn note_topics(&self, message: &RequestMessage, facts: &mut Facts) {
        match message {
            RequestMessage::Metadata(body) => {
                let topics = body.topics.iter().flatten();
                let names = topics.map(|topic| self.name_of(topic.topic_id, topic.name.as_ref()));
                facts.places.extend(names.map(|name| (name, -1)));
            }
            RequestMessage::CreateTopics(body) => {
                facts.places.extend(body.topics.iter().map(|topic| (topic.name.to_string(), -1)));
            }
            RequestMessage::CreatePartitions(body) => {
                facts.places.extend(body.topics.iter().map(|topic| (topic.name.to_string(), -1)));
            }
            RequestMessage::DeleteTopics(body) => {
                facts.places.extend(body.topic_names.iter().map(|name| (name.to_string(), -1)));
                let topics = body.topics.iter();
                let names = topics.map(|topic| self.name_of(topic.topic_id, topic.name.as_ref()));
                facts.places.extend(names.map(|name| (name, -1)));
            }
            _ => {}
        }
    }

    /// Returns the name of a topic that a request names by its id or its name.
    fn name_of(&self, id: TopicId, name: Option<&StrBytes>) -> String {
        let known = self.topic_name(id);
        known.or_else(|| name.map(ToString::to_string)).unwrap_or_default()
    }
}

impl Facts {
    /// Notes the groups and transactional ids that a request names.
    #[expect(clippy::wildcard_enum_match_arm, reason = "other requests name neither")]
    fn note_names(&mut self, message: &RequestMessage) {
        let (groups, ids): (Vec<&StrBytes>, Vec<&StrBytes>) = match message {
            RequestMessage::AddOffsetsToTxn(body) => (vec![&body.group_id], vec![&body.transactional_id]),
            RequestMessage::AddShareAcksToTxn(body) => (vec![&body.group_id], vec![&body.transactional_id]),
            RequestMessage::AlterShareGroupOffsets(body) => (vec![&body.group_id], vec![]),
            RequestMessage::AddPartitionsToTxn(body) => {
                let later = body.transactions.iter().map(|transaction| &transaction.transactional_id);
                (vec![], later.chain([&body.v3_and_below_transactional_id]).collect())
            }
            RequestMessage::ConsumerGroupDescribe(body) => (body.group_ids.iter().collect(), vec![]),
            RequestMessage::ConsumerGroupHeartbeat(body) => (vec![&body.group_id], vec![]),
            RequestMessage::DeleteGroups(body) => (body.groups_names.iter().collect(), vec![]),
            RequestMessage::DeleteShareGroupOffsets(body) => (vec![&body.group_id], vec![]),
            RequestMessage::DeleteShareGroupState(body) => (vec![&body.group_id], vec![]),
            RequestMessage::DescribeGroups(body) => (body.groups.iter().collect(), vec![]),
            RequestMessage::DescribeShareGroupOffsets(body) => {
                (body.groups.iter().map(|group| &group.group_id).collect(), vec![])
            }
            RequestMessage::DescribeTransactions(body) => (vec![], body.transactional_ids.iter().collect()),
            RequestMessage::EndTxn(body) => (vec![], vec![&body.transactional_id]),
            RequestMessage::FindCoordinator(body) => match body.key_type {
                1 => (vec![], body.coordinator_keys.iter().chain([&body.key]).collect()),
                _ => (body.coordinator_keys.iter().chain([&body.key]).collect(), vec![]),
            },
            RequestMessage::Heartbeat(body) => (vec![&body.group_id], vec![]),
            RequestMessage::InitializeShareGroupState(body) => (vec![&body.group_id], vec![]),
            RequestMessage::InitProducerId(body) => (vec![], body.transactional_id.iter().collect()),
            RequestMessage::JoinGroup(body) => (vec![&body.group_id], vec![]),
            RequestMessage::LeaveGroup(body) => (vec![&body.group_id], vec![]),
            RequestMessage::OffsetCommit(body) => (vec![&body.group_id], vec![]),
            RequestMessage::OffsetDelete(body) => (vec![&body.group_id], vec![]),
            RequestMessage::OffsetFetch(body) => {
                (body.groups.iter().map(|group| &group.group_id).chain([&body.group_id]).collect(), vec![])
            }
            RequestMessage::Produce(body) => (vec![], body.transactional_id.iter().collect()),
            RequestMessage::ReadShareGroupState(body) => (vec![&body.group_id], vec![]),
            RequestMessage::ReadShareGroupStateSummary(body) => (vec![&body.group_id], vec![]),
            RequestMessage::SeedTxnShareAcknowledge(body) => {
                (vec![&body.group_id], vec![&body.transaction_id])
            }
            RequestMessage::ShareAcknowledge(body) => (body.group_id.iter().collect(), vec![]),
            RequestMessage::ShareFetch(body) => (body.group_id.iter().collect(), vec![]),
            RequestMessage::ShareGroupDescribe(body) => (body.group_ids.iter().collect(), vec![]),
            RequestMessage::ShareGroupHeartbeat(body) => (vec![&body.group_id], vec![]),
            RequestMessage::SyncGroup(body) => (vec![&body.group_id], vec![]),
            RequestMessage::TxnOffsetCommit(body) => (vec![&body.group_id], vec![&body.transactional_id]),
            RequestMessage::TxnShareAcknowledge(body) => {
                (vec![&body.group_id], body.transactional_id.iter().collect())
            }
            RequestMessage::WriteShareGroupState(body) => (vec![&body.group_id], vec![]),
            _ => return,
        };
        self.groups.extend(groups.into_iter().map(ToString::to_string));
        self.transactional_ids.extend(ids.into_iter().map(ToString::to_string));
    }
}

fn named_places(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, i32)> {
    partitions.iter().map(|place| (place.topic.to_string(), place.partition))
}
