//! What an administrator changes about share groups: AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92) and
//! DeleteGroups (42, versions 0-3).
//!
//! The group coordinator decides; the stored states change at the share coordinators, a crossing away, and the
//! request is answered when the last of those is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_group_coordinator::{AlterOffsetsTopic, DeleteShareStates, Refusal, TopicPartitions};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_share_group_offsets_request::AlterShareGroupOffsetsRequest;
use sharemark_protocol::messages::alter_share_group_offsets_response::{
    AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
};
use sharemark_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use sharemark_protocol::messages::delete_groups_response::{DeletableGroupResult, DeleteGroupsResponse};
use sharemark_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequest;
use sharemark_protocol::messages::delete_share_group_offsets_response::{
    DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};
use sharemark_protocol::{ErrorCode, NodeId, Offset, SharePartitionKey, TopicId};
use tracing::info;

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::SHARE_GROUP_STATE;
use super::crossing::Call;
use super::input::{Now, Origin};
use super::operations::{Operation as Waiting, OperationId};

/// A request whose states are being changed.
#[derive(Clone, Debug)]
pub(super) struct GroupAdminOperation {
    origin: Origin,
    /// How many share coordinators have not answered.
    outstanding: usize,
    request: GroupAdminRequest,
}

#[derive(Clone, Debug)]
enum GroupAdminRequest {
    AlterOffsets(AlterShareGroupOffsetsResponse),
    DeleteOffsets {
        group_id: Arc<str>,
        topic_ids: BTreeSet<TopicId>,
        response: DeleteShareGroupOffsetsResponse,
    },
    DeleteGroups {
        results: Vec<DeletableGroupResult>,
        slots: BTreeMap<Arc<str>, usize>,
    },
}

impl GroupAdminOperation {
    /// Has it wait for more share coordinators.
    pub(super) fn expect_more(&mut self, count: usize) {
        self.outstanding += count;
    }
}

impl Broker {
    pub(super) fn handle_alter_share_group_offsets(
        &mut self,
        now: Now,
        origin: Origin,
        request: &AlterShareGroupOffsetsRequest,
    ) {
        let (response, states) = match self.alter_offsets(now, &origin, request) {
            Ok(decided) => decided,
            Err(refusal) => {
                let response = AlterShareGroupOffsetsResponse {
                    error_code: refusal.error.code(),
                    error_message: Some(refusal.message.unwrap_or(refusal.error.name()).into()),
                    ..AlterShareGroupOffsetsResponse::default()
                };
                (response, None)
            }
        };
        let from = origin.node;
        let operation = GroupAdminOperation {
            origin,
            outstanding: 0,
            request: GroupAdminRequest::AlterOffsets(response),
        };
        let Some(states) = states else {
            self.answer_group_admin(operation);
            return;
        };
        if let Some(id) = self.begin_group_admin(from, operation) {
            let count = self.cross_to_initialise(from, &states, Some(id));
            self.expect_group_admin(now, from, id, count);
        }
    }

