//! The share partition at its public doors: checks, owners, deadlines and state batches included.
//!
//! Every cycle begins and ends with nothing in flight, so a cycle's time over its record count is the cost of
//! one record. The throughput column is in records.

#![expect(clippy::unwrap_used, reason = "a bench may fail")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use sharemark_protocol::{LeaderEpoch, Offset, OffsetRange, StateEpoch, Timestamp};
use sharemark_share_coordinator::{
    AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, AcquireMode, AcquireRequest, AcquiredRange,
    FetchedBatch, FetchedRun, ReadState, SharePartition, SharePartitionConfig, StateBatch, StatePlan,
};

const CONFIG: SharePartitionConfig = SharePartitionConfig {
    lock_duration_ms: 30_000,
    delivery_count_limit: 5,
    record_locks_max: 2_000,
    renew_enabled: true,
    dead_letter_queue: false,
    throttles_redelivery: true,
    abort_restores_lock: false,
};
const RULES: AcknowledgeRules = AcknowledgeRules { type_max: AcknowledgeType::Renew, is_renew_ack: false };
const MEMBER: &str = "Zk5sQ2d4T3mXr8uVw1aBcA";

fn main() {
    divan::main();
}

/// A share partition with all that its caller keeps from call to call.
struct Bench {
    partition: SharePartition,
    plan: StatePlan,
    acquired: Vec<AcquiredRange>,
    now: Timestamp,
    stored_count: usize,
}

impl Bench {
    fn new() -> Self {
        let state = ReadState {
            state_epoch: StateEpoch::new(1),
            start_offset: Some(Offset::ZERO),
            delivery_complete_count: None,
            batches: Vec::new(),
        };
        let partition = SharePartition::load(&state, Offset::ZERO, LeaderEpoch::new(0)).unwrap();
        let now = Timestamp::from_ms(1_790_000_000_000);
        Self { partition, plan: StatePlan::new(), acquired: Vec::new(), now, stored_count: 0 }
    }

    /// Acquires from a log whose next record batch has `batch_len` records.
    fn acquire(&mut self, member: &str, batch_len: i64, max_records: i64, mode: AcquireMode) {
        let fetch_offset = self.partition.fetch_offset();
        let base = Offset::ZERO.plus(fetch_offset.get() / batch_len * batch_len);
        let range = OffsetRange::new(base, base.plus(batch_len - 1)).unwrap();
        let batches = [FetchedBatch { range, is_aborted: false }];
        let run = FetchedRun { fetch_offset, batches: &batches };
        let request = AcquireRequest { max_records, batch_size: max_records, mode };
        self.acquired.clear();
        let (count, _) =
            self.partition.acquire(self.now, member, &CONFIG, &request, &run, &mut self.acquired);
        assert!(count == max_records);
    }

    fn acknowledge(&mut self, member: &str, batches: &[AcknowledgementBatch<'_>]) {
        self.partition.decide_acknowledge(member, batches, &RULES, &CONFIG, &mut self.plan).unwrap();
        self.stored_count += black_box(self.plan.batches()).len();
        let _ = black_box(self.partition.apply(self.now, &CONFIG, &self.plan));
    }

    fn end_cycle(&mut self) {
        assert!(self.partition.in_flight_count() == 0);
        self.now = self.now.plus_ms(1);
    }
}

fn ack(first: i64, last: i64, types: &[i8]) -> AcknowledgementBatch<'_> {
    AcknowledgementBatch { first_offset: first, last_offset: last, types }
}

#[divan::bench]
fn one_range_of_500(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        bench.acknowledge(MEMBER, &[ack(first, first + 499, &[1])]);
        bench.end_cycle();
    });
}

/// The store answers in a step of its own, so the records are in transition in between.
#[divan::bench]
fn one_range_of_500_held(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        let batches = [ack(first, first + 499, &[1])];
        bench.partition.decide_acknowledge(MEMBER, &batches, &RULES, &CONFIG, &mut bench.plan).unwrap();
        let id = bench.partition.hold(bench.now, &CONFIG, &bench.plan);
        let _ = black_box(bench.partition.complete(bench.now, id));
        bench.end_cycle();
    });
}

#[divan::bench]
fn single_offsets_500_in_one_call(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    let mut batches = Vec::new();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        batches.clear();
        batches.extend((first..first + 500).map(|offset| ack(offset, offset, &[1])));
        bench.acknowledge(MEMBER, &batches);
        bench.end_cycle();
    });
}

