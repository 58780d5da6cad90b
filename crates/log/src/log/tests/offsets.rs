//! Offsets by time and by leader epoch.

use super::*;

fn timed(times: &[i64]) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for &time in times {
        builder.push(ms(time), Some(b"k"), Some(b"v"), &[]);
    }
    builder
}

fn find(log: &Log, query: i64) -> Option<(i64, i64)> {
    let query = OffsetQuery::from_wire(query).unwrap();
    let found = log.find_offset(query, Isolation::ReadUncommitted)?;
    Some((found.offset.get(), found.timestamp.map_or(-1, Timestamp::ms)))
}

#[test]
fn by_time_the_first_record_at_or_after_it() {
    for codec in
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let mut log = log();
        append(&mut log, &timed(&[1, 5, 3]).compression(codec));
        append(&mut log, &timed(&[5, 4]).compression(codec));
        append(&mut log, &timed(&[2]).compression(codec));
        let cases = [
            (-3, Some((1, 5))),
            (-2, Some((0, -1))),
            (-4, Some((0, -1))),
            (-1, Some((6, -1))),
            (-5, None),
            (-6, None),
            (0, Some((0, 1))),
            (1, Some((0, 1))),
            (2, Some((1, 5))),
            (5, Some((1, 5))),
            (6, None),
        ];
        for (query, expected) in cases {
            assert_eq!(find(&log, query), expected, "for {query}");
        }
    }
    assert_eq!(OffsetQuery::from_wire(-7), None);
}

#[test]
fn in_append_time_the_first_record_stands_for_its_batch() {
    let mut log = log_with(LogConfig { timestamp_type: TimestampType::LogAppendTime, ..config() });
    try_append_with(&mut log, &timed(&[1, 5, 3]), CLIENT, ms(50)).unwrap();
    try_append_with(&mut log, &timed(&[9, 9]), CLIENT, ms(60)).unwrap();
    assert_eq!(find(&log, -3), Some((3, 60)));
    assert_eq!(find(&log, 50), Some((0, 50)));
    assert_eq!(find(&log, 51), Some((3, 60)));
}

#[test]
fn an_empty_or_timeless_log_has_no_record_by_time() {
    let mut log = log();
    assert_eq!([find(&log, -3), find(&log, 0)], [None, None]);
    assert_eq!([find(&log, -2), find(&log, -1)], [Some((0, -1)); 2]);
    append(&mut log, &timed(&[-1, -1]));
    assert_eq!([find(&log, -3), find(&log, 0)], [None, None]);
    append(&mut log, &timed(&[-1, 3]));
    assert_eq!([find(&log, -3), find(&log, 0)], [Some((3, 3)); 2]);
}

#[test]
fn times_across_segments_and_below_the_start() {
    let mut log = log_with(LogConfig { segment_size_bytes_max: 200, ..config() });
    for base in [100, 500, 300, 400] {
        for step in 0..5 {
            append(&mut log, &timed(&[base + step, base + step]));
        }
    }
    assert!(3 < log.segments.len());
    assert_eq!(find(&log, 100), Some((0, 100)));
    assert_eq!(find(&log, 105), Some((10, 500)));
    assert_eq!(find(&log, 504), Some((18, 504)));
    assert_eq!(find(&log, -3), Some((18, 504)));
    log.delete_records(at(19), &mut Vec::new());
    assert_eq!(find(&log, -3), Some((19, 504)));
    log.delete_records(at(20), &mut Vec::new());
    log.check_invariants();
    assert_eq!(find(&log, -3), Some((38, 404)));
    assert_eq!(find(&log, 304), Some((28, 304)));
    assert_eq!(find(&log, 305), Some((30, 400)));
    log.delete_records(at(39), &mut Vec::new());
    assert_eq!(find(&log, -3), Some((39, 404)));
    assert_eq!(find(&log, 405), None);
}

#[test]
fn a_youngest_record_below_the_start_does_not_count() {
    let mut log = log();
    append(&mut log, &timed(&[9, 5, 5]));
    append(&mut log, &timed(&[7]));
    log.delete_records(at(1), &mut Vec::new());
    assert_eq!(find(&log, -3), Some((3, 7)));
    assert_eq!(find(&log, 6), Some((3, 7)));
    assert_eq!(find(&log, 5), Some((1, 5)));
    assert_eq!(find(&log, 8), None);
}

#[test]
fn readers_of_committed_records_do_not_see_beyond_the_stable_offset() {
    let mut log = log();
    append(&mut log, &timed(&[1]));
    append(&mut log, &timed(&[9]).producer(producer(1, 0), 0).transactional());
    for query in [OffsetQuery::MaxTimestamp, OffsetQuery::AtOrAfter(ms(5))] {
        assert_eq!(log.find_offset(query, Isolation::ReadCommitted), None);
        assert!(log.find_offset(query, Isolation::ReadUncommitted).is_some());
    }
}

#[test]
fn leader_epochs_are_those_of_the_records() {
    let mut log = log();
    let led = |epoch| AppendContext { leader_epoch: LeaderEpoch::new(epoch), ..CLIENT };
    try_append_with(&mut log, &timed(&[1]), led(2), NOW).unwrap();
    try_append_with(&mut log, &timed(&[2]), led(2), NOW).unwrap();
    log.begin_leader_epoch(LeaderEpoch::new(3)); // Led, but wrote nothing.
    log.begin_leader_epoch(LeaderEpoch::new(5));
    try_append_with(&mut log, &timed(&[3]), led(5), NOW).unwrap();
    let epoch = |query| log.find_offset(query, Isolation::ReadUncommitted).unwrap().leader_epoch;
    assert_eq!(epoch(OffsetQuery::AtOrAfter(ms(2))), Some(LeaderEpoch::new(2)));
    assert_eq!(epoch(OffsetQuery::AtOrAfter(ms(3))), Some(LeaderEpoch::new(5)));
    assert_eq!(epoch(OffsetQuery::Earliest), Some(LeaderEpoch::new(2)));
    assert_eq!(epoch(OffsetQuery::Latest), Some(LeaderEpoch::new(5)));
    let end = |epoch| {
        let end = log.end_offset_for_epoch(LeaderEpoch::new(epoch))?;
        Some((end.leader_epoch.get(), end.end_offset.get()))
    };
    // Older than all, known, between, newest, future.
    let cases = [(0, Some((0, 0))), (2, Some((2, 2))), (4, Some((2, 2))), (5, Some((5, 3))), (6, None)];
    for (epoch, expected) in cases {
        assert_eq!(end(epoch), expected, "for epoch {epoch}");
    }
    log.delete_records(at(2), &mut Vec::new());
    assert_eq!(log.leader_epoch_of(at(2)), Some(LeaderEpoch::new(5)));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch::new(2)).unwrap().end_offset, at(2));
}
