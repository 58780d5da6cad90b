//! ShareFetch (78), versions 1-2 (KIP-932, KIP-1206, KIP-1222).
//!
//! Difference from Kafka: a parked fetch wakes in the step that frees a record, whatever freed it.

mod acquire;
mod answer;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_fetch_request::ShareFetchRequest;
use sharemark_protocol::messages::share_fetch_response::ShareFetchResponse;
use sharemark_protocol::{ErrorCode, NodeId, Timestamp, TopicIdPartition};
use sharemark_share_coordinator::{
    AcknowledgementBatch, AcquireMode, AcquireRequest, ConnectionId, SessionFetch, SessionPlan,
    ShareSessionKey,
};

use self::acquire::Found;
use super::Broker;
use super::input::{Now, Origin};
use super::parked::{Parked, Wait, Wake};
use super::share_acknowledge::{
    AcknowledgedPartition, AfterAcknowledge, acknowledge_rules, keep_last_mentions,
};
use super::share_partitions::share_key;

/// A ShareFetch on its way.
#[derive(Clone, Debug)]
pub(super) struct ShareFetchWait {
    session: ShareSessionKey,
    closes: bool,
    /// The partitions to fetch from, in the order of their turns; none if the request only acknowledges.
    partitions: Vec<TopicIdPartition>,
    /// The outcomes of the acknowledgements that came with it.
    pub(super) acknowledged: Vec<(TopicIdPartition, ErrorCode)>,
    acquire: AcquireRequest,
    max_wait_ms: i64,
    /// When it began to look at its partitions, in real time.
    began_at: Timestamp,
    min_bytes: usize,
    max_bytes: usize,
}

