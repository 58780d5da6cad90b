//! Sequences, epochs and transactions.

use super::*;

fn from(producer: Producer, base_sequence: i32, count: usize) -> BatchBuilder {
    plain(count).producer(producer, base_sequence)
}

fn within(producer: Producer, base_sequence: i32, count: usize) -> BatchBuilder {
    from(producer, base_sequence, count).transactional()
}

fn aborted(log: &Log, first: i64, last: i64) -> Vec<(i64, i64, i64)> {
    let mut out = Vec::new();
    log.aborted_transactions(OffsetRange::new(at(first), at(last)).unwrap(), &mut out);
    out.iter()
        .map(|aborted| (aborted.producer_id.get(), aborted.first_offset.get(), aborted.last_offset.get()))
        .collect()
}

#[test]
fn the_last_five_batches_are_known_as_duplicates() {
    let mut log = log();
    let p = producer(1, 0);
    for batch in 0..6 {
        append(&mut log, &from(p, batch * 2, 2));
    }
    for batch in 1..6 {
        let again = append(&mut log, &from(p, batch * 2, 2));
        assert!(again.is_duplicate);
        assert_eq!(
            (again.base_offset, again.last_offset),
            (at(i64::from(batch) * 2), at(i64::from(batch) * 2 + 1))
        );
        assert_eq!(again.log_append_time, Some(NOW));
    }
    assert_eq!(log.log_end(), at(12));
    for (sequence, count) in [(0, 2), (10, 1), (11, 2), (13, 1), (12345, 1)] {
        assert_eq!(try_append(&mut log, &from(p, sequence, count)), Err(ErrorCode::OutOfOrderSequenceNumber));
    }
    assert!(!append(&mut log, &from(p, 12, 1)).is_duplicate);
}

