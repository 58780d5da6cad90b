//! One worker: a member of the share group and a transactional producer, each transaction of which holds receipts
//! and the acknowledgements of the orders that they are for.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use sharemark_log::batch::{BatchBuilder, split};
use sharemark_protocol::messages::end_txn_request::EndTxnRequest;
use sharemark_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use sharemark_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use sharemark_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic, ShareFetchRequest};
use sharemark_protocol::messages::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use sharemark_protocol::messages::txn_share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, TxnShareAcknowledgeRequest,
};
use sharemark_protocol::{ErrorCode, Producer, Timestamp, TopicId};

use super::client::{Client, DemoError, check};
use super::read_back::{ReadRecord, records_of};
use super::{GROUP, ORDERS, STUCK_AFTER, receipt_for, topics};

/// How many orders a worker takes at once.
const ORDERS_AT_ONCE: i32 = 20;

/// How long a transaction may take before the broker aborts it: the demo needs no such help.
const TRANSACTION_TIMEOUT_MS: i32 = 60_000;

/// What FindCoordinator calls groups and transactional ids.
const GROUP_KEY: i8 = 0;
const TRANSACTION_KEY: i8 = 1;

/// The way of acquiring that keeps to the number of records (KIP-1206).
const RECORD_LIMIT: i8 = 1;

/// What a member says of a record that it has dealt with.
const ACCEPT: i8 = 1;

/// A member of the share group that writes a receipt for each order.
#[derive(Debug)]
pub(super) struct Worker {
    client: Client,
    orders: TopicId,
    receipts: TopicId,
    member_id: String,
    member_epoch: i32,
    transactional_id: String,
    producer: Producer,
    session_epoch: i32,
    /// The orders that it was handed out and has not finished.
    held: Vec<ReadRecord>,
}

impl Worker {
    /// Connects, joins the share group and begins the only incarnation of its transactional id.
    pub(super) fn start(
        address: SocketAddr,
        (orders, receipts): (TopicId, TopicId),
        member_id: String,
        transactional_id: String,
    ) -> Result<Self, DemoError> {
        let mut client = Client::connect(address, "demo-worker")?;
        find_coordinator(&mut client, GROUP_KEY, GROUP)?;
        find_coordinator(&mut client, TRANSACTION_KEY, &transactional_id)?;
        let member_epoch = join(&mut client, &member_id, orders)?;
        let producer = init_producer(&mut client, &transactional_id)?;
        let held = Vec::new();
        Ok(Self {
            client,
            orders,
            receipts,
            member_id,
            member_epoch,
            transactional_id,
            producer,
            session_epoch: 0,
            held,
        })
    }

    /// Returns the orders that it was handed out and has not finished.
    pub(super) fn held(&self) -> &[ReadRecord] {
        &self.held
    }

    /// Returns its name, which is its member id.
    pub(super) fn name(&self) -> &str {
        &self.member_id
    }

    /// Returns its transactional id.
    pub(super) fn transactional_id(&self) -> &str {
        &self.transactional_id
    }

    /// Takes the next orders, and waits for up to `max_wait_ms` until there is one.
    pub(super) fn take(&mut self, max_wait_ms: i32) -> Result<(), DemoError> {
        // The session remembers the partition once it is named.
        let partition = FetchPartition { partition_index: 0, ..FetchPartition::default() };
        let topic = FetchTopic { topic_id: self.orders, partitions: vec![partition] };
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(self.member_id.as_str().into()),
            share_session_epoch: self.session_epoch,
            max_wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: ORDERS_AT_ONCE,
            batch_size: ORDERS_AT_ONCE,
            share_acquire_mode: RECORD_LIMIT,
            topics: if self.session_epoch == 0 { vec![topic] } else { Vec::new() },
            ..ShareFetchRequest::default()
        };
        let answer = self.client.call(request)?;
        check("ShareFetch", answer.error_code)?;
        self.session_epoch += 1;
        for data in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            check("ShareFetch", data.error_code)?;
            let mut records = Vec::new();
            for batch in split(&data.records.to_bytes()) {
                records_of(&batch, &mut records)?;
            }
            // Batches come whole; what is meant for others is passed over.
            let acquired = |record: &ReadRecord| {
                let ranges = &data.acquired_records;
                ranges.iter().any(|range| (range.first_offset..=range.last_offset).contains(&record.offset))
            };
            self.held.extend(records.into_iter().filter(acquired));
        }
        Ok(())
    }

    /// Writes a receipt for each order that it holds, and acknowledges the orders in the same transaction.
    pub(super) fn work(&mut self) -> Result<(), DemoError> {
        let mut receipts = BatchBuilder::new().producer(self.producer, 0).transactional();
        let now = super::now();
        for order in &self.held {
            let value = receipt_for(order.value.as_deref().unwrap_or_default());
            receipts.push(now, Some(&order.key), Some(&value), &[]);
        }
        let batch = receipts.build().freeze();
        topics::produce(&mut self.client, self.receipts, Some(&self.transactional_id), batch)?;
        self.acknowledge()
    }

    fn acknowledge(&mut self) -> Result<(), DemoError> {
        let batches = self.held.iter().map(|order| AcknowledgementBatch {
            first_offset: order.offset,
            last_offset: order.offset,
            acknowledge_types: vec![ACCEPT],
        });
        let partition =
            AcknowledgePartition { partition_index: 0, acknowledgement_batches: batches.collect() };
        let topic = AcknowledgeTopic { topic_id: self.orders, partitions: vec![partition] };
        let request = TxnShareAcknowledgeRequest {
            transactional_id: Some(self.transactional_id.as_str().into()),
            group_id: GROUP.into(),
            producer_id: self.producer.id.get(),
            producer_epoch: self.producer.epoch.get(),
            member_id: self.member_id.as_str().into(),
            member_epoch: self.member_epoch,
            topics: vec![topic],
        };
        let answer = self.client.call(request)?;
        check("TxnShareAcknowledge", answer.error_code)?;
        let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or(DemoError::Nonsense("TxnShareAcknowledge answers no partition"))?;
        check("TxnShareAcknowledge", partition.error_code)
    }

    /// Ends its transaction.
    pub(super) fn end(&mut self, commit: bool) -> Result<(), DemoError> {
        let error = self.try_end(commit)?;
        check("EndTxn", error.code())
    }

    /// Ends its transaction, or returns why the broker refuses. Either way it holds nothing any more.
    pub(super) fn try_end(&mut self, commit: bool) -> Result<ErrorCode, DemoError> {
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.as_str().into(),
            producer_id: self.producer.id.get(),
            producer_epoch: self.producer.epoch.get(),
            committed: commit,
        };
        let answer = self.client.call(request)?;
        self.held.clear();
        let error = ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if error == ErrorCode::None {
            // Each transaction has an epoch of its own, which the answer tells (KIP-890).
            self.producer = Producer::from_wire(answer.producer_id, answer.producer_epoch)
                .ok_or(DemoError::Nonsense("EndTxn names no producer"))?;
        }
        Ok(error)
    }

    /// Begins a new incarnation of its transactional id.
    pub(super) fn restart_producer(&mut self) -> Result<(), DemoError> {
        self.producer = init_producer(&mut self.client, &self.transactional_id)?;
        Ok(())
    }
}

