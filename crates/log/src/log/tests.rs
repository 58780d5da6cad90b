use bytes::Bytes;
use sharemark_protocol::{
    ErrorCode, LeaderEpoch, Offset, OffsetRange, Producer, ProducerEpoch, ProducerId, Timestamp, TopicId,
    TopicIdPartition,
};

use super::*;
use crate::TimestampType;
use crate::batch::tests::{LIMITS, ms};
use crate::batch::{BatchBuilder, BatchView, CheckedBatch, Compression, Records, check_produced};

mod cleaning;
mod compaction;
mod compaction_model;
mod deletion;
mod model;
mod offsets;
mod producers;

fn config() -> LogConfig {
    LogConfig {
        segment_size_bytes_max: 1 << 30,
        segment_ms: 7 * 24 * 3_600_000,
        retention_bytes: None,
        retention_ms: Some(7 * 24 * 3_600_000),
        compact: false,
        delete: true,
        delete_retention_ms: 1000,
        min_compaction_lag_ms: 0,
        max_compaction_lag_ms: i64::MAX,
        min_cleanable_dirty_ratio: 0.5,
        compaction_dirty_bytes_min: 1000,
        compression: None,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        message_size_bytes_max: 1 << 20,
        producer_id_expiration_ms: 86_400_000,
        producer_id_count_max: 1000,
        decompressed_size_bytes_max: 1 << 20,
    }
}

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const LEADER: LeaderEpoch = LeaderEpoch::new(0);
const CLIENT: AppendContext = AppendContext { origin: Origin::Client, leader_epoch: LEADER, verified: true };

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer { id: ProducerId::new(id), epoch: ProducerEpoch::new(epoch) }
}

fn log_with(config: LogConfig) -> Log {
    Log::new(TopicIdPartition { topic_id: TopicId::from_bytes([7; 16]), partition: 3 }, config)
}

fn log() -> Log {
    log_with(config())
}

fn plain(count: usize) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for index in 0..count {
        builder.push(NOW, Some(format!("k{index}").as_bytes()), Some(b"value"), &[]);
    }
    builder
}

fn checked(builder: &BatchBuilder) -> CheckedBatch {
    check_produced(&builder.build().freeze(), &LIMITS).unwrap()
}

/// Appends what a client sends, or says why not.
fn try_append(log: &mut Log, builder: &BatchBuilder) -> Result<Appended, ErrorCode> {
    try_append_with(log, builder, CLIENT, NOW)
}

fn try_append_with(
    log: &mut Log,
    builder: &BatchBuilder,
    context: AppendContext,
    now: Timestamp,
) -> Result<Appended, ErrorCode> {
    let batch = checked(builder);
    let before = log.log_end();
    let outcome = log.decide_append(now, &batch, context);
    assert_eq!(log.log_end(), before, "a decision changes nothing");
    let mut writes = Vec::new();
    let appended = log.append(outcome?, batch, &mut writes);
    assert_eq!(writes.len(), usize::from(!appended.is_duplicate));
    log.check_invariants();
    Ok(appended)
}

fn append(log: &mut Log, builder: &BatchBuilder) -> Appended {
    try_append(log, builder).unwrap()
}

fn end_transaction(
    log: &mut Log,
    producer: Producer,
    committed: bool,
    transaction_version: i8,
) -> Result<AppendedMarker, ErrorCode> {
    let marker = EndTransactionMarker { producer, committed, coordinator_epoch: 1, transaction_version };
    let plan = log.decide_end_transaction_marker(NOW, marker, LEADER)?;
    let appended = log.append_end_transaction_marker(plan, &mut Vec::new());
    log.check_invariants();
    Ok(appended)
}

fn limits(size_bytes_max: usize, at_least_one: bool) -> ReadLimits {
    ReadLimits { size_bytes_max, at_least_one, isolation: Isolation::ReadUncommitted }
}