#[divan::bench]
fn single_offsets_in_500_calls(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        for offset in first..first + 500 {
            bench.acknowledge(MEMBER, &[ack(offset, offset, &[1])]);
        }
        bench.end_cycle();
    });
}

/// Acknowledges in an order that keeps the start offset where it is until the last call.
#[divan::bench]
fn single_offsets_in_500_calls_backwards(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        for offset in (first..first + 500).rev() {
            bench.acknowledge(MEMBER, &[ack(offset, offset, &[1])]);
        }
        bench.end_cycle();
    });
}

#[divan::bench]
fn types_mixed_per_offset_500(bencher: Bencher<'_, '_>) {
    let mut bench = Bench::new();
    let types: Vec<i8> = (0..500).map(|index| [1, 3, 1, 0, 1][index % 5]).collect();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        bench.acquire(MEMBER, 500, 500, AcquireMode::BatchOptimized);
        bench.acknowledge(MEMBER, &[ack(first, first + 499, &types)]);
        bench.end_cycle();
    });
}

/// The members of the interleaved cycles.
fn members() -> Vec<String> {
    (0..20).map(|index| format!("{index:02}5sQ2d4T3mXr8uVw1aBcA")).collect()
}

fn interleaved(bencher: Bencher<'_, '_>, batch_len: i64, mode: AcquireMode) {
    let mut bench = Bench::new();
    let members = members();
    bencher.counter(ItemsCount::new(500_u32)).bench_local(|| {
        let first = bench.partition.start_offset().get();
        for range in 0..100 {
            bench.acquire(&members[range % 20], batch_len, 5, mode);
        }
        for (member, begin) in members.iter().zip((first..).step_by(5)) {
            let ranges: [_; 5] = std::array::from_fn(|index| {
                let low = begin + 100 * index as i64;
                ack(low, low + 4, &[1])
            });
            bench.acknowledge(member, &ranges);
        }
        bench.end_cycle();
    });
}

#[divan::bench]
fn ranges_of_5_over_20_members(bencher: Bencher<'_, '_>) {
    interleaved(bencher, 5, AcquireMode::BatchOptimized);
}

/// The ranges are parts of one record batch, so that it is split.
#[divan::bench]
fn ranges_of_5_over_20_members_split(bencher: Bencher<'_, '_>) {
    interleaved(bencher, 500, AcquireMode::RecordLimit);
}

#[divan::bench]
fn partitions_10000_with_50_records(bencher: Bencher<'_, '_>) {
    let mut benches: Vec<_> = (0..10_000).map(|_| Bench::new()).collect();
    bencher.counter(ItemsCount::new(500_000_u32)).bench_local(|| {
        for bench in &mut benches {
            bench.acquire(MEMBER, 50, 50, AcquireMode::BatchOptimized);
        }
        for bench in &mut benches {
            let first = bench.partition.start_offset().get();
            bench.acknowledge(MEMBER, &[ack(first, first + 49, &[1])]);
            bench.end_cycle();
        }
    });
}

/// Lets 400 locks run out that `lock` made.
fn expiry(bencher: Bencher<'_, '_>, lock: impl Fn(&mut Bench)) {
    let inputs = || {
        let mut bench = Bench::new();
        lock(&mut bench);
        (bench, Vec::<StateBatch>::with_capacity(400))
    };
    bencher.counter(ItemsCount::new(400_u32)).with_inputs(inputs).bench_local_refs(|(bench, batches)| {
        let _ = black_box(bench.partition.expire(bench.now.plus_ms(30_000), &CONFIG, batches));
        assert!(!batches.is_empty());
    });
}

#[divan::bench]
fn expiry_of_400_acquired_together(bencher: Bencher<'_, '_>) {
    expiry(bencher, |bench| bench.acquire(MEMBER, 400, 400, AcquireMode::BatchOptimized));
}

#[divan::bench]
fn expiry_of_400_split(bencher: Bencher<'_, '_>) {
    expiry(bencher, |bench| {
        for _ in 0..400 {
            bench.acquire(MEMBER, 400, 1, AcquireMode::RecordLimit);
        }
    });
}

/// Every record was acquired in a millisecond of its own.
#[divan::bench]
fn expiry_of_400_at_400_times(bencher: Bencher<'_, '_>) {
    expiry(bencher, |bench| {
        for _ in 0..400 {
            bench.acquire(MEMBER, 400, 1, AcquireMode::RecordLimit);
            bench.now = bench.now.plus_ms(1);
        }
    });
}
