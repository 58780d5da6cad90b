use sharemark_protocol::ProducerEpoch;

use super::*;
use TransactionState::{CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
use TransactionVersion::{V0, V1, V2};

/// The key of the transactional id `tx-1`.
const KEY: &str = "0000000474782d31";

fn bytes(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Updated `updated_at` ms after the moment that all examples share.
fn record(state: TransactionState, producer: (i64, i16), updated_at: i64) -> TransactionRecord {
    let base = 1_700_000_000_000;
    let value = TransactionValue {
        producer: Producer::from_wire(producer.0, producer.1).unwrap(),
        previous_id: Some(ProducerId::new(1000)),
        next_id: None,
        last_epoch: None,
        timeout_ms: 60_000,
        state,
        partitions: BTreeSet::new(),
        updated_at: Timestamp::from_ms(base + updated_at),
        started_at: (state != Empty).then(|| Timestamp::from_ms(base + 1)),
        client_version: if state == Empty { V0 } else { V2 },
    };
    TransactionRecord { transactional_id: "tx-1".into(), value: Some(value) }
}

fn with(mut record: TransactionRecord, change: impl FnOnce(&mut TransactionValue)) -> TransactionRecord {
    change(record.value.as_mut().unwrap());
    record
}

/// What Kafka 4.4's own classes write, at versions 0, 1 and 2 of the feature.
fn examples() -> Vec<(TransactionRecord, &'static [TransactionVersion], &'static str)> {
    let one = BTreeSet::from([TopicPartition::new("t", 0)]);
    let two = BTreeSet::from([TopicPartition::new("t", 0), TopicPartition::new("u", 1)]);
    let ongoing = with(record(Ongoing, (1000, 3), 2), |value| value.partitions = one.clone());
    let prepared = with(record(PrepareCommit, (1000, i16::MAX), 3), |value| {
        value.partitions = one;
        value.next_id = Some(ProducerId::new(2000));
    });
    let aborting = with(record(PrepareAbort, (7, 4), 5), |value| {
        value.partitions = two;
        value.previous_id = Some(ProducerId::new(7));
        value.timeout_ms = 5;
        value.client_version = V0;
    });
    vec![
        (
            record(Empty, (1000, 0), 0),
            &[V0],
            "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff",
        ),
        (
            record(Empty, (1000, 0), 0),
            &[V1, V2],
            "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff01000800000000000003e8",
        ),
        (
            ongoing,
            &[V1, V2],
            "000100000000000003e800030000ea60010202740200000000000000018bcfe568020000018bcfe568010200080000\
             0000000003e802020002",
        ),
        (
            prepared,
            &[V1, V2],
            "000100000000000003e87fff0000ea60020202740200000000000000018bcfe568030000018bcfe568010300080000\
             0000000003e8010800000000000007d002020002",
        ),
        (
            record(CompleteCommit, (2000, 0), 4),
            &[V1, V2],
            "000100000000000007d000000000ea6004010000018bcfe568040000018bcfe5680102000800000000000003e80202\
             0002",
        ),
        (
            aborting.clone(),
            &[V0],
            "000000000000000000070004000000050300000002000174000000010000000000017500000001000000010000018b\
             cfe568050000018bcfe56801",
        ),
        (
            aborting,
            &[V1, V2],
            "000100000000000000070004000000050303027402000000000002750200000001000000018bcfe568050000018bcf\
             e568010100080000000000000007",
        ),
    ]
}

#[test]
fn records_are_kafkas_bytes() {
    for (record, versions, hex) in examples() {
        let state = record.value.as_ref().unwrap().state;
        for version in versions {
            let encoded = record.encode(*version);
            assert_eq!(encoded.key, bytes(KEY));
            assert_eq!(encoded.value, Some(bytes(hex)), "{state:?} {version:?}");
            let decoded = TransactionRecord::decode(&encoded.key, encoded.value.as_ref());
            assert_eq!(decoded, Ok(record.as_logged(*version)), "{state:?} {version:?}");
        }
    }
}

#[test]
fn a_tombstone_has_a_key_alone() {
    let record = TransactionRecord { transactional_id: "tx-1".into(), value: None };
    for version in [V0, V1, V2] {
        assert_eq!(record.encode(version), CoordinatorRecord { key: bytes(KEY), value: None });
    }
    assert_eq!(TransactionRecord::decode(&bytes(KEY), None), Ok(record));
}

#[test]
fn what_an_old_value_cannot_hold_is_left_out() {
    let record = with(record(PrepareCommit, (1000, 3), 3), |value| {
        value.next_id = Some(ProducerId::new(2000));
        value.last_epoch = Some(ProducerEpoch::new(2));
    });
    for version in [V0, V1, V2] {
        let encoded = record.encode(version);
        let decoded = TransactionRecord::decode(&encoded.key, encoded.value.as_ref());
        assert_eq!(decoded, Ok(record.as_logged(version)), "{version:?}");
        assert_ne!(decoded, Ok(record.clone()), "{version:?}");
    }
}

#[test]
fn records_that_make_no_sense() {
    let key = bytes(KEY);
    let value = |hex: &str| TransactionRecord::decode(&key, Some(&bytes(hex))).unwrap_err();
    // Version 0: producer id, epoch, timeout, status, partitions, two timestamps.
    let old = |id: &str, epoch: &str, status: &str| {
        value(&format!("0000{id}{epoch}0000ea60{status}ffffffff0000018bcfe56800ffffffffffffffff"))
    };
    let (id, epoch) = ("00000000000003e8", "0000");
    assert_eq!(old(id, epoch, "06"), TransactionRecordError::UnknownStatus(6));
    assert_eq!(old(id, epoch, "07"), TransactionRecordError::UnknownStatus(7));
    assert_eq!(old(id, epoch, "ff"), TransactionRecordError::UnknownStatus(-1));
    assert_eq!(old("ffffffffffffffff", epoch, "00"), TransactionRecordError::InvalidProducer);
    assert_eq!(old(id, "ffff", "00"), TransactionRecordError::InvalidProducer);
    assert_eq!(value("0002"), TransactionRecordError::Decode(DecodeError::UnsupportedVersion));
    let unknown_client = "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff0102020003";
    assert_eq!(value(unknown_client), TransactionRecordError::UnknownClientVersion(3));
    let other_type = TransactionRecord::decode(&bytes("0001000474782d31"), None);
    assert_eq!(other_type, Err(TransactionRecordError::Decode(DecodeError::UnexpectedRecordType)));
}

#[test]
fn no_prefix_of_a_record_is_one() {
    for (_, _, hex) in examples() {
        let value = bytes(hex);
        for length in 0..value.len() {
            assert!(
                TransactionRecord::decode(&bytes(KEY), Some(&value.slice(..length))).is_err(),
                "{length}"
            );
        }
    }
    let key = bytes(KEY);
    for length in 0..key.len() {
        assert!(TransactionRecord::decode(&key.slice(..length), None).is_err(), "{length}");
    }
}
