//! OffsetCommit (8), versions 2-10; from 10 on topics are named by their ids.

use sharemark_group_coordinator::{CommitOffsets, OffsetToCommit};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestTopic};
use sharemark_protocol::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use sharemark_protocol::{ErrorCode, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::commit_topics::{CommitPartition, CommitTopic, CommittedTopic};
use super::input::{Now, Origin};

/// The first version that knows the errors of consumer groups (KIP-848).
const FIRST_VERSION_WITH_GROUP_ERRORS: i16 = 9;
/// The first version that names topics by their ids.
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 10;

impl Broker {
    pub(super) fn handle_offset_commit(&mut self, now: Now, origin: &Origin, request: &OffsetCommitRequest) {
        let topics = self.offset_commit(now, origin, request);
        let topics = topics.into_iter().map(|topic| OffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(partition_index, error)| OffsetCommitResponsePartition {
                    partition_index,
                    error_code: error.code(),
                })
                .collect(),
        });
        let response = OffsetCommitResponse { throttle_time_ms: 0, topics: topics.collect() };
        self.answer(origin, ResponseMessage::OffsetCommit(response));
    }

    fn offset_commit(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &OffsetCommitRequest,
    ) -> Vec<CommittedTopic> {
        if !authorize(&origin.principal, Operation::Read, Resource::Group(&request.group_id)) {
            return request
                .topics
                .iter()
                .map(|topic| refused(topic, ErrorCode::GroupAuthorizationFailed))
                .collect();
        }
        let by_id = FIRST_VERSION_WITH_TOPIC_IDS <= origin.api_version;
        let retention_ms = request.retention_time_ms;
        let expires_at = (retention_ms != -1).then(|| now.clock.plus_ms(retention_ms));
        let topics = request.topics.iter().map(|topic| read_topic(topic, by_id)).collect();
        let partitions = self.decide_commit_partitions(now, origin, by_id, expires_at, topics);
        if partitions.accepted.is_empty() {
            return partitions.into_topics(&[]);
        }
        let offsets: Vec<OffsetToCommit> =
            partitions.accepted.iter().map(|(_, offset)| offset.clone()).collect();
        match self.commit_offsets(now, origin, request, &offsets) {
            Ok(outcomes) => partitions.into_topics(&outcomes),
            Err(error) => partitions.into_refused(error),
        }
    }

    fn commit_offsets(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &OffsetCommitRequest,
        offsets: &[OffsetToCommit],
    ) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
        let commit = CommitOffsets {
            group_id: &request.group_id,
            member_id: &request.member_id,
            group_instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id_or_member_epoch,
            is_transactional: false,
            knows_group_errors: FIRST_VERSION_WITH_GROUP_ERRORS <= origin.api_version,
            metadata_size_max: self.offset_metadata_size_max(),
            offsets,
        };
        let (at, shard) = self.group_shard(origin.node, &request.group_id)?;
        let decision = shard.decide_commit(&commit)?;
        self.commit_group_records(now, origin.node, at, &decision.records)?;
        if let Some(shard) = self.group_shard_mut(origin.node, at) {
            shard.apply_commit(now.clock, &decision);
        }
        Ok(decision.outcomes)
    }
}

fn read_topic(topic: &OffsetCommitRequestTopic, by_id: bool) -> CommitTopic<'_> {
    let partitions = topic.partitions.iter().map(|partition| CommitPartition {
        index: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.as_ref(),
    });
    CommitTopic {
        name: &topic.name,
        topic_id: if by_id { topic.topic_id } else { TopicId::ZERO },
        partitions: partitions.collect(),
    }
}

fn refused(topic: &OffsetCommitRequestTopic, error: ErrorCode) -> CommittedTopic {
    let partitions = topic.partitions.iter().map(|partition| (partition.partition_index, error));
    CommittedTopic { name: topic.name.clone(), topic_id: topic.topic_id, partitions: partitions.collect() }
}
