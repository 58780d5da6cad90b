//! The life of a transaction at the shard's public doors: begin, end, marker, record of the end.

use divan::{Bencher, counter::ItemsCount};
use sharemark_protocol::{LeaderEpoch, Offset, Producer, Timestamp, TopicPartition};
use sharemark_txn_coordinator::{
    AddPartitions, EndTxn, EndTxnPlan, InitProducerId, InitProducerIdPlan, Outcome, ProducerIdCounter,
    ProducerIds, TransactionRecord, TransactionVersion, TxnConfig, TxnCoordinatorShard,
};

fn main() {
    divan::main();
}

const TRANSACTION_COUNT: usize = 1_000;

struct Bench {
    shard: TxnCoordinatorShard,
    ids: ProducerIds,
    next_offset: Offset,
    now: Timestamp,
}

impl Bench {
    /// Starts a shard with `id_count` transactional ids and returns it with the producer of the first.
    fn new(id_count: usize) -> (Self, Producer) {
        let config = TxnConfig {
            transaction_max_timeout_ms: 900_000,
            transactional_id_expiration_ms: 604_800_000,
            abort_timed_out_interval_ms: 10_000,
            remove_expired_interval_ms: 3_600_000,
            transactional_id_count_max: 100_000,
            partition_count_max: 10_000,
            retry_backoff_ms: 100,
        };
        let now = Timestamp::from_ms(1_700_000_000_000);
        let shard = TxnCoordinatorShard::new(config, LeaderEpoch::new(0), now);
        let mut bench = Self { shard, ids: ProducerIds::new(), next_offset: Offset::ZERO, now };
        let mut counter = ProducerIdCounter::new();
        let mut first = None;
        for index in 0..id_count {
            if bench.ids.needs_block() {
                let Ok(block) = counter.allocate_block() else { unreachable!("a new counter has blocks") };
                bench.ids.add_block(block);
            }
            let transactional_id = format!("id-{index}");
            let request =
                InitProducerId { transactional_id: &transactional_id, timeout_ms: 60_000, known: None };
            let version = TransactionVersion::V2;
            let plan = bench.shard.decide_init_producer_id(now, version, &request, &mut bench.ids);
            let Ok(InitProducerIdPlan::Grant { record, producer }) = plan else {
                unreachable!("the id is new")
            };
            bench.append(&record);
            first.get_or_insert(producer);
        }
        let Some(first) = first else { unreachable!("there is an id") };
        (bench, first)
    }

    fn append(&mut self, record: &TransactionRecord) {
        divan::black_box(record.encode(TransactionVersion::V2));
        self.shard.replay(self.next_offset, record);
        self.next_offset = self.next_offset.next();
    }

    fn transaction(&mut self, producer: Producer, partitions: &[TopicPartition]) -> Producer {
        let client_version = TransactionVersion::V2;
        let transactional_id = "id-0";
        for partition in partitions {
            let partitions = std::slice::from_ref(partition);
            let request = AddPartitions { transactional_id, producer, partitions, client_version };
            let decided = self.shard.decide_add_partitions(self.now, &request);
            let Ok(Some(record)) = decided else { unreachable!("the partition is new") };
            self.append(&record);
        }
        let request = EndTxn { transactional_id, producer, outcome: Outcome::Commit, client_version };
        let decided = self.shard.decide_end_txn(self.now, &request, &mut self.ids);
        let Ok(EndTxnPlan { record: Some(record), producer }) = decided else { unreachable!("it is open") };
        self.append(&record);
        while let Some(marker) = self.shard.poll_marker(self.now) {
            for partition in &marker.partitions {
                self.shard.confirm_marker(&marker.key, partition);
            }
        }
        while let Some(key) = self.shard.poll_completion(self.now) {
            let decided = self.shard.decide_complete(self.now, &key);
            let Some(record) = decided else { unreachable!("every marker is confirmed") };
            self.append(&record);
        }
        producer
    }
}

/// One transaction after the other, each with so many partitions, added one by one.
#[divan::bench(args = [1, 10, 100])]
fn begin_add_end_complete(bencher: Bencher<'_, '_>, partition_count: i32) {
    let partitions: Vec<_> = (0..partition_count).map(|index| TopicPartition::new("t", index)).collect();
    bencher.counter(ItemsCount::new(TRANSACTION_COUNT)).with_inputs(|| Bench::new(1)).bench_local_values(
        |(mut bench, mut producer)| {
            for _ in 0..TRANSACTION_COUNT {
                producer = bench.transaction(producer, &partitions);
            }
            producer
        },
    );
}

/// The same with one partition, among so many transactional ids.
#[divan::bench(args = [1, 10_000])]
fn among_ids(bencher: Bencher<'_, '_>, id_count: usize) {
    let partitions = [TopicPartition::new("t", 0)];
    bencher
        .counter(ItemsCount::new(TRANSACTION_COUNT))
        .with_inputs(|| Bench::new(id_count))
        .bench_local_values(|(mut bench, mut producer)| {
            for _ in 0..TRANSACTION_COUNT {
                producer = bench.transaction(producer, &partitions);
            }
            producer
        });
}
