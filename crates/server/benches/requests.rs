//! What a request costs from its bytes to the bytes of its answer: decode, check, handle, flush, encode.
//!
//! Sockets and threads are left out. `cargo bench -p sharemark --bench requests`

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on may stop")]

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use sharemark::broker::{Broker, ConnectionId, Input, ListenerId, Now, Origin, Output, Principal, Request};
use sharemark::config::BrokerConfig;
use sharemark_log::batch::BatchBuilder;
use sharemark_protocol::messages::end_txn_request::EndTxnRequest;
use sharemark_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use sharemark_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use sharemark_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use sharemark_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, ShareAcknowledgeRequest,
};
use sharemark_protocol::messages::share_fetch_request::{FetchPartition, FetchTopic, ShareFetchRequest};
use sharemark_protocol::messages::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use sharemark_protocol::messages::txn_share_acknowledge_request as stage;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Timestamp, TopicId, decode_request, encode_request, encode_response};

const RECORDS: i64 = 500;

fn main() {
    divan::main();
}

/// A broker without a shell, and one client.
struct Core {
    broker: Broker,
    now: Now,
}

impl Core {
    fn new() -> Self {
        let config = BrokerConfig::builder().topic("t").build(&mut Vec::new()).unwrap();
        let now = Now { clock: Timestamp::from_ms(1_700_000_000_000), real: Timestamp::from_ms(0) };
        Self { broker: Broker::new(config, now), now }
    }

    /// Sends a request as bytes, and returns the bytes of its answer with the answer itself.
    fn call(&mut self, api_version: i16, frame: &Bytes) -> (usize, Option<ResponseMessage>) {
        let (_, message) = decode_request(frame).unwrap();
        let origin = Origin {
            connection: ConnectionId(1),
            node: NodeId::new(0),
            listener: ListenerId(0),
            principal: Principal::anonymous(),
            client_id: None,
            client_host: "/127.0.0.1".into(),
            api_version,
        };
        let request = Request::prepare(origin, message, 1 << 20);
        self.broker.handle(self.now, Input::Request(Box::new(request)));
        if let Some(flush) = self.broker.poll_flush() {
            self.broker.handle(self.now, Input::Flushed(flush.number));
        }
        match self.broker.poll_output() {
            Some(Output::Answer { message, api_version, .. }) => {
                let pieces = encode_response(1, api_version, &message);
                (pieces.iter().map(Bytes::len).sum(), Some(*message))
            }
            Some(Output::NoAnswer { .. } | Output::Close { .. }) | None => (0, None),
        }
    }

    fn send(&mut self, api_version: i16, message: RequestMessage) -> ResponseMessage {
        let frame = frame(api_version, &message);
        self.call(api_version, &frame).1.unwrap()
    }
}

fn frame(api_version: i16, message: &RequestMessage) -> Bytes {
    encode_request(1, Some("bench"), api_version, message).slice(4..) // Without the length in front.
}

fn produce(topic_id: TopicId, record_count: i64) -> RequestMessage {
    let mut builder = BatchBuilder::new();
    for _ in 0..record_count {
        builder.push(Timestamp::from_ms(1_700_000_000_000), None, Some(&[7; 100]), &[]);
    }
    RequestMessage::Produce(ProduceRequest {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![TopicProduceData {
            topic_id,
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(builder.build().freeze().into()),
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    })
}

/// Returns a broker with a share group whose member may fetch, and the topic's id.
fn with_share_group() -> (Core, TopicId) {
    let mut core = Core::new();
    let metadata = core
        .send(12, RequestMessage::Metadata(MetadataRequest { topics: None, ..MetadataRequest::default() }));
    let ResponseMessage::Metadata(metadata) = metadata else {
        unreachable!("an answer is of its request's kind")
    };
    let topic_id = metadata.topics[0].topic_id;
    core.send(
        1,
        RequestMessage::IncrementalAlterConfigs(IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: 32,
                resource_name: "g".into(),
                configs: vec![AlterableConfig {
                    name: "share.auto.offset.reset".into(),
                    config_operation: 0,
                    value: Some("earliest".into()),
                }],
            }],
            validate_only: false,
        }),
    );
    core.send(
        6,
        RequestMessage::FindCoordinator(FindCoordinatorRequest {
            coordinator_keys: vec!["g".into()],
            ..FindCoordinatorRequest::default()
        }),
    );
    for epoch in [0, 2, 3] {
        core.send(
            1,
            RequestMessage::ShareGroupHeartbeat(ShareGroupHeartbeatRequest {
                group_id: "g".into(),
                member_id: "m".into(),
                member_epoch: epoch,
                subscribed_topic_names: Some(vec!["t".into()]),
                ..ShareGroupHeartbeatRequest::default()
            }),
        );
    }
    (core, topic_id)
}

fn share_fetch(topic_id: TopicId, epoch: i32) -> RequestMessage {
    RequestMessage::ShareFetch(ShareFetchRequest {
        group_id: Some("g".into()),
        member_id: Some("m".into()),
        share_session_epoch: epoch,
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        max_records: 500,
        batch_size: 500,
        topics: if epoch == 0 {
            vec![FetchTopic { topic_id, partitions: vec![FetchPartition::default()] }]
        } else {
            Vec::new()
        },
        ..ShareFetchRequest::default()
    })
}

