//! ListOffsets (2), versions 1-11.

use std::collections::BTreeSet;

use sharemark_log::{FoundOffset, Isolation, OffsetQuery};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use sharemark_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, Timestamp, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

/// Names that stand where a timestamp is asked for, with the first version that knows each.
const LATEST: (i64, i16) = (-1, 1);
const EARLIEST: (i64, i16) = (-2, 1);
const MAX_TIMESTAMP: (i64, i16) = (-3, 7);
const EARLIEST_LOCAL: (i64, i16) = (-4, 8);
const LATEST_TIERED: (i64, i16) = (-5, 9);
const EARLIEST_PENDING_UPLOAD: (i64, i16) = (-6, 11);

impl Broker {
    pub(super) fn handle_list_offsets(&mut self, origin: &Origin, request: &ListOffsetsRequest) {
        let mut seen = BTreeSet::new();
        let mut twice = BTreeSet::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                let key = (&*topic.name, partition.partition_index);
                if !seen.insert(key) {
                    twice.insert(key);
                }
            }
        }
        let topics = request
            .topics
            .iter()
            .map(|topic| ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|asked| {
                        let outcome = if twice.contains(&(&*topic.name, asked.partition_index)) {
                            Err(ErrorCode::InvalidRequest)
                        } else {
                            self.list_offset(origin, request, &topic.name, asked)
                        };
                        answered(asked.partition_index, outcome)
                    })
                    .collect(),
            })
            .collect();
        let response = ListOffsetsResponse { topics, ..ListOffsetsResponse::default() };
        self.answer(origin, ResponseMessage::ListOffsets(response));
    }

    fn list_offset(
        &self,
        origin: &Origin,
        request: &ListOffsetsRequest,
        topic_name: &str,
        asked: &ListOffsetsPartition,
    ) -> Result<Option<FoundOffset>, ErrorCode> {
        if !authorize(&origin.principal, Operation::Describe, Resource::Topic(topic_name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        let known = [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD];
        let served = |&(name, since): &(i64, i16)| name == asked.timestamp && since <= origin.api_version;
        if asked.timestamp < 0 && !known.iter().any(served) {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let topic = self.cluster.topic_named(topic_name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let at = TopicIdPartition { topic_id: topic.id, partition: asked.partition_index };
        self.decide_leader(origin.node, at, asked.current_leader_epoch)?;
        let partition = self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let log = &partition.log;
        let isolation =
            if request.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        let query = OffsetQuery::from_wire(asked.timestamp).ok_or(ErrorCode::UnsupportedVersion)?;
        let mut found = log.find_offset(query, isolation);
        if let (Some(found), Some(end)) = (&mut found, self.copy_end(origin.node, at, isolation)) {
            found.offset = found.offset.min(end);
        }
        Ok(found)
    }
}

fn answered(
    partition_index: i32,
    outcome: Result<Option<FoundOffset>, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let found = outcome.as_ref().ok().and_then(|found| *found);
    ListOffsetsPartitionResponse {
        partition_index,
        error_code: ErrorCode::of(&outcome).code(),
        timestamp: found.and_then(|found| found.timestamp).map_or(-1, Timestamp::ms),
        offset: Offset::to_wire(found.map(|found| found.offset)),
        leader_epoch: found.and_then(|found| found.leader_epoch).map_or(-1, LeaderEpoch::get),
    }
}
