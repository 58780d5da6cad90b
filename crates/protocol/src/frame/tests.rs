//! The frames of the specification: client id "c", correlation id 1.

use bytes::Bytes;

use super::{decode_request, decode_response, encode_request, encode_response};
use crate::messages::add_share_acks_to_txn_request::{AddShareAcksToTxnRequest, AddShareAcksTopic};
use crate::messages::add_share_acks_to_txn_response::AddShareAcksToTxnResponse;
use crate::messages::seed_txn_share_acknowledge_request as seed;
use crate::messages::txn_share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, TxnShareAcknowledgeRequest,
};
use crate::messages::txn_share_acknowledge_response::{
    PartitionData, TxnShareAcknowledgeResponse, TxnShareAcknowledgeTopicResponse,
};
use crate::messages::{RequestMessage, ResponseMessage};
use crate::{ApiKey, DecodeError, ErrorCode, TopicId};

const TOPIC_ID: TopicId = TopicId::from_bytes([
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
]);

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().map(|digit| char::from(digit).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn without_length(frame: &[Bytes]) -> Bytes {
    let frame = frame.concat();
    let (length, rest) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(i32::from_be_bytes(*length), rest.len() as i32);
    Bytes::copy_from_slice(rest)
}

fn assert_request(hex: &str, request: impl Into<RequestMessage>) {
    let request = request.into();
    let frame = encode_request(1, Some("c"), 0, &request);
    assert_eq!(without_length(&[frame]), bytes(hex));
    let (header, decoded) = decode_request(&bytes(hex)).unwrap();
    assert_eq!(header.client_id.unwrap(), "c");
    assert_eq!(decoded, request);
}

fn assert_response(hex: &str, response: impl Into<ResponseMessage>) {
    let response = response.into();
    assert_eq!(without_length(&encode_response(1, 0, &response)), bytes(hex));
    assert_eq!(decode_response(response.api_key(), 0, &bytes(hex)).unwrap(), (1, response));
}

#[test]
fn txn_share_acknowledge_of_key_95() {
    let batch = |first_offset, last_offset, types: &[i8]| AcknowledgementBatch {
        first_offset,
        last_offset,
        acknowledge_types: types.to_vec(),
    };
    assert_request(
        "005f000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d3100000005020011\
         2233445566778899aabbccddeeff020000000303000000000000000a000000000000000e02010000000000000000\
         0f00000000000000110403000100000000",
        TxnShareAcknowledgeRequest {
            transactional_id: Some("txn-1".into()),
            group_id: "g1".into(),
            producer_id: 4096,
            producer_epoch: 7,
            member_id: "member-1".into(),
            member_epoch: 5,
            topics: vec![AcknowledgeTopic {
                topic_id: TOPIC_ID,
                partitions: vec![AcknowledgePartition {
                    partition_index: 3,
                    acknowledgement_batches: vec![batch(10, 14, &[1]), batch(15, 17, &[3, 0, 1])],
                }],
            }],
        },
    );
}

#[test]
fn txn_share_acknowledge_answers() {
    let partition = |partition_index, error_code: ErrorCode, message: Option<&str>| PartitionData {
        partition_index,
        error_code: error_code.code(),
        error_message: message.map(Into::into),
    };
    assert_response(
        "00000001000000000000000200112233445566778899aabbccddeeff03000000030000000000000004007902780000\
         00",
        TxnShareAcknowledgeResponse {
            responses: vec![TxnShareAcknowledgeTopicResponse {
                topic_id: TOPIC_ID,
                partitions: vec![
                    partition(3, ErrorCode::None, None),
                    partition(4, ErrorCode::InvalidRecordState, Some("x")),
                ],
            }],
            ..TxnShareAcknowledgeResponse::default()
        },
    );
    assert_response(
        "000000010000000000005a0100",
        TxnShareAcknowledgeResponse {
            error_code: ErrorCode::ProducerFenced.code(),
            ..TxnShareAcknowledgeResponse::default()
        },
    );
}

#[test]
fn add_share_acks_to_txn() {
    assert_request(
        "7d19000000000001000163000674786e2d31000000000000100000070367310202740300000003000000040000",
        AddShareAcksToTxnRequest {
            transactional_id: "txn-1".into(),
            producer_id: 4096,
            producer_epoch: 7,
            group_id: "g1".into(),
            topics: vec![AddShareAcksTopic { topic_name: "t".into(), partitions: vec![3, 4] }],
        },
    );
    assert_response("000000010000000000000000", AddShareAcksToTxnResponse::default());
}

#[test]
fn txn_share_acknowledge_of_the_early_text() {
    assert_request(
        "7d5d000000000001000163000367310674786e2d310200112233445566778899aabbccddeeff020000000302000000\
         000000000a000000000000000e0100000000",
        seed::SeedTxnShareAcknowledgeRequest {
            group_id: "g1".into(),
            transaction_id: "txn-1".into(),
            topics: vec![seed::AcknowledgeTopic {
                topic_id: TOPIC_ID,
                partitions: vec![seed::AcknowledgePartition {
                    partition: 3,
                    acknowledgement_batches: vec![seed::AcknowledgementBatch {
                        first_offset: 10,
                        last_offset: 14,
                        acknowledge_type: 1,
                    }],
                }],
            }],
        },
    );
}

#[test]
fn a_request_is_refused_when_it_is_not_served() {
    // Produce is listed from version 0, for old clients to start at all, but served from 3.
    let frame = |key: &str, version: &str| bytes(&format!("{key}{version}000000010000"));
    assert_eq!(decode_request(&frame("0000", "0000")), Err(DecodeError::UnsupportedVersion));
    assert_eq!(decode_request(&frame("0004", "0000")), Err(DecodeError::UnknownApi));
    assert_eq!(decode_request(&frame("0012", "0000")).unwrap().1.api_key(), ApiKey::ApiVersions);
    assert_eq!(decode_request(&bytes("00120000000000010000ff")), Err(DecodeError::TrailingBytes));
    assert_eq!(decode_request(&bytes("001200")), Err(DecodeError::UnexpectedEnd));
}
