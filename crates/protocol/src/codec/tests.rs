use bytes::Bytes;

use super::{DecodeError, Message, Reader, Writer};
use crate::messages::consumer_group_member_metadata_value::ConsumerGroupMemberMetadataValue;
use crate::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};
use crate::messages::metadata_request::MetadataRequest;
use crate::messages::share_snapshot_key::ShareSnapshotKey;
use crate::messages::share_update_key::ShareUpdateKey;
use crate::messages::share_update_value::{ShareUpdateValue, StateBatch};
use crate::messages::{CODECS, write_share_group_state_request as write_state};
use crate::{Records, StrBytes, TopicId};

fn written(write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut out = Writer::new();
    write(&mut out);
    out.into_bytes()
}

#[test]
fn varints_come_back_and_end_within_five_bytes() {
    for (value, length) in [(0, 1), (0x7f, 1), (0x80, 2), (0x3fff, 2), (0x4000, 3), (u32::MAX, 5)] {
        let bytes = written(|out| out.write_unsigned_varint(value));
        assert_eq!(bytes.len(), length);
        assert_eq!(Reader::new(&bytes).read_unsigned_varint(), Ok(value));
    }
    let endless = Bytes::from_static(&[0x80; 6]);
    assert_eq!(Reader::new(&endless).read_unsigned_varint(), Err(DecodeError::InvalidVarint));
}

#[test]
fn strings_know_null_length_and_utf8() {
    let read = |bytes: &'static [u8], flexible, nullable| {
        Reader::new(&Bytes::from_static(bytes)).read_nullable_string(flexible, nullable)
    };
    assert_eq!(read(&[0xff, 0xff], false, true), Ok(None));
    assert_eq!(read(&[0], true, true), Ok(None));
    assert_eq!(read(&[0], true, false), Err(DecodeError::UnexpectedNull));
    assert_eq!(read(&[2, b'a'], true, false), Ok(Some("a".into())));
    assert_eq!(read(&[0, 2, b'a'], false, false), Err(DecodeError::UnexpectedEnd));
    assert_eq!(read(&[2, 0xff], true, false), Err(DecodeError::NotUtf8));
    assert_eq!(read(&[0xff, 0xff, 0x03], true, false), Err(DecodeError::StringTooLong));
}

#[test]
fn a_string_too_long_for_kafka_is_cut_between_characters() {
    let text = StrBytes::from("é".repeat(20_000));
    for flexible in [false, true] {
        let bytes = written(|out| out.write_string(flexible, &text));
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.read_string(flexible).unwrap().len(), 32_766);
        reader.finish().unwrap();
    }
}

#[test]
fn a_null_that_a_version_forbids_is_written_as_empty() {
    let all_topics = MetadataRequest { topics: None, ..MetadataRequest::default() };
    assert_eq!(MetadataRequest::from_bytes(1, &all_topics.to_bytes(1)).unwrap().topics, None);
    assert_eq!(MetadataRequest::from_bytes(0, &all_topics.to_bytes(0)).unwrap().topics, Some(Vec::new()));
}

#[test]
fn long_records_are_pieces_of_the_frame_and_short_ones_are_copied() {
    let long = Bytes::from(vec![7; 10_000]);
    let short = Bytes::from_static(b"short");
    let response = FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic_id: TopicId::from_bytes([1; 16]),
            partitions: vec![PartitionData {
                records: Some([short.clone(), long.clone(), long.clone()].into_iter().collect()),
                ..PartitionData::default()
            }],
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    };
    let mut out = Writer::new();
    response.encode(13, &mut out);
    let length = out.len();
    let pieces = out.into_pieces();
    assert_eq!(pieces.len(), 4, "own bytes, two slices, own bytes");
    assert_eq!(pieces[1].as_ptr(), long.as_ptr());
    assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), length);
    let decoded = FetchResponse::from_bytes(13, &Bytes::from(pieces.concat())).unwrap();
    assert_eq!(decoded, response);
    let records: &Records = decoded.responses[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(records.pieces().count(), 1);
}