/// Asks where the coordinator of a group or a transactional id is, as every client does first: it is only there once
/// it was asked for. The demo's broker has one node, so that it is always that one.
fn find_coordinator(client: &mut Client, key_type: i8, key: &str) -> Result<(), DemoError> {
    let started = Instant::now();
    while started.elapsed() < STUCK_AFTER {
        let coordinator_keys = vec![key.into()];
        let request =
            FindCoordinatorRequest { key_type, coordinator_keys, ..FindCoordinatorRequest::default() };
        let answer = client.call(request)?;
        let found = answer.coordinators.first();
        let found = found.ok_or(DemoError::Nonsense("FindCoordinator answers no coordinator"))?;
        if found.error_code != ErrorCode::CoordinatorNotAvailable.code() {
            return check("FindCoordinator", found.error_code);
        }
    }
    Err(DemoError::Stuck)
}

/// Heartbeats until the member is assigned the orders; returns its epoch.
fn join(client: &mut Client, member_id: &str, orders: TopicId) -> Result<i32, DemoError> {
    let started = Instant::now();
    let mut request = ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: member_id.into(),
        subscribed_topic_names: Some(vec![ORDERS.into()]),
        ..ShareGroupHeartbeatRequest::default()
    };
    while started.elapsed() < STUCK_AFTER {
        let answer = client.call(request.clone())?;
        check("ShareGroupHeartbeat", answer.error_code)?;
        let assigned = answer.assignment.iter().flat_map(|it| &it.topic_partitions);
        if assigned.into_iter().any(|it| it.topic_id == orders && it.partitions.contains(&0)) {
            return Ok(answer.member_epoch);
        }
        request.member_epoch = answer.member_epoch;
        request.subscribed_topic_names = None;
    }
    Err(DemoError::Stuck)
}

/// Begins a new incarnation of a transactional id: whatever the last one has left open is aborted.
pub(super) fn init_producer(client: &mut Client, transactional_id: &str) -> Result<Producer, DemoError> {
    let started = Instant::now();
    let request = InitProducerIdRequest {
        transactional_id: Some(transactional_id.into()),
        transaction_timeout_ms: TRANSACTION_TIMEOUT_MS,
        ..InitProducerIdRequest::default()
    };
    while started.elapsed() < STUCK_AFTER {
        let answer = client.call(request.clone())?;
        if answer.error_code == ErrorCode::ConcurrentTransactions.code() {
            continue; // The abort is on its way.
        }
        check("InitProducerId", answer.error_code)?;
        return Producer::from_wire(answer.producer_id, answer.producer_epoch)
            .ok_or(DemoError::Nonsense("InitProducerId names no producer"));
    }
    Err(DemoError::Stuck)
}

/// Returns a batch of orders, numbered from `first` on.
pub(super) fn batch_of_orders(first: usize, count: usize, now: Timestamp) -> Bytes {
    const DRINKS: [&str; 4] = ["espresso", "cappuccino", "tea", "lemonade"];
    let mut batch = BatchBuilder::new();
    for number in first..first + count {
        let key = format!("order-{number}");
        let value = format!("{} x {}", 1 + number % 3, DRINKS[number % DRINKS.len()]);
        batch.push(now, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
    }
    batch.build().freeze()
}
