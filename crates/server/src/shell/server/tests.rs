use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream as StdStream};

use bytes::Bytes;
use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::api_versions_request::ApiVersionsRequest;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::{ApiKey, decode_response, encode_request};

use super::*;
use crate::config::Profile;

fn server(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Server {
    Server::builder().config(change).start().unwrap()
}

fn connect(server: &Server) -> StdStream {
    let stream = StdStream::connect(server.addresses()[0].listeners[0].1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn api_versions(correlation_id: i32) -> Bytes {
    encode_request(
        correlation_id,
        Some("test"),
        0,
        &RequestMessage::ApiVersions(ApiVersionsRequest::default()),
    )
}

fn read_frame(stream: &mut StdStream) -> Bytes {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut frame).unwrap();
    frame.into()
}

fn read_api_versions(stream: &mut StdStream) -> i32 {
    let (correlation_id, answer) = decode_response(ApiKey::ApiVersions, 0, &read_frame(stream)).unwrap();
    assert!(matches!(answer, ResponseMessage::ApiVersions(answer) if answer.error_code == 0));
    correlation_id
}

fn assert_closed(mut stream: StdStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert_eq!(rest, Vec::<u8>::new()),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

#[test]
fn answers_pipelined_and_split_frames_in_order() {
    let server = server(|config| config);
    let mut stream = connect(&server);
    let mut bytes = Vec::new();
    for correlation_id in 0..100 {
        bytes.extend_from_slice(&api_versions(correlation_id));
    }
    stream.set_nodelay(true).unwrap();
    for part in bytes.chunks(7) {
        stream.write_all(part).unwrap();
    }
    for correlation_id in 0..100 {
        assert_eq!(read_api_versions(&mut stream), correlation_id);
    }
    server.stop().unwrap();
}

#[test]
fn answers_what_came_before_a_half_close() {
    let server = server(|config| config);
    let mut stream = connect(&server);
    for correlation_id in 0..3 {
        stream.write_all(&api_versions(correlation_id)).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    for correlation_id in 0..3 {
        assert_eq!(read_api_versions(&mut stream), correlation_id);
    }
    assert_closed(stream);
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let server = server(|config| config);
    let mut stream = connect(&server);
    // Key 18, version 99, correlation id 5, no client id, tagged fields, two names, tagged fields.
    stream.write_all(b"\0\0\0\x10\0\x12\0\x63\0\0\0\x05\xff\xff\0\x02a\x02b\0").unwrap();
    let (correlation_id, answer) = decode_response(ApiKey::ApiVersions, 0, &read_frame(&mut stream)).unwrap();
    assert_eq!(correlation_id, 5);
    let ResponseMessage::ApiVersions(answer) = answer else { panic!("another answer") };
    assert_eq!(answer.error_code, 35);
    let ranges: Vec<_> =
        answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
    assert_eq!(ranges, [(18, 0, 5)]);
    // The connection goes on.
    stream.write_all(&api_versions(6)).unwrap();
    assert_eq!(read_api_versions(&mut stream), 6);
}

#[test]
fn bad_frames_close_their_connection_alone() {
    let server = server(|config| config.property("socket.request.max.bytes", "1000"));
    let mut witness = connect(&server);
    let bad: [&[u8]; 8] = [
        b"\0\0\x03\xe9",                                           // 1001 bytes.
        b"\xff\xff\xff\xff",                                       // A negative length.
        b"\0\0\0\0",                                               // No header.
        b"\0\0\0\x01\0",                                           // Half a key.
        b"\0\0\0\x0a\x7f\x00\0\0\0\0\0\0\xff\xff",                 // An unknown key.
        b"\0\0\0\x0a\0\x03\0\x63\0\0\0\0\xff\xff",                 // Metadata of an unknown version.
        b"\0\0\0\x0a\0\x12\xff\xff\0\0\0\0\xff\xff",               // ApiVersions of a negative version.
        b"\0\0\0\x0e\0\x03\0\x01\0\0\0\0\xff\xff\x7f\xff\xff\xff", // Metadata with too large a count.
    ];
    for bytes in bad {
        let mut stream = connect(&server);
        stream.write_all(bytes).unwrap();
        assert_closed(stream);
    }
    witness.write_all(&api_versions(1)).unwrap();
    assert_eq!(read_api_versions(&mut witness), 1);
}

#[test]
fn idle_connections_and_half_frames_are_closed() {
    let server = server(|config| config.property("connections.max.idle.ms", "50"));
    assert_closed(connect(&server));
    let mut stream = connect(&server);
    stream.write_all(&api_versions(1)[..9]).unwrap();
    assert_closed(stream);
}

#[test]
fn a_profile_of_kafka_does_not_know_our_own_apis() {
    let request = b"\0\0\0\x0b\0\x5f\0\0\0\0\0\0\xff\xff\0";
    let server = server(|config| config.profile(Profile::Kafka44));
    let mut stream = connect(&server);
    stream.write_all(request).unwrap();
    assert_closed(stream);
}

#[test]
fn a_listener_knows_the_dialects_chosen_for_it() {
    let server = server(|config| config.property("listener.name.plaintext.share.txn.dialect", "seed"));
    let mut stream = connect(&server);
    stream.write_all(&api_versions(1)).unwrap();
    let (_, answer) = decode_response(ApiKey::ApiVersions, 0, &read_frame(&mut stream)).unwrap();
    let ResponseMessage::ApiVersions(answer) = answer else { panic!("another answer") };
    let own: Vec<i16> = answer.api_keys.iter().map(|api| api.api_key).filter(|key| 94 < *key).collect();
    assert_eq!(own, [32025, 32093]);
    stream.write_all(b"\0\0\0\x0b\0\x5f\0\0\0\0\0\0\xff\xff\0").unwrap();
    assert_closed(stream);
}

#[test]
fn more_connections_than_allowed_are_closed() {
    let server = server(|config| config.property("max.connections", "1"));
    let mut first = connect(&server);
    first.write_all(&api_versions(1)).unwrap();
    assert_eq!(read_api_versions(&mut first), 1);
    assert_closed(connect(&server));
}

#[test]
fn nodes_listen_on_ports_of_their_own_and_say_so() {
    let server = server(|config| config.brokers(3).first_node_id(5));
    let ids: Vec<_> = server.addresses().iter().map(|node| node.id.get()).collect();
    assert_eq!(ids, [5, 6, 7]);
    let mut stream = connect(&server);
    let request = RequestMessage::Metadata(MetadataRequest::default());
    stream.write_all(&encode_request(1, None, 12, &request)).unwrap();
    let (_, answer) = decode_response(ApiKey::Metadata, 12, &read_frame(&mut stream)).unwrap();
    let ResponseMessage::Metadata(answer) = answer else { panic!("another answer") };
    let told: Vec<_> = answer.brokers.iter().map(|node| format!("{}:{}", &*node.host, node.port)).collect();
    assert_eq!(told.join(","), server.bootstrap());
}

#[test]
fn a_port_in_use_is_named() {
    let server = server(|config| config);
    let address = server.bootstrap().to_owned();
    let second = Server::builder().config(|config| config.listen(&address)).start();
    let error = second.err().map(|error| error.to_string()).unwrap();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
    server.stop().unwrap();
    // Free again.
    Server::builder().config(|config| config.listen(&address)).start().unwrap();
}

#[test]
fn stopping_closes_idle_connections() {
    let server = server(|config| config);
    let stream = connect(&server);
    let busy = connect(&server);
    server.stop().unwrap();
    assert_closed(stream);
    assert_closed(busy);
}