fn read(log: &Log, from: i64, isolation: Isolation) -> Vec<ReadBatch> {
    let mut out = Vec::new();
    log.read(at(from), ReadLimits { size_bytes_max: usize::MAX, at_least_one: true, isolation }, &mut out)
        .unwrap();
    out
}

fn ranges(batches: &[ReadBatch]) -> Vec<(i64, i64)> {
    batches.iter().map(|batch| (batch.extent.range.first().get(), batch.extent.range.last().get())).collect()
}

/// Returns offset, key and value of each record of each batch, checking the batches' checksums.
fn records(batches: &[ReadBatch]) -> Vec<(i64, Option<Bytes>, Option<Bytes>)> {
    let mut out = Vec::new();
    for batch in batches {
        assert!(BatchView::new(&batch.bytes).unwrap().crc_is_right());
        let records = Records::read(&batch.bytes, 1 << 20).unwrap();
        for record in &records {
            let record = record.unwrap();
            let own = |part: Option<&[u8]>| part.map(Bytes::copy_from_slice);
            out.push((record.offset.get(), own(record.key), own(record.value)));
        }
    }
    out
}

/// Builds the log again from what it holds, as a start on stored data does.
fn replayed(log: &Log) -> Log {
    let mut again = Log::restored(log.partition(), log.config().clone(), log.log_start());
    let mut batches = Vec::new();
    log.read(log.log_start(), limits(usize::MAX, true), &mut batches).unwrap();
    for batch in batches {
        again.restore(NOW, batch.bytes).unwrap();
    }
    again.check_invariants();
    again
}

#[test]
fn offsets_and_the_leader_epoch_are_written_in_place() {
    let mut log = log();
    // Clients may send any leader epoch.
    let mut sent = plain(3).build();
    sent[12..16].copy_from_slice(&77_i32.to_be_bytes());
    let sent = sent.freeze();
    let context = AppendContext { leader_epoch: LeaderEpoch::new(4), ..CLIENT };
    for base in [0, 3] {
        let batch = check_produced(&sent, &LIMITS).unwrap();
        let plan = log.decide_append(NOW, &batch, context).unwrap();
        let appended = log.append(plan, batch, &mut Vec::new());
        assert_eq!((appended.base_offset, appended.last_offset), (at(base), at(base + 2)));
        assert_eq!(appended.log_append_time, None);
    }
    let batches = read(&log, 3, Isolation::ReadUncommitted);
    assert_eq!(ranges(&batches), [(3, 5)]);
    let view = BatchView::new(&batches[0].bytes).unwrap();
    assert!(view.crc_is_right());
    assert_eq!(view.header().unwrap().leader_epoch, Some(LeaderEpoch::new(4)));
    assert_eq!(view.bytes()[17..], sent[17..], "all but offset and leader epoch is as it was sent");
}

#[test]
fn log_append_time_is_written_with_a_new_checksum() {
    let mut log = log_with(LogConfig { timestamp_type: TimestampType::LogAppendTime, ..config() });
    let appended = try_append_with(&mut log, &plain(2), CLIENT, ms(5_000)).unwrap();
    assert_eq!(appended.log_append_time, Some(ms(5_000)));
    let batches = read(&log, 0, Isolation::ReadUncommitted);
    let view = BatchView::new(&batches[0].bytes).unwrap();
    assert!(view.crc_is_right() && view.header().unwrap().log_append_time);
    let records = Records::read(&batches[0].bytes, 0).unwrap();
    assert!(records.iter().all(|record| record.unwrap().timestamp == ms(5_000)));
}

#[test]
fn a_wrong_maximum_of_timestamps_is_corrected() {
    let mut log = log();
    let mut sent = plain(1).build();
    crate::batch::patch_timestamp(&mut sent, true, ms(3));
    crate::batch::patch_timestamp(&mut sent, false, ms(3));
    let batch = check_produced(&sent.freeze(), &LIMITS).unwrap();
    let plan = log.decide_append(NOW, &batch, CLIENT).unwrap();
    let _appended = log.append(plan, batch, &mut Vec::new());
    let batches = read(&log, 0, Isolation::ReadUncommitted);
    let view = BatchView::new(&batches[0].bytes).unwrap();
    assert!(view.crc_is_right());
    assert_eq!(view.max_timestamp(), NOW);
}

