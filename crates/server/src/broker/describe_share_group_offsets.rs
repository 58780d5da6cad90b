//! DescribeShareGroupOffsets (90), versions 0-1: where share partitions start, and how much lies ahead (KIP-1226).
//!
//! The group coordinator knows which share partitions there are; their stored state is a crossing away.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use sharemark_protocol::messages::describe_share_group_offsets_response::{
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition, DescribeShareGroupOffsetsResponseTopic,
};
use sharemark_protocol::{ErrorCode, NodeId, Offset, SharePartitionKey, TopicId, TopicIdPartition};
use sharemark_share_coordinator::StateSummary;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::crossing::Call;
use super::input::Origin;
use super::operations::{Operation as Waiting, OperationId};

/// A DescribeShareGroupOffsets request that waits for share coordinators.
#[derive(Clone, Debug)]
pub(super) struct DescribeOffsetsOperation {
    origin: Origin,
    response: DescribeShareGroupOffsetsResponse,
    /// Where each share partition's answer goes: group, topic and partition in the answer's order.
    slots: BTreeMap<SharePartitionKey, Vec<(usize, usize, usize)>>,
    /// How many share coordinators have not answered.
    outstanding: usize,
}

impl DescribeOffsetsOperation {
    /// Has it wait for more share coordinators.
    pub(super) fn expect_more(&mut self, count: usize) {
        self.outstanding += count;
    }
}

/// The stored states of some share partitions, or why they cannot be told.
pub(super) type Summaries = Vec<(SharePartitionKey, Result<StateSummary, ErrorCode>)>;

impl Broker {
    pub(super) fn handle_describe_share_group_offsets(
        &mut self,
        origin: Origin,
        request: &DescribeShareGroupOffsetsRequest,
    ) {
        let mut operation = DescribeOffsetsOperation {
            response: DescribeShareGroupOffsetsResponse::default(),
            slots: BTreeMap::new(),
            outstanding: 0,
            origin,
        };
        for asked in &request.groups {
            let group = self.describe_offsets_of_group(&operation.origin, asked);
            let group_index = operation.response.groups.len();
            for (topic_index, topic) in group.topics.iter().enumerate() {
                for (index, partition) in topic.partitions.iter().enumerate() {
                    if partition.error_code == ErrorCode::None.code() && topic.topic_id != TopicId::ZERO {
                        let key = SharePartitionKey {
                            group_id: (&*group.group_id).into(),
                            topic_id: topic.topic_id,
                            partition: partition.partition_index,
                        };
                        operation.slots.entry(key).or_default().push((group_index, topic_index, index));
                    }
                }
            }
            operation.response.groups.push(group);
        }
        self.ask_for_summaries(operation);
    }

    fn describe_offsets_of_group(
        &self,
        origin: &Origin,
        asked: &DescribeShareGroupOffsetsRequestGroup,
    ) -> DescribeShareGroupOffsetsResponseGroup {
        let mut group = DescribeShareGroupOffsetsResponseGroup {
            group_id: asked.group_id.clone(),
            ..DescribeShareGroupOffsetsResponseGroup::default()
        };
        match self.share_partitions_to_describe(origin, asked) {
            Ok(topics) => group.topics = topics,
            Err(error) => {
                group.error_code = error.code();
                group.error_message = Some(error.name().into());
            }
        }
        group
    }

    fn share_partitions_to_describe(
        &self,
        origin: &Origin,
        asked: &DescribeShareGroupOffsetsRequestGroup,
    ) -> Result<Vec<DescribeShareGroupOffsetsResponseTopic>, ErrorCode> {
        self.decide_share_group(origin, &asked.group_id, Operation::Describe)?;
        let (_, shard) = self.group_shard(origin.node, &asked.group_id)?;
        let initialised = shard.initialised_partitions(&asked.group_id);
        let may_see = |name: &str| authorize(&origin.principal, Operation::Describe, Resource::Topic(name));
        let mut topics = Vec::new();
        match &asked.topics {
            None => {
                for (topic_id, topic) in initialised.into_iter().flatten() {
                    if may_see(&topic.name) && self.cluster.topic(*topic_id).is_some() {
                        topics.push(DescribeShareGroupOffsetsResponseTopic {
                            topic_name: (&*topic.name).into(),
                            topic_id: *topic_id,
                            partitions: topic.partitions.iter().map(|index| unknown(*index)).collect(),
                        });
                    }
                }
            }
            Some(named) => {
                let mut merged: BTreeMap<TopicId, (usize, BTreeSet<i32>)> = BTreeMap::new();
                for topic in named {
                    let facts = self.cluster.topic_named(&topic.topic_name);
                    let error = match facts {
                        _ if !may_see(&topic.topic_name) => ErrorCode::TopicAuthorizationFailed,
                        // A topic that is gone is told like one that nobody has consumed.
                        None => ErrorCode::None,
                        Some(_) => ErrorCode::None,
                    };
                    let mut partitions = topic.partitions.clone();
                    if let Some(facts) = facts {
                        // Kafka tells each partition of a topic that there is once, however often it is named.
                        let (at, seen) = merged.entry(facts.id).or_insert((topics.len(), BTreeSet::new()));
                        partitions.retain(|index| seen.insert(*index));
                        let known: Option<&mut DescribeShareGroupOffsetsResponseTopic> = topics.get_mut(*at);
                        if let Some(known) = known {
                            known.partitions.extend(partitions.iter().map(|index| failed(*index, error)));
                            continue;
                        }
                    }
                    let partitions = partitions.iter().map(|index| failed(*index, error)).collect();
                    topics.push(DescribeShareGroupOffsetsResponseTopic {
                        topic_name: topic.topic_name.clone(),
                        topic_id: facts.map(|facts| facts.id).unwrap_or_default(),
                        partitions,
                    });
                }
            }
        }
        Ok(topics)
    }

