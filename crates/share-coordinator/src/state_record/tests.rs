use bytes::Bytes;
use sharemark_protocol::{
    CoordinatorRecord, DecodeError, LeaderEpoch, Offset, OffsetRange, Producer, SharePartitionKey,
    StateEpoch, Timestamp, TopicId,
};

use super::*;
use crate::{AcknowledgeType, RecordState, Staged, StateBatch};

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| u8::try_from(digit).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn key() -> SharePartitionKey {
    let topic_id = TopicId::from_bytes(bytes("c78d3b3e9f4449188be5485d790a4c56")[..].try_into().unwrap());
    SharePartitionKey { group_id: "g-31c9d6".into(), topic_id, partition: 0 }
}

fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(Offset::new(first).unwrap(), Offset::new(last).unwrap()).unwrap()
}

fn plain(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    StateBatch { range: range(first, last), state, delivery_count, staged: None }
}

const KEY: &str = "0008 672d333163396436 c78d3b3e9f4449188be5485d790a4c56 00000000";

#[test]
fn records_have_the_bytes_that_a_real_broker_wrote() {
    let initialised = StateChange::Snapshot(StateSnapshot {
        snapshot_epoch: 0,
        state_epoch: StateEpoch::new(2),
        leader_epoch: LeaderEpoch::new(0),
        start_offset: None,
        delivery_complete_count: None,
        create_timestamp: Timestamp::from_ms(0x1a2_2ca9_db52),
        write_timestamp: Timestamp::from_ms(0x1a2_2ca9_db52),
        batches: Vec::new(),
    });
    let accepted = StateChange::Update(StateUpdate {
        snapshot_epoch: 0,
        leader_epoch: Some(LeaderEpoch::new(0)),
        start_offset: Some(Offset::ZERO),
        delivery_complete_count: Some(1),
        batches: vec![plain(0, 0, RecordState::Acknowledged, 1)],
    });
    let released = StateChange::Update(StateUpdate {
        snapshot_epoch: 0,
        leader_epoch: Some(LeaderEpoch::new(0)),
        start_offset: Offset::new(1),
        delivery_complete_count: Some(0),
        batches: vec![plain(1, 4, RecordState::Available, 1)],
    });
    let table = [
        (
            initialised,
            "0000",
            "0000 00000000 00000002 00000000 ffffffffffffffff 000001a22ca9db52 000001a22ca9db52 01 00",
        ),
        (
            accepted,
            "0001",
            "0000 00000000 00000000 0000000000000000 02 0000000000000000 0000000000000000 02 0001 00 \
             01 00 04 00000001",
        ),
        (
            released,
            "0001",
            "0000 00000000 00000000 0000000000000001 02 0000000000000001 0000000000000004 00 0001 00 \
             01 00 04 00000000",
        ),
    ];
    for (change, record_type, value) in table {
        let record = StateRecord { key: key(), change };
        let expected =
            CoordinatorRecord { key: bytes(&format!("{record_type}{KEY}")), value: Some(bytes(value)) };
        assert_eq!(record.encode(), expected);
        assert_eq!(StateRecord::decode(&expected.key, expected.value.as_ref()), Ok(record));
    }
}

#[test]
fn a_tombstone_has_the_key_of_a_snapshot() {
    let record = StateRecord { key: key(), change: StateChange::Tombstone };
    let expected = CoordinatorRecord { key: bytes(&format!("0000{KEY}")), value: None };
    assert_eq!(record.encode(), expected);
    assert_eq!(StateRecord::decode(&expected.key, None), Ok(record));
}

