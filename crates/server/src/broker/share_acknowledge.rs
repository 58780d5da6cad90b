//! ShareAcknowledge (79), versions 1-2 (KIP-932, KIP-1222), and the acknowledgements that ride on a ShareFetch.
//!
//! Each partition is judged by itself, all its ranges or none. What has to be stored goes to the share coordinator;
//! the request goes on when the last partition has its outcome.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_acknowledge_request::ShareAcknowledgeRequest;
use sharemark_protocol::messages::share_acknowledge_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, StrBytes, TopicIdPartition};
use sharemark_share_coordinator::{
    AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, ConnectionId, SessionPlan, SharePartitionConfig,
    ShareSessionKey, StatePlan,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::crossing::{Call, Crossing};
use super::dead_letters::rejected_ranges;
use super::input::{Now, Origin};
use super::metrics::Acknowledged;
use super::operations::{Operation as Waiting, OperationId};
use super::share_fetch::ShareFetchWait;
use super::share_partitions::share_key;
use super::topics::by_topic;

/// A request whose acknowledgements are being stored.
#[derive(Clone, Debug)]
pub(super) struct AcknowledgeOperation {
    pub(super) origin: Origin,
    /// Each acknowledged partition with its outcome, once that is known.
    pub(super) outcomes: Vec<(TopicIdPartition, Option<Result<(), ErrorCode>>)>,
    /// How many records each of them acknowledges, by type.
    counts: Vec<Acknowledged>,
    /// How many have no outcome.
    outstanding: usize,
    pub(super) then: AfterAcknowledge,
}

/// What a request does when its acknowledgements are stored.
#[derive(Clone, Debug)]
pub(super) enum AfterAcknowledge {
    /// A ShareAcknowledge is answered.
    Answer {
        /// Its session.
        session: ShareSessionKey,
        /// Whether the session ends with it.
        closes: bool,
    },
    /// A ShareFetch fetches.
    Fetch(Box<ShareFetchWait>),
}

/// The acknowledgements of one partition, as a request carries them.
pub(super) struct AcknowledgedPartition<'a> {
    pub(super) at: TopicIdPartition,
    pub(super) batches: Vec<AcknowledgementBatch<'a>>,
}

