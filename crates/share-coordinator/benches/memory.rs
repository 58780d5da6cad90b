//! What a share partition holds in memory for each record in flight.
//!
//! What is held at the end of a case is `alloc` and `grow` less `dealloc` and `shrink`, in bytes: over the 2,000 records that
//! is the figure we look for. `max alloc` is the highest moment on the way. The times say nothing.

#![expect(clippy::unwrap_used, reason = "a bench may fail")]

use divan::{AllocProfiler, Bencher, black_box};
use sharemark_protocol::{LeaderEpoch, Offset, OffsetRange, StateEpoch, Timestamp};
use sharemark_share_coordinator::{
    AcquireMode, AcquireRequest, FetchedBatch, FetchedRun, ReadState, SharePartition, SharePartitionConfig,
};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const CONFIG: SharePartitionConfig = SharePartitionConfig {
    lock_duration_ms: 30_000,
    delivery_count_limit: 5,
    record_locks_max: 2_000,
    renew_enabled: true,
    dead_letter_queue: false,
    throttles_redelivery: true,
    abort_restores_lock: false,
};

fn main() {
    divan::main();
}

/// Acquires 2,000 records from record batches of `batch_len`, `max_records` every `ms_between` milliseconds.
fn hold_2000(batch_len: i64, max_records: i64, ms_between: i64) -> SharePartition {
    let state = ReadState {
        state_epoch: StateEpoch::new(1),
        start_offset: Some(Offset::ZERO),
        delivery_complete_count: None,
        batches: Vec::new(),
    };
    let mut partition = SharePartition::load(&state, Offset::ZERO, LeaderEpoch::new(0)).unwrap();
    let mut now = Timestamp::from_ms(1_790_000_000_000);
    let request = AcquireRequest { max_records, batch_size: max_records, mode: AcquireMode::RecordLimit };
    let mut acquired = Vec::with_capacity(1);
    while partition.next_offset().get() < 2_000 || partition.fetch_offset() < partition.next_offset() {
        let fetch_offset = partition.fetch_offset();
        let base = Offset::ZERO.plus(fetch_offset.get() / batch_len * batch_len);
        let range = OffsetRange::new(base, base.plus(batch_len - 1)).unwrap();
        let batches = [FetchedBatch { range, is_aborted: false }];
        let run = FetchedRun { fetch_offset, batches: &batches };
        acquired.clear();
        let (count, _) =
            partition.acquire(now, "Zk5sQ2d4T3mXr8uVw1aBcA", &CONFIG, &request, &run, &mut acquired);
        assert!(count == max_records);
        now = now.plus_ms(ms_between);
    }
    partition
}

/// Nothing per record: four whole batches under one deadline.
#[divan::bench]
fn batches_of_500_whole(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(hold_2000(500, 500, 0)));
}

/// A state for each offset, and 400 deadlines.
#[divan::bench]
fn batches_of_500_split_by_5(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(hold_2000(500, 5, 1)));
}

/// A state and a deadline for each offset.
#[divan::bench]
fn batches_of_500_split_at_2000_times(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(hold_2000(500, 1, 1)));
}

/// A state for each offset, under one deadline.
#[divan::bench]
fn batches_of_500_split_by_1(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(hold_2000(500, 1, 0)));
}

/// 400 whole batches, each with a deadline of its own.
#[divan::bench]
fn batches_of_5_whole(bencher: Bencher<'_, '_>) {
    bencher.bench(|| black_box(hold_2000(5, 5, 1)));
}
