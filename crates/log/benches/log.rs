//! Produce and fetch as a log sees them: check, append, read, and the walk that a consumer makes.

#![expect(clippy::expect_used, reason = "a bench whose input is wrong measures nothing")]

use bytes::Bytes;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use sharemark_log::batch::{BatchBuilder, CheckLimits, Compression, Records, check_produced};
use sharemark_log::{AppendContext, Isolation, Log, LogConfig, Origin, ReadLimits, TimestampType};
use sharemark_protocol::{LeaderEpoch, Offset, Producer, Timestamp, TopicId, TopicIdPartition};

const RECORD_COUNT: usize = 1000;
const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const LIMITS: CheckLimits = CheckLimits { decompressed_size_bytes_max: 64 << 20, zstd_allowed: true };
const CONTEXT: AppendContext =
    AppendContext { origin: Origin::Client, leader_epoch: LeaderEpoch::new(0), verified: true };
const READ: ReadLimits =
    ReadLimits { size_bytes_max: 1 << 20, at_least_one: true, isolation: Isolation::ReadCommitted };

fn main() {
    divan::main();
}

fn batch(value_size: usize, compression: Compression, producer: Option<(Producer, i32)>) -> Bytes {
    let mut builder = BatchBuilder::new().compression(compression);
    if let Some((producer, sequence)) = producer {
        builder = builder.producer(producer, sequence);
    }
    // Half noise, half text, so that compression has something to do.
    let mut noise = 1_u64;
    for _ in 0..RECORD_COUNT {
        let value: Vec<u8> = (0..value_size)
            .map(|index| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if index % 2 == 0 { (noise >> 56) as u8 } else { b'a' }
            })
            .collect();
        builder.push(NOW, Some(b"key"), Some(&value), &[]);
    }
    builder.build().freeze()
}

fn empty_log() -> Log {
    let config = LogConfig {
        segment_size_bytes_max: 1 << 30,
        segment_ms: 604_800_000,
        retention_bytes: None,
        retention_ms: None,
        compact: false,
        delete: true,
        delete_retention_ms: 86_400_000,
        min_compaction_lag_ms: 0,
        max_compaction_lag_ms: i64::MAX,
        min_cleanable_dirty_ratio: 0.5,
        compression: None,
        compaction_dirty_bytes_min: 1 << 20,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        message_size_bytes_max: 16 << 20,
        producer_id_expiration_ms: 86_400_000,
        producer_id_count_max: 10_000,
        decompressed_size_bytes_max: 64 << 20,
    };
    Log::new(TopicIdPartition { topic_id: TopicId::from_bytes([1; 16]), partition: 0 }, config)
}

fn append(log: &mut Log, bytes: &Bytes) {
    let checked = check_produced(bytes, &LIMITS).expect("the batch is right");
    let plan = log.decide_append(NOW, &checked, CONTEXT).expect("the log takes it");
    black_box(log.append(plan, checked, &mut Vec::new()));
}

#[divan::bench(args = [100, 1024])]
fn check(bencher: Bencher<'_, '_>, value_size: usize) {
    let bytes = batch(value_size, Compression::None, None);
    bencher
        .counter(ItemsCount::new(RECORD_COUNT))
        .counter(BytesCount::new(bytes.len()))
        .bench(|| check_produced(black_box(&bytes), &LIMITS));
}

#[divan::bench(args = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd])]
fn check_compressed(bencher: Bencher<'_, '_>, compression: Compression) {
    let bytes = batch(100, compression, None);
    bencher.counter(ItemsCount::new(RECORD_COUNT)).bench(|| check_produced(black_box(&bytes), &LIMITS));
}

#[divan::bench(args = [100, 1024])]
fn check_and_append(bencher: Bencher<'_, '_>, value_size: usize) {
    let bytes = batch(value_size, Compression::None, None);
    bencher
        .counter(ItemsCount::new(RECORD_COUNT))
        .counter(BytesCount::new(bytes.len()))
        .with_inputs(empty_log)
        .bench_refs(|log| append(log, &bytes));
}

/// The owner thread's part of a produce: the check is the connection's.
#[divan::bench]
fn append_checked_of_an_idempotent_producer(bencher: Bencher<'_, '_>) {
    const COUNT: i32 = 100;
    let producer = Producer::from_wire(1, 0).expect("the numbers are not negative");
    let checked: Vec<_> = (0..COUNT)
        .map(|index| batch(100, Compression::None, Some((producer, index * RECORD_COUNT as i32))))
        .map(|bytes| check_produced(&bytes, &LIMITS).expect("the batch is right"))
        .collect();
    bencher
        .counter(ItemsCount::new(COUNT as u32))
        .with_inputs(|| (empty_log(), checked.clone(), Vec::with_capacity(COUNT as usize)))
        .bench_refs(|(log, checked, writes)| {
            for batch in checked.drain(..) {
                let plan = log.decide_append(NOW, &batch, CONTEXT).expect("the log takes it");
                black_box(log.append(plan, batch, writes));
            }
        });
}

/// One read of up to 1 MiB out of a log of this many batches.
#[divan::bench(args = [10, 10_000])]
fn read(bencher: Bencher<'_, '_>, batch_count: usize) {
    let mut log = empty_log();
    let bytes = BatchBuilder::new().record(NOW, Some(b"key"), Some(&[0; 100])).build().freeze();
    for _ in 0..batch_count {
        append(&mut log, &bytes);
    }
    let from = Offset::ZERO.plus(batch_count as i64 - 10);
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(10_usize)).bench_local(|| {
        out.clear();
        log.read(black_box(from), READ, &mut out)
    });
}

#[divan::bench]
fn iterate(bencher: Bencher<'_, '_>) {
    let bytes = batch(100, Compression::None, None);
    bencher.counter(ItemsCount::new(RECORD_COUNT)).bench(|| {
        let records = Records::read(black_box(&bytes), 0).expect("the batch is right");
        records.iter().filter_map(Result::ok).map(|record| record.value.map_or(0, <[u8]>::len)).sum::<usize>()
    });
}
