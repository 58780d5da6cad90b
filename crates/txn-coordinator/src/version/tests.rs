use super::*;

#[test]
fn levels() {
    let expected = [
        (TransactionVersion::V0, 0, false, 0),
        (TransactionVersion::V1, 1, false, 1),
        (TransactionVersion::V2, 2, true, 1),
    ];
    for (version, level, bumps_epoch, value_version) in expected {
        assert_eq!(TransactionVersion::from_level(level), Some(version));
        assert_eq!(
            (version.level(), version.bumps_epoch(), version.value_version()),
            (level, bumps_epoch, value_version)
        );
    }
    assert_eq!(TransactionVersion::from_level(-1), None);
    assert_eq!(TransactionVersion::from_level(3), None);
}

#[test]
fn request_versions_tell_what_a_client_speaks() {
    for version in 0..=5 {
        let end = if version == 5 { TransactionVersion::V2 } else { TransactionVersion::V0 };
        let add = if 4 <= version { TransactionVersion::V2 } else { TransactionVersion::V0 };
        assert_eq!(TransactionVersion::of_end_txn(version), end, "{version}");
        assert_eq!(TransactionVersion::of_add_partitions(version), add, "{version}");
    }
}

/// B095: a fenced producer is told so in the words of its request's version.
#[test]
fn fenced_producers_of_old_versions() {
    use ErrorCode::{InvalidProducerEpoch, ProducerFenced};
    let expected = [
        (INIT_PRODUCER_ID_FENCED_SINCE, 3, InvalidProducerEpoch),
        (INIT_PRODUCER_ID_FENCED_SINCE, 4, ProducerFenced),
        (FENCED_SINCE, 1, InvalidProducerEpoch),
        (FENCED_SINCE, 2, ProducerFenced),
    ];
    for (since, version, error) in expected {
        assert_eq!(fenced_error_for(ProducerFenced, version, since), error, "{since} {version}");
        assert_eq!(fenced_error_for(ErrorCode::InvalidTxnState, version, since), ErrorCode::InvalidTxnState);
    }
}

#[test]
fn known_producers() {
    assert_eq!(known_producer(-1, -1), Ok(None));
    assert_eq!(known_producer(-1, 3), Err(ErrorCode::InvalidRequest));
    assert_eq!(known_producer(3, -1), Err(ErrorCode::InvalidRequest));
    assert_eq!(known_producer(-2, 3), Err(ErrorCode::ProducerFenced));
    assert_eq!(known_producer(3, 4), Ok(Producer::from_wire(3, 4)));
}
