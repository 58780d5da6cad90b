//! OffsetFetch (9), versions 1-10: one group up to version 7, several from 8 on; from 10 on topics are named by
//! their ids.

use sharemark_group_coordinator::{FetchedOffset, GroupCoordinatorShard};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use sharemark_protocol::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use sharemark_protocol::{ErrorCode, LeaderEpoch, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

/// The first version with an error for the group as a whole.
const FIRST_VERSION_WITH_GROUP_ERROR: i16 = 2;
/// The first version that asks for several groups.
const FIRST_VERSION_WITH_GROUPS: i16 = 8;
/// The first version that names topics by their ids.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 10;

impl Broker {
    pub(super) fn handle_offset_fetch(&mut self, origin: &Origin, request: &OffsetFetchRequest) {
        let response = if origin.api_version < FIRST_VERSION_WITH_GROUPS {
            let group = OffsetFetchRequestGroup {
                group_id: request.group_id.clone(),
                topics: request.topics.as_ref().map(|topics| {
                    let topics = topics.iter().map(|topic| OffsetFetchRequestTopics {
                        name: topic.name.clone(),
                        partition_indexes: topic.partition_indexes.clone(),
                        ..OffsetFetchRequestTopics::default()
                    });
                    topics.collect()
                }),
                ..OffsetFetchRequestGroup::default()
            };
            as_single(self.fetch_group_offsets(origin, &group, request.require_stable))
        } else {
            let groups = request.groups.iter();
            OffsetFetchResponse {
                groups: groups
                    .map(|group| self.fetch_group_offsets(origin, group, request.require_stable))
                    .collect(),
                ..OffsetFetchResponse::default()
            }
        };
        self.answer(origin, ResponseMessage::OffsetFetch(response));
    }

    fn fetch_group_offsets(
        &self,
        origin: &Origin,
        group: &OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup {
        match self.find_group_offsets(origin, group, require_stable) {
            Ok(topics) => {
                OffsetFetchResponseGroup { group_id: group.group_id.clone(), topics, error_code: 0 }
            }
            Err(error) if origin.api_version < FIRST_VERSION_WITH_GROUP_ERROR => {
                let topics = group.topics.iter().flatten();
                OffsetFetchResponseGroup {
                    group_id: group.group_id.clone(),
                    topics: topics.map(|topic| all(topic, Err(error))).collect(),
                    error_code: 0,
                }
            }
            Err(error) => OffsetFetchResponseGroup {
                group_id: group.group_id.clone(),
                topics: Vec::new(),
                error_code: error.code(),
            },
        }
    }

    fn find_group_offsets(
        &self,
        origin: &Origin,
        group: &OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> Result<Vec<OffsetFetchResponseTopics>, ErrorCode> {
        if !authorize(&origin.principal, Operation::Describe, Resource::Group(&group.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        let (_, shard) = self.group_shard(origin.node, &group.group_id)?;
        shard.check_offset_fetch(&group.group_id, group.member_id.as_deref(), group.member_epoch)?;
        let Some(topics) = &group.topics else {
            return Ok(self.fetch_all_offsets(origin, shard, &group.group_id, require_stable));
        };
        let by_id = FIRST_VERSION_WITH_TOPIC_IDS <= origin.api_version;
        let mut found = Vec::with_capacity(topics.len());
        let mut refused = Vec::new();
        for topic in topics {
            let name = if by_id {
                self.cluster.topic(topic.topic_id).map(|known| &*known.name)
            } else {
                Some(topic.name.as_str())
            };
            let Some(name) = name else {
                refused.push(all(topic, Err(ErrorCode::UnknownTopicId)));
                continue;
            };
            if !authorize(&origin.principal, Operation::Describe, Resource::Topic(name)) {
                refused.push(all(topic, Err(ErrorCode::TopicAuthorizationFailed)));
                continue;
            }
            let topic_id = if by_id { topic.topic_id } else { TopicId::ZERO };
            let partitions = topic.partition_indexes.iter().map(|index| {
                let place = (name, *index);
                partition(*index, shard.fetch_offset(&group.group_id, place, topic_id, require_stable))
            });
            found.push(OffsetFetchResponseTopics {
                name: topic.name.clone(),
                topic_id,
                partitions: partitions.collect(),
            });
        }
        found.append(&mut refused);
        Ok(found)
    }

    fn fetch_all_offsets(
        &self,
        origin: &Origin,
        shard: &GroupCoordinatorShard,
        group_id: &str,
        require_stable: bool,
    ) -> Vec<OffsetFetchResponseTopics> {
        let by_id = FIRST_VERSION_WITH_TOPIC_IDS <= origin.api_version;
        let committed = shard.committed_partitions(group_id).into_iter();
        let topics = committed.filter_map(|(name, indexes)| {
            if !authorize(&origin.principal, Operation::Describe, Resource::Topic(&name)) {
                return None;
            }
            let topic_id = match self.cluster.topic_named(&name) {
                Some(topic) if by_id => topic.id,
                // What is gone has no id to be told by.
                None if by_id => return None,
                Some(_) | None => TopicId::ZERO,
            };
            let partitions = indexes.into_iter().map(|index| {
                let place = (&*name, index);
                partition(index, shard.fetch_offset(group_id, place, TopicId::ZERO, require_stable))
            });
            Some(OffsetFetchResponseTopics {
                name: (&*name).into(),
                topic_id,
                partitions: partitions.collect(),
            })
        });
        topics.collect()
    }
}

fn all(topic: &OffsetFetchRequestTopics, outcome: FetchedOffset<'_>) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partition_indexes.iter().map(|index| partition(*index, outcome)).collect(),
    }
}

fn partition(partition_index: i32, outcome: FetchedOffset<'_>) -> OffsetFetchResponsePartitions {
    let offset = outcome.ok().flatten();
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: offset.map_or(-1, |offset| offset.offset),
        committed_leader_epoch: offset.and_then(|offset| offset.leader_epoch).map_or(-1, LeaderEpoch::get),
        metadata: Some(offset.map_or_else(|| "".into(), |offset| (&*offset.metadata).into())),
        error_code: ErrorCode::of(&outcome).code(),
    }
}

fn as_single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse {
    let topics = group.topics.into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: partition.error_code,
            })
            .collect(),
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: group.error_code,
        ..OffsetFetchResponse::default()
    }
}