    fn ask_for_summaries(&mut self, mut operation: DescribeOffsetsOperation) {
        let from = operation.origin.node;
        let by_node = self.share_coordinators_of(from, operation.slots.keys());
        if by_node.is_empty() {
            self.answer(&operation.origin, ResponseMessage::DescribeShareGroupOffsets(operation.response));
            return;
        }
        operation.outstanding = by_node.len();
        let Some(node) = self.nodes.get_mut(&from) else { return };
        let id = node.operations.begin(Waiting::DescribeShareGroupOffsets(Box::new(operation)));
        self.cross_later(from, calls_to_summarise(by_node, id));
    }

    /// Returns the calls that tell states in short: one to each node that keeps some of them.
    pub(super) fn calls_to_summarise(
        &self,
        from: NodeId,
        keys: &[SharePartitionKey],
        then: OperationId,
    ) -> Vec<(NodeId, Call)> {
        calls_to_summarise(self.share_coordinators_of(from, keys), then).collect()
    }

    fn share_coordinators_of<'a>(
        &self,
        from: NodeId,
        keys: impl IntoIterator<Item = &'a SharePartitionKey>,
    ) -> BTreeMap<NodeId, Vec<SharePartitionKey>> {
        let mut by_node: BTreeMap<NodeId, Vec<SharePartitionKey>> = BTreeMap::new();
        for key in keys {
            if let Some((_, leader)) = self.share_state_leader(from, key) {
                by_node.entry(leader).or_default().push(key.clone());
            }
        }
        by_node
    }

    /// Answers what share partitions have stored, at their share coordinator.
    pub(super) fn summarise_share_states(&self, node: NodeId, keys: Vec<SharePartitionKey>) -> Summaries {
        keys.into_iter()
            .map(|key| {
                let summary = self.share_state_shard(node, &key).map(|(_, shard)| shard.summary(&key));
                (key, summary)
            })
            .collect()
    }

    /// Goes on at the group coordinator with what one share coordinator has told.
    pub(super) fn complete_summaries(&mut self, node: NodeId, id: OperationId, summaries: Summaries) {
        let mut told = Vec::with_capacity(summaries.len());
        for (key, summary) in summaries {
            let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
            let end = self.cluster.partition(at).map(|partition| partition.log.high_watermark());
            told.push((key, summary, end));
        }
        let Some(operations) = self.nodes.get_mut(&node).map(|node| &mut node.operations) else { return };
        let Some(Waiting::DescribeShareGroupOffsets(operation)) = operations.get_mut(id) else { return };
        for (key, summary, end) in told {
            for &(group, topic, partition) in operation.slots.get(&key).into_iter().flatten() {
                let answer = &mut operation.response.groups[group].topics[topic].partitions[partition];
                *answer = match (&summary, end) {
                    (Ok(summary), Some(end)) => summarised(key.partition, summary, end),
                    (Ok(_), None) => failed(key.partition, ErrorCode::UnknownTopicOrPartition),
                    (Err(error), _) => failed(key.partition, *error),
                };
            }
        }
        operation.outstanding -= 1;
        if operation.outstanding == 0
            && let Some(Waiting::DescribeShareGroupOffsets(operation)) = operations.finish(id)
        {
            self.answer(&operation.origin, ResponseMessage::DescribeShareGroupOffsets(operation.response));
        }
    }
}

fn summarised(
    partition_index: i32,
    summary: &StateSummary,
    end: Offset,
) -> DescribeShareGroupOffsetsResponsePartition {
    // What is done above the start is no longer ahead; without a start nobody can tell. A start beyond the end is
    // told as it is, and so is a count that makes no sense.
    let lag = summary
        .start_offset
        .zip(summary.delivery_complete_count)
        .map_or(-1, |(start, complete)| end.since(start).wrapping_sub(i64::from(complete)));
    DescribeShareGroupOffsetsResponsePartition {
        partition_index,
        start_offset: Offset::to_wire(summary.start_offset),
        leader_epoch: summary.leader_epoch.get(),
        lag,
        ..DescribeShareGroupOffsetsResponsePartition::default()
    }
}

fn unknown(partition_index: i32) -> DescribeShareGroupOffsetsResponsePartition {
    failed(partition_index, ErrorCode::None)
}

fn calls_to_summarise(
    by_node: BTreeMap<NodeId, Vec<SharePartitionKey>>,
    then: OperationId,
) -> impl Iterator<Item = (NodeId, Call)> {
    by_node.into_iter().map(move |(to, keys)| (to, Call::SummariseShareStates { keys, then }))
}

fn failed(partition_index: i32, error: ErrorCode) -> DescribeShareGroupOffsetsResponsePartition {
    DescribeShareGroupOffsetsResponsePartition {
        partition_index,
        start_offset: -1,
        error_code: error.code(),
        error_message: (error != ErrorCode::None).then(|| error.name().into()),
        ..DescribeShareGroupOffsetsResponsePartition::default()
    }
}
