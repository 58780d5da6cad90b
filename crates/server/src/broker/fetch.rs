//! Fetch (1), versions 4-18.
//!
//! Differences from Kafka: there is one copy of each log, so a follower's fetch reads like a consumer's, and no
//! answer names another replica to read from.

use std::collections::BTreeSet;

use sharemark_log::{AbortedTransaction as Aborted, Isolation, ReadBatch, ReadError, ReadLimits};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::fetch_request::FetchRequest;
use sharemark_protocol::messages::fetch_response::{
    AbortedTransaction, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use sharemark_protocol::{
    ErrorCode, NodeId, Offset, OffsetRange, Records, StrBytes, Timestamp, TopicId, TopicIdPartition,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::fetch_sessions::{FetchKey, FetchTarget, Known, SessionUse, TopicRef, named};
use super::input::{Now, Origin};
use super::parked::{Parked, Wait, Wake};

/// A Fetch that may wait: what it asks for.
#[derive(Clone, Debug)]
pub(super) struct FetchWait {
    session: SessionUse,
    targets: Vec<FetchTarget>,
    isolation: Isolation,
    min_bytes: usize,
    max_bytes: usize,
}

/// What a fetch has found.
struct Fetched {
    partitions: Vec<(FetchKey, PartitionData)>,
    size_bytes: usize,
    failed: bool,
}

impl Broker {
    pub(super) fn handle_fetch(&mut self, now: Now, origin: Origin, request: FetchRequest) {
        let by_id = 13 <= origin.api_version;
        let mut targets = Vec::new();
        let session = if origin.api_version < 7 {
            named(&request, by_id, &mut targets);
            Ok(SessionUse::Full { id: 0 })
        } else {
            match self.nodes.get_mut(&origin.node) {
                Some(node) => node.fetch_sessions.begin(now.clock, &request, by_id, &mut targets),
                None => Err(ErrorCode::UnknownServerError),
            }
        };
        let session = match session {
            Ok(session) => session,
            Err(error) => {
                let response = FetchResponse { error_code: error.code(), ..FetchResponse::default() };
                self.answer(&origin, ResponseMessage::Fetch(response));
                return;
            }
        };
        let isolation =
            if request.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        let max_bytes = request.max_bytes.min(self.cluster.configs.broker().fetch_max_bytes);
        let wait = FetchWait {
            session,
            targets,
            isolation,
            // More than fits into the answer is never waited for.
            min_bytes: usize::try_from(request.min_bytes.min(max_bytes)).unwrap_or(0),
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
        };
        let deadline = now.real.plus_ms(i64::from(request.max_wait_ms.max(0)));
        self.try_fetch(now, origin, deadline, wait, request.max_wait_ms <= 0);
    }

    pub(super) fn resume_fetch(
        &mut self,
        now: Now,
        origin: Origin,
        deadline: Timestamp,
        wait: FetchWait,
        wake: Wake,
    ) {
        let last = matches!(wake, Wake::Deadline | Wake::PeerClosed);
        self.try_fetch(now, origin, deadline, wait, last);
    }

    /// Answers a fetch if it has enough, or `last` says that it waits no longer; parks it otherwise.
    fn try_fetch(&mut self, _now: Now, origin: Origin, deadline: Timestamp, wait: FetchWait, last: bool) {
        let fetched = self.fetch(&origin, &wait);
        let enough = fetched.failed
            || wait.targets.is_empty()
            || wait.min_bytes <= fetched.size_bytes
            || wait.min_bytes <= self.available_bytes(&origin, &wait);
        if last || enough {
            self.answer_fetch(&origin, &wait, fetched);
            return;
        }
        let partitions =
            wait.targets.iter().filter_map(|target| self.resolve(&origin, &target.key).ok()).collect();
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            node.parked.park(Parked { origin, deadline, wait: Wait::Fetch(Box::new(wait)) }, partitions);
        }
    }

    /// Returns whether a fetch that waits could be answered, so that something has not woken it.
    pub(super) fn is_fetch_ready(&self, origin: &Origin, wait: &FetchWait) -> bool {
        self.fetch(origin, wait).failed || wait.min_bytes <= self.available_bytes(origin, wait)
    }

    /// Returns how many bytes there are for a fetch, up to its limit for each partition. Batches are whole, so an
    /// answer may have to stay below the minimum although more is there; that is not waited for.
    fn available_bytes(&self, origin: &Origin, wait: &FetchWait) -> usize {
        let of_target = |target: &FetchTarget| {
            let at = self.resolve(origin, &target.key).ok()?;
            let partition = self.cluster.partition(at)?;
            let from = Offset::new(target.asked.fetch_offset)?;
            if self.is_past_copy(origin.node, at, wait.isolation, from) {
                return None;
            }
            let max = usize::try_from(target.asked.partition_max_bytes).unwrap_or(0);
            Some(partition.log.readable_bytes(from, wait.isolation, max).min(max))
        };
        wait.targets.iter().filter_map(of_target).sum()
    }

    fn fetch(&self, origin: &Origin, wait: &FetchWait) -> Fetched {
        let mut fetched =
            Fetched { partitions: Vec::with_capacity(wait.targets.len()), size_bytes: 0, failed: false };
        for target in &wait.targets {
            let room = wait.max_bytes.saturating_sub(fetched.size_bytes);
            // The first batch of an answer is served whatever its size, or its reader would be stuck.
            let at_least_one = fetched.size_bytes == 0;
            let data = match self.fetch_partition(origin, target, wait.isolation, room, at_least_one) {
                Ok(data) => data,
                Err(error) => {
                    fetched.failed = true;
                    self.failed_partition(origin, target, error)
                }
            };
            fetched.size_bytes += data.records.as_ref().map_or(0, Records::len);
            fetched.partitions.push((target.key.clone(), data));
        }
        fetched
    }

    fn fetch_partition(
        &self,
        origin: &Origin,
        target: &FetchTarget,
        isolation: Isolation,
        room: usize,
        at_least_one: bool,
    ) -> Result<PartitionData, ErrorCode> {
        let asked = &target.asked;
        let at = self.resolve(origin, &target.key)?;
        self.decide_leader(origin.node, at, asked.current_leader_epoch)?;
        let partition = self.cluster.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let log = &partition.log;
        let from = Offset::new(asked.fetch_offset).ok_or(ErrorCode::OffsetOutOfRange)?;
        let size_bytes_max = room.min(usize::try_from(asked.partition_max_bytes).unwrap_or(0));
        let limits = ReadLimits { size_bytes_max, at_least_one, isolation };
        let mut batches: Vec<ReadBatch> = Vec::new();
        log.read(from, limits, &mut batches).map_err(|error| match error {
            ReadError::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
            ReadError::NotInMemory(_) => ErrorCode::KafkaStorageError,
        })?;
        self.keep_copied(origin.node, at, isolation, &mut batches);
        let mut aborted: Vec<Aborted> = Vec::new();
        let covered = batches.first().zip(batches.last());
        let covered = covered
            .and_then(|(first, last)| OffsetRange::new(first.extent.range.first(), last.extent.range.last()));
        if let Some(range) = covered.filter(|_| isolation == Isolation::ReadCommitted) {
            log.aborted_transactions(range, &mut aborted);
        }
        let mut records = Records::new();
        for batch in batches {
            records.push(batch.bytes);
        }
        let copied = |offset: Offset, isolation| {
            self.copy_end(origin.node, at, isolation).map_or(offset, |end| end.min(offset)).get()
        };
        Ok(PartitionData {
            partition_index: asked.partition,
            high_watermark: copied(log.high_watermark(), Isolation::ReadUncommitted),
            last_stable_offset: copied(log.last_stable_offset(), Isolation::ReadCommitted),
            log_start_offset: log.log_start().get(),
            aborted_transactions: match isolation {
                Isolation::ReadUncommitted => None,
                Isolation::ReadCommitted => Some(aborted.iter().map(on_wire).collect()),
            },
            records: Some(records),
            ..PartitionData::default()
        })
    }

    fn failed_partition(&self, origin: &Origin, target: &FetchTarget, error: ErrorCode) -> PartitionData {
        let mut data = PartitionData {
            partition_index: target.asked.partition,
            error_code: error.code(),
            high_watermark: -1,
            // Never null, which some clients do not survive.
            records: Some(Records::new()),
            ..PartitionData::default()
        };
        if let Some((leader, epoch)) =
            self.leader_hint(origin.node, error, self.resolve(origin, &target.key).ok())
        {
            data.current_leader = LeaderIdAndEpoch { leader_id: leader.get(), leader_epoch: epoch.get() };
        }
        data
    }

    /// Returns the place of a partition that a fetch names.
    fn resolve(&self, origin: &Origin, key: &FetchKey) -> Result<TopicIdPartition, ErrorCode> {
        let (topic, missing) = match &key.topic {
            TopicRef::Name(name) => (self.cluster.topic_named(name), ErrorCode::UnknownTopicOrPartition),
            TopicRef::Id(id) => (self.cluster.topic(*id), ErrorCode::UnknownTopicId),
        };
        let name = match (&key.topic, topic) {
            (_, Some(topic)) => &topic.name,
            (TopicRef::Name(name), None) => name,
            (TopicRef::Id(_), None) => return Err(missing),
        };
        if !authorize(&origin.principal, Operation::Read, Resource::Topic(name)) {
            return Err(ErrorCode::TopicAuthorizationFailed);
        }
        let topic_id = topic.ok_or(missing)?.id;
        Ok(TopicIdPartition { topic_id, partition: key.partition })
    }

    fn answer_fetch(&mut self, origin: &Origin, wait: &FetchWait, fetched: Fetched) {
        let mut response = FetchResponse { session_id: wait.session.id(), ..FetchResponse::default() };
        let mut served = BTreeSet::new();
        let mut leaders = BTreeSet::new();
        for (key, data) in fetched.partitions {
            if data.current_leader.leader_id != -1 {
                leaders.insert(NodeId::new(data.current_leader.leader_id));
            }
            if data.records.as_ref().is_some_and(|records| !records.is_empty()) {
                served.insert(key.clone());
            }
            if self.is_news(origin.node, wait.session, &key, &data) {
                put(&mut response.responses, &key, data);
            }
        }
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            node.fetch_sessions.rotate(wait.session.id(), &served);
        }
        response.node_endpoints = self
            .addresses(origin, &leaders)
            .map(|(node_id, host, port, rack)| NodeEndpoint { node_id, host, port, rack })
            .collect();
        self.answer(origin, ResponseMessage::Fetch(response));
    }

    /// Notes in the session what its client is told, and returns whether it has to be told.
    fn is_news(&mut self, node: NodeId, session: SessionUse, key: &FetchKey, data: &PartitionData) -> bool {
        let Some(node) = self.nodes.get_mut(&node) else { return true };
        let told = Known {
            high_watermark: data.high_watermark,
            last_stable_offset: data.last_stable_offset,
            log_start_offset: data.log_start_offset,
        };
        let failed = data.error_code != ErrorCode::None.code();
        let before = node.fetch_sessions.known(session.id(), key);
        // An error is told at every fetch, and so is the first answer after it.
        node.fetch_sessions.note(session.id(), key, if failed { None } else { Some(told) });
        match session {
            SessionUse::Full { .. } => true,
            SessionUse::Incremental { .. } => {
                let some = data.records.as_ref().is_some_and(|records| !records.is_empty());
                failed || some || before != Some(told)
            }
        }
    }
}

fn on_wire(aborted: &Aborted) -> AbortedTransaction {
    AbortedTransaction { producer_id: aborted.producer_id.get(), first_offset: aborted.first_offset.get() }
}

/// Adds a partition to the answer, beside the others of its topic if they came just before.
fn put(responses: &mut Vec<FetchableTopicResponse>, key: &FetchKey, data: PartitionData) {
    let (topic, topic_id): (StrBytes, TopicId) = match &key.topic {
        TopicRef::Name(name) => ((&**name).into(), TopicId::ZERO),
        TopicRef::Id(id) => (StrBytes::default(), *id),
    };
    match responses.last_mut().filter(|last| last.topic == topic && last.topic_id == topic_id) {
        Some(last) => last.partitions.push(data),
        None => responses.push(FetchableTopicResponse { topic, topic_id, partitions: vec![data] }),
    }
}
