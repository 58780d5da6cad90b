//! What a stored acknowledgement costs: decide, encode and replay at the shard's public doors.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use sharemark_protocol::{
    CoordinatorRecord, LeaderEpoch, Offset, OffsetRange, Producer, SharePartitionKey, StateEpoch, Timestamp,
    TopicId,
};
use sharemark_share_coordinator::{
    AcknowledgeType, EndTransactionMarker, InitializeState, RecordState, ResolutionPolicy,
    ShareCoordinatorConfig, ShareCoordinatorShard, Staged, StateBatch, StateRecord, TransactionOutcome,
    WriteState,
};

const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);
/// How many offsets a cycle acknowledges.
const OFFSET_COUNT: i64 = 500;

fn main() {
    divan::main();
}

/// A shard and the offset of its log's next record.
struct Log {
    shard: ShareCoordinatorShard,
    next: i64,
}

impl Log {
    fn new(partition_count: i32) -> Self {
        let config = ShareCoordinatorConfig {
            updates_per_snapshot: 500,
            cold_snapshot_interval_ms: 300_000,
            cold_snapshot_count_max: 1_000,
            share_partition_count_max: 100_000,
            state_batch_count_max: 20_000,
        };
        let mut log = Self { shard: ShareCoordinatorShard::new(config), next: 0 };
        for partition in 0..partition_count {
            let (key, state_epoch) = (key(partition), StateEpoch::new(1));
            let initialize = InitializeState { key, state_epoch, start_offset: Some(Offset::ZERO) };
            if let Ok(record) = log.shard.decide_initialize(&initialize, NOW) {
                log.append(&record);
            }
        }
        log
    }

    fn append(&mut self, record: &StateRecord) -> CoordinatorRecord {
        let bytes = record.encode();
        self.shard.replay(Offset::ZERO.plus(self.next), record);
        self.next += 1;
        bytes
    }

    fn write(&mut self, write: &WriteState) {
        if let Ok(record) = self.shard.decide_write(write, NOW) {
            black_box(self.append(&record));
        }
    }
}

fn key(partition: i32) -> SharePartitionKey {
    SharePartitionKey { group_id: "orders".into(), topic_id: TopicId::from_bytes([5; 16]), partition }
}

fn batch(first: i64, offset_count: i64, state: RecordState) -> Option<StateBatch> {
    let range = OffsetRange::new(Offset::new(first)?, Offset::new(first + offset_count - 1)?)?;
    Some(StateBatch { range, state, delivery_count: 1, staged: None })
}

fn write(partition: i32, start: i64, batches: Vec<StateBatch>) -> WriteState {
    WriteState {
        key: key(partition),
        state_epoch: Some(StateEpoch::new(1)),
        leader_epoch: Some(LeaderEpoch::new(0)),
        start_offset: Offset::new(start),
        delivery_complete_count: Some(0),
        batches,
    }
}

/// Everything that was acquired is accepted as one range, again and again.
#[divan::bench]
fn one_range(bencher: Bencher<'_, '_>) {
    let (mut log, mut start) = (Log::new(1), 0);
    bencher.counter(ItemsCount::new(OFFSET_COUNT as usize)).bench_local(move || {
        let batches = batch(start, OFFSET_COUNT, RecordState::Acknowledged).into_iter().collect();
        log.write(&write(0, start, batches));
        start += OFFSET_COUNT;
    });
}

/// Each offset has another state than its neighbours, all in one write.
#[divan::bench]
fn mixed_states_in_one_write(bencher: Bencher<'_, '_>) {
    let (mut log, mut start) = (Log::new(1), 0);
    bencher.counter(ItemsCount::new(OFFSET_COUNT as usize)).bench_local(move || {
        let batches = (start..start + OFFSET_COUNT).filter_map(|at| {
            let state = if at % 2 == 0 { RecordState::Acknowledged } else { RecordState::Archived };
            batch(at, 1, state)
        });
        log.write(&write(0, start, batches.collect()));
        start += OFFSET_COUNT;
    });
}

/// Offsets are accepted one by one, every second one first, so that the stored runs scatter and join again.
#[divan::bench]
fn scattered_single_writes(bencher: Bencher<'_, '_>) {
    let (mut log, mut start) = (Log::new(1), 0);
    bencher.counter(ItemsCount::new(OFFSET_COUNT as usize)).bench_local(move || {
        let even = (start..start + OFFSET_COUNT).step_by(2);
        for at in even.clone().chain(even.map(|at| at + 1)) {
            let batches = batch(at, 1, RecordState::Acknowledged).into_iter().collect();
            log.write(&write(0, start, batches));
        }
        start += OFFSET_COUNT;
    });
}

/// One small write in each of many share partitions.
#[divan::bench(args = [10, 10_000])]
fn many_share_partitions(bencher: Bencher<'_, '_>, partition_count: i32) {
    let (mut log, mut round) = (Log::new(partition_count), 0);
    bencher.counter(ItemsCount::new(partition_count as usize)).bench_local(move || {
        for partition in 0..partition_count {
            let batches = batch(round, 1, RecordState::Acknowledged).into_iter().collect();
            log.write(&write(partition, round, batches));
        }
        round += 1;
    });
}

/// A transaction stages everything as one range and commits.
#[divan::bench]
fn stage_and_commit(bencher: Bencher<'_, '_>) {
    let (mut log, mut start) = (Log::new(1), 0);
    let policy = ResolutionPolicy {
        delivery_count_limit: Some(5),
        has_dead_letter_queue: false,
        log_start_offset: Offset::ZERO,
    };
    bencher.counter(ItemsCount::new(OFFSET_COUNT as usize)).bench_local(move || {
        let (Some(owner), Some(ender)) = (Producer::from_wire(7, 1), Producer::from_wire(7, 2)) else {
            return;
        };
        let staged = Staged {
            producer: owner,
            acknowledge_type: AcknowledgeType::Accept,
            state: RecordState::Acknowledged,
        };
        let batches = batch(start, OFFSET_COUNT, RecordState::TxPending);
        let batches = batches.map(|batch| StateBatch { staged: Some(staged), ..batch });
        let stage = write(0, start, batches.into_iter().collect());
        if let Ok(Some(record)) = log.shard.decide_stage(owner, &stage) {
            black_box(log.append(&record));
        }
        let marker = EndTransactionMarker { producer: ender, outcome: TransactionOutcome::Commit };
        let resolution = log.shard.decide_end_transaction_marker(marker, 2, |_| policy, NOW);
        log.shard.replay_end_transaction_marker(Offset::ZERO.plus(log.next), marker);
        log.next += 1;
        for record in &resolution.records {
            black_box(log.append(record));
        }
        start += OFFSET_COUNT;
    });
}

/// A log of ten thousand updates is read back from its bytes.
#[divan::bench]
fn recovery(bencher: Bencher<'_, '_>) {
    let mut log = Log::new(1);
    let mut bytes = Vec::new();
    for start in 0..10_000 {
        let batches = batch(start, 1, RecordState::Acknowledged).into_iter().collect();
        if let Ok(record) = log.shard.decide_write(&write(0, start, batches), NOW) {
            bytes.push(log.append(&record));
        }
    }
    bencher.counter(ItemsCount::new(bytes.len())).bench_local(|| {
        let mut log = Log::new(1);
        for record in &bytes {
            if let Ok(record) = StateRecord::decode(&record.key, record.value.as_ref()) {
                log.shard.replay(Offset::ZERO.plus(log.next), &record);
                log.next += 1;
            }
        }
        log.next
    });
}
