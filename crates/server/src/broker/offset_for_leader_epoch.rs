//! OffsetForLeaderEpoch (23), versions 2-4.

use sharemark_log::Isolation;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition,
};
use sharemark_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};
use sharemark_protocol::{ErrorCode, LeaderEpoch, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

/// Stands for an epoch or an offset that there is none of.
const UNDEFINED: i64 = -1;

impl Broker {
    pub(super) fn handle_offset_for_leader_epoch(
        &mut self,
        origin: &Origin,
        request: &OffsetForLeaderEpochRequest,
    ) {
        let topics = request.topics.iter().map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|asked| {
                    let outcome = self.end_of_epoch(origin, &topic.topic, asked);
                    let (leader_epoch, end_offset) = outcome.unwrap_or((-1, UNDEFINED));
                    EpochEndOffset {
                        error_code: ErrorCode::of(&outcome).code(),
                        partition: asked.partition,
                        leader_epoch,
                        end_offset,
                    }
                })
                .collect(),
        });
        let response = OffsetForLeaderEpochResponse { throttle_time_ms: 0, topics: topics.collect() };
        self.answer(origin, ResponseMessage::OffsetForLeaderEpoch(response));
    }

    /// Returns the newest epoch that is not above the one asked for, and where it ends.
    fn end_of_epoch(
        &self,
        origin: &Origin,
        topic_name: &str,
        asked: &OffsetForLeaderPartition,
    ) -> Result<(i32, i64), ErrorCode> {
        if !authorize(&origin.principal, Operation::Describe, Resource::Topic(topic_name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        let topic = self.cluster.topic_named(topic_name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let at = TopicIdPartition { topic_id: topic.id, partition: asked.partition };
        let partition = self.decide_leader(origin.node, at, asked.current_leader_epoch)?;
        let epoch = LeaderEpoch::new(asked.leader_epoch);
        let newest = self.leadership(origin.node, at).map(|(_, newest)| newest);
        // A node that is cut off has no record of the leaders after it.
        let is_beyond = self.is_cut_off(origin.node) && newest < Some(epoch);
        if asked.leader_epoch == -1 || is_beyond {
            return Ok((-1, UNDEFINED));
        }
        let Some(end) = partition.log.end_offset_for_epoch(epoch) else { return Ok((-1, UNDEFINED)) };
        let copied = self.copy_end(origin.node, at, Isolation::ReadUncommitted);
        let end_offset = copied.map_or(end.end_offset, |copied| copied.min(end.end_offset));
        Ok((end.leader_epoch.get(), end_offset.get()))
    }
}