/// Names the session of a request.
///
/// # Errors
///
/// - `InvalidRequest` if the group or the member is not named, or the member's name is empty or too long.
pub(super) fn session_key(
    group_id: Option<&StrBytes>,
    member_id: Option<&StrBytes>,
) -> Result<ShareSessionKey, ErrorCode> {
    let group_id = group_id.ok_or(ErrorCode::InvalidRequest)?;
    let member_id = member_id.ok_or(ErrorCode::InvalidRequest)?;
    let length = member_id.encode_utf16().count();
    if length == 0 || sharemark_group_coordinator::MEMBER_ID_LENGTH_MAX < length {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(ShareSessionKey { group_id: (&**group_id).into(), member_id: (&**member_id).into() })
}

impl Broker {
    pub(super) fn handle_share_acknowledge(
        &mut self,
        now: Now,
        origin: Origin,
        request: ShareAcknowledgeRequest,
    ) {
        let plan = match self.decide_share_acknowledge(&origin, &request) {
            Ok(plan) => plan,
            Err(error) => {
                let response = ShareAcknowledgeResponse {
                    error_code: error.code(),
                    ..ShareAcknowledgeResponse::default()
                };
                self.answer(&origin, ResponseMessage::ShareAcknowledge(response));
                return;
            }
        };
        let connection = ConnectionId(origin.connection.0);
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            node.share_sessions.apply(&plan, &[], &[], connection);
        }
        let (session, closes) = match plan {
            SessionPlan::Open(key) | SessionPlan::Continue(key) => (key, false),
            SessionPlan::Close(key) => (key, true),
        };
        let mut acknowledged = Vec::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                let batches = partition.acknowledgement_batches.iter().map(|batch| AcknowledgementBatch {
                    first_offset: batch.first_offset,
                    last_offset: batch.last_offset,
                    types: &batch.acknowledge_types,
                });
                acknowledged.push(AcknowledgedPartition {
                    at: TopicIdPartition { topic_id: topic.topic_id, partition: partition.partition_index },
                    batches: batches.collect(),
                });
            }
        }
        keep_last_mentions(&mut acknowledged);
        let rules = acknowledge_rules(origin.api_version, request.is_renew_ack);
        let then = AfterAcknowledge::Answer { session: session.clone(), closes };
        self.acknowledge(now, origin, &session, &acknowledged, rules, then);
    }

    fn decide_share_acknowledge(
        &self,
        origin: &Origin,
        request: &ShareAcknowledgeRequest,
    ) -> Result<SessionPlan, ErrorCode> {
        let key = self.decide_share_session(origin, request.group_id.as_ref(), request.member_id.as_ref())?;
        let node = self.nodes.get(&origin.node).ok_or(ErrorCode::UnknownServerError)?;
        node.share_sessions.decide_acknowledge(&key, request.share_session_epoch)
    }

    /// Judges whether `origin` may use the share session that a request names.
    ///
    /// # Errors
    ///
    /// - `UnsupportedVersion` if `share.version` is 0.
    /// - `GroupAuthorizationFailed` if `origin` may not read in the group.
    /// - As [`session_key`].
    pub(super) fn decide_share_session(
        &self,
        origin: &Origin,
        group_id: Option<&StrBytes>,
        member_id: Option<&StrBytes>,
    ) -> Result<ShareSessionKey, ErrorCode> {
        if self.cluster.features.share_version() < 1 {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let group_id = group_id.ok_or(ErrorCode::InvalidRequest)?;
        if !authorize(&origin.principal, Operation::Read, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        session_key(Some(group_id), member_id)
    }

    /// Judges the acknowledgements of a request, has stored what they change, and goes on once that is done.
    pub(super) fn acknowledge(
        &mut self,
        now: Now,
        origin: Origin,
        session: &ShareSessionKey,
        acknowledged: &[AcknowledgedPartition<'_>],
        rules: AcknowledgeRules,
        then: AfterAcknowledge,
    ) {
        let node = origin.node;
        let some_work = acknowledged.iter().any(|partition| !partition.batches.is_empty());
        let outcomes: Vec<_> = if some_work {
            acknowledged.iter().map(|partition| (partition.at, None)).collect()
        } else {
            Vec::new() // Kafka does not mention partitions without work, if there is none at all.
        };
        let counts = match some_work {
            true => acknowledged.iter().map(|partition| Acknowledged::of(&partition.batches)).collect(),
            false => Vec::new(),
        };
        let operation = AcknowledgeOperation { origin, outstanding: outcomes.len(), outcomes, counts, then };
        let Some(state) = self.nodes.get_mut(&node) else { return };
        if !some_work {
            self.finish_acknowledged(now, operation);
            return;
        }
        let id = state.operations.begin(Waiting::Acknowledge(Box::new(operation)));
        let config = self.share_partition_config(&session.group_id);
        let mut plan = StatePlan::new();
        for (index, partition) in acknowledged.iter().enumerate() {
            let outcome = self.acknowledge_partition(
                now,
                node,
                session,
                partition,
                (&rules, &config),
                (id, index),
                &mut plan,
            );
            if let Some(outcome) = outcome {
                self.note_acknowledged(now, node, id, index, outcome);
            }
        }
    }

    /// Judges one partition; returns its outcome unless that waits for the share coordinator.
    #[expect(clippy::too_many_arguments, reason = "the loop's constants and its one plan")]
    fn acknowledge_partition(
        &mut self,
        now: Now,
        node: NodeId,
        session: &ShareSessionKey,
        acknowledged: &AcknowledgedPartition<'_>,
        allowed: (&AcknowledgeRules, &SharePartitionConfig),
        waiting: (OperationId, usize),
        plan: &mut StatePlan,
    ) -> Option<Result<(), ErrorCode>> {
        let (rules, config) = allowed;
        let decided = self.decide_acknowledge_partition(node, session, acknowledged, rules, config, plan);
        if plan.is_empty() {
            return Some(decided);
        }
        let key = share_key(&session.group_id, acknowledged.at);
        if decided.is_err() {
            self.store_plan(now, node, &key, config, plan, None); // The renewals before what failed.
            return Some(decided);
        }
        let copies = config.dead_letter_queue;
        let rejected = if copies { rejected_ranges(&acknowledged.batches) } else { Vec::new() };
        let waiting = Some((waiting.0, waiting.1, rejected));
        if self.store_plan(now, node, &key, config, plan, waiting) { None } else { Some(Ok(())) }
    }

    fn decide_acknowledge_partition(
        &self,
        node: NodeId,
        session: &ShareSessionKey,
        acknowledged: &AcknowledgedPartition<'_>,
        rules: &AcknowledgeRules,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        plan.clear();
        let topic = self.cluster.topic(acknowledged.at.topic_id).ok_or(ErrorCode::UnknownTopicId)?;
        let exists =
            usize::try_from(acknowledged.at.partition).is_ok_and(|index| index < topic.partitions.len());
        if !exists {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        if acknowledged.batches.is_empty() {
            return Ok(());
        }
        sharemark_share_coordinator::check_acknowledgements(&acknowledged.batches, rules)?;
        let key = share_key(&session.group_id, acknowledged.at);
        // A leader that has never served it, or does not lead any more, does not know the share partition.
        let partition = self.share_partition(node, &key).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        partition.decide_acknowledge(&session.member_id, &acknowledged.batches, rules, config, plan)
    }

    /// Notes the outcome of one partition, and goes on with the request if it was the last.
    pub(super) fn note_acknowledged(
        &mut self,
        now: Now,
        node: NodeId,
        id: OperationId,
        index: usize,
        outcome: Result<(), ErrorCode>,
    ) {
        let Some(state) = self.nodes.get_mut(&node) else { return };
        let Some(Waiting::Acknowledge(operation)) = state.operations.get_mut(id) else { return };
        if operation.outcomes[index].1.replace(outcome).is_none() {
            operation.outstanding -= 1;
            if outcome.is_ok() {
                state.figures.count_acknowledged(operation.counts[index]);
            }
        }
        if operation.outstanding == 0
            && let Some(Waiting::Acknowledge(operation)) = state.operations.finish(id)
        {
            self.finish_acknowledged(now, *operation);
        }
    }

    fn finish_acknowledged(&mut self, now: Now, operation: AcknowledgeOperation) {
        let AcknowledgeOperation { origin, outcomes, outstanding: _, counts: _, then } = operation;
        let outcomes: Vec<(TopicIdPartition, ErrorCode)> = outcomes
            .into_iter()
            .map(|(at, outcome)| (at, outcome.and_then(Result::err).unwrap_or(ErrorCode::None)))
            .collect();
        match then {
            AfterAcknowledge::Answer { session, closes } => {
                let topics = outcomes.iter().map(|(at, error)| (at.topic_id, *error != ErrorCode::None));
                self.count(origin.node, |figures| figures.share_acknowledges.count(topics));
                self.answer_share_acknowledge(&origin, &session.group_id, &outcomes);
                if closes {
                    self.close_share_session(now, origin.node, &session);
                }
            }
            AfterAcknowledge::Fetch(mut wait) => {
                wait.acknowledged = outcomes;
                self.begin_share_fetch(now, origin, *wait);
            }
        }
    }

    /// Ends a share session, and releases what its member holds.
    pub(super) fn close_share_session(&mut self, now: Now, node: NodeId, session: &ShareSessionKey) {
        let closed = self.nodes.get_mut(&node).and_then(|node| node.share_sessions.close(session));
        if let Some(closed) = closed {
            self.release_session(now, node, &closed);
            if closed.forgets_group {
                let call = Call::ForgetShareGroup(closed.key.group_id);
                self.crossings.push_back(Crossing { from: node, to: node, call });
            }
        }
    }

    fn answer_share_acknowledge(
        &mut self,
        origin: &Origin,
        group_id: &Arc<str>,
        outcomes: &[(TopicIdPartition, ErrorCode)],
    ) {
        let mut leaders = BTreeSet::new();
        let told = by_topic(outcomes.iter().map(|&(at, error)| {
            let hint = self.leader_hint(origin.node, error, Some(at));
            leaders.extend(hint.map(|(leader, _)| leader));
            let data = PartitionData {
                partition_index: at.partition,
                error_code: error.code(),
                error_message: acknowledge_error_message(error),
                current_leader: hint.map_or_else(LeaderIdAndEpoch::default, |(leader, epoch)| {
                    LeaderIdAndEpoch { leader_id: leader.get(), leader_epoch: epoch.get() }
                }),
            };
            (at, data)
        }));
        let responses = told
            .into_iter()
            .map(|(topic_id, partitions)| ShareAcknowledgeTopicResponse { topic_id, partitions })
            .collect();
        let node_endpoints = self
            .addresses(origin, &leaders)
            .map(|(node_id, host, port, rack)| NodeEndpoint { node_id, host, port, rack })
            .collect();
        let response = ShareAcknowledgeResponse {
            acquisition_lock_timeout_ms: self.cluster.configs.share_group(group_id).record_lock_duration_ms,
            responses,
            node_endpoints,
            ..ShareAcknowledgeResponse::default()
        };
        self.answer(origin, ResponseMessage::ShareAcknowledge(response));
    }
}

/// Keeps the last mention of each partition, as Kafka does.
pub(super) fn keep_last_mentions(acknowledged: &mut Vec<AcknowledgedPartition<'_>>) {
    let mut seen = BTreeSet::new();
    acknowledged.reverse();
    acknowledged.retain(|partition| seen.insert(partition.at));
    acknowledged.reverse();
}

/// Returns what a request of this version may say; version 2 brought renewals.
pub(super) const fn acknowledge_rules(api_version: i16, is_renew_ack: bool) -> AcknowledgeRules {
    let type_max = if api_version < 2 { AcknowledgeType::Reject } else { AcknowledgeType::Renew };
    AcknowledgeRules { type_max, is_renew_ack }
}

/// Returns the text beside an acknowledgement's error.
pub(super) fn acknowledge_error_message(error: ErrorCode) -> Option<StrBytes> {
    (error != ErrorCode::None).then(|| error.name().into())
}
