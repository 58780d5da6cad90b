//! Bytes on a connection: pipelining, split frames, garbage, hostile lengths and counts. After each the server
//! still serves others.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "wire/dialects.rs"]
mod dialects;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use sharemark_protocol::messages as m;
use sharemark_protocol::{Records, TopicId};
use sharemark_testkit::client::{Connection, decode_response, encode_request, request_header};
use sharemark_testkit::process::Sharemark;
use sharemark_testkit::records::Batch;

use m::api_versions_request::ApiVersionsRequest;
use m::api_versions_response::ApiVersionsResponse;
use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use m::find_coordinator_request::FindCoordinatorRequest;
use m::metadata_request::MetadataRequest;
use m::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};

const API_VERSIONS: i16 = 18;
const METADATA: i16 = 3;
const FRAME_SIZE_MAX: i32 = 104_857_600;
/// Longer than any answer takes, shorter than the patience of whoever runs the tests.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(10);

fn server() -> Sharemark {
    Sharemark::start_on_free_port(&["--topic", "t"]).unwrap()
}

fn connect(server: &Sharemark) -> Connection {
    let mut connection = Connection::open(server.bootstrap()).unwrap();
    connection.set_read_timeout(CLOSE_WAIT_MAX).unwrap();
    connection
}

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "wire".into(),
        client_software_version: "1".into(),
        ..ApiVersionsRequest::default()
    }
}

fn assert_still_serves(server: &Sharemark) {
    let answer = connect(server).call(&api_versions(), 4).expect("the server still serves");
    assert_eq!(answer.error_code, 0);
    assert!(!answer.api_keys.is_empty());
}

/// Reads until the server closes the connection; answers before that are allowed.
fn assert_closes(connection: &mut Connection, what: &str) {
    loop {
        match connection.read_frame() {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) if sharemark_testkit::client::is_closed(&error) => return,
            Err(error) => panic!("{what}: the connection does not close: {error}"),
        }
    }
}

fn framed(frame: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i32(i32::try_from(frame.len()).unwrap());
    bytes.put_slice(frame);
    bytes.freeze()
}

fn waiting_fetch(max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition {
        current_leader_epoch: -1,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    FetchRequest {
        replica_id: -1,
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: "t".into(), partitions: vec![partition], ..FetchTopic::default() }],
        ..FetchRequest::default()
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server();
    let mut connection = connect(&server);
    let mut bytes = BytesMut::new();
    for correlation_id in 0..200 {
        let frame = if correlation_id % 2 == 0 {
            encode_request(&api_versions(), 4, correlation_id)
        } else {
            encode_request(
                &MetadataRequest { topics: None, ..MetadataRequest::default() },
                12,
                correlation_id,
            )
        };
        bytes.put_slice(&framed(&frame));
    }
    connection.send_bytes(&bytes).unwrap();
    for correlation_id in 0..200 {
        let frame = connection.read_frame().unwrap().expect("an answer");
        assert_eq!(
            frame[..4],
            i32::to_be_bytes(correlation_id),
            "answers come in the order of their requests"
        );
    }
    assert_still_serves(&server);
}

/// A fetch that waits holds back the answers behind it: clients match answers by their order.
#[test]
fn a_waiting_fetch_is_answered_before_what_came_after_it() {
    let server = server();
    let mut connection = connect(&server);
    let started = Instant::now();
    let fetch = connection.send(&waiting_fetch(400), 11).unwrap();
    let versions = connection.send(&api_versions(), 4).unwrap();
    let (first, _) = connection.receive::<FetchRequest>(11).unwrap();
    assert_eq!(first, fetch);
    assert!(Duration::from_millis(300) <= started.elapsed(), "the fetch waits");
    let (second, _) = connection.receive::<ApiVersionsRequest>(4).unwrap();
    assert_eq!(second, versions);
    assert_still_serves(&server);
}

#[test]
fn a_frame_may_come_in_single_bytes() {
    let server = server();
    let mut connection = connect(&server);
    for byte in framed(&encode_request(&api_versions(), 3, 77)) {
        connection.send_bytes(&[byte]).unwrap();
    }
    let (correlation_id, _) = connection.receive::<ApiVersionsRequest>(3).unwrap();
    assert_eq!(correlation_id, 77);
    assert_still_serves(&server);
}

#[test]
fn frames_may_be_cut_anywhere() {
    let server = server();
    let mut connection = connect(&server);
    let bytes: Vec<u8> = (0..20).flat_map(|id| framed(&encode_request(&api_versions(), 4, id))).collect();
    let mut rest = bytes.as_slice();
    let mut size = 1;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(size.min(rest.len()));
        connection.send_bytes(head).unwrap();
        std::thread::yield_now();
        rest = tail;
        size = size % 37 + 1;
    }
    for id in 0..20 {
        assert_eq!(connection.receive::<ApiVersionsRequest>(4).unwrap().0, id);
    }
    assert_still_serves(&server);
}