impl Broker {
    pub(super) fn handle_share_fetch(&mut self, now: Now, origin: Origin, request: ShareFetchRequest) {
        let named = named_partitions(&request);
        let forgotten: Vec<TopicIdPartition> = request
            .forgotten_topics_data
            .iter()
            .flat_map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|index| TopicIdPartition { topic_id: topic.topic_id, partition: *index })
            })
            .collect();
        let plan = match self.decide_share_fetch(&origin, &request, &named, &forgotten) {
            Ok(plan) => plan,
            Err(error) => {
                self.refuse_share_fetch(now, origin, &request, error);
                return;
            }
        };
        let connection = ConnectionId(origin.connection.0);
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            node.share_sessions.apply(&plan, &named, &forgotten, connection);
        }
        let (session, closes) = match plan {
            SessionPlan::Open(key) | SessionPlan::Continue(key) => (key, false),
            SessionPlan::Close(key) => (key, true),
        };
        let mode = match request.share_acquire_mode {
            0 => AcquireMode::BatchOptimized,
            1 => AcquireMode::RecordLimit,
            _ => {
                // Found out late in Kafka, when the epoch is used up.
                self.answer_share_fetch_error(&origin, ErrorCode::UnknownServerError);
                return;
            }
        };
        let wait = self.share_fetch_wait(&origin, &request, session.clone(), closes, mode);
        let acknowledged = acknowledged_partitions(&request);
        let rules = acknowledge_rules(origin.api_version, request.is_renew_ack);
        self.acknowledge(
            now,
            origin,
            &session,
            &acknowledged,
            rules,
            AfterAcknowledge::Fetch(Box::new(wait)),
        );
    }

    fn decide_share_fetch(
        &self,
        origin: &Origin,
        request: &ShareFetchRequest,
        named: &[TopicIdPartition],
        forgotten: &[TopicIdPartition],
    ) -> Result<SessionPlan, ErrorCode> {
        let key = self.decide_share_session(origin, request.group_id.as_ref(), request.member_id.as_ref())?;
        let limits = [request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms];
        if request.is_renew_ack && limits != [0; 4] {
            return Err(ErrorCode::InvalidRequest);
        }
        let node = self.nodes.get(&origin.node).ok_or(ErrorCode::UnknownServerError)?;
        let has_acknowledgements = request
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .any(|partition| !partition.acknowledgement_batches.is_empty());
        node.share_sessions.decide_fetch(&SessionFetch {
            key: &key,
            epoch: request.share_session_epoch,
            has_acknowledgements,
            partitions: named,
            forgotten,
        })
    }

    fn refuse_share_fetch(
        &mut self,
        now: Now,
        origin: Origin,
        request: &ShareFetchRequest,
        error: ErrorCode,
    ) {
        if error != ErrorCode::ShareSessionLimitReached || request.max_wait_ms <= 0 {
            self.answer_share_fetch_error(&origin, error);
            return;
        }
        // Told late, so that a client that has no place does not spin.
        let response = ShareFetchResponse { error_code: error.code(), ..ShareFetchResponse::default() };
        let deadline = now.real.plus_ms(i64::from(request.max_wait_ms));
        let wait = Wait::Time(Box::new(ResponseMessage::ShareFetch(response)));
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            node.parked.park(Parked { origin, deadline, wait }, Vec::new());
        }
    }

    fn answer_share_fetch_error(&mut self, origin: &Origin, error: ErrorCode) {
        let response = ShareFetchResponse { error_code: error.code(), ..ShareFetchResponse::default() };
        self.answer(origin, ResponseMessage::ShareFetch(response));
    }

    fn share_fetch_wait(
        &self,
        origin: &Origin,
        request: &ShareFetchRequest,
        session: ShareSessionKey,
        closes: bool,
        mode: AcquireMode,
    ) -> ShareFetchWait {
        let unsigned = |number: i32| usize::try_from(number).unwrap_or(0);
        let max_bytes = unsigned(request.max_bytes.min(self.cluster.configs.broker().fetch_max_bytes));
        let fetches = !closes && !request.is_renew_ack && max_bytes != 0 && 0 < request.max_records;
        let partitions = match self.nodes.get(&origin.node) {
            Some(node) if fetches => {
                node.share_sessions.rotated(&session, request.share_session_epoch).collect()
            }
            Some(_) | None => Vec::new(),
        };
        ShareFetchWait {
            session,
            closes,
            partitions,
            acknowledged: Vec::new(),
            acquire: AcquireRequest {
                max_records: i64::from(request.max_records),
                batch_size: i64::from(request.batch_size),
                mode,
            },
            max_wait_ms: if fetches { i64::from(request.max_wait_ms.max(0)) } else { 0 },
            // More than fits into the answer is never waited for.
            min_bytes: unsigned(request.min_bytes).min(max_bytes),
            max_bytes,
            began_at: Timestamp::from_ms(0), // Not known before its acknowledgements are stored.
        }
    }

    /// Goes on with a ShareFetch whose acknowledgements are stored.
    pub(super) fn begin_share_fetch(&mut self, now: Now, origin: Origin, mut wait: ShareFetchWait) {
        wait.began_at = now.real;
        let deadline = now.real.plus_ms(wait.max_wait_ms);
        let last = wait.max_wait_ms == 0;
        self.try_share_fetch(now, origin, deadline, wait, last);
    }

    pub(super) fn resume_share_fetch(
        &mut self,
        now: Now,
        origin: Origin,
        deadline: Timestamp,
        wait: ShareFetchWait,
        wake: Wake,
    ) {
        match wake {
            Wake::Changed => self.try_share_fetch(now, origin, deadline, wait, deadline <= now.real),
            Wake::Deadline => self.finish_share_fetch(now, origin, wait, true),
            // Whoever half-closed may be gone: it acquires nothing more.
            Wake::PeerClosed => self.finish_share_fetch(now, origin, wait, false),
        }
    }

    /// Returns whether a fetch that waits could be answered, so that something has not woken it.
    pub(super) fn is_share_fetch_ready(&self, node: NodeId, wait: &ShareFetchWait) -> bool {
        let config = self.share_partition_config(&wait.session.group_id);
        let mut available = 0;
        let mut any = false;
        let mut keys = wait.partitions.iter().map(|at| share_key(&wait.session.group_id, *at));
        if keys.any(|key| self.is_loading(node, &key)) {
            return false; // It waits for that, whatever the others have.
        }
        for &at in &wait.partitions {
            let key = share_key(&wait.session.group_id, at);
            if self.leader_seen_by(node, at) != Some(node) {
                return true; // With an error.
            }
            if self.share_partition(node, &key).is_some_and(|partition| partition.can_acquire(&config)) {
                any = true;
                available += self.readable_bytes(node, &key, &config, wait.max_bytes);
            }
        }
        any && wait.min_bytes <= available
    }

    /// Answers a fetch if there is enough, or parks it. With `last` it waits for nothing but states being loaded,
    /// which come in the same step unless a crossing is held.
    fn try_share_fetch(
        &mut self,
        now: Now,
        origin: Origin,
        deadline: Timestamp,
        wait: ShareFetchWait,
        last: bool,
    ) {
        let config = self.share_partition_config(&wait.session.group_id);
        let mut available = 0;
        let (mut any, mut loading, mut ready) = (false, false, wait.partitions.is_empty());
        for &at in &wait.partitions {
            match self.find_acquirable(now, origin.node, &wait.session.group_id, at, &config) {
                Found::Acquirable(key) => {
                    any = true;
                    available += self.readable_bytes(origin.node, &key, &config, wait.max_bytes);
                }
                Found::Loading => loading = true,
                Found::Nothing => {}
                Found::LogStartMoved | Found::Error(_) => ready = true,
            }
        }
        ready |= any && wait.min_bytes <= available;
        if loading || !(ready || last) {
            let partitions = wait.partitions.clone();
            if let Some(node) = self.nodes.get_mut(&origin.node) {
                node.parked
                    .park(Parked { origin, deadline, wait: Wait::ShareFetch(Box::new(wait)) }, partitions);
            }
            return;
        }
        self.finish_share_fetch(now, origin, wait, true);
    }
}

fn named_partitions(request: &ShareFetchRequest) -> Vec<TopicIdPartition> {
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicIdPartition {
            topic_id: topic.topic_id,
            partition: partition.partition_index,
        })
    });
    partitions.collect()
}

fn acknowledged_partitions(request: &ShareFetchRequest) -> Vec<AcknowledgedPartition<'_>> {
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
    acknowledged.retain(|partition| !partition.batches.is_empty());
    acknowledged
}
