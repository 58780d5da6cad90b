use std::collections::BTreeMap;

use super::*;

const TOPIC: TopicId = TopicId::from_bytes([7; 16]);

fn partitions(list: &[i32]) -> TopicPartitions {
    TopicPartitions::from([(TOPIC, list.iter().copied().collect())])
}

/// One record of each type, with a value.
pub(crate) fn examples() -> Vec<GroupRecord> {
    let group_id: Arc<str> = "g".into();
    let member_id: Arc<str> = "m".into();
    let topic = |list: &[i32]| {
        BTreeMap::from([(TOPIC, StateTopic { name: "t".into(), partitions: list.iter().copied().collect() })])
    };
    vec![
        GroupRecord::ShareGroupMemberMetadata {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(ShareMemberMetadata {
                rack_id: Some("r".into()),
                client_id: "c".into(),
                client_host: "/127.0.0.1".into(),
                subscribed_topic_names: BTreeSet::from(["t".into(), "u".into()]),
            }),
        },
        GroupRecord::ShareGroupMetadata {
            group_id: group_id.clone(),
            value: Some(ShareGroupMetadata { epoch: GroupEpoch::new(3), metadata_hash: -5 }),
        },
        GroupRecord::ShareGroupTargetAssignmentMetadata {
            group_id: group_id.clone(),
            value: Some(ShareAssignmentMetadata {
                epoch: GroupEpoch::new(3),
                timestamp: Some(Timestamp::from_ms(9)),
            }),
        },
        GroupRecord::ShareGroupTargetAssignmentMember {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(partitions(&[0, 1])),
        },
        GroupRecord::ShareGroupCurrentMemberAssignment {
            group_id: group_id.clone(),
            member_id,
            value: Some(ShareMemberAssignment {
                member_epoch: MemberEpoch::new(3),
                previous_member_epoch: Some(MemberEpoch::new(2)),
                partitions: partitions(&[1]),
            }),
        },
        GroupRecord::ShareGroupStatePartitionMetadata {
            group_id,
            value: Some(ShareStatePartitions {
                initialising: topic(&[2]),
                initialised: topic(&[0, 1]),
                deleting: BTreeMap::from([(TopicId::from_bytes([8; 16]), "v".into())]),
            }),
        },
    ]
}

fn tombstone(mut record: GroupRecord) -> GroupRecord {
    match &mut record {
        GroupRecord::Consumer(_) => unreachable!("these have tests of their own"),
        GroupRecord::OffsetCommit { value, .. } => *value = None,
        GroupRecord::ClassicGroup { value, .. } => *value = None,
        GroupRecord::ShareGroupMemberMetadata { value, .. } => *value = None,
        GroupRecord::ShareGroupMetadata { value, .. } => *value = None,
        GroupRecord::ShareGroupTargetAssignmentMetadata { value, .. } => *value = None,
        GroupRecord::ShareGroupTargetAssignmentMember { value, .. } => *value = None,
        GroupRecord::ShareGroupCurrentMemberAssignment { value, .. } => *value = None,
        GroupRecord::ShareGroupStatePartitionMetadata { value, .. } => *value = None,
    }
    record
}

#[test]
fn records_and_tombstones_come_back() {
    for (record, record_type) in examples().into_iter().zip(10..) {
        assert_eq!(record.record_type(), record_type);
        assert!(!record.is_tombstone());
        let gone = tombstone(record.clone());
        assert!(gone.is_tombstone());
        for record in [record, gone] {
            let bytes = record.encode();
            assert_eq!(bytes.key[..2], record_type.to_be_bytes());
            assert_eq!(bytes.value.is_none(), record.is_tombstone());
            assert_eq!(GroupRecord::decode(&bytes.key, bytes.value.as_ref()), Ok(record));
        }
    }
}

#[test]
fn keys_are_classic_and_values_flexible() {
    let [member, head, ..] = &examples()[..] else { panic!("there are six") };
    let bytes = member.encode();
    assert_eq!(&bytes.key[..], b"\0\x0a\0\x01g\0\x01m");
    assert_eq!(&bytes.value.unwrap()[..], b"\0\0\x02r\x02c\x0b/127.0.0.1\x03\x02t\x02u\0");
    let bytes = head.encode();
    assert_eq!(&bytes.key[..], b"\0\x0b\0\x01g");
    assert_eq!(&bytes.value.unwrap()[..], b"\0\0\0\0\0\x03\xff\xff\xff\xff\xff\xff\xff\xfb\0");
}

#[test]
fn a_topic_without_partitions_is_not_kept() {
    let key = ShareGroupTargetAssignmentMemberKey { group_id: "g".into(), member_id: "m".into() };
    let empty = share_group_target_assignment_member_value::TopicPartition {
        topic_id: TOPIC,
        partitions: Vec::new(),
    };
    let value = ShareGroupTargetAssignmentMemberValue { topic_partitions: vec![empty] };
    let bytes = pair(&key, Some(value));
    let GroupRecord::ShareGroupTargetAssignmentMember { value: Some(value), .. } =
        GroupRecord::decode(&bytes.key, bytes.value.as_ref()).unwrap()
    else {
        panic!("the type is kept")
    };
    assert_eq!(value, TopicPartitions::new());
}

#[test]
fn other_bytes_are_refused() {
    let unexpected = Err(DecodeError::UnexpectedRecordType);
    assert_eq!(GroupRecord::decode(&Bytes::new(), None), unexpected);
    assert_eq!(GroupRecord::decode(&Bytes::from_static(b"\0"), None), unexpected);
    assert_eq!(GroupRecord::decode(&Bytes::from_static(b"\0\x63\0\x01g"), None), unexpected);
    for record in examples() {
        let bytes = record.encode();
        let value = bytes.value.unwrap();
        for end in 0..value.len() {
            assert!(GroupRecord::decode(&bytes.key, Some(&value.slice(..end))).is_err());
        }
        for end in 0..bytes.key.len() {
            assert!(GroupRecord::decode(&bytes.key.slice(..end), Some(&value)).is_err());
        }
    }
}