#[test]
fn a_connection_that_ends_within_a_frame_harms_nobody() {
    let server = server();
    let bytes = framed(&encode_request(&api_versions(), 4, 1));
    for cut in 0..bytes.len() {
        connect(&server).send_bytes(&bytes[..cut]).unwrap();
    }
    assert_still_serves(&server);
}

#[test]
fn a_half_closed_connection_still_gets_its_answer() {
    let server = server();
    let mut connection = connect(&server);
    let sent = connection.send(&api_versions(), 4).unwrap();
    connection.finish_sending().unwrap();
    assert_eq!(connection.receive::<ApiVersionsRequest>(4).unwrap().0, sent);
    assert_closes(&mut connection, "after the answer");
    let mut waiting = connect(&server);
    waiting.send(&waiting_fetch(60_000), 11).unwrap();
    waiting.finish_sending().unwrap();
    assert_closes(&mut waiting, "a fetch whose asker has hung up");
    assert_still_serves(&server);
}

#[test]
fn lengths_that_make_no_sense_close_the_connection() {
    let server = server();
    for length in [0, 1, 3, 7, -1, i32::MIN, FRAME_SIZE_MAX + 1, i32::MAX] {
        let mut connection = connect(&server);
        let mut bytes = BytesMut::new();
        bytes.put_i32(length);
        bytes.put_bytes(0, usize::try_from(length.clamp(0, 64)).unwrap());
        connection.send_bytes(&bytes).unwrap();
        assert_closes(&mut connection, &format!("length {length}"));
    }
    assert_still_serves(&server);
}

#[test]
fn garbage_closes_the_connection() {
    let server = server();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..200 {
        let mut body = Vec::new();
        for _ in 0..(round % 61 + 8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            body.push((state >> 56) as u8);
        }
        body[0] |= 0x40; // No API has a key this high, but the early text's two.
        body[1] = 0;
        let mut connection = connect(&server);
        connection.send_frame(&body).unwrap();
        assert_closes(&mut connection, &format!("garbage {round}: {body:02x?}"));
    }
    let mut http = connect(&server);
    http.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_closes(&mut http, "another protocol");
    assert_still_serves(&server);
}

#[test]
fn unknown_apis_and_versions_close_the_connection() {
    let server = server();
    for (api_key, version) in
        [(9999, 0), (-1, 0), (4, 0), (52, 0), (METADATA, 99), (METADATA, -1), (0, 2), (78, 0)]
    {
        let mut connection = connect(&server);
        let mut frame = request_header(api_key, version, 5, Some("wire"), false);
        frame.put_bytes(0, 32);
        connection.send_frame(&frame).unwrap();
        assert_closes(&mut connection, &format!("api {api_key} version {version}"));
    }
    assert_still_serves(&server);
}

/// A client newer than the broker learns from a version 0 answer what the broker has.
#[test]
fn api_versions_of_an_unknown_version_is_answered_in_version_0() {
    let server = server();
    for version in [6, 127, i16::MAX] {
        let mut connection = connect(&server);
        let mut frame = request_header(API_VERSIONS, version, 5, Some("wire"), true);
        frame.put_bytes(0xff, 9);
        connection.send_frame(&frame).unwrap();
        let frame = connection.read_frame().unwrap().expect("an answer");
        let (correlation_id, answer): (i32, ApiVersionsResponse) =
            decode_response::<ApiVersionsRequest>(0, &frame).unwrap();
        assert_eq!((correlation_id, answer.error_code), (5, 35));
        let own = answer.api_keys.iter().find(|api| api.api_key == API_VERSIONS).expect("its own versions");
        assert_eq!((own.min_version, own.max_version), (0, 5));
        assert_eq!(connection.call(&api_versions(), 4).unwrap().error_code, 0, "the connection goes on");
    }
    assert_still_serves(&server);
}

#[test]
fn correlation_ids_and_client_ids_are_the_clients_affair() {
    let server = server();
    let mut connection = connect(&server);
    for correlation_id in [0, -1, i32::MIN, i32::MAX] {
        connection.send_frame(&encode_request(&api_versions(), 4, correlation_id)).unwrap();
        assert_eq!(connection.receive::<ApiVersionsRequest>(4).unwrap().0, correlation_id);
    }
    for client_id in [None, Some(""), Some("ein Gruß"), Some(&*"x".repeat(30_000))] {
        let mut frame = request_header(API_VERSIONS, 0, 9, client_id, false);
        frame.put_bytes(0, 0);
        connection.send_frame(&frame).unwrap();
        assert_eq!(connection.receive::<ApiVersionsRequest>(0).unwrap().0, 9);
    }
    let mut header = BytesMut::new();
    header.put_i16(METADATA);
    header.put_i16(1);
    header.put_i32(9);
    header.put_i16(-2);
    connection.send_frame(&header).unwrap();
    assert_closes(&mut connection, "a client id of length -2");
    assert_still_serves(&server);
}

