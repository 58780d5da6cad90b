//! DeleteRecords and retention.

use super::*;

#[test]
fn the_start_moves_within_a_batch_which_stays_whole() {
    let mut log = log();
    append(&mut log, &plain(10));
    append(&mut log, &plain(10));
    let before = log.bytes();
    let mut writes = Vec::new();
    let start = log.decide_delete_records(Some(at(5))).unwrap();
    log.delete_records(start, &mut writes);
    log.check_invariants();
    assert!(
        matches!(writes[..], [StorageWrite { change: StorageChange::Start(start), .. }] if start == at(5))
    );
    assert_eq!(log.bytes(), before);
    assert_eq!(ranges(&read(&log, 5, Isolation::ReadUncommitted)), [(0, 9), (10, 19)]);
    let mut out = Vec::new();
    assert_eq!(log.read(at(4), limits(1, true), &mut out), Err(ReadError::OffsetOutOfRange));

    assert_eq!(log.decide_delete_records(Some(at(3))), Ok(at(5)), "the start never moves back");
    assert_eq!(log.decide_delete_records(Some(at(21))), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(log.decide_delete_records(None), Ok(at(20)));
    log.delete_records(at(20), &mut writes);
    log.check_invariants();
    assert_eq!((log.bytes(), log.log_start(), log.log_end()), (0, at(20), at(20)));
    assert!(read(&log, 20, Isolation::ReadUncommitted).is_empty());
    assert_eq!(append(&mut log, &plain(1)).base_offset, at(20));
}

#[test]
fn a_topic_that_is_only_compacted_keeps_its_records() {
    let log = log_with(LogConfig { delete: false, compact: true, ..config() });
    assert_eq!(log.decide_delete_records(None), Err(ErrorCode::PolicyViolation));
}

#[test]
fn a_start_beyond_an_open_transaction_holds_the_stable_offset() {
    let mut log = log();
    append(&mut log, &plain(4).producer(producer(1, 0), 0).transactional());
    log.delete_records(at(2), &mut Vec::new());
    assert_eq!(log.last_stable_offset(), at(2));
    log.delete_records(at(4), &mut Vec::new());
    assert_eq!(log.last_stable_offset(), at(4));
    assert_eq!(end_transaction(&mut log, producer(1, 1), false, 2).unwrap().offset, at(4));
    assert_eq!(log.last_stable_offset(), at(5));
}

#[test]
fn retention_by_size_deletes_closed_segments_only() {
    let size = plain(1).build().len() as u64;
    let config = LogConfig { segment_size_bytes_max: 2 * size, retention_bytes: Some(3 * size), ..config() };
    let mut log = log_with(config);
    for count in 1..=7 {
        append(&mut log, &plain(1));
        log.apply_retention(NOW, &mut Vec::new());
        log.check_invariants();
        assert!(log.size_bytes() <= 5 * size, "within a segment of the limit after {count}");
    }
    assert_eq!(log.log_start(), at(4));
    log.set_config(LogConfig { retention_bytes: Some(0), ..log.config().clone() });
    log.apply_retention(NOW, &mut Vec::new());
    assert_eq!((log.log_start(), log.size_bytes()), (at(6), size), "the active segment stays");
}

#[test]
fn retention_by_age_deletes_segments_whose_youngest_record_is_old() {
    let aged = |time: i64| BatchBuilder::new().record(ms(time), None, Some(b"v"));
    let mut log = log_with(LogConfig { segment_ms: 50, retention_ms: Some(100), ..config() });
    for time in [0, 40, 60, 100, 130] {
        append(&mut log, &aged(time)); // Segments: 0 and 40; 60 and 100; 130.
    }
    let starts = [(140, 0), (141, 2), (200, 2), (201, 4), (230, 4), (231, 5)];
    for (now, expected) in starts {
        log.apply_retention(ms(now), &mut Vec::new());
        log.check_invariants();
        assert_eq!(log.log_start(), at(expected), "at {now}");
    }
    log.set_config(LogConfig { delete: false, ..log.config().clone() });
    append(&mut log, &aged(1));
    assert_eq!(log.apply_retention(ms(10_000), &mut Vec::new()), at(5));
}