#[test]
fn a_tagged_field_may_be_longer_than_one_byte_of_size() {
    let batch = |first_offset| StateBatch {
        first_offset,
        last_offset: first_offset,
        delivery_state: 5,
        delivery_count: 1,
        staged_producer_id: 4096,
        staged_producer_epoch: 7,
        staged_ack_type: 1,
        staged_delivery_state: 2,
    };
    let value = ShareUpdateValue { state_batches: vec![batch(1), batch(9)], ..ShareUpdateValue::default() };
    assert_eq!(ShareUpdateValue::from_bytes(0, &value.to_bytes(0)).unwrap(), value);
    let mut member = ConsumerGroupMemberMetadataValue::default();
    let classic = member.classic_member_metadata.get_or_insert_default();
    classic.session_timeout_ms = 1;
    classic.supported_protocols.push(Default::default());
    classic.supported_protocols[0].metadata = Bytes::from(vec![1; 300]);
    assert_eq!(ConsumerGroupMemberMetadataValue::from_bytes(0, &member.to_bytes(0)).unwrap(), member);
    member.classic_member_metadata = None;
    assert_eq!(ConsumerGroupMemberMetadataValue::from_bytes(0, &member.to_bytes(0)).unwrap(), member);
}

#[test]
fn unset_staged_fields_leave_no_trace_in_stored_values() {
    let batch = StateBatch { first_offset: 1, last_offset: 2, ..StateBatch::default() };
    let value = ShareUpdateValue { state_batches: vec![batch], ..ShareUpdateValue::default() };
    let bytes = value.to_bytes(0);
    // Two int64, an int8, an int16 and no tagged field.
    assert_eq!(bytes[bytes.len() - 2..], [0, 0]);
    assert_eq!(bytes.len(), 4 + 4 + 8 + 1 + (8 + 8 + 1 + 2 + 1) + 1);
}

#[test]
fn staged_fields_travel_in_version_2_of_write_share_group_state() {
    let staged = write_state::StateBatch {
        delivery_state: 5,
        staged_producer_id: 4096,
        staged_producer_epoch: 7,
        staged_ack_type: 3,
        staged_delivery_state: 4,
        ..write_state::StateBatch::default()
    };
    let request = write_state::WriteShareGroupStateRequest {
        topics: vec![write_state::WriteStateData {
            partitions: vec![write_state::PartitionData {
                state_batches: vec![staged.clone()],
                ..write_state::PartitionData::default()
            }],
            ..write_state::WriteStateData::default()
        }],
        ..write_state::WriteShareGroupStateRequest::default()
    };
    let back = |version| {
        let bytes = request.to_bytes(version);
        let request = write_state::WriteShareGroupStateRequest::from_bytes(version, &bytes).unwrap();
        request.topics[0].partitions[0].state_batches[0].clone()
    };
    assert_eq!(back(2), staged);
    assert_eq!(back(1), write_state::StateBatch { delivery_state: 5, ..write_state::StateBatch::default() });
}

#[test]
fn keys_begin_with_their_record_type_and_values_with_their_version() {
    let key = ShareSnapshotKey { group_id: "g".into(), topic_id: TopicId::ZERO, partition: 3 };
    let bytes = key.to_key_bytes();
    assert_eq!(bytes[..2], [0, 0]);
    assert_eq!(ShareSnapshotKey::from_key_bytes(&bytes), Ok(key));
    assert_eq!(ShareUpdateKey::from_key_bytes(&bytes), Err(DecodeError::UnexpectedRecordType));
    let value = ShareUpdateValue::default();
    assert_eq!(ShareUpdateValue::from_versioned_bytes(&value.to_versioned_bytes(0)), Ok((0, value)));
    let unknown = Bytes::from_static(&[0, 9]);
    assert_eq!(ShareUpdateValue::from_versioned_bytes(&unknown), Err(DecodeError::UnsupportedVersion));
}

#[test]
fn defaults_come_back_in_every_version_of_every_message() {
    assert!(CODECS.is_sorted_by_key(|codec| codec.name));
    for codec in CODECS {
        for version in codec.versions_valid.clone() {
            let bytes = (codec.encode_default)(version);
            let back = (codec.transcode)(version, &bytes);
            assert_eq!(back.as_ref(), Ok(&bytes), "{} {version}", codec.name);
        }
    }
}