#[test]
fn unknown_tagged_fields_are_skipped() {
    let server = server();
    let mut connection = connect(&server);
    let mut frame = request_header(API_VERSIONS, 3, 9, Some("wire"), false);
    frame.put_slice(&[1, 77, 3, b'a', b'b', b'c']); // One tag, number 77, three bytes.
    frame.put_slice(&[2, b'n', 2, b'v', 1, 99, 1, 0]); // Name, version, and again one tag.
    connection.send_frame(&frame).unwrap();
    let (correlation_id, answer) = connection.receive::<ApiVersionsRequest>(3).unwrap();
    assert_eq!((correlation_id, answer.error_code), (9, 0));
    assert_still_serves(&server);
}

/// Counts and lengths far beyond the frame: no allocation follows them, and the process lives.
#[test]
fn hostile_counts_are_refused() {
    let server = server();
    let announced = connect(&server).call(&api_versions(), 4).unwrap().api_keys;
    assert!(20 < announced.len(), "there are APIs to try");
    let fillings: [&[u8]; 5] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff; 64],
        &[0x7f; 64],
        &[0x00, 0x01, 0x61, 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
    ];
    for api in &announced {
        for version in [api.min_version, api.max_version] {
            for body in fillings {
                for flexible in [false, true] {
                    let mut connection = connect(&server);
                    let mut frame = request_header(api.api_key, version, 1, Some("wire"), flexible);
                    frame.put_slice(body);
                    connection.send_frame(&frame).unwrap();
                    connection.finish_sending().unwrap();
                    assert_closes(
                        &mut connection,
                        &format!("api {} version {version} {body:02x?}", api.api_key),
                    );
                }
            }
        }
    }
    assert_still_serves(&server);
}

#[test]
fn a_produce_without_acknowledgement_has_no_answer() {
    let server = server();
    let mut connection = connect(&server);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let records = Some(Records::from(Batch::of_values(["a"], i64::try_from(now).unwrap()).encode()));
    let request = ProduceRequest {
        acks: 0,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: "t".into(),
            partition_data: vec![PartitionProduceData { index: 0, records }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    };
    connection.send(&request, 9).unwrap();
    assert_eq!(
        connection.call(&api_versions(), 4).unwrap().error_code,
        0,
        "the next answer is to the next request"
    );
    let fetched = connection.call(&waiting_fetch(5000), 11).unwrap();
    assert_eq!(fetched.responses[0].partitions[0].high_watermark, 1, "the record is there: {fetched:?}");
    assert_still_serves(&server);
}

#[test]
fn many_connections_come_and_go() {
    let server = server();
    let mut connections: Vec<Connection> = (0..300).map(|_| connect(&server)).collect();
    for connection in &mut connections {
        connection.send(&api_versions(), 4).unwrap();
    }
    for connection in connections.iter_mut().rev() {
        connection.receive::<ApiVersionsRequest>(4).unwrap();
    }
    drop(connections);
    assert_still_serves(&server);
}

/// The keys of transactional share acknowledgements are announced by default, and unknown as Kafka 4.4.
#[test]
fn keys_that_kafka_lacks_follow_the_profile() {
    let own = [95, 32025, 32093];
    let announced = |arguments: &[&str], version| -> Vec<i16> {
        let server = Sharemark::start_on_free_port(arguments).unwrap();
        let answer = connect(&server).call(&api_versions(), version).unwrap();
        answer.api_keys.iter().map(|api| api.api_key).filter(|key| own.contains(key)).collect()
    };
    for version in [0, 3, 4, 5] {
        assert_eq!(announced(&[], version), own, "in version {version}");
    }
    assert_eq!(announced(&["--profile", "kafka-4.4"], 4), [0; 0]);
    let server = Sharemark::start_on_free_port(&["--profile", "kafka-4.4"]).unwrap();
    for api_key in own {
        let mut connection = connect(&server);
        let mut frame = request_header(api_key, 0, 5, Some("wire"), true);
        frame.put_bytes(0, 40);
        connection.send_frame(&frame).unwrap();
        assert_closes(&mut connection, &format!("api {api_key}"));
    }
    assert_still_serves(&server);
}

/// Kafka's controller creates no topic of more than 10,000 partitions, so nobody finds a coordinator.
#[test]
fn an_internal_topic_of_too_many_partitions_is_not_created() {
    const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    let server = Sharemark::start_on_free_port(&[
        "--config=offsets.topic.num.partitions=2147483647",
        "--config=transaction.state.log.num.partitions=10001",
        "--config=share.coordinator.state.topic.num.partitions=2147483647",
    ])
    .unwrap();
    let share_key = format!("g:{}:0", TopicId::from_bytes([7; 16]));
    for (key_type, key) in [(0, "g"), (1, "g"), (2, &*share_key)] {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![key.into()],
            ..FindCoordinatorRequest::default()
        };
        let answer = connect(&server).call(&request, 6).unwrap();
        assert_eq!(answer.coordinators[0].error_code, COORDINATOR_NOT_AVAILABLE, "type {key_type}");
    }
    assert_still_serves(&server);
}
