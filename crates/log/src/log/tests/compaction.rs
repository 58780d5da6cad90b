//! Compaction.

use super::*;

fn compacted() -> Log {
    log_with(LogConfig { compact: true, delete: false, ..config() })
}

fn keyed(pairs: &[(&str, Option<&str>)]) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for (key, value) in pairs {
        builder.push(
            NOW,
            Some(key.as_bytes()),
            value.map(str::as_bytes),
            &[(b"h", None), (b"h", Some(b"1"))],
        );
    }
    builder
}

fn pairs(log: &Log) -> Vec<(i64, String, Option<String>)> {
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    records(&read(log, log.log_start().get(), Isolation::ReadUncommitted))
        .into_iter()
        .map(|(offset, key, value)| (offset, text(key.unwrap()), value.map(text)))
        .collect()
}

fn compact(log: &mut Log, now: Timestamp, scope: CompactionScope) -> Vec<StorageWrite> {
    let mut writes = Vec::new();
    let before = (log.offsets(), log.producers.clone());
    log.compact(now, scope, &mut writes);
    log.check_invariants();
    assert_eq!((log.offsets(), log.producers.clone()), before, "offsets and producers stay");
    writes
}

fn of(offset: i64, key: &str, value: Option<&str>) -> (i64, String, Option<String>) {
    (offset, key.to_owned(), value.map(str::to_owned))
}

#[test]
fn the_last_record_of_each_key_stays_at_its_offset() {
    for codec in [Compression::None, Compression::Lz4] {
        let mut log = compacted();
        append(&mut log, &keyed(&[("a", Some("1")), ("b", Some("1"))]).compression(codec));
        append(&mut log, &keyed(&[("a", Some("2"))]).compression(codec));
        append(&mut log, &keyed(&[("c", Some("1")), ("a", Some("3"))]).compression(codec));
        let writes = compact(&mut log, NOW, CompactionScope::Whole);
        assert_eq!(pairs(&log), [of(1, "b", Some("1")), of(3, "c", Some("1")), of(4, "a", Some("3"))]);
        assert!(matches!(
            [&writes[0].change, &writes[1].change],
            [StorageChange::Put { header, .. }, StorageChange::Remove(gone)]
                if header.base_offset == at(0) && header.last_offset == at(1) && *gone == at(2)
        ));
        assert_eq!(writes.len(), 2);
        let batches = read(&log, 0, Isolation::ReadUncommitted);
        assert_eq!(ranges(&batches), [(0, 1), (3, 4)]);
        let records = Records::read(&batches[0].bytes, 1 << 20).unwrap();
        let record = records.iter().next().unwrap().unwrap();
        assert_eq!((record.timestamp, record.headers.count()), (NOW, 2));
        assert!(compact(&mut log, NOW, CompactionScope::Whole).is_empty(), "a second run finds nothing");
    }
}

#[test]
fn records_without_key_stay() {
    let mut log = log();
    append(&mut log, &BatchBuilder::new().record(NOW, None, Some(b"1")).record(NOW, None, Some(b"2")));
    append(&mut log, &BatchBuilder::new().record(NOW, None, None));
    compact(&mut log, NOW, CompactionScope::Whole);
    assert_eq!(records(&read(&log, 0, Isolation::ReadUncommitted)).len(), 3);
}

#[test]
fn tombstones_stay_for_a_while() {
    let mut log = compacted();
    append(&mut log, &keyed(&[("a", Some("1")), ("b", Some("1"))]));
    append(&mut log, &keyed(&[("a", None)]));
    append(&mut log, &keyed(&[("c", Some("1"))]));
    for now in [NOW, NOW.plus_ms(999)] {
        compact(&mut log, now, CompactionScope::Whole);
        assert_eq!(pairs(&log), [of(1, "b", Some("1")), of(2, "a", None), of(3, "c", Some("1"))]);
    }
    let tombstone = &read(&log, 2, Isolation::ReadUncommitted)[0].bytes;
    assert_eq!(BatchView::new(tombstone).unwrap().delete_horizon(), Some(NOW.plus_ms(1000)));
    let records = Records::read(tombstone, 0).unwrap();
    assert_eq!(records.iter().next().unwrap().unwrap().timestamp, NOW, "its time is not touched");
    compact(&mut log, NOW.plus_ms(1000), CompactionScope::Whole);
    assert_eq!(pairs(&log), [of(1, "b", Some("1")), of(3, "c", Some("1"))]);
}