#[test]
fn sequences_wrap_to_zero() {
    let mut log = log();
    let p = producer(1, 0);
    append(&mut log, &from(p, i32::MAX - 1, 1));
    append(&mut log, &from(p, i32::MAX, 3)); // MAX, 0, 1.
    assert_eq!(try_append(&mut log, &from(p, 1, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    append(&mut log, &from(p, 2, 1));
    assert!(append(&mut log, &from(p, i32::MAX, 3)).is_duplicate);

    let mut log = log_with(config());
    append(&mut log, &from(p, i32::MAX, 1));
    append(&mut log, &from(p, 0, 1));
}

#[test]
fn a_new_epoch_starts_at_zero_and_fences_the_old_one() {
    let mut log = log();
    append(&mut log, &from(producer(1, 3), 40, 1)); // An unknown producer may start anywhere.
    assert_eq!(try_append(&mut log, &from(producer(1, 4), 41, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    append(&mut log, &from(producer(1, 4), 0, 1));
    assert!(append(&mut log, &from(producer(1, 4), 0, 1)).is_duplicate);
    assert_eq!(try_append(&mut log, &from(producer(1, 4), 2, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(try_append(&mut log, &from(producer(1, 3), 41, 1)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(try_append(&mut log, &from(producer(1, 3), 40, 1)), Err(ErrorCode::InvalidProducerEpoch));
}

#[test]
fn deleted_records_and_expiry_do_not_stop_a_producer() {
    let mut log = log();
    let p = producer(1, 0);
    append(&mut log, &from(p, 0, 10));
    log.delete_records(log.log_end(), &mut Vec::new());
    append(&mut log, &from(p, 10, 1));
    assert_eq!(try_append(&mut log, &from(p, 12, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    append(&mut log, &within(producer(2, 0), 0, 1));

    log.expire_producers(NOW.plus_ms(86_399_999));
    assert_eq!(log.producer_epoch(p.id), Some(p.epoch));
    log.expire_producers(NOW.plus_ms(86_400_000));
    assert_eq!(log.producer_epoch(p.id), None);
    assert!(log.has_open_transaction(producer(2, 0)), "one with an open transaction stays");
    append(&mut log, &from(p, 77, 1));
}

#[test]
fn too_many_producers_are_refused() {
    let mut log = log_with(LogConfig { producer_id_count_max: 1, ..config() });
    append(&mut log, &from(producer(1, 0), 0, 1));
    assert_eq!(try_append(&mut log, &from(producer(2, 0), 0, 1)), Err(ErrorCode::ThrottlingQuotaExceeded));
    assert_eq!(end_transaction(&mut log, producer(2, 0), true, 2), Err(ErrorCode::ThrottlingQuotaExceeded));
    append(&mut log, &from(producer(1, 0), 1, 1));
}

#[test]
fn coordinators_skip_sequences_but_not_epochs() {
    let mut log = log();
    let context = AppendContext { origin: Origin::Coordinator, ..CLIENT };
    for _ in 0..3 {
        let appended = try_append_with(&mut log, &within(producer(1, 1), 0, 1), context, NOW).unwrap();
        assert!(!appended.is_duplicate);
    }
    let older = try_append_with(&mut log, &within(producer(1, 0), 0, 1), context, NOW);
    assert_eq!(older, Err(ErrorCode::InvalidProducerEpoch));
    let mixed = try_append_with(&mut log, &from(producer(1, 1), 0, 1), context, NOW);
    assert_eq!(mixed, Err(ErrorCode::InvalidTxnState));
    let unverified = AppendContext { verified: false, ..context };
    assert!(try_append_with(&mut log, &within(producer(1, 1), 0, 1), unverified, NOW).is_ok());
    let other = try_append_with(&mut log, &within(producer(2, 0), 0, 1), unverified, NOW);
    assert_eq!(other, Err(ErrorCode::InvalidTxnState));
}

#[test]
fn an_open_transaction_holds_the_stable_offset() {
    let mut log = log();
    let p = producer(1, 0);
    append(&mut log, &within(p, 0, 2));
    assert_eq!(log.last_stable_offset(), at(0));
    assert!(read(&log, 0, Isolation::ReadCommitted).is_empty());
    let latest = |log: &Log, isolation| log.find_offset(OffsetQuery::Latest, isolation).unwrap().offset.get();
    assert_eq!(latest(&log, Isolation::ReadCommitted), 0);
    append(&mut log, &plain(1));
    assert_eq!((latest(&log, Isolation::ReadCommitted), latest(&log, Isolation::ReadUncommitted)), (0, 3));
    assert_eq!(log.readable_bytes(at(0), Isolation::ReadCommitted, 1), 0);
    assert!(log.has_open_transaction(p) && !log.has_open_transaction(producer(1, 1)));
    assert_eq!(try_append(&mut log, &from(p, 2, 1)), Err(ErrorCode::InvalidTxnState));
    // Readers between the stable offset and the end get nothing, and no error.
    assert!(read(&log, 2, Isolation::ReadCommitted).is_empty());

    let marker = end_transaction(&mut log, producer(1, 1), true, 2).unwrap();
    assert_eq!(marker.offset, at(3));
    let completed = marker.completed.unwrap();
    assert_eq!((completed.first_offset, completed.last_offset, completed.committed), (at(0), at(3), true));
    assert_eq!(log.last_stable_offset(), at(4));
    assert_eq!(ranges(&read(&log, 3, Isolation::ReadCommitted)), [(3, 3)], "the marker can be read");
    assert_eq!(aborted(&log, 0, 3), []);
}

#[test]
fn aborted_transactions_are_listed_for_the_ranges_they_reach_into() {
    let mut log = log();
    append(&mut log, &within(producer(1, 0), 0, 2)); // 0-1
    append(&mut log, &within(producer(2, 0), 0, 2)); // 2-3
    append(&mut log, &plain(1)); // 4
    end_transaction(&mut log, producer(2, 1), false, 2).unwrap(); // 5
    assert_eq!(log.last_stable_offset(), at(0));
    end_transaction(&mut log, producer(1, 1), false, 2).unwrap(); // 6
    append(&mut log, &plain(1)); // 7
    let cases = [
        (0, 0, &[(1, 0, 6)][..]),
        (0, 7, &[(2, 2, 5), (1, 0, 6)]),
        (4, 4, &[(2, 2, 5), (1, 0, 6)]),
        (6, 6, &[(1, 0, 6)]),
        (7, 7, &[]),
    ];
    for (first, last, expected) in cases {
        assert_eq!(aborted(&log, first, last), expected);
    }
}

#[test]
fn markers_are_always_appended_and_raise_the_epoch() {
    let mut log = log();
    assert_eq!(end_transaction(&mut log, producer(1, 2), false, 2).unwrap().completed, None);
    assert_eq!(log.producer_epoch(ProducerId::new(1)), Some(ProducerEpoch::new(2)));
    assert_eq!(try_append(&mut log, &within(producer(1, 1), 0, 1)), Err(ErrorCode::InvalidProducerEpoch));
    // After nothing but a marker a producer starts at 0.
    assert_eq!(try_append(&mut log, &within(producer(1, 2), 5, 1)), Err(ErrorCode::OutOfOrderSequenceNumber));
    append(&mut log, &within(producer(1, 2), 0, 1));
    // A late duplicate of the first marker cannot end the next transaction.
    assert_eq!(end_transaction(&mut log, producer(1, 2), true, 2), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(end_transaction(&mut log, producer(1, 1), true, 2), Err(ErrorCode::InvalidProducerEpoch));
    assert!(log.has_open_transaction(producer(1, 2)));
    assert!(end_transaction(&mut log, producer(1, 3), true, 2).unwrap().completed.is_some());
    // The repeat of a marker whose answer was lost.
    assert_eq!(end_transaction(&mut log, producer(1, 3), true, 2).unwrap().completed, None);
    // Before transaction version 2 the marker has the data's own epoch, and sequences go on after it.
    append(&mut log, &within(producer(5, 0), 0, 1));
    assert!(end_transaction(&mut log, producer(5, 0), true, 1).unwrap().completed.is_some());
    append(&mut log, &within(producer(5, 0), 1, 1));
}

#[test]
fn an_older_coordinator_is_fenced() {
    let mut log = log();
    append(&mut log, &within(producer(1, 0), 0, 1));
    let marker = |epoch, coordinator_epoch| EndTransactionMarker {
        producer: producer(1, epoch),
        committed: true,
        coordinator_epoch,
        transaction_version: 2,
    };
    let plan = log.decide_end_transaction_marker(NOW, marker(1, 7), LEADER).unwrap();
    log.append_end_transaction_marker(plan, &mut Vec::new());
    let fenced = log.decide_end_transaction_marker(NOW, marker(2, 6), LEADER);
    assert_eq!(fenced.err(), Some(ErrorCode::TransactionCoordinatorFenced));
    assert!(log.decide_end_transaction_marker(NOW, marker(2, 7), LEADER).is_ok());
}

#[test]
fn producers_are_described() {
    let mut log = log();
    append(&mut log, &within(producer(4, 2), 0, 3));
    let mut out = Vec::new();
    log.describe_producers(&mut out);
    let expected = ProducerDescription {
        producer: producer(4, 2),
        last_sequence: Some(2),
        last_timestamp: NOW,
        coordinator_epoch: None,
        open_since: Some(at(0)),
    };
    assert_eq!(out, [expected]);
}

#[test]
fn a_restored_log_knows_the_same_as_the_live_one() {
    let mut log = log();
    append(&mut log, &within(producer(1, 0), 0, 2));
    append(&mut log, &within(producer(2, 0), 0, 1));
    append(&mut log, &from(producer(3, 0), 0, 1));
    end_transaction(&mut log, producer(1, 1), false, 2).unwrap();
    append(&mut log, &within(producer(1, 1), 0, 1));
    let again = replayed(&log);
    assert_eq!(again.producers, log.producers);
    assert_eq!(again.transactions, log.transactions);
    assert_eq!(again.leader_epochs, log.leader_epochs);
    assert_eq!(again.offsets(), log.offsets());
}

#[test]
fn a_producer_epoch_that_goes_backward_does_not_stop_a_restore() {
    let mut log = log();
    append(&mut log, &within(producer(1, 5), 0, 1));
    end_transaction(&mut log, producer(1, 6), true, 2).unwrap();
    let mut batches = read(&log, 0, Isolation::ReadUncommitted);
    let marker = batches.pop().unwrap().bytes;
    let mut odd = marker.to_vec();
    odd[..8].copy_from_slice(&7_i64.to_be_bytes());
    odd[51..53].copy_from_slice(&2_i16.to_be_bytes());
    log.restore(NOW, Bytes::from(odd)).unwrap();
    assert_eq!(log.log_end(), at(8));
    assert_eq!(log.restore(NOW, marker), Err(ErrorCode::InvalidRecord), "what lies below the end is refused");
}