#[test]
fn staged_batches_carry_their_owner_in_tagged_fields() {
    let staged = Staged {
        producer: Producer::from_wire(4096, 7).unwrap(),
        acknowledge_type: AcknowledgeType::Gap,
        state: RecordState::Archived,
    };
    let batch = StateBatch {
        range: range(10, 14),
        state: RecordState::TxPending,
        delivery_count: 3,
        staged: Some(staged),
    };
    let update = StateUpdate {
        snapshot_epoch: 4,
        leader_epoch: Some(LeaderEpoch::new(6)),
        start_offset: None,
        delivery_complete_count: None,
        batches: vec![batch],
    };
    let record = StateRecord { key: key(), change: StateChange::Update(update) };
    let encoded = record.encode();
    let value = "0000 00000004 00000006 ffffffffffffffff 02 000000000000000a 000000000000000e 05 0003 \
                 04 00 08 0000000000001000 01 02 0007 02 01 00 03 01 04 00";
    assert_eq!(encoded.value, Some(bytes(value)));
    assert_eq!(StateRecord::decode(&encoded.key, encoded.value.as_ref()), Ok(record.clone()));

    let snapshot = StateSnapshot {
        snapshot_epoch: 1,
        state_epoch: StateEpoch::new(2),
        leader_epoch: LeaderEpoch::new(3),
        start_offset: Offset::new(4),
        delivery_complete_count: Some(5),
        create_timestamp: Timestamp::from_ms(6),
        write_timestamp: Timestamp::from_ms(7),
        batches: vec![plain(4, 9, RecordState::Archiving, 1), batch],
    };
    let record = StateRecord { key: key(), change: StateChange::Snapshot(snapshot) };
    let encoded = record.encode();
    assert_eq!(StateRecord::decode(&encoded.key, encoded.value.as_ref()), Ok(record));
}

#[test]
fn bytes_that_are_no_such_record_are_refused() {
    let decode = |key: &str, value: &str| StateRecord::decode(&bytes(key), Some(&bytes(value)));
    let update_key = format!("0001{KEY}");
    let update_with =
        |batch: &str| decode(&update_key, &format!("0000 00000000 00000000 0000000000000000 02 {batch} 00"));
    let invalid = Err(StateRecordError::InvalidBatch);
    let (zero, one) = ("0000000000000000", "0000000000000001");
    assert!(update_with(&format!("{zero} {one} 02 0001 00")).is_ok());
    assert_eq!(update_with(&format!("{one} {zero} 02 0001 00")), invalid, "an empty range");
    assert_eq!(update_with(&format!("ffffffffffffffff {one} 02 0001 00")), invalid, "a negative offset");
    assert_eq!(update_with(&format!("{zero} {one} 01 0001 00")), invalid, "acquired is not stored");
    assert_eq!(update_with(&format!("{zero} {one} 06 0001 00")), invalid, "an unknown state");
    assert_eq!(update_with(&format!("{zero} {one} 00 ffff 00")), invalid, "a negative count");
    assert_eq!(update_with(&format!("{zero} {one} 05 0001 00")), invalid, "pending without an owner");
    let owner = |state: &str, staged_state: &str| {
        format!("{zero} {one} {state} 0001 04 00 08 {one} 01 02 0007 02 01 01 03 01 {staged_state}")
    };
    assert!(update_with(&owner("05", "02")).is_ok());
    assert_eq!(update_with(&owner("02", "02")), invalid, "an owner without a pending state");
    assert_eq!(update_with(&owner("05", "05")), invalid, "a commit that leads nowhere");
    assert_eq!(update_with(&owner("05", "00")), invalid, "a commit that takes nothing");

    assert_eq!(StateRecord::decode(&bytes(&update_key), None), Err(StateRecordError::UpdateWithoutValue));
    let of_type = |error| Err(StateRecordError::Bytes(error));
    assert_eq!(decode(&format!("0002{KEY}"), ""), of_type(DecodeError::UnexpectedRecordType));
    assert_eq!(decode("00", ""), of_type(DecodeError::UnexpectedEnd));
    assert_eq!(decode(&update_key, "0001 00000000"), of_type(DecodeError::UnsupportedVersion));
    assert_eq!(decode(&update_key, "0000 0000"), of_type(DecodeError::UnexpectedEnd));
}