#[test]
fn open_transactions_and_the_active_segment_bound_it() {
    let mut log = compacted();
    append(&mut log, &keyed(&[("a", Some("1"))]));
    append(&mut log, &keyed(&[("a", Some("2"))]).producer(producer(1, 0), 0).transactional());
    append(&mut log, &keyed(&[("a", Some("3"))]));
    compact(&mut log, NOW, CompactionScope::Whole);
    assert_eq!(pairs(&log).len(), 3);
    end_transaction(&mut log, producer(1, 1), true, 2).unwrap();
    compact(&mut log, NOW, CompactionScope::ClosedSegments);
    assert_eq!(log.batch_count(), 4);
    compact(&mut log, NOW, CompactionScope::Whole);
    assert_eq!(log.batch_count(), 2, "the last value and the marker");
    log.set_config(LogConfig { min_compaction_lag_ms: 10, ..log.config().clone() });
    append(&mut log, &keyed(&[("a", Some("4"))]));
    compact(&mut log, NOW.plus_ms(9), CompactionScope::Whole);
    assert_eq!(log.batch_count(), 3);
    compact(&mut log, NOW.plus_ms(10), CompactionScope::Whole);
    assert_eq!(log.batch_count(), 2);
}

#[test]
fn aborted_records_go_and_a_marker_goes_after_its_data() {
    let mut log = compacted();
    append(&mut log, &keyed(&[("a", Some("1"))])); // 0
    append(&mut log, &keyed(&[("a", Some("2"))]).producer(producer(1, 0), 0).transactional()); // 1
    end_transaction(&mut log, producer(1, 1), false, 2).unwrap(); // 2
    append(&mut log, &keyed(&[("b", Some("1"))]).producer(producer(2, 0), 0).transactional()); // 3
    end_transaction(&mut log, producer(2, 1), true, 2).unwrap(); // 4
    append(&mut log, &keyed(&[("z", Some("1"))])); // 5
    compact(&mut log, NOW, CompactionScope::Whole);
    assert_eq!(ranges(&read(&log, 0, Isolation::ReadCommitted)), [(0, 0), (2, 2), (3, 3), (4, 4), (5, 5)]);
    let mut aborted = Vec::new();
    log.aborted_transactions(OffsetRange::new(at(0), at(5)).unwrap(), &mut aborted);
    assert!(aborted.is_empty());
    let batches = read(&log, 0, Isolation::ReadCommitted);
    assert_eq!(
        batches[1].extent.record_count, 1,
        "a batch of its transaction was met, so the marker's time begins later"
    );

    compact(&mut log, NOW, CompactionScope::Whole);
    compact(&mut log, NOW.plus_ms(1000), CompactionScope::Whole);
    let batches = read(&log, 0, Isolation::ReadCommitted);
    assert_eq!(ranges(&batches), [(0, 0), (2, 2), (3, 3), (4, 4), (5, 5)]);
    assert_eq!(batches[1].extent.record_count, 0, "the last word of a producer stays as an empty batch");
    assert_eq!(batches[3].extent.record_count, 1, "a marker stays while its data is there");
    let again = replayed(&log);
    assert_eq!(again.producer_epoch(ProducerId::new(1)), Some(ProducerEpoch::new(1)));
    assert_eq!(again.offsets(), log.offsets());

    append(&mut log, &keyed(&[("q", Some("1"))]).producer(producer(1, 1), 0).transactional()); // 6
    end_transaction(&mut log, producer(1, 2), true, 2).unwrap(); // 7
    compact(&mut log, NOW.plus_ms(1000), CompactionScope::Whole);
    assert_eq!(read(&log, 0, Isolation::ReadCommitted)[1].extent.range.first(), at(3), "then it can go");
}

#[test]
fn the_last_batch_of_an_idempotent_producer_stays_empty() {
    let mut log = compacted();
    append(&mut log, &keyed(&[("a", Some("1"))]).producer(producer(1, 0), 0));
    append(&mut log, &keyed(&[("a", Some("2"))]).producer(producer(1, 0), 1));
    append(&mut log, &keyed(&[("a", Some("3"))]));
    compact(&mut log, NOW, CompactionScope::Whole);
    let extents: Vec<_> = read(&log, 0, Isolation::ReadUncommitted)
        .iter()
        .map(|batch| (batch.extent.range.first().get(), batch.extent.record_count))
        .collect();
    assert_eq!(extents, [(1, 0), (2, 1)]);
    let mut again = replayed(&log);
    assert!(append(&mut again, &keyed(&[("a", Some("2"))]).producer(producer(1, 0), 1)).is_duplicate);
    assert!(!append(&mut again, &keyed(&[("a", Some("4"))]).producer(producer(1, 0), 2)).is_duplicate);
}

#[test]
fn a_log_of_few_keys_does_not_grow_for_ever() {
    let mut log = log_with(LogConfig { segment_size_bytes_max: 2000, ..compacted().config().clone() });
    let mut largest = 0;
    for round in 0..2000 {
        let key = format!("key-{}", round % 7);
        append(&mut log, &keyed(&[(&key, if round % 5 == 0 { None } else { Some("value") })]));
        if log.is_compaction_due() {
            compact(&mut log, NOW.plus_ms(round * 10), CompactionScope::Whole);
        }
        largest = largest.max(log.bytes());
    }
    assert!(largest < 10_000, "it took {largest} bytes");
    assert_eq!(log.log_end(), at(2000));
}
