//! B127: each request in each version, without a client id; each answer read to its last byte.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use sharemark_protocol::messages as m;
use sharemark_protocol::messages::CODECS;
use sharemark_protocol::{APIS, Message, MessageCodec, NEVER_FLEXIBLE};
use sharemark_testkit::client::request_header;

use m::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction};
use m::describe_acls_request::DescribeAclsRequest;
use m::produce_request::ProduceRequest;
use m::share_fetch_request::ShareFetchRequest;
use m::share_group_heartbeat_request::ShareGroupHeartbeatRequest;

use crate::brokers::on_both;

const ADD_PARTITIONS_TO_TXN: i16 = 24;
const DESCRIBE_ACLS: i16 = 29;
const PRODUCE: i16 = 0;
const API_VERSIONS: i16 = 18;
const SHARE_GROUP_HEARTBEAT: i16 = 76;
const SHARE_FETCH: i16 = 78;

fn codec(name: &str) -> &'static MessageCodec {
    CODECS.iter().find(|codec| codec.name == name).expect("each message has a codec")
}

/// The request of defaults, but where it would have no answer at all.
fn body(request: &MessageCodec, version: i16) -> Bytes {
    match request.api_key {
        PRODUCE => ProduceRequest { acks: -1, ..ProduceRequest::default() }.to_bytes(version),
        SHARE_GROUP_HEARTBEAT => ShareGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: "A".into(),
            member_epoch: -1,
            ..ShareGroupHeartbeatRequest::default()
        }
        .to_bytes(version),
        SHARE_FETCH => ShareFetchRequest {
            group_id: Some("g".into()),
            member_id: Some("A".into()),
            ..ShareFetchRequest::default()
        }
        .to_bytes(version),
        // A filter with nothing selected is no request at all.
        DESCRIBE_ACLS => DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..DescribeAclsRequest::default()
        }
        .to_bytes(version),
        // Kafka never answers a list of no transactions.
        ADD_PARTITIONS_TO_TXN if 4 <= version => AddPartitionsToTxnRequest {
            transactions: vec![AddPartitionsToTxnTransaction::default()],
            ..AddPartitionsToTxnRequest::default()
        }
        .to_bytes(version),
        _ => (request.encode_default)(version),
    }
}

#[test]
fn b127_every_version_is_answered_to_the_byte_and_without_a_client_id() {
    on_both(|broker| {
        let mut connection = broker.connect();
        let mut answered = 0;
        let known = APIS.iter().filter(|api| connection.announced(api.key.to_wire()).is_some());
        let known: Vec<_> = known.collect();
        assert!(20 < known.len());
        for api in known {
            let request = codec(&format!("{}Request", api.name));
            let response = codec(&format!("{}Response", api.name));
            for version in api.served_min..=api.announced_max {
                let flexible = request.first_flexible != NEVER_FLEXIBLE && request.first_flexible <= version;
                let mut frame: BytesMut = request_header(request.api_key, version, 4711, None, flexible);
                frame.put_slice(&body(request, version));
                connection.send_frame(&frame).unwrap();
                let frame = connection.read_frame();
                let frame = frame.unwrap_or_else(|error| panic!("{} {version}: {error}", api.name));
                let frame = frame.unwrap_or_else(|| panic!("{} {version}: closed", api.name));
                assert_eq!(frame[..4], 4711_i32.to_be_bytes());
                let header = if flexible && request.api_key != API_VERSIONS { 5 } else { 4 };
                let back = (response.transcode)(version, &frame.slice(header..));
                assert_eq!(back, Ok(frame.slice(header..)), "{} {version}", api.name);
                answered += 1;
            }
        }
        assert!(100 < answered, "{answered} versions answered");
    });
}

/// B143: any correlation id comes back, also of requests that are refused.
#[test]
fn b143_correlation_ids_come_back_as_they_are() {
    on_both(|broker| {
        let mut connection = broker.connect_silently();
        for correlation_id in [i32::MAX, i32::MIN, -1, 0, 1] {
            for api in APIS.iter().filter(|api| api.key.to_wire() == 3 || api.key.to_wire() == API_VERSIONS) {
                let request = codec(&format!("{}Request", api.name));
                let version = api.announced_max;
                let mut frame = request_header(request.api_key, version, correlation_id, Some("cases"), true);
                frame.put_slice(&(request.encode_default)(version));
                connection.send_frame(&frame).unwrap();
                let frame = connection.read_frame().unwrap().ok_or(io::ErrorKind::UnexpectedEof).unwrap();
                assert_eq!(frame[..4], correlation_id.to_be_bytes());
            }
        }
    });
}
