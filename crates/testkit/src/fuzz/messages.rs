//! Requests and answers of every API and version, read and written again.

use bytes::Bytes;
use sharemark::broker::Frame;
use sharemark::config::{ListenerApis, TxnDialect};
use sharemark_protocol::messages::request_header::RequestHeader;
use sharemark_protocol::{APIS, decode_request, decode_response, encode_request, encode_response};

/// Reads `bytes` as a request, and with its first three bytes as an answer; what can be read must come out the same
/// when it is written and read again.
///
/// # Panics
///
/// If it does not.
pub fn run_messages(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let frame = Bytes::copy_from_slice(rest);
    if kind % 2 == 0 { read_request(&frame) } else { read_response(&frame) }
}

fn read_request(frame: &Bytes) {
    let Ok(Frame::Request { header, message }) = Frame::read(frame, &ListenerApis::new(&TxnDialect::ALL))
    else {
        return;
    };
    let version = header.request_api_version;
    // A request of an earlier draft has become one of key 95.
    let header = RequestHeader { request_api_key: message.api_key().to_wire(), ..header };
    let again = encode_request(header.correlation_id, header.client_id.as_deref(), version, &message);
    let read = decode_request(&again.slice(4..));
    assert_eq!(read.as_ref(), Ok(&(header, *message)), "a request is the same when it is written and read");
}

fn read_response(bytes: &Bytes) {
    let (Some(&api), Some(&version)) = (bytes.first(), bytes.get(1)) else { return };
    let api = &APIS[usize::from(api) % APIS.len()];
    let versions = api.announced_max - api.served_min + 1;
    let version = api.served_min + i16::from(version) % versions;
    let Ok((correlation_id, message)) = decode_response(api.key, version, &bytes.slice(2..)) else { return };
    let again: Bytes = encode_response(correlation_id, version, &message).concat().into();
    let read = decode_response(api.key, version, &again.slice(4..));
    assert_eq!(read, Ok((correlation_id, message)), "an answer is the same when it is written and read");
}
