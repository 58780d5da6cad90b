//! The wire forms of what leaders and group coordinators ask of a share coordinator: InitializeShareGroupState (83),
//! ReadShareGroupState (84), WriteShareGroupState (85, versions 0-1), DeleteShareGroupState (86) and
//! ReadShareGroupStateSummary (87, versions 0-1).
//!
//! Inside the process these are crossings; on the wire they are for tools that look at stored state.

use std::sync::Arc;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::{
    delete_share_group_state_request as delete_request, delete_share_group_state_response as delete_response,
    initialize_share_group_state_request as initialize_request,
    initialize_share_group_state_response as initialize_response,
    read_share_group_state_request as read_request, read_share_group_state_response as read_response,
    read_share_group_state_summary_request as summary_request,
    read_share_group_state_summary_response as summary_response,
    write_share_group_state_request as write_request, write_share_group_state_response as write_response,
};
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, Offset, OffsetRange, SharePartitionKey, StateEpoch, StrBytes, TopicId,
    TopicIdPartition,
};
use sharemark_share_coordinator::{InitializeState, ReadState, RecordState, StateBatch, WriteState};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};

/// Names the share partition of a request.
fn key_of(group_id: &StrBytes, topic_id: TopicId, partition: i32) -> SharePartitionKey {
    SharePartitionKey { group_id: Arc::from(&**group_id), topic_id, partition }
}

/// Answers a request topic by topic: what `$judge` says of each partition that it names.
macro_rules! results {
    ($request:ident, $response:ident::$result:ident, $judge:ident) => {
        ($request.topics.iter())
            .map(|topic| $response::$result {
                topic_id: topic.topic_id,
                partitions: (topic.partitions.iter())
                    .map(|asked| $judge(key_of(&$request.group_id, topic.topic_id, asked.partition), asked))
                    .collect(),
            })
            .collect()
    };
}

fn text(error: ErrorCode) -> Option<StrBytes> {
    (error != ErrorCode::None).then(|| error.name().into())
}

impl Broker {
    /// Judges a request that only brokers send.
    fn decide_share_state_request(&self, origin: &Origin, key: &SharePartitionKey) -> Result<(), ErrorCode> {
        if !authorize(&origin.principal, Operation::ClusterAction, Resource::Cluster) {
            return Err(ErrorCode::ClusterAuthorizationFailed);
        }
        if key.group_id.is_empty() || key.topic_id == TopicId::ZERO || key.partition < 0 {
            return Err(ErrorCode::InvalidRequest);
        }
        Ok(())
    }

