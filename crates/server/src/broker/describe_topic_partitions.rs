//! DescribeTopicPartitions (75), version 0 (KIP-966): topics in the order of their names, page by page.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_topic_partitions_request::DescribeTopicPartitionsRequest;
use sharemark_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use sharemark_protocol::{ErrorCode, LeaderEpoch, NodeId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::{Partition, Topic};
use super::input::Origin;
use super::topics::{TOPIC_OPERATIONS, check_topic_name};

impl Broker {
    pub(super) fn handle_describe_topic_partitions(
        &mut self,
        origin: &Origin,
        request: &DescribeTopicPartitionsRequest,
    ) {
        let response = self.describe_topic_partitions(origin, request);
        self.answer(origin, ResponseMessage::DescribeTopicPartitions(response));
    }

    fn describe_topic_partitions(
        &self,
        origin: &Origin,
        request: &DescribeTopicPartitionsRequest,
    ) -> DescribeTopicPartitionsResponse {
        let all = request.topics.is_empty();
        let mut names: BTreeSet<&str> = request.topics.iter().map(|topic| &*topic.name).collect();
        if all {
            names.extend(self.cluster.topics().map(|topic| &*topic.name));
        }
        let (first_name, first_partition) = match &request.cursor {
            Some(cursor) => (&*cursor.topic_name, usize::try_from(cursor.partition_index).unwrap_or(0)),
            None => ("", 0),
        };
        let limit = request
            .response_partition_limit
            .min(self.cluster.configs.broker().max_request_partition_size_limit)
            .max(1);
        let mut room = usize::try_from(limit).unwrap_or(1);
        let mut response = DescribeTopicPartitionsResponse::default();
        for name in names.range(first_name..) {
            let topic = self.cluster.topic_named(name);
            if !authorize(&origin.principal, Operation::Describe, Resource::Topic(name)) {
                if !all {
                    response.topics.push(failed(name, ErrorCode::TopicAuthorizationFailed));
                }
                continue;
            }
            let Some(topic) = topic else {
                let error = check_topic_name(name)
                    .map_or(ErrorCode::InvalidTopicException, |()| ErrorCode::UnknownTopicOrPartition);
                response.topics.push(failed(name, error));
                continue;
            };
            let first = if *name == first_name { first_partition } else { 0 };
            if room == 0 {
                response.next_cursor = cursor(name, first);
                break;
            }
            let shown = topic.partitions.len().saturating_sub(first).min(room);
            response.topics.push(self.described_part(origin.node, topic, first, shown));
            room -= shown;
            if first + shown < topic.partitions.len() {
                response.next_cursor = cursor(name, first + shown);
                break;
            }
        }
        response
    }

    /// Describes some partitions of a topic as `node` sees them.
    fn described_part(
        &self,
        node: NodeId,
        topic: &Topic,
        first: usize,
        count: usize,
    ) -> DescribeTopicPartitionsResponseTopic {
        let running = self.running_seen_by(node);
        let partitions = self.partitions_seen_by(node, topic).skip(first).take(count);
        let partitions = partitions
            .map(|(partition, index, leader)| described_partition(partition, index, leader, running));
        DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some((&*topic.name).into()),
            topic_id: topic.id,
            is_internal: topic.is_internal(),
            partitions: partitions.collect(),
            topic_authorized_operations: TOPIC_OPERATIONS,
        }
    }
}

fn cursor(name: &str, partition: usize) -> Option<Cursor> {
    Some(Cursor { topic_name: name.into(), partition_index: i32::try_from(partition).unwrap_or(i32::MAX) })
}

fn failed(name: &str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(name.into()),
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn described_partition(
    partition: &Partition,
    index: i32,
    (leader, leader_epoch): (NodeId, LeaderEpoch),
    running: &[NodeId],
) -> DescribeTopicPartitionsResponsePartition {
    let ids = |runs: bool| -> Vec<i32> {
        let replicas = partition.replicas.iter().filter(|node| running.contains(node) == runs);
        replicas.map(|node| node.get()).collect()
    };
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::None.code(),
        partition_index: index,
        leader_id: leader.get(),
        leader_epoch: leader_epoch.get(),
        isr_nodes: ids(true),
        replica_nodes: partition.replicas.iter().map(|node| node.get()).collect(),
        // Every replica is in sync, so there is nobody else to elect; empty lists, never null.
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: ids(false),
    }
}
