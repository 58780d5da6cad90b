//! OffsetDelete (47), version 0 (KIP-496).

use std::sync::Arc;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::offset_delete_request::OffsetDeleteRequest;
use sharemark_protocol::messages::offset_delete_response::{
    OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use sharemark_protocol::{ErrorCode, StrBytes, TopicPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// Partitions of the answer by topic, in the order in which they were judged.
#[derive(Default)]
struct Judged(Vec<OffsetDeleteResponseTopic>);

impl Judged {
    fn push(&mut self, name: &StrBytes, partition_index: i32, error: ErrorCode) {
        let partition = OffsetDeleteResponsePartition { partition_index, error_code: error.code() };
        match self.0.iter_mut().find(|topic| topic.name == *name) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                self.0.push(OffsetDeleteResponseTopic { name: name.clone(), partitions: vec![partition] })
            }
        }
    }
}

impl Broker {
    pub(super) fn handle_offset_delete(&mut self, now: Now, origin: &Origin, request: &OffsetDeleteRequest) {
        let response = match self.offset_delete(now, origin, request) {
            Ok(Judged(topics)) => OffsetDeleteResponse { topics, ..OffsetDeleteResponse::default() },
            Err(error) => {
                OffsetDeleteResponse { error_code: error.code(), ..OffsetDeleteResponse::default() }
            }
        };
        self.answer(origin, ResponseMessage::OffsetDelete(response));
    }

    fn offset_delete(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &OffsetDeleteRequest,
    ) -> Result<Judged, ErrorCode> {
        if !authorize(&origin.principal, Operation::Delete, Resource::Group(&request.group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        let mut judged = Judged::default();
        let mut named = Vec::new();
        let mut places: Vec<(Arc<str>, i32)> = Vec::new();
        for topic in &request.topics {
            let allowed = authorize(&origin.principal, Operation::Read, Resource::Topic(&topic.name));
            for partition in &topic.partitions {
                let index = partition.partition_index;
                if !allowed {
                    judged.push(&topic.name, index, ErrorCode::TopicAuthorizationFailed);
                } else if self.named_partition(&TopicPartition::new(&*topic.name, index)).is_none() {
                    judged.push(&topic.name, index, ErrorCode::UnknownTopicOrPartition);
                } else {
                    named.push(&topic.name);
                    places.push((topic.name.to_arc(), index));
                }
            }
        }
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let (at, shard) = self.group_shard(origin.node, &request.group_id)?;
        let decision = shard.decide_offset_delete(&request.group_id, &places)?;
        self.commit_group_records(now, origin.node, at, &decision.records)?;
        for ((name, (_, index)), outcome) in named.into_iter().zip(&places).zip(&decision.outcomes) {
            judged.push(name, *index, ErrorCode::of(outcome));
        }
        Ok(judged)
    }
}