    /// Judges a request that concerns a partition which has to be there.
    fn decide_share_state_of_partition(
        &self,
        origin: &Origin,
        key: &SharePartitionKey,
    ) -> Result<(), ErrorCode> {
        self.decide_share_state_request(origin, key)?;
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        self.cluster.partition(at).map(drop).ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    pub(super) fn handle_initialize_share_group_state(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &initialize_request::InitializeShareGroupStateRequest,
    ) {
        let mut judge = |key, asked: &initialize_request::PartitionData| {
            let initialize = InitializeState {
                key,
                state_epoch: StateEpoch::new(asked.state_epoch),
                start_offset: Offset::new(asked.start_offset),
            };
            let error = ErrorCode::of(&self.initialize_share_state(now, origin, &initialize));
            initialize_response::PartitionResult {
                partition: asked.partition,
                error_code: error.code(),
                error_message: text(error),
            }
        };
        let results = results!(request, initialize_response::InitializeStateResult, judge);
        let response = initialize_response::InitializeShareGroupStateResponse { results };
        self.answer(origin, ResponseMessage::InitializeShareGroupState(response));
    }

    fn initialize_share_state(
        &mut self,
        now: Now,
        origin: &Origin,
        initialize: &InitializeState,
    ) -> Result<(), ErrorCode> {
        self.decide_share_state_of_partition(origin, &initialize.key)?;
        let (at, shard) = self.share_state_shard(origin.node, &initialize.key)?;
        let record = shard.decide_initialize(initialize, now.clock)?;
        self.commit_state_records(now, origin.node, at, std::slice::from_ref(&record))
    }

    pub(super) fn handle_read_share_group_state(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &read_request::ReadShareGroupStateRequest,
    ) {
        let mut judge = |key: SharePartitionKey, asked: &read_request::PartitionData| {
            let outcome = self
                .decide_share_state_request(origin, &key)
                .and_then(|()| non_negative(asked.leader_epoch))
                .and_then(|epoch| self.read_share_state(now, origin.node, &key, LeaderEpoch::new(epoch)));
            match outcome {
                Ok(state) => read_on_wire(asked.partition, &state),
                Err(error) => read_response::PartitionResult {
                    partition: asked.partition,
                    error_code: error.code(),
                    error_message: text(error),
                    ..read_response::PartitionResult::default()
                },
            }
        };
        let results = results!(request, read_response::ReadStateResult, judge);
        let response = read_response::ReadShareGroupStateResponse { results };
        self.answer(origin, ResponseMessage::ReadShareGroupState(response));
    }

    pub(super) fn handle_write_share_group_state(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &write_request::WriteShareGroupStateRequest,
    ) {
        let mut judge = |key: SharePartitionKey, asked: &write_request::PartitionData| {
            let outcome = self
                .decide_share_state_request(origin, &key)
                .and_then(|()| write_of(key, asked))
                .and_then(|write| self.write_share_state(now, origin.node, &write));
            let error = ErrorCode::of(&outcome);
            write_response::PartitionResult {
                partition: asked.partition,
                error_code: error.code(),
                error_message: text(error),
            }
        };
        let results = results!(request, write_response::WriteStateResult, judge);
        let response = write_response::WriteShareGroupStateResponse { results };
        self.answer(origin, ResponseMessage::WriteShareGroupState(response));
    }

    pub(super) fn handle_delete_share_group_state(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &delete_request::DeleteShareGroupStateRequest,
    ) {
        let mut judge = |key: SharePartitionKey, asked: &delete_request::PartitionData| {
            let outcome = self
                .decide_share_state_of_partition(origin, &key)
                .and_then(|()| self.delete_share_state(now, origin.node, &key));
            let error = ErrorCode::of(&outcome);
            delete_response::PartitionResult {
                partition: asked.partition,
                error_code: error.code(),
                error_message: text(error),
            }
        };
        let results = results!(request, delete_response::DeleteStateResult, judge);
        let response = delete_response::DeleteShareGroupStateResponse { results };
        self.answer(origin, ResponseMessage::DeleteShareGroupState(response));
    }

    pub(super) fn handle_read_share_group_state_summary(
        &mut self,
        origin: &Origin,
        request: &summary_request::ReadShareGroupStateSummaryRequest,
    ) {
        let judge = |key: SharePartitionKey, asked: &summary_request::PartitionData| {
            let outcome = self
                .decide_share_state_of_partition(origin, &key)
                .and_then(|()| self.share_state_shard(origin.node, &key))
                .map(|(_, shard)| shard.summary(&key));
            match outcome {
                Ok(summary) => summary_response::PartitionResult {
                    partition: asked.partition,
                    state_epoch: summary.state_epoch.get(),
                    leader_epoch: summary.leader_epoch.get(),
                    start_offset: Offset::to_wire(summary.start_offset),
                    delivery_complete_count: summary.delivery_complete_count.unwrap_or(-1),
                    ..summary_response::PartitionResult::default()
                },
                Err(error) => summary_response::PartitionResult {
                    partition: asked.partition,
                    error_code: error.code(),
                    error_message: text(error),
                    ..summary_response::PartitionResult::default()
                },
            }
        };
        let results = results!(request, summary_response::ReadStateSummaryResult, judge);
        let response = summary_response::ReadShareGroupStateSummaryResponse { results };
        self.answer(origin, ResponseMessage::ReadShareGroupStateSummary(response));
    }
}

/// Refuses an epoch that no leader and no state has.
fn non_negative(epoch: i32) -> Result<i32, ErrorCode> {
    if epoch < 0 { Err(ErrorCode::InvalidRequest) } else { Ok(epoch) }
}

fn read_on_wire(partition: i32, state: &ReadState) -> read_response::PartitionResult {
    read_response::PartitionResult {
        partition,
        state_epoch: state.state_epoch.get(),
        start_offset: Offset::to_wire(state.start_offset),
        state_batches: state
            .batches
            .iter()
            .map(|batch| read_response::StateBatch {
                first_offset: batch.range.first().get(),
                last_offset: batch.range.last().get(),
                delivery_state: batch.state.id(),
                delivery_count: batch.delivery_count,
                ..read_response::StateBatch::default()
            })
            .collect(),
        ..read_response::PartitionResult::default()
    }
}

fn write_of(key: SharePartitionKey, asked: &write_request::PartitionData) -> Result<WriteState, ErrorCode> {
    let mut batches = Vec::with_capacity(asked.state_batches.len());
    for batch in &asked.state_batches {
        let ends = Offset::new(batch.first_offset).zip(Offset::new(batch.last_offset));
        let (first, last) = ends.ok_or(ErrorCode::InvalidRequest)?;
        // Kafka stumbles over a range that ends before it begins.
        let range = OffsetRange::new(first, last).ok_or(ErrorCode::UnknownServerError)?;
        let state = RecordState::from_id(batch.delivery_state).ok_or(ErrorCode::InvalidRequest)?;
        batches.push(StateBatch { range, state, delivery_count: batch.delivery_count, staged: None });
    }
    Ok(WriteState {
        key,
        state_epoch: Some(StateEpoch::new(non_negative(asked.state_epoch)?)),
        leader_epoch: Some(LeaderEpoch::new(non_negative(asked.leader_epoch)?)),
        start_offset: Offset::new(asked.start_offset),
        delivery_complete_count: Some(asked.delivery_complete_count).filter(|count| 0 <= *count),
        batches,
    })
}
