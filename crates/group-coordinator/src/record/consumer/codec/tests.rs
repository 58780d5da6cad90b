use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::TopicId;

use super::*;
use crate::GroupRecord;

const TOPIC: TopicId = TopicId::from_bytes([7; 16]);

fn epochs(list: &[(i32, i32)]) -> PartitionEpochs {
    PartitionEpochs::from([(TOPIC, list.iter().copied().collect())])
}

/// One record of each type but 4, with a value.
fn examples() -> Vec<ConsumerGroupRecord> {
    let group_id: Arc<str> = "g".into();
    let member_id: Arc<str> = "m".into();
    vec![
        ConsumerGroupRecord::Metadata {
            group_id: group_id.clone(),
            value: Some(ConsumerGroupMetadata { epoch: GroupEpoch::new(3), metadata_hash: -5 }),
        },
        ConsumerGroupRecord::MemberMetadata {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(ConsumerMemberMetadata {
                instance_id: Some("i".into()),
                rack_id: None,
                client_id: "c".into(),
                client_host: "/127.0.0.1".into(),
                subscribed_topic_names: BTreeSet::from(["t".into(), "u".into()]),
                subscribed_topic_regex: Some("t.*".into()),
                rebalance_timeout_ms: Some(300_000),
                server_assignor: Some("range".into()),
                classic: Some(ClassicMemberMetadata {
                    session_timeout_ms: 45_000,
                    supported_protocols: vec![("range".into(), Bytes::from_static(b"\0\x01"))],
                }),
            }),
        },
        ConsumerGroupRecord::TargetAssignmentMetadata {
            group_id: group_id.clone(),
            value: Some(ConsumerAssignmentMetadata {
                epoch: GroupEpoch::new(3),
                timestamp: Some(Timestamp::from_ms(9)),
            }),
        },
        ConsumerGroupRecord::TargetAssignmentMember {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(TopicPartitions::from([(TOPIC, BTreeSet::from([0, 1]))])),
        },
        ConsumerGroupRecord::CurrentMemberAssignment {
            group_id: group_id.clone(),
            member_id,
            value: Some(ConsumerMemberAssignment {
                member_epoch: MemberEpoch::new(3),
                previous_member_epoch: Some(MemberEpoch::new(2)),
                state: ConsumerMemberState::UnrevokedPartitions,
                assigned: epochs(&[(1, 3)]),
                pending_revocation: epochs(&[(0, 2)]),
            }),
        },
        ConsumerGroupRecord::RegularExpression {
            group_id,
            regex: "t.*".into(),
            value: Some(ResolvedRegularExpression {
                topics: BTreeSet::from(["t".into()]),
                version: 8,
                timestamp_ms: 9,
            }),
        },
    ]
}

fn tombstone(mut record: ConsumerGroupRecord) -> ConsumerGroupRecord {
    match &mut record {
        ConsumerGroupRecord::Metadata { value, .. } => *value = None,
        ConsumerGroupRecord::PartitionMetadata { value, .. } => *value = None,
        ConsumerGroupRecord::MemberMetadata { value, .. } => *value = None,
        ConsumerGroupRecord::TargetAssignmentMetadata { value, .. } => *value = None,
        ConsumerGroupRecord::TargetAssignmentMember { value, .. } => *value = None,
        ConsumerGroupRecord::CurrentMemberAssignment { value, .. } => *value = None,
        ConsumerGroupRecord::RegularExpression { value, .. } => *value = None,
    }
    record
}

#[test]
fn records_and_tombstones_come_back() {
    for (record, record_type) in examples().into_iter().zip([3, 5, 6, 7, 8, 16_i16]) {
        for record in [record.clone(), tombstone(record)] {
            assert_eq!(record.record_type(), record_type);
            let bytes = record.encode();
            assert_eq!(bytes.key[..2], record_type.to_be_bytes());
            assert_eq!(bytes.value.is_none(), record.is_tombstone());
            let record = GroupRecord::Consumer(record);
            assert_eq!(GroupRecord::decode(&bytes.key, bytes.value.as_ref()), Ok(record));
        }
    }
}

#[test]
fn bytes_are_cut_short_nowhere() {
    for record in examples() {
        let bytes = record.encode();
        let value = bytes.value.unwrap();
        for end in 0..value.len() {
            assert!(GroupRecord::decode(&bytes.key, Some(&value.slice(..end))).is_err());
        }
    }
}

#[test]
fn the_topics_of_kafka_4_0_are_kept_as_bytes_and_checked() {
    let value = ConsumerGroupPartitionMetadataValue::default().to_versioned_bytes(0);
    let record = ConsumerGroupRecord::PartitionMetadata { group_id: "g".into(), value: Some(value) };
    let bytes = record.encode();
    let decoded = GroupRecord::decode(&bytes.key, bytes.value.as_ref());
    assert_eq!(decoded, Ok(GroupRecord::Consumer(record)));
    assert!(GroupRecord::decode(&bytes.key, Some(&Bytes::from_static(b"\0"))).is_err());
}

#[test]
fn partitions_without_an_epoch_have_the_members() {
    let topic = EpochTopic { topic_id: TOPIC, partitions: vec![4, 5], assignment_epochs: None };
    let value = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: 6,
        previous_member_epoch: -1,
        state: 77,
        assigned_partitions: vec![topic],
        partitions_pending_revocation: Vec::new(),
    };
    let decoded = decode_assignment(value);
    assert_eq!(decoded.assigned, epochs(&[(4, 6), (5, 6)]));
    assert_eq!(decoded.previous_member_epoch, None);
    assert_eq!(decoded.state, ConsumerMemberState::Unknown);
}
