//! ShareFetch (78), versions 1-2 (KIP-932, KIP-1206, KIP-1222).
//!
//! Difference from Kafka: a parked fetch wakes in the step that frees a record, whatever freed it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_log::{AbortedTransaction, Isolation, ReadBatch, ReadLimits};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_fetch_request::ShareFetchRequest;
use sharemark_protocol::messages::share_fetch_response::{
    AcquiredRecords, LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchResponse,
    ShareFetchableTopicResponse,
};
use sharemark_protocol::{
    ErrorCode, NodeId, OffsetRange, Records, SharePartitionKey, Timestamp, TopicIdPartition,
};
use sharemark_share_coordinator::{
    AcknowledgementBatch, AcquireMode, AcquireRequest, AcquiredRange, ConnectionId, FetchedBatch, FetchedRun,
    PartitionOutcome, SessionFetch, SessionPlan, SharePartitionConfig, ShareSessionKey,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::{Now, Origin};
use super::parked::{Parked, Wait, Wake};
use super::share_acknowledge::{
    AcknowledgedPartition, AfterAcknowledge, acknowledge_error_message, acknowledge_rules, session_key,
};
use super::share_partitions::{SharePartitionSlot, share_key};

/// A ShareFetch on its way.
#[derive(Debug)]
pub(super) struct ShareFetchWait {
    session: ShareSessionKey,
    closes: bool,
    /// The partitions to fetch from, in the order of their turns; none if the request only acknowledges.
    partitions: Vec<TopicIdPartition>,
    /// The outcomes of the acknowledgements that came with it.
    pub(super) acknowledged: Vec<(TopicIdPartition, ErrorCode)>,
    acquire: AcquireRequest,
    max_wait_ms: i64,
    min_bytes: usize,
    max_bytes: usize,
}

/// What one partition of a fetch has come to.
enum Found {
    /// It can be fetched from.
    Acquirable(SharePartitionKey),
    /// Its state is still being read.
    Loading,
    /// There is nothing to acquire.
    Nothing,
    /// Its log has moved past what was asked for; that is all this fetch finds out.
    LogStartMoved,
    /// It has an error.
    Error(ErrorCode),
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
        if self.cluster.features.share_version() < 1 {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let group_id = request.group_id.as_deref().ok_or(ErrorCode::InvalidRequest)?;
        if !authorize(&origin.principal, Operation::Read, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        let key = session_key(request.group_id.as_ref(), request.member_id.as_ref())?;
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
            min_bytes: unsigned(request.min_bytes),
            max_bytes,
        }
    }

    /// Goes on with a ShareFetch whose acknowledgements are stored.
    pub(super) fn begin_share_fetch(&mut self, now: Now, origin: Origin, wait: ShareFetchWait) {
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
            match self.find_acquirable(origin.node, &wait.session.group_id, at, &config) {
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

    /// Looks at one partition of a fetch, and begins to load it if it is not there.
    fn find_acquirable(
        &mut self,
        node: NodeId,
        group_id: &Arc<str>,
        at: TopicIdPartition,
        config: &SharePartitionConfig,
    ) -> Found {
        let Some(partition) = self.cluster.partition(at) else {
            return Found::Error(self.missing_partition(at));
        };
        if partition.leader != node {
            return Found::Error(ErrorCode::NotLeaderOrFollower);
        }
        let (leader_epoch, log_start) = (partition.leader_epoch, partition.log.log_start());
        let key = share_key(group_id, at);
        let slot = self.nodes.get(&node).and_then(|node| node.share_partitions.get(&key));
        match slot {
            None => {
                self.load_share_partition(node, &key, leader_epoch);
                Found::Loading
            }
            Some(SharePartitionSlot::Loading) => Found::Loading,
            Some(SharePartitionSlot::Failed(error)) => Found::Error(*error),
            Some(SharePartitionSlot::Active { partition, .. }) => {
                if partition.fetch_offset() < log_start && partition.start_offset() < log_start {
                    return Found::LogStartMoved;
                }
                if partition.can_acquire(config) { Found::Acquirable(key) } else { Found::Nothing }
            }
        }
    }

    /// Returns why a partition cannot be found: an id that was never a topic's, or one whose topic is gone.
    fn missing_partition(&self, at: TopicIdPartition) -> ErrorCode {
        if self.cluster.topic(at.topic_id).is_none() && !self.cluster.was_deleted(at.topic_id) {
            return ErrorCode::UnknownTopicId;
        }
        ErrorCode::UnknownTopicOrPartition
    }

    fn isolation(&self, group_id: &str) -> Isolation {
        if self.cluster.configs.share_group(group_id).read_committed {
            Isolation::ReadCommitted
        } else {
            Isolation::ReadUncommitted
        }
    }

    /// Returns how many bytes a fetch would find in a share partition, up to `max`.
    fn readable_bytes(
        &self,
        node: NodeId,
        key: &SharePartitionKey,
        config: &SharePartitionConfig,
        max: usize,
    ) -> usize {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let (Some(active), Some(partition)) = (self.share_partition(node, key), self.cluster.partition(at))
        else {
            return 0;
        };
        let isolation = self.isolation(&key.group_id);
        let from = active.fetch_offset();
        // In a full window what lies behind it does not count.
        if active.last_acquirable_offset(config).is_some_and(|last| last < from) {
            return 0;
        }
        partition.log.readable_bytes(from, isolation, max)
    }

    /// Acquires what there is, unless `acquires` says not to, and answers.
    fn finish_share_fetch(&mut self, now: Now, origin: Origin, wait: ShareFetchWait, acquires: bool) {
        let config = self.share_partition_config(&wait.session.group_id);
        let mut found = Vec::with_capacity(wait.partitions.len());
        if acquires {
            for &at in &wait.partitions {
                found.push((at, self.find_acquirable(origin.node, &wait.session.group_id, at, &config)));
            }
        }
        let acquirable_count =
            found.iter().filter(|(_, found)| matches!(found, Found::Acquirable(_))).count();
        let mut budget = Budget {
            records_left: wait.acquire.max_records,
            partition_bytes: wait.max_bytes / acquirable_count.max(1),
            any_bytes: false,
        };
        let mut fetched: BTreeMap<TopicIdPartition, PartitionData> = BTreeMap::new();
        let mut order = Vec::with_capacity(found.len());
        for (at, found) in found {
            let data = match found {
                Found::Acquirable(key) => {
                    self.acquire_from(now, origin.node, &key, &wait, &config, &mut budget)
                }
                Found::LogStartMoved => {
                    self.move_share_start(origin.node, &share_key(&wait.session.group_id, at));
                    partition_data(at)
                }
                Found::Error(error) => {
                    self.forget_failed(origin.node, &share_key(&wait.session.group_id, at));
                    PartitionData { error_code: error.code(), ..partition_data(at) }
                }
                Found::Loading => continue,
                Found::Nothing => partition_data(at),
            };
            order.push(at);
            fetched.insert(at, data);
        }
        for &(at, error) in &wait.acknowledged {
            let data = fetched.entry(at).or_insert_with(|| {
                order.push(at);
                partition_data(at)
            });
            data.acknowledge_error_code = error.code();
            data.acknowledge_error_message = acknowledge_error_message(error);
        }
        self.answer_share_fetch(now, &origin, &wait, order, fetched);
    }

    /// Forgets that a share partition could not be loaded: it was told, and the next fetch tries again.
    fn forget_failed(&mut self, node: NodeId, key: &SharePartitionKey) {
        if let Some(node) = self.nodes.get_mut(&node)
            && matches!(node.share_partitions.get(key), Some(SharePartitionSlot::Failed(_)))
        {
            node.share_partitions.remove(key);
        }
    }

    fn move_share_start(&mut self, node: NodeId, key: &SharePartitionKey) {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        if let Some(log_start) = self.cluster.partition(at).map(|partition| partition.log.log_start()) {
            self.change_share_partition(node, key, |partition| ((), partition.archive_below(log_start)));
        }
    }

    /// Reads the log of one share partition and acquires from what was read.
    fn acquire_from(
        &mut self,
        now: Now,
        node: NodeId,
        key: &SharePartitionKey,
        wait: &ShareFetchWait,
        config: &SharePartitionConfig,
        budget: &mut Budget,
    ) -> PartitionData {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let mut data = partition_data(at);
        let isolation = self.isolation(&key.group_id);
        let (Some(active), Some(partition)) = (self.share_partition(node, key), self.cluster.partition(at))
        else {
            return data;
        };
        if budget.records_left <= 0 {
            return data;
        }
        let from = active.fetch_offset();
        let limits =
            ReadLimits { size_bytes_max: budget.partition_bytes, at_least_one: !budget.any_bytes, isolation };
        let mut batches: Vec<ReadBatch> = Vec::new();
        if partition.log.read(from.max(partition.log.log_start()), limits, &mut batches).is_err() {
            return data;
        }
        budget.any_bytes |= !batches.is_empty();
        let mut fetched: Vec<FetchedBatch> = Vec::with_capacity(batches.len());
        let aborted = self.aborted_within(at, isolation, &batches);
        fetched.extend(batches.iter().map(|batch| FetchedBatch {
            range: batch.extent.range,
            is_aborted: is_aborted(batch, &aborted),
        }));
        let request = AcquireRequest { max_records: budget.records_left, ..wait.acquire };
        let mut acquired: Vec<AcquiredRange> = Vec::new();
        let run = FetchedRun { fetch_offset: from, batches: &fetched };
        let member = &wait.session.member_id;
        let count = self.change_share_partition(node, key, |partition| {
            partition.acquire(now.clock, member, config, &request, &run, &mut acquired)
        });
        budget.records_left -= count.unwrap_or(0);
        data.records = overlapping(&batches, &acquired);
        data.acquired_records = acquired.iter().map(on_wire).collect();
        data
    }

    fn aborted_within(
        &self,
        at: TopicIdPartition,
        isolation: Isolation,
        batches: &[ReadBatch],
    ) -> Vec<AbortedTransaction> {
        let mut aborted = Vec::new();
        let ends = batches.first().zip(batches.last());
        let range = ends
            .and_then(|(first, last)| OffsetRange::new(first.extent.range.first(), last.extent.range.last()));
        if let (Isolation::ReadCommitted, Some(range), Some(partition)) =
            (isolation, range, self.cluster.partition(at))
        {
            partition.log.aborted_transactions(range, &mut aborted);
        }
        aborted
    }

    fn answer_share_fetch(
        &mut self,
        now: Now,
        origin: &Origin,
        wait: &ShareFetchWait,
        order: Vec<TopicIdPartition>,
        mut fetched: BTreeMap<TopicIdPartition, PartitionData>,
    ) {
        let acknowledged: BTreeSet<TopicIdPartition> = wait.acknowledged.iter().map(|(at, _)| *at).collect();
        let mut responses: Vec<ShareFetchableTopicResponse> = Vec::new();
        let mut leaders = BTreeSet::new();
        for at in order {
            let Some(mut data) = fetched.remove(&at) else { continue };
            let error = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
            let outcome = PartitionOutcome {
                has_records: !data.acquired_records.is_empty(),
                has_error: error != ErrorCode::None,
                has_acknowledgements: acknowledged.contains(&at),
            };
            let is_listed = match self.nodes.get_mut(&origin.node) {
                Some(node) if wait.partitions.contains(&at) => {
                    node.share_sessions.apply_answer(&wait.session, at, outcome)
                }
                Some(_) | None => outcome.is_listed(),
            };
            if !is_listed {
                continue;
            }
            let acknowledge_error =
                ErrorCode::from_code(data.acknowledge_error_code).unwrap_or(ErrorCode::None);
            let hint =
                self.leader_hint(error, Some(at)).or_else(|| self.leader_hint(acknowledge_error, Some(at)));
            if let Some((leader, epoch)) = hint {
                leaders.insert(leader);
                data.current_leader = LeaderIdAndEpoch { leader_id: leader.get(), leader_epoch: epoch.get() };
            }
            match responses.iter_mut().find(|topic| topic.topic_id == at.topic_id) {
                Some(topic) => topic.partitions.push(data),
                None => {
                    responses
                        .push(ShareFetchableTopicResponse { topic_id: at.topic_id, partitions: vec![data] });
                }
            }
        }
        let response = ShareFetchResponse {
            acquisition_lock_timeout_ms: self
                .cluster
                .configs
                .share_group(&wait.session.group_id)
                .record_lock_duration_ms,
            responses,
            node_endpoints: self.share_node_endpoints(origin, leaders),
            ..ShareFetchResponse::default()
        };
        self.answer(origin, ResponseMessage::ShareFetch(response));
        if wait.closes {
            self.close_share_session(now, origin.node, &wait.session);
        }
    }

    fn share_node_endpoints(&self, origin: &Origin, leaders: BTreeSet<NodeId>) -> Vec<NodeEndpoint> {
        leaders
            .into_iter()
            .filter_map(|node| {
                let endpoint = self.endpoint(node, origin.listener)?;
                Some(NodeEndpoint {
                    node_id: node.get(),
                    host: endpoint.host.as_str().into(),
                    port: i32::from(endpoint.port),
                    rack: self.rack().map(Into::into),
                })
            })
            .collect()
    }
}

/// What is left of a fetch's limits while its partitions get their turns.
struct Budget {
    records_left: i64,
    /// How many bytes each partition may read: an even share.
    partition_bytes: usize,
    /// Whether something was read: until then the first batch is read whatever its size.
    any_bytes: bool,
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
        for partition in
            topic.partitions.iter().filter(|partition| !partition.acknowledgement_batches.is_empty())
        {
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
    acknowledged
}

fn partition_data(at: TopicIdPartition) -> PartitionData {
    PartitionData { partition_index: at.partition, ..PartitionData::default() }
}

fn is_aborted(batch: &ReadBatch, aborted: &[AbortedTransaction]) -> bool {
    let Some(producer) =
        batch.extent.producer.filter(|_| batch.extent.transactional && !batch.extent.control)
    else {
        return false;
    };
    aborted.iter().any(|transaction| {
        transaction.producer_id == producer.id
            && transaction.first_offset <= batch.extent.range.first()
            && batch.extent.range.last() <= transaction.last_offset
    })
}

/// Returns the whole batches from the first acquired offset to the last.
fn overlapping(batches: &[ReadBatch], acquired: &[AcquiredRange]) -> Records {
    let mut records = Records::new();
    let (Some(first), Some(last)) = (acquired.first(), acquired.last()) else { return records };
    let (first, last) = (first.range.first(), last.range.last());
    for batch in batches {
        if first <= batch.extent.range.last() && batch.extent.range.first() <= last {
            records.push(batch.bytes.clone());
        }
    }
    records
}

fn on_wire(acquired: &AcquiredRange) -> AcquiredRecords {
    AcquiredRecords {
        first_offset: acquired.range.first().get(),
        last_offset: acquired.range.last().get(),
        delivery_count: acquired.delivery_count,
    }
}
