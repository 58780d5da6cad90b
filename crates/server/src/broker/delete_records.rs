//! DeleteRecords (21), versions 0-2.
//!
//! Difference from Kafka: done when answered, so the request's timeout never matters.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::delete_records_request::DeleteRecordsRequest;
use sharemark_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use sharemark_protocol::{ErrorCode, Offset, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

/// Stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

impl Broker {
    pub(super) fn handle_delete_records(&mut self, origin: &Origin, request: &DeleteRecordsRequest) {
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let outcome = self.delete_records(origin, &topic.name, asked.partition_index, asked.offset);
                partitions.push(DeleteRecordsPartitionResult {
                    partition_index: asked.partition_index,
                    low_watermark: Offset::to_wire(outcome.ok()),
                    error_code: ErrorCode::of(&outcome).code(),
                });
            }
            topics.push(DeleteRecordsTopicResult { name: topic.name.clone(), partitions });
        }
        let response = DeleteRecordsResponse { throttle_time_ms: 0, topics };
        self.answer(origin, ResponseMessage::DeleteRecords(response));
    }

    /// Moves a log's start, and returns where it is then.
    fn delete_records(
        &mut self,
        origin: &Origin,
        topic_name: &str,
        partition: i32,
        before: i64,
    ) -> Result<Offset, ErrorCode> {
        if !authorize(&origin.principal, Operation::Delete, Resource::Topic(topic_name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        let topic = self.cluster.topic_named(topic_name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let at = TopicIdPartition { topic_id: topic.id, partition };
        if topic.is_internal() {
            return Err(ErrorCode::InvalidTopicException);
        }
        let leader = self.decide_leader(origin.node, at, -1)?;
        let before = match before {
            HIGH_WATERMARK => None,
            before => Some(Offset::new(before).ok_or(ErrorCode::OffsetOutOfRange)?),
        };
        let start = leader.log.decide_delete_records(before)?;
        if self.is_cut_off(origin.node) {
            return Err(ErrorCode::RequestTimedOut); // Its followers do not say that they have deleted.
        }
        self.with_log(at, |log, writes| log.delete_records(start, writes));
        Ok(start)
    }
}