    fn alter_offsets(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &AlterShareGroupOffsetsRequest,
    ) -> Result<
        (AlterShareGroupOffsetsResponse, Option<sharemark_group_coordinator::InitialiseShareStates>),
        Refusal,
    > {
        self.decide_share_group(origin, &request.group_id, Operation::Read).map_err(Refusal::of)?;
        let topics: Vec<AlterOffsetsTopic<'_>> = request
            .topics
            .iter()
            .map(|topic| AlterOffsetsTopic {
                name: &topic.topic_name,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| (partition.partition_index, Offset::new(partition.start_offset)))
                    .collect(),
            })
            .collect();
        self.ensure_internal_topic(now, origin.node, SHARE_GROUP_STATE).map_err(Refusal::of)?;
        let (at, shard) = self.group_shard(origin.node, &request.group_id).map_err(Refusal::of)?;
        let decision = shard.decide_alter_offsets(&request.group_id, &topics, &self.cluster)?;
        self.log_dropped_stages(&request.group_id);
        self.commit_group_records(now, origin.node, at, &decision.records).map_err(Refusal::of)?;
        let responses = decision
            .topics
            .iter()
            .map(|topic| AlterShareGroupOffsetsResponseTopic {
                topic_name: (&*topic.name).into(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|(partition_index, error)| AlterShareGroupOffsetsResponsePartition {
                        partition_index: *partition_index,
                        error_code: error.code(),
                        error_message: (*error != ErrorCode::None).then(|| error.name().into()),
                    })
                    .collect(),
            })
            .collect();
        let response =
            AlterShareGroupOffsetsResponse { responses, ..AlterShareGroupOffsetsResponse::default() };
        Ok((response, decision.states_to_initialise))
    }

    /// Says that a reset drops acknowledgements that wait for a transaction.
    fn log_dropped_stages(&self, group_id: &str) {
        if self.has_pending_stages(group_id) {
            info!(
                group = group_id,
                "acknowledgements staged in open transactions are dropped by a reset of offsets"
            );
        }
    }

    fn has_pending_stages(&self, group_id: &str) -> bool {
        self.nodes
            .values()
            .flat_map(|node| node.share_states.values())
            .any(|shard| shard.has_pending(group_id))
    }

    pub(super) fn handle_delete_share_group_offsets(
        &mut self,
        now: Now,
        origin: Origin,
        request: &DeleteShareGroupOffsetsRequest,
    ) {
        let from = origin.node;
        let (response, topic_ids, states) = match self.delete_offsets(now, &origin, request) {
            Ok(decided) => decided,
            Err(refusal) => {
                let response = DeleteShareGroupOffsetsResponse {
                    error_code: refusal.error.code(),
                    error_message: Some(refusal.message.unwrap_or(refusal.error.name()).into()),
                    ..DeleteShareGroupOffsetsResponse::default()
                };
                (response, BTreeSet::new(), None)
            }
        };
        let group_id: Arc<str> = (&*request.group_id).into();
        let request = GroupAdminRequest::DeleteOffsets { group_id, topic_ids, response };
        let operation = GroupAdminOperation { origin, outstanding: 0, request };
        let Some(states) = states else {
            self.answer_group_admin(operation);
            return;
        };
        if let Some(id) = self.begin_group_admin(from, operation) {
            let count = self.cross_to_delete(from, &states, id);
            self.expect_group_admin(now, from, id, count);
        }
    }

    fn delete_offsets(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &DeleteShareGroupOffsetsRequest,
    ) -> Result<(DeleteShareGroupOffsetsResponse, BTreeSet<TopicId>, Option<DeleteShareStates>), Refusal>
    {
        self.decide_share_group(origin, &request.group_id, Operation::Delete).map_err(Refusal::of)?;
        let names: Vec<&str> = request.topics.iter().map(|topic| &*topic.topic_name).collect();
        let (at, shard) = self.group_shard(origin.node, &request.group_id).map_err(Refusal::of)?;
        let decision = shard.decide_delete_offsets(&request.group_id, &names, &self.cluster)?;
        self.log_dropped_stages(&request.group_id);
        self.commit_group_records(now, origin.node, at, &decision.records).map_err(Refusal::of)?;
        let refused = decision.refused.iter().map(|(name, error)| DeleteShareGroupOffsetsResponseTopic {
            topic_name: (&**name).into(),
            error_code: error.code(),
            error_message: Some(error.name().into()),
            ..DeleteShareGroupOffsetsResponseTopic::default()
        });
        let accepted =
            decision.accepted.iter().map(|(name, topic_id)| DeleteShareGroupOffsetsResponseTopic {
                topic_name: (&**name).into(),
                topic_id: *topic_id,
                ..DeleteShareGroupOffsetsResponseTopic::default()
            });
        let response = DeleteShareGroupOffsetsResponse {
            responses: refused.chain(accepted).collect(),
            ..DeleteShareGroupOffsetsResponse::default()
        };
        let topic_ids = decision.accepted.iter().map(|(_, topic_id)| *topic_id).collect();
        Ok((response, topic_ids, decision.states_to_delete))
    }

    pub(super) fn handle_delete_groups(&mut self, now: Now, origin: Origin, request: &DeleteGroupsRequest) {
        let from = origin.node;
        let mut results = Vec::with_capacity(request.groups_names.len());
        let mut slots = BTreeMap::new();
        let mut to_delete = Vec::new();
        for group_id in &request.groups_names {
            let error = match self.begin_delete_group(now, &origin, group_id) {
                Ok(states) => {
                    slots.insert(Arc::<str>::from(&**group_id), results.len());
                    to_delete.extend(states);
                    ErrorCode::None
                }
                Err(error) => error,
            };
            results.push(DeletableGroupResult {
                group_id: group_id.clone(),
                error_code: error.code(),
                error_message: (error != ErrorCode::None).then(|| error.name().into()),
            });
        }
        let request = GroupAdminRequest::DeleteGroups { results, slots };
        let operation = GroupAdminOperation { origin, outstanding: 0, request };
        if let Some(id) = self.begin_group_admin(from, operation) {
            let count = to_delete.iter().map(|states| self.cross_to_delete(from, states, id)).sum();
            self.expect_group_admin(now, from, id, count);
        }
    }

    /// Decides the first half of a group's deletion, and returns what the share coordinators are to drop.
    fn begin_delete_group(
        &mut self,
        now: Now,
        origin: &Origin,
        group_id: &str,
    ) -> Result<Option<DeleteShareStates>, ErrorCode> {
        if !authorize(&origin.principal, Operation::Delete, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let (at, shard) = self.group_shard(origin.node, group_id)?;
        let decision = shard.decide_delete_group(group_id, &self.cluster).map_err(|refusal| refusal.error)?;
        // What waits for a transaction must not vanish under it.
        if self.has_pending_stages(group_id) {
            return Err(ErrorCode::NonEmptyGroup);
        }
        self.commit_group_records(now, origin.node, at, &decision.records)?;
        Ok(decision.states_to_delete)
    }

    /// Asks the share coordinators to drop states; returns how many are asked.
    fn cross_to_delete(&mut self, from: NodeId, wanted: &DeleteShareStates, then: OperationId) -> usize {
        let calls = self.calls_to_delete(from, wanted, then);
        self.cross_later(from, calls)
    }

    /// Returns the calls that drop states: one to each node that leads some of them.
    pub(super) fn calls_to_delete(
        &self,
        from: NodeId,
        wanted: &DeleteShareStates,
        then: OperationId,
    ) -> Vec<(NodeId, Call)> {
        let mut by_node: BTreeMap<NodeId, TopicPartitions> = BTreeMap::new();
        for (topic_id, partitions) in &wanted.partitions {
            for partition in partitions {
                let key = SharePartitionKey {
                    group_id: wanted.group_id.clone(),
                    topic_id: *topic_id,
                    partition: *partition,
                };
                if let Some((_, leader)) = self.share_state_leader(from, &key) {
                    by_node.entry(leader).or_default().entry(*topic_id).or_default().insert(*partition);
                }
            }
        }
        let group_id = &wanted.group_id;
        let calls = by_node.into_iter().map(|(to, partitions)| {
            let states = DeleteShareStates { group_id: group_id.clone(), partitions };
            (to, Call::DeleteShareStates { states, then })
        });
        calls.collect()
    }

    fn begin_group_admin(&mut self, node: NodeId, operation: GroupAdminOperation) -> Option<OperationId> {
        let operations = &mut self.nodes.get_mut(&node)?.operations;
        Some(operations.begin(Waiting::GroupAdmin(Box::new(operation))))
    }

    /// Notes how many crossings a request waits for; with none it is complete.
    fn expect_group_admin(&mut self, now: Now, node: NodeId, id: OperationId, count: usize) {
        if let Some(operation) = self.group_admin(node, id) {
            operation.outstanding = count;
        }
        if count == 0 {
            self.finish_group_admin(now, node, id);
        }
    }

    fn group_admin(&mut self, node: NodeId, id: OperationId) -> Option<&mut GroupAdminOperation> {
        match self.nodes.get_mut(&node)?.operations.get_mut(id)? {
            Waiting::GroupAdmin(operation) => Some(operation),
            Waiting::Acknowledge(_)
            | Waiting::DescribeShareGroupOffsets(_)
            | Waiting::Produce(_)
            | Waiting::Stage(_)
            | Waiting::TxnOffsetCommit(_) => None,
        }
    }

    /// Goes on at the group coordinator when a share coordinator has initialised what an administrator has set.
    pub(super) fn complete_altered(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        failed: &TopicPartitions,
    ) {
        self.note_not_initialised(node, id, failed);
        self.end_group_admin_crossing(now, node, id);
    }

    /// Notes at the group coordinator what a share coordinator has not initialised.
    pub(super) fn note_not_initialised(&mut self, node: NodeId, id: OperationId, failed: &TopicPartitions) {
        let Some(operation) = self.group_admin(node, id) else { return };
        if let GroupAdminRequest::AlterOffsets(response) = &mut operation.request {
            for topic in &mut response.responses {
                let Some(failed) = failed.get(&topic.topic_id) else { continue };
                for partition in topic.partitions.iter_mut().filter(|it| failed.contains(&it.partition_index))
                {
                    partition.error_code = ErrorCode::UnknownServerError.code();
                    partition.error_message = Some(ErrorCode::UnknownServerError.name().into());
                }
            }
        }
    }

    /// Goes on at the group coordinator when a share coordinator has dropped states, or has not.
    pub(super) fn complete_deleted(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        states: &DeleteShareStates,
        outcome: Result<(), ErrorCode>,
    ) {
        let Some(operation) = self.group_admin(node, id) else { return };
        if let Err(error) = outcome {
            match &mut operation.request {
                GroupAdminRequest::AlterOffsets(_) => {}
                GroupAdminRequest::DeleteOffsets { topic_ids, response, .. } => {
                    for topic in response.responses.iter_mut().filter(|topic| {
                        topic.topic_id != TopicId::ZERO && states.partitions.contains_key(&topic.topic_id)
                    }) {
                        topic_ids.remove(&topic.topic_id);
                        topic.error_code = error.code();
                        topic.error_message = Some(error.name().into());
                    }
                }
                GroupAdminRequest::DeleteGroups { results, slots } => {
                    if let Some(slot) = slots.remove(&states.group_id) {
                        results[slot].error_code = error.code();
                        results[slot].error_message = Some(error.name().into());
                    }
                }
            }
        }
        self.end_group_admin_crossing(now, node, id);
    }

    fn end_group_admin_crossing(&mut self, now: Now, node: NodeId, id: OperationId) {
        let Some(operation) = self.group_admin(node, id) else { return };
        operation.outstanding -= 1;
        if operation.outstanding == 0 {
            self.finish_group_admin(now, node, id);
        }
    }

    /// Decides the second half, and answers.
    fn finish_group_admin(&mut self, now: Now, node: NodeId, id: OperationId) {
        let finished = self.nodes.get_mut(&node).and_then(|node| node.operations.finish(id));
        let Some(Waiting::GroupAdmin(mut operation)) = finished else { return };
        match &mut operation.request {
            GroupAdminRequest::AlterOffsets(_) => {}
            GroupAdminRequest::DeleteOffsets { group_id, topic_ids, .. } => {
                if let Ok((at, shard)) = self.group_shard(node, group_id) {
                    let records = shard.decide_offsets_deleted(group_id, topic_ids);
                    // If that is refused the topics stay marked as going, and a repeat finishes them.
                    let _refused = self.commit_group_records(now, node, at, &records);
                }
            }
            GroupAdminRequest::DeleteGroups { results, slots } => {
                for (group_id, slot) in slots {
                    if let Err(error) = self.end_delete_group(now, node, group_id) {
                        results[*slot].error_code = error.code();
                        results[*slot].error_message = Some(error.name().into());
                    }
                }
            }
        }
        self.answer_group_admin(*operation);
    }

    fn end_delete_group(&mut self, now: Now, node: NodeId, group_id: &str) -> Result<(), ErrorCode> {
        let (at, shard) = self.group_shard(node, group_id)?;
        let records = shard.decide_group_deleted(group_id).map_err(|refusal| refusal.error)?;
        self.commit_group_records(now, node, at, &records)
    }

    fn answer_group_admin(&mut self, operation: GroupAdminOperation) {
        let message = match operation.request {
            GroupAdminRequest::AlterOffsets(response) => ResponseMessage::AlterShareGroupOffsets(response),
            GroupAdminRequest::DeleteOffsets { response, .. } => {
                ResponseMessage::DeleteShareGroupOffsets(response)
            }
            GroupAdminRequest::DeleteGroups { results, .. } => {
                ResponseMessage::DeleteGroups(DeleteGroupsResponse { throttle_time_ms: 0, results })
            }
        };
        self.answer(&operation.origin, message);
    }
}
