//! A shard with a log, and a broker that does what its doors ask for.

use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, Producer, Timestamp, TopicPartition};

use crate::{
    AddPartitions, EndTxn, EndTxnPlan, InitProducerId, InitProducerIdPlan, Marker, MarkerProgress, Outcome,
    ProducerIdCounter, ProducerIds, TransactionRecord, TransactionState, TransactionVersion, TxnConfig,
    TxnCoordinatorShard,
};

pub(super) use TransactionVersion::{V0, V1, V2};

pub(super) const ID: &str = "x";
pub(super) const TIMEOUT_MS: i32 = 1_000;

pub(super) fn config() -> TxnConfig {
    TxnConfig {
        transaction_max_timeout_ms: 900_000,
        transactional_id_expiration_ms: 100_000,
        abort_timed_out_interval_ms: 100,
        remove_expired_interval_ms: 1_000,
        transactional_id_count_max: 4,
        partition_count_max: 8,
        retry_backoff_ms: 20,
    }
}

pub(super) fn producer(id: i64, epoch: i16) -> Producer {
    Producer::from_wire(id, epoch).unwrap()
}

pub(super) fn partitions(indexes: &[i32]) -> Vec<TopicPartition> {
    indexes.iter().map(|&index| TopicPartition::new("t", index)).collect()
}

pub(super) struct Harness {
    pub(super) shard: TxnCoordinatorShard,
    pub(super) ids: ProducerIds,
    pub(super) log: Vec<TransactionRecord>,
    pub(super) now: Timestamp,
    /// The finalized feature.
    pub(super) version: TransactionVersion,
    /// What clients speak.
    pub(super) client: TransactionVersion,
    /// How many appends fail from now on.
    pub(super) failing_appends: usize,
    /// Markers written, in order.
    pub(super) markers: Vec<Marker>,
}

impl Harness {
    pub(super) fn new(version: TransactionVersion) -> Self {
        let mut ids = ProducerIds::new();
        ids.add_block(ProducerIdCounter::new().allocate_block().unwrap());
        let now = Timestamp::from_ms(10_000_000);
        Self {
            shard: TxnCoordinatorShard::new(config(), LeaderEpoch::new(3), now),
            ids,
            log: Vec::new(),
            now,
            version,
            client: if version.bumps_epoch() { V2 } else { V0 },
            failing_appends: 0,
            markers: Vec::new(),
        }
    }

    /// Starts a shard with one transactional id whose producer is at `epoch`, by way of the log.
    pub(super) fn at_epoch(version: TransactionVersion, epoch: i16) -> Self {
        let mut harness = Self::new(version);
        harness.init(None).unwrap();
        let mut record = harness.log.last().unwrap().clone();
        record.value.as_mut().unwrap().producer = producer(0, epoch);
        harness.append(record).unwrap();
        harness
    }

    pub(super) fn append(&mut self, record: TransactionRecord) -> Result<(), ErrorCode> {
        if 0 < self.failing_appends {
            self.failing_appends -= 1;
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let offset = Offset::new(i64::try_from(self.log.len()).unwrap()).unwrap();
        self.shard.replay(offset, &record);
        self.log.push(record);
        self.shard.check_invariants();
        Ok(())
    }

    pub(super) fn init(&mut self, known: Option<Producer>) -> Result<Producer, ErrorCode> {
        self.init_as(ID, known)
    }

    pub(super) fn init_as(&mut self, id: &str, known: Option<Producer>) -> Result<Producer, ErrorCode> {
        let request = InitProducerId { transactional_id: id, timeout_ms: TIMEOUT_MS, known };
        match self.shard.decide_init_producer_id(self.now, self.version, &request, &mut self.ids)? {
            InitProducerIdPlan::Grant { record, producer } => {
                self.append(record)?;
                Ok(producer)
            }
            InitProducerIdPlan::Fence { record } => {
                self.append(record)?;
                Err(ErrorCode::ConcurrentTransactions)
            }
        }
    }

    pub(super) fn add(&mut self, producer: Producer, indexes: &[i32]) -> Result<(), ErrorCode> {
        let request = AddPartitions {
            transactional_id: ID,
            producer,
            partitions: &partitions(indexes),
            client_version: self.client,
        };
        match self.shard.decide_add_partitions(self.now, &request)? {
            Some(record) => self.append(record),
            None => Ok(()),
        }
    }

    pub(super) fn verify(&self, producer: Producer, index: i32) -> Result<(), ErrorCode> {
        self.shard.verify_partition(ID, producer, &TopicPartition::new("t", index))
    }

    pub(super) fn end(&mut self, producer: Producer, outcome: Outcome) -> Result<Producer, ErrorCode> {
        self.end_as(ID, producer, outcome)
    }

    pub(super) fn end_as(
        &mut self,
        id: &str,
        producer: Producer,
        outcome: Outcome,
    ) -> Result<Producer, ErrorCode> {
        let request = EndTxn { transactional_id: id, producer, outcome, client_version: self.client };
        let EndTxnPlan { record, producer } = self.shard.decide_end_txn(self.now, &request, &mut self.ids)?;
        if let Some(record) = record {
            self.append(record)?;
        }
        Ok(producer)
    }

    pub(super) fn commit(&mut self, producer: Producer) -> Result<Producer, ErrorCode> {
        self.end(producer, Outcome::Commit)
    }

    pub(super) fn abort(&mut self, producer: Producer) -> Result<Producer, ErrorCode> {
        self.end(producer, Outcome::Abort)
    }

    /// Writes every marker that is due and records every end.
    pub(super) fn settle(&mut self) {
        while let Some(marker) = self.shard.poll_marker(self.now) {
            for partition in &marker.partitions {
                assert_ne!(self.shard.confirm_marker(&marker.key, partition), MarkerProgress::Stale);
            }
            self.markers.push(marker);
        }
        while let Some(key) = self.shard.poll_completion(self.now) {
            let record = self.shard.decide_complete(self.now, &key).unwrap();
            if self.append(record).is_err() {
                self.shard.fail_completion(self.now, &key);
            }
        }
        self.shard.check_invariants();
    }

    /// Runs every sweep step that is due; returns how many records it appended.
    pub(super) fn sweep(&mut self) -> usize {
        let mut count = 0;
        while let Some(record) = self.shard.decide_expired(self.now, self.version, &mut self.ids).unwrap() {
            if self.append(record).is_err() {
                self.shard.fail_expired(self.now);
                break;
            }
            count += 1;
        }
        count
    }

    pub(super) fn advance(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    pub(super) fn state(&self) -> TransactionState {
        self.shard.describe(ID).unwrap().state
    }

    /// Starts a fresh shard from what a reader of the log sees.
    pub(super) fn recover(&mut self) {
        self.shard = self.recovered(self.log.len());
    }

    pub(super) fn recovered(&self, record_count: usize) -> TxnCoordinatorShard {
        let mut shard = TxnCoordinatorShard::new(config(), LeaderEpoch::new(4), self.now);
        for (offset, record) in (0..).zip(&self.log[..record_count]) {
            let encoded = record.encode(self.version);
            let decoded = TransactionRecord::decode(&encoded.key, encoded.value.as_ref()).unwrap();
            assert_eq!(decoded, record.as_logged(self.version));
            shard.replay(Offset::new(offset).unwrap(), &decoded);
        }
        shard.check_invariants();
        shard
    }
}
