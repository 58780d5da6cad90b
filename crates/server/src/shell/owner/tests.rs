use std::time::Instant;

use crossbeam_channel::bounded;
use sharemark_log::batch::BatchBuilder;
use sharemark_log::{Flush, StoredBatch, StoredPartition};
use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use sharemark_protocol::{NodeId, Offset, Timestamp, TopicIdPartition};

use super::*;
use crate::broker::{ListenerId, Origin, Principal, Request};
use crate::config::{BrokerConfig, ConfigBuilder};

/// Storage that fails, in one way or the other, at the first flush.
struct Failing {
    panics: bool,
}

impl Storage for Failing {
    fn append(&mut self, _flush: Flush) -> Result<(), StorageError> {
        assert!(!self.panics, "storage panics as it was told");
        Err(StorageError::Write("no space left".to_owned()))
    }

    fn durable(&self) -> u64 {
        0
    }

    fn read(
        &self,
        _partition: TopicIdPartition,
        _from: Offset,
        _size_bytes_max: usize,
        _out: &mut Vec<StoredBatch>,
    ) -> Result<(), StorageError> {
        Ok(())
    }

    fn truncate(&mut self, _last_flush: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn list(&self, _out: &mut Vec<StoredPartition>) -> Result<(), StorageError> {
        Ok(())
    }
}

fn broker(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> (Broker, Clock) {
    let config = change(BrokerConfig::builder()).build(&mut Vec::new()).unwrap();
    let mut clock = Clock::new();
    let broker = Broker::new(config, clock.now());
    (broker, clock)
}

fn request(connection: ConnectionId, api_version: i16, body: RequestMessage) -> Message {
    let origin = Origin {
        connection,
        node: NodeId::new(0),
        listener: ListenerId(0),
        principal: Principal::anonymous(),
        client_id: None,
        client_host: "/127.0.0.1".into(),
        api_version,
    };
    Message::Input(Input::Request(Box::new(Request::prepare(origin, body, 1024))))
}

fn metadata_request(connection: ConnectionId) -> Message {
    request(connection, 12, RequestMessage::Metadata(MetadataRequest::default()))
}

fn produce_request(connection: ConnectionId) -> Message {
    let batch = BatchBuilder::new().record(Timestamp::from_ms(1), None, Some(b"value")).build().freeze();
    let data = PartitionProduceData { index: 0, records: Some(batch.into()) };
    let topic =
        TopicProduceData { name: "t".into(), partition_data: vec![data], ..TopicProduceData::default() };
    let body = ProduceRequest { acks: -1, topic_data: vec![topic], ..ProduceRequest::default() };
    request(connection, 9, RequestMessage::Produce(body))
}

/// Produces over storage that fails; returns how the owner ended, and what became of the answer.
fn run_failing(panics: bool) -> (Result<(), OwnerError>, Option<Reply>) {
    let (broker, clock) = broker(|config| config.topic("t"));
    let (inbox, from_tasks) = bounded(8);
    let (replies, mut from_owner) = mpsc::channel(1);
    inbox.send(Message::Connected(ConnectionId(3), replies)).unwrap();
    inbox.send(produce_request(ConnectionId(3))).unwrap();
    let outcome = run(broker, clock, &from_tasks, Failing { panics }, RequestLog::new(true), None);
    (outcome, from_owner.blocking_recv())
}

#[test]
fn a_failed_write_ends_the_owner_without_an_answer() {
    let (outcome, reply) = run_failing(false);
    assert_eq!(outcome, Err(OwnerError::Storage(StorageError::Write("no space left".to_owned()))));
    assert!(reply.is_none());
}

#[test]
fn a_panic_ends_the_owner_and_names_the_last_inputs() {
    let (outcome, reply) = run_failing(true);
    let Err(OwnerError::Panic { message, last_inputs }) = outcome else {
        panic!("the panic is not reported")
    };
    assert_eq!(message, "storage panics as it was told");
    assert_eq!(last_inputs.first().map(String::as_str), Some("request 0 v9 of connection 3"));
    assert!(reply.is_none());
}

#[test]
fn answers_what_came_before_the_stop() {
    let (broker, clock) = broker(|config| config);
    let (inbox, from_tasks) = bounded(8);
    let (replies, mut from_owner) = mpsc::channel(1);
    let connection = ConnectionId(1);
    inbox.send(Message::Connected(connection, replies)).unwrap();
    inbox.send(metadata_request(connection)).unwrap();
    inbox.send(Message::Stop).unwrap();
    assert_eq!(
        run(broker, clock, &from_tasks, sharemark_log::Memory::default(), RequestLog::new(true), None),
        Ok(())
    );
    let Some(Reply::Answer(answer)) = from_owner.try_recv().ok() else { panic!("no answer") };
    assert!(matches!(*answer, ResponseMessage::Metadata(_)));
    assert!(from_owner.blocking_recv().is_none());
}

#[test]
fn ends_when_nobody_is_left_to_ask() {
    let (broker, clock) = broker(|config| config);
    let (inbox, from_tasks) = bounded(1);
    drop(inbox);
    assert_eq!(
        run(broker, clock, &from_tasks, sharemark_log::Memory::default(), RequestLog::new(true), None),
        Ok(())
    );
}

#[test]
fn an_overdue_deadline_leaves_no_time_to_wait() {
    let (broker, clock) = broker(|config| config.property("log.retention.check.interval.ms", "1"));
    let storage = sharemark_log::Memory::default();
    let mut owner = Owner {
        broker,
        clock,
        storage,
        connections: HashMap::new(),
        last_inputs: VecDeque::new(),
        failed: None,
        requests: RequestLog::new(false),
        journal: None,
    };
    let start = Instant::now();
    while !owner.time_to_deadline().is_zero() {
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    let now = owner.clock.now();
    owner.handle(now, Input::Tick);
    assert_eq!(owner.last_inputs.back().map(ToString::to_string), Some("tick".to_owned()));
}
