//! When a user's topic is compacted, and how far.

use super::*;

/// A log whose segments are closed after ten milliseconds.
fn log(change: impl Fn(LogConfig) -> LogConfig) -> Log {
    log_with(change(LogConfig { compact: true, delete: false, segment_ms: 10, ..config() }))
}

fn put(log: &mut Log, ms_after: i64, key: &str, value: Option<&str>) {
    let builder =
        BatchBuilder::new().record(NOW.plus_ms(ms_after), Some(key.as_bytes()), value.map(str::as_bytes));
    append(log, &builder);
}

fn clean(log: &mut Log, ms_after: i64) -> bool {
    let now = NOW.plus_ms(ms_after);
    let is_due = log.is_cleaning_due(now);
    if is_due {
        log.compact(now, CompactionScope::ClosedSegments, &mut Vec::new());
        log.check_invariants();
        assert!(!log.is_cleaning_due(now), "what was compacted is not new any more");
    }
    is_due
}

#[test]
fn the_active_segment_is_never_touched() {
    let mut log = log(|config| config);
    put(&mut log, 0, "a", Some("1"));
    put(&mut log, 5, "a", Some("2"));
    assert!(!clean(&mut log, 1000), "there is only one segment, and it is active");
    put(&mut log, 100, "a", Some("3"));
    assert!(clean(&mut log, 1000));
    assert_eq!(log.batch_count(), 2, "the last of the closed segment, and the active one");
}

#[test]
fn half_of_it_must_be_new() {
    let mut log = log(|config| config);
    for round in 0..4 {
        put(&mut log, round * 100, &format!("key-{round}"), Some("1"));
    }
    assert!(clean(&mut log, 1000));
    put(&mut log, 400, "key-0", Some("2"));
    assert!(!clean(&mut log, 1000), "one of four closed segments is new");
    for round in 5..8 {
        put(&mut log, round * 100, "key-0", Some("2"));
    }
    assert!(clean(&mut log, 1000), "four of seven");
    assert_eq!(log.batch_count(), 5, "key-1, key-2, key-3, key-0 and the active segment");
}

#[test]
fn what_waits_too_long_is_compacted_whatever_the_ratio() {
    let mut log =
        log(|config| LogConfig { max_compaction_lag_ms: 500, min_cleanable_dirty_ratio: 1.0, ..config });
    put(&mut log, 0, "a", Some("1"));
    put(&mut log, 100, "a", Some("2"));
    put(&mut log, 200, "a", Some("3"));
    assert!(!clean(&mut log, 500));
    assert!(clean(&mut log, 501));
    assert_eq!(log.batch_count(), 2);
    put(&mut log, 300, "a", Some("4"));
    assert!(!clean(&mut log, 700), "the oldest that is new has the time 200");
    assert!(clean(&mut log, 701));
}

#[test]
fn what_is_young_waits_with_its_whole_segment() {
    let mut log =
        log(|config| LogConfig { min_compaction_lag_ms: 1000, min_cleanable_dirty_ratio: 0.0, ..config });
    put(&mut log, 0, "a", Some("1"));
    put(&mut log, 100, "a", Some("2"));
    put(&mut log, 105, "a", Some("3"));
    put(&mut log, 200, "a", Some("4"));
    assert!(!clean(&mut log, 999));
    assert!(clean(&mut log, 1104), "the first segment is old enough");
    assert_eq!(log.batch_count(), 4, "alone it holds the last value of its key");
    assert!(clean(&mut log, 1105));
    assert_eq!(log.batch_count(), 2);
}

#[test]
fn a_tombstone_goes_with_the_first_compaction_after_its_time() {
    let mut log = log(|config| LogConfig { min_cleanable_dirty_ratio: 0.0, ..config });
    put(&mut log, 0, "a", Some("1"));
    put(&mut log, 100, "a", None);
    put(&mut log, 200, "b", Some("1"));
    assert!(clean(&mut log, 300));
    assert_eq!(log.batch_count(), 2, "the tombstone stays for delete.retention.ms");
    assert!(!clean(&mut log, 5000), "nothing is new");
    put(&mut log, 5000, "c", Some("1"));
    assert!(clean(&mut log, 5001));
    assert_eq!(log.batch_count(), 2, "b, and c in the active segment");
}

#[test]
fn records_are_compressed_as_the_topic_wants_them() {
    let value = [b'x'; 500];
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for wanted in codecs {
        let log = log_with(LogConfig { compression: Some(wanted), ..config() });
        for sent in codecs {
            let batch = BatchBuilder::new().record(NOW, Some(b"k"), Some(&value)).compression(sent);
            let batch = check_produced(&batch.build().freeze(), &LIMITS).unwrap();
            let (times, count) = (batch.max_timestamp(), batch.header().record_count);
            let kept = log.decide_compression(batch).unwrap();
            assert_eq!(kept.header().compression, wanted, "{sent:?}");
            assert_eq!((kept.max_timestamp(), kept.header().record_count), (times, count));
            assert_eq!(kept.header().size as usize, kept.size());
            let again = check_produced(&Bytes::copy_from_slice(kept.bytes()), &LIMITS).unwrap();
            assert_eq!(again.header(), kept.header(), "it is a batch as a client would send it");
            let records = Records::read(&Bytes::copy_from_slice(kept.bytes()), 1 << 20).unwrap();
            let record = records.iter().next().unwrap().unwrap();
            assert_eq!((record.key, record.value), (Some(&b"k"[..]), Some(&value[..])));
        }
    }
}

#[test]
fn a_batch_that_is_too_large_uncompressed_is_refused() {
    let log =
        log_with(LogConfig { compression: Some(Compression::None), message_size_bytes_max: 300, ..config() });
    let batch = BatchBuilder::new().record(NOW, None, Some(&[b'x'; 500])).compression(Compression::Gzip);
    let batch = check_produced(&batch.build().freeze(), &LIMITS).unwrap();
    assert!(batch.size() < 300);
    assert_eq!(log.decide_compression(batch).unwrap_err(), ErrorCode::MessageTooLarge);
}
