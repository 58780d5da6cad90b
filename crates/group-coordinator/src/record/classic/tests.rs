use super::*;

fn offset(expires_at: Option<Timestamp>, topic_id: TopicId) -> CommittedOffset {
    CommittedOffset {
        offset: 12,
        leader_epoch: None,
        metadata: "where".into(),
        committed_at: Timestamp::from_ms(77),
        expires_at,
        topic_id,
    }
}

fn group() -> ClassicGroupMetadata {
    ClassicGroupMetadata {
        protocol_type: "consumer".into(),
        generation: 4,
        protocol: Some("range".into()),
        leader: Some("m".into()),
        state_since: Some(Timestamp::from_ms(5)),
        members: vec![ClassicGroupMember {
            member_id: "m".into(),
            group_instance_id: Some("i".into()),
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout_ms: 300_000,
            session_timeout_ms: 10_000,
            subscription: Bytes::from_static(&[0, 1]),
            assignment: Bytes::from_static(&[2]),
        }],
    }
}

#[test]
fn records_and_tombstones_come_back() {
    let commit =
        |value| GroupRecord::OffsetCommit { group_id: "g".into(), topic: "t".into(), partition: 3, value };
    let records = [
        (commit(Some(offset(None, TopicId::from_bytes([7; 16])))), 1, Some(OFFSET_VERSION)),
        (commit(Some(offset(Some(Timestamp::from_ms(99)), TopicId::ZERO))), 1, Some(EXPIRING_OFFSET_VERSION)),
        (commit(None), 1, None),
        (GroupRecord::ClassicGroup { group_id: "g".into(), value: Some(group()) }, 2, Some(GROUP_VERSION)),
        (GroupRecord::ClassicGroup { group_id: "g".into(), value: None }, 2, None),
    ];
    for (record, record_type, version) in records {
        assert_eq!(record.record_type(), record_type);
        assert_eq!(record.is_tombstone(), version.is_none());
        let bytes = record.encode();
        assert_eq!(bytes.key[..2], record_type.to_be_bytes());
        let written = bytes.value.as_ref().map(|value| i16::from_be_bytes([value[0], value[1]]));
        assert_eq!(written, version);
        assert_eq!(GroupRecord::decode(&bytes.key, bytes.value.as_ref()), Ok(record));
    }
}

#[test]
fn an_offset_under_the_oldest_key_is_read() {
    let record =
        GroupRecord::OffsetCommit { group_id: "g".into(), topic: "t".into(), partition: 3, value: None };
    let mut key = record.encode().key.to_vec();
    key[1] = 0;
    assert_eq!(GroupRecord::decode(&Bytes::from(key), None), Ok(record));
}