#[test]
fn an_older_leader_is_refused() {
    let mut log = log();
    log.begin_leader_epoch(LeaderEpoch::new(5));
    assert_eq!(try_append(&mut log, &plain(1)), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(end_transaction(&mut log, producer(1, 0), true, 2), Err(ErrorCode::FencedLeaderEpoch));
    let context = AppendContext { leader_epoch: LeaderEpoch::new(5), ..CLIENT };
    assert!(try_append_with(&mut log, &plain(1), context, NOW).is_ok());
}

#[test]
fn configurations_refuse_batches_and_say_which_records() {
    let small = log_with(LogConfig { message_size_bytes_max: 70, ..config() });
    let compacted = log_with(LogConfig { compact: true, ..config() });
    let strict = log_with(LogConfig { timestamp_before_max_ms: 10, timestamp_after_max_ms: 10, ..config() });
    let short = log_with(LogConfig { segment_size_bytes_max: 70, ..config() });
    let batch = checked(
        &BatchBuilder::new()
            .record(NOW, Some(b"k"), None)
            .record(NOW.plus_ms(11), None, None)
            .record(NOW.plus_ms(-11), Some(b"k"), None)
            .record(ms(-1), None, Some(b"v")),
    );
    let cases: [(&Log, ErrorCode, &[i32]); 4] = [
        (&small, ErrorCode::MessageTooLarge, &[]),
        (&compacted, ErrorCode::InvalidRecord, &[1, 3]),
        (&strict, ErrorCode::InvalidTimestamp, &[1, 2]),
        (&short, ErrorCode::RecordListTooLarge, &[]),
    ];
    for (log, code, indexes) in cases {
        assert_eq!(log.decide_append(NOW, &batch, CLIENT).err(), Some(code));
        let mut errors = Vec::new();
        log.record_errors(NOW, &batch, &mut errors);
        assert_eq!(errors.iter().map(|error| error.index).collect::<Vec<_>>(), indexes);
        assert!(errors.iter().all(|error| error.code == code));
        let coordinator = AppendContext { origin: Origin::Coordinator, ..CLIENT };
        assert!(log.decide_append(NOW, &batch, coordinator).is_ok());
    }
}

#[test]
fn reads_return_whole_batches_within_limits() {
    let mut log = log();
    for _ in 0..3 {
        append(&mut log, &plain(4));
    }
    let size = plain(4).build().len();
    let cases = [
        (0, usize::MAX, false, &[(0, 3), (4, 7), (8, 11)][..]),
        (5, usize::MAX, false, &[(4, 7), (8, 11)]),
        (0, 2 * size, false, &[(0, 3), (4, 7)]),
        (0, 2 * size - 1, false, &[(0, 3)]),
        (0, 1, false, &[]),
        (0, 1, true, &[(0, 3)]),
        (0, 0, true, &[(0, 3)]),
        (12, usize::MAX, true, &[]),
    ];
    for (from, size_bytes_max, at_least_one, expected) in cases {
        let mut out = Vec::new();
        let read = log.read(at(from), limits(size_bytes_max, at_least_one), &mut out).unwrap();
        assert_eq!(ranges(&out), expected);
        assert_eq!(read, out.iter().map(|batch| batch.bytes.len()).sum::<usize>());
    }
    let mut out = Vec::new();
    assert_eq!(log.read(at(13), limits(9, true), &mut out), Err(ReadError::OffsetOutOfRange));
    assert_eq!(log.size_bytes(), 3 * size as u64);
    // A waiting fetch counts until it has enough.
    for (from, enough, expected) in
        [(0, 1, size), (0, size + 1, 2 * size), (5, usize::MAX, 2 * size), (12, 1, 0)]
    {
        assert_eq!(log.readable_bytes(at(from), Isolation::ReadUncommitted, enough), expected);
    }
}
