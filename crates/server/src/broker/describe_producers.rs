//! DescribeProducers (61), version 0 (KIP-664).

use sharemark_log::ProducerDescription;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_producers_request::DescribeProducersRequest;
use sharemark_protocol::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use sharemark_protocol::{ErrorCode, Offset, TopicIdPartition};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_describe_producers(&mut self, origin: &Origin, request: &DescribeProducersRequest) {
        let topics = request.topics.iter().map(|topic| TopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partition_indexes
                .iter()
                .map(|&partition_index| {
                    let outcome = self.describe_producers(origin, &topic.name, partition_index);
                    let error = ErrorCode::of(&outcome);
                    PartitionResponse {
                        partition_index,
                        error_code: error.code(),
                        error_message: (error != ErrorCode::None).then(|| error.name().into()),
                        active_producers: outcome.unwrap_or_default(),
                    }
                })
                .collect(),
        });
        let response = DescribeProducersResponse { throttle_time_ms: 0, topics: topics.collect() };
        self.answer(origin, ResponseMessage::DescribeProducers(response));
    }

    fn describe_producers(
        &self,
        origin: &Origin,
        topic_name: &str,
        partition: i32,
    ) -> Result<Vec<ProducerState>, ErrorCode> {
        if !authorize(&origin.principal, Operation::Read, Resource::Topic(topic_name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        let topic = self.cluster.topic_named(topic_name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let at = TopicIdPartition { topic_id: topic.id, partition };
        let partition = self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        // A follower answers from its own replica, so that it can be compared with the leader's.
        if !partition.replicas.contains(&origin.node) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let mut described = Vec::new();
        partition.log.describe_producers(&mut described);
        Ok(described.iter().map(on_wire).collect())
    }
}

fn on_wire(described: &ProducerDescription) -> ProducerState {
    ProducerState {
        producer_id: described.producer.id.get(),
        producer_epoch: i32::from(described.producer.epoch.get()),
        last_sequence: described.last_sequence.unwrap_or(-1),
        last_timestamp: described.last_timestamp.ms(),
        coordinator_epoch: described.coordinator_epoch.unwrap_or(-1),
        current_txn_start_offset: Offset::to_wire(described.open_since),
    }
}
