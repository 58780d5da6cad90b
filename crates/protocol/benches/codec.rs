//! Encoding and decoding of the requests and answers that carry the load.

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use sharemark_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use sharemark_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, ShareAcknowledgeRequest,
};
use sharemark_protocol::messages::share_fetch_response::{
    AcquiredRecords, PartitionData, ShareFetchResponse, ShareFetchableTopicResponse,
};
use sharemark_protocol::{Message, Records, TopicId, Writer};

const PARTITIONS: i32 = 100;
const RANGES: i64 = 50;
/// The latest version of both share requests.
const SHARE_VERSION: i16 = 2;
/// The latest version of Produce.
const PRODUCE_VERSION: i16 = 13;

fn main() {
    divan::main();
}

/// Acknowledges 50 ranges of each of 100 partitions.
fn share_acknowledge_request() -> ShareAcknowledgeRequest {
    let batch = |range| AcknowledgementBatch {
        first_offset: range * 10,
        last_offset: range * 10 + 9,
        acknowledge_types: vec![1],
    };
    let partition = |partition_index| AcknowledgePartition {
        partition_index,
        acknowledgement_batches: (0..RANGES).map(batch).collect(),
    };
    ShareAcknowledgeRequest {
        group_id: Some("group".into()),
        member_id: Some("0123456789abcdef".into()),
        share_session_epoch: 7,
        topics: vec![AcknowledgeTopic {
            topic_id: TopicId::from_bytes([7; 16]),
            partitions: (0..PARTITIONS).map(partition).collect(),
        }],
        ..ShareAcknowledgeRequest::default()
    }
}

/// Answers 50 ranges and `records_bytes` of records for each of 100 partitions.
fn share_fetch_response(records_bytes: usize) -> ShareFetchResponse {
    let records = Bytes::from(vec![0x5a; records_bytes]);
    let range =
        |range| AcquiredRecords { first_offset: range * 10, last_offset: range * 10 + 9, delivery_count: 1 };
    let partition = |partition_index| PartitionData {
        partition_index,
        records: Records::from(records.clone()),
        acquired_records: (0..RANGES).map(range).collect(),
        ..PartitionData::default()
    };
    ShareFetchResponse {
        acquisition_lock_timeout_ms: 30_000,
        responses: vec![ShareFetchableTopicResponse {
            topic_id: TopicId::from_bytes([7; 16]),
            partitions: (0..PARTITIONS).map(partition).collect(),
        }],
        ..ShareFetchResponse::default()
    }
}

/// Produces one batch of 16 KiB to each of 10 partitions.
fn produce_request() -> ProduceRequest {
    let records = Bytes::from(vec![0x5a; 16 << 10]);
    let partition = |index| PartitionProduceData { index, records: Some(Records::from(records.clone())) };
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            topic_id: TopicId::from_bytes([7; 16]),
            partition_data: (0..10).map(partition).collect(),
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}

fn encode<M: Message>(bencher: Bencher<'_, '_>, message: &M, version: i16, item_count: i64) {
    let length = message.to_bytes(version).len();
    bencher.counter(BytesCount::new(length)).counter(ItemsCount::new(item_count as usize)).bench_local(
        || {
            let mut out = Writer::new();
            black_box(message).encode(version, &mut out);
            out.into_pieces()
        },
    );
}

fn decode<M: Message>(bencher: Bencher<'_, '_>, message: &M, version: i16, item_count: i64) {
    let bytes = message.to_bytes(version);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .counter(ItemsCount::new(item_count as usize))
        .bench_local(|| M::from_bytes(version, black_box(&bytes)));
}

#[divan::bench]
fn share_acknowledge_request_decode(bencher: Bencher<'_, '_>) {
    decode(bencher, &share_acknowledge_request(), SHARE_VERSION, i64::from(PARTITIONS) * RANGES);
}

#[divan::bench]
fn share_acknowledge_request_encode(bencher: Bencher<'_, '_>) {
    encode(bencher, &share_acknowledge_request(), SHARE_VERSION, i64::from(PARTITIONS) * RANGES);
}

#[divan::bench(args = [4 << 10, 64 << 10])]
fn share_fetch_response_encode(bencher: Bencher<'_, '_>, records_bytes: usize) {
    encode(bencher, &share_fetch_response(records_bytes), SHARE_VERSION, i64::from(PARTITIONS) * RANGES);
}

#[divan::bench]
fn share_fetch_response_decode(bencher: Bencher<'_, '_>) {
    decode(bencher, &share_fetch_response(4 << 10), SHARE_VERSION, i64::from(PARTITIONS) * RANGES);
}

#[divan::bench]
fn produce_request_decode(bencher: Bencher<'_, '_>) {
    decode(bencher, &produce_request(), PRODUCE_VERSION, 10);
}

#[divan::bench]
fn produce_request_encode(bencher: Bencher<'_, '_>) {
    encode(bencher, &produce_request(), PRODUCE_VERSION, 10);
}