fn share_acknowledge(topic_id: TopicId, epoch: i32, first: i64, single: bool) -> RequestMessage {
    let last = first + RECORDS - 1;
    let batch = |first_offset, last_offset| AcknowledgementBatch {
        first_offset,
        last_offset,
        acknowledge_types: vec![1],
    };
    RequestMessage::ShareAcknowledge(ShareAcknowledgeRequest {
        group_id: Some("g".into()),
        member_id: Some("m".into()),
        share_session_epoch: epoch,
        topics: vec![AcknowledgeTopic {
            topic_id,
            partitions: vec![AcknowledgePartition {
                partition_index: 0,
                acknowledgement_batches: if single {
                    (first..=last).map(|offset| batch(offset, offset)).collect()
                } else {
                    vec![batch(first, last)]
                },
            }],
        }],
        ..ShareAcknowledgeRequest::default()
    })
}

/// One batch of 500 records of 100 bytes, produced, fetched by a share consumer and accepted: three requests.
fn round(bencher: Bencher<'_, '_>, single: bool) {
    let (mut core, topic_id) = with_share_group();
    let produced = frame(13, &produce(topic_id, RECORDS));
    let opened = core.send(2, share_fetch(topic_id, 0));
    assert!(matches!(opened, ResponseMessage::ShareFetch(_)), "an answer is of its request's kind");
    let (mut epoch, mut first) = (1, 0);
    bencher.counter(ItemsCount::new(500_usize)).bench_local(|| {
        core.call(13, &produced);
        let (fetched, _) = core.call(2, &frame(2, &share_fetch(topic_id, epoch)));
        assert!(50_000 < fetched, "the records are in the answer");
        let acknowledge = share_acknowledge(topic_id, epoch + 1, first, single);
        let (acknowledged, _) = core.call(2, &frame(2, &acknowledge));
        epoch += 2;
        first += RECORDS;
        acknowledged
    });
}

#[divan::bench]
fn produce_share_fetch_acknowledge_as_one_range(bencher: Bencher<'_, '_>) {
    round(bencher, false);
}

#[divan::bench]
fn produce_share_fetch_acknowledge_one_by_one(bencher: Bencher<'_, '_>) {
    round(bencher, true);
}

/// Gives the transactional id `x` its producer, and returns its id and epoch.
fn init_producer(core: &mut Core) -> (i64, i16) {
    let find = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["x".into()],
        ..FindCoordinatorRequest::default()
    };
    core.send(6, RequestMessage::FindCoordinator(find));
    let init = InitProducerIdRequest {
        transactional_id: Some("x".into()),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let ResponseMessage::InitProducerId(answer) = core.send(5, RequestMessage::InitProducerId(init)) else {
        unreachable!("an answer is of its request's kind")
    };
    (answer.producer_id, answer.producer_epoch)
}

fn stage_accepted(
    topic_id: TopicId,
    (producer_id, producer_epoch): (i64, i16),
    first: i64,
) -> RequestMessage {
    let batch = stage::AcknowledgementBatch {
        first_offset: first,
        last_offset: first + RECORDS - 1,
        acknowledge_types: vec![1],
    };
    let partition = stage::AcknowledgePartition { partition_index: 0, acknowledgement_batches: vec![batch] };
    RequestMessage::TxnShareAcknowledge(stage::TxnShareAcknowledgeRequest {
        transactional_id: Some("x".into()),
        group_id: "g".into(),
        producer_id,
        producer_epoch,
        member_id: "m".into(),
        member_epoch: 3,
        topics: vec![stage::AcknowledgeTopic { topic_id, partitions: vec![partition] }],
    })
}

/// As [`produce_share_fetch_acknowledge_as_one_range`], but the acknowledgement is staged in a transaction of its own,
/// which commits: four requests.
#[divan::bench]
fn produce_share_fetch_stage_commit_as_one_range(bencher: Bencher<'_, '_>) {
    let (mut core, topic_id) = with_share_group();
    let produced = frame(13, &produce(topic_id, RECORDS));
    core.send(2, share_fetch(topic_id, 0));
    let mut producer = init_producer(&mut core);
    let (mut epoch, mut first) = (1, 0);
    bencher.counter(ItemsCount::new(500_usize)).bench_local(|| {
        core.call(13, &produced);
        let (fetched, _) = core.call(2, &frame(2, &share_fetch(topic_id, epoch)));
        assert!(50_000 < fetched, "the records are in the answer");
        let (_, staged) = core.call(0, &frame(0, &stage_accepted(topic_id, producer, first)));
        let Some(ResponseMessage::TxnShareAcknowledge(staged)) = staged else {
            unreachable!("an answer is of its request's kind")
        };
        assert_eq!(staged.responses[0].partitions[0].error_code, 0, "it is staged");
        let end = RequestMessage::EndTxn(EndTxnRequest {
            transactional_id: "x".into(),
            producer_id: producer.0,
            producer_epoch: producer.1,
            committed: true,
        });
        let ResponseMessage::EndTxn(ended) = core.send(5, end) else {
            unreachable!("an answer is of its request's kind")
        };
        producer = (ended.producer_id, ended.producer_epoch);
        epoch += 1;
        first += RECORDS;
    });
}

#[divan::bench(args = [1, 10, 1_000])]
fn produce_records_of_100_bytes(bencher: Bencher<'_, '_>, record_count: i64) {
    let (mut core, topic_id) = with_share_group();
    let produced = frame(13, &produce(topic_id, record_count));
    bencher
        .counter(ItemsCount::new(usize::try_from(record_count).unwrap()))
        .bench_local(|| core.call(13, &produced).0);
}
