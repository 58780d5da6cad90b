use super::*;
use crate::{ApiKey, TopicId};

/// The request that the specification gives for key 93, with its header.
const K93: &str = "005d000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d3100000005020011\
                   2233445566778899aabbccddeeff020000000303000000000000000a000000000000000e010000000000000000\
                   0f000000000000000f0300000000";

/// The one for key 95, under key 94.
const K94: &str = "005e000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d3100000005020011\
                   2233445566778899aabbccddeeff020000000303000000000000000a000000000000000e020100000000000000\
                   000f00000000000000110403000100000000";

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(draft: TxnShareDraft, frame: Vec<u8>) -> Result<k95::TxnShareAcknowledgeRequest, DecodeError> {
    let (header, request) = draft.decode_request(&Bytes::from(frame))?;
    assert_eq!((header.request_api_key, header.correlation_id), (draft.key(), 1));
    assert_eq!(header.client_id.as_deref(), Some("c"));
    Ok(request)
}

fn expected(batches: &[(i64, i64, &[i8])]) -> k95::TxnShareAcknowledgeRequest {
    let batch = |(first_offset, last_offset, types): &(i64, i64, &[i8])| k95::AcknowledgementBatch {
        first_offset: *first_offset,
        last_offset: *last_offset,
        acknowledge_types: types.to_vec(),
    };
    let partition = k95::AcknowledgePartition {
        partition_index: 3,
        acknowledgement_batches: batches.iter().map(batch).collect(),
    };
    let topic_id = TopicId::from_bytes(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
    k95::TxnShareAcknowledgeRequest {
        transactional_id: Some("txn-1".into()),
        group_id: "g1".into(),
        producer_id: 4096,
        producer_epoch: 7,
        member_id: "member-1".into(),
        member_epoch: 5,
        topics: vec![k95::AcknowledgeTopic { topic_id, partitions: vec![partition] }],
    }
}

#[test]
fn one_type_for_a_range_becomes_a_list_of_one() {
    let frame = Bytes::from(bytes(K93));
    assert_eq!(frame.len(), 106);
    let sent = k93::TxnShareAcknowledgeK93Request::from_bytes(VERSION, &frame.slice(12..)).unwrap();
    assert_eq!(sent.to_bytes(VERSION), frame.slice(12..));
    let request = decode(TxnShareDraft::K93, bytes(K93)).unwrap();
    assert_eq!(request, expected(&[(10, 14, &[1]), (15, 15, &[3])]));
}

#[test]
fn a_gap_is_no_type_of_these_drafts() {
    let request = decode(TxnShareDraft::K94, bytes(K94)).unwrap();
    assert_eq!(request, expected(&[(10, 14, &[1]), (15, 17, &[3, NO_TYPE, 1])]));
    let mut frame = bytes(K93);
    let last_type = frame.len() - 5;
    assert_eq!(frame[last_type], 3);
    frame[last_type] = 0;
    let request = decode(TxnShareDraft::K93, frame).unwrap();
    assert_eq!(request, expected(&[(10, 14, &[1]), (15, 15, &[NO_TYPE])]));
}

#[test]
fn what_is_no_such_request_is_refused() {
    for (draft, hex) in [(TxnShareDraft::K93, K93), (TxnShareDraft::K94, K94)] {
        let frame = bytes(hex);
        for length in 0..frame.len() {
            assert!(draft.decode_request(&Bytes::copy_from_slice(&frame[..length])).is_err(), "{length}");
        }
        let longer = [&frame[..], &[0]].concat();
        assert!(draft.decode_request(&Bytes::from(longer)).is_err(), "a byte is left over");
        let mut newer = frame;
        newer[3] = 1;
        assert_eq!(decode(draft, newer), Err(DecodeError::UnsupportedVersion));
    }
    assert!(decode(TxnShareDraft::K94, bytes(K93)).is_err(), "the shapes differ");
}

#[test]
fn the_keys_are_not_in_the_table() {
    for draft in TxnShareDraft::ALL {
        assert!(ApiKey::from_wire(draft.key()).is_none(), "a listener decides what {draft:?} means");
    }
}
