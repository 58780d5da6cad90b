//! A share partition under a small driver, against the published behaviour of Kafka's.

mod acknowledging;
mod acquiring;
mod locking;
mod staging;
mod storing;

use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, OffsetRange, Producer, StateEpoch, Timestamp};

use super::*;
use crate::{AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, ReadState, RecordState, StateBatch};

/// Drives one share partition over a log of record batches.
struct Driver {
    partition: SharePartition,
    config: SharePartitionConfig,
    now: Timestamp,
    log: Vec<FetchedBatch>,
    plan: StatePlan,
    change: Change,
}

fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(Offset::new(first).unwrap(), Offset::new(last).unwrap()).unwrap()
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(1_790_000_000_000 + ms)
}

fn config() -> SharePartitionConfig {
    SharePartitionConfig {
        lock_duration_ms: 30_000,
        delivery_count_limit: 5,
        record_locks_max: 2_000,
        renew_enabled: true,
        dead_letter_queue: false,
        throttles_redelivery: true,
        abort_restores_lock: false,
    }
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer::from_wire(id, epoch).unwrap()
}

/// Ranges with their acknowledge types.
type Ranges<'a> = &'a [(i64, i64, &'a [i8])];

/// A stored batch.
fn stored(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    StateBatch { range: range(first, last), state, delivery_count, staged: None }
}

fn load(start: i64, batches: &[StateBatch]) -> Result<SharePartition, ErrorCode> {
    let state = ReadState {
        state_epoch: StateEpoch::new(2),
        start_offset: Offset::new(start),
        delivery_complete_count: None,
        batches: batches.to_vec(),
    };
    SharePartition::load(&state, Offset::new(start).unwrap(), LeaderEpoch::new(0))
}

const RULES: AcknowledgeRules = AcknowledgeRules { type_max: AcknowledgeType::Renew, is_renew_ack: true };

impl Driver {
    /// A fresh share partition over record batches of these lengths.
    fn new(lengths: &[i64]) -> Self {
        Self::loaded(0, &[], lengths)
    }

    fn loaded(start: i64, batches: &[StateBatch], lengths: &[i64]) -> Self {
        let mut next = 0;
        let mut log = Vec::new();
        for length in lengths {
            log.push(FetchedBatch { range: range(next, next + length - 1), is_aborted: false });
            next += length;
        }
        let partition = load(start, batches).unwrap();
        partition.check_invariants();
        let change = Change::default();
        Self { partition, config: config(), now: at(0), log, plan: StatePlan::new(), change }
    }

    /// Acquires as one fetch would; the outcome is written as `first-last×count`.
    fn fetch_with(&mut self, member: &str, max_records: i64, batch_size: i64, mode: AcquireMode) -> String {
        let fetch_offset = self.partition.fetch_offset();
        let batches: Vec<_> =
            self.log.iter().filter(|batch| fetch_offset <= batch.range.last()).copied().collect();
        let run = FetchedRun { fetch_offset, batches: &batches };
        let request = AcquireRequest { max_records, batch_size, mode };
        let mut acquired = Vec::new();
        let (count, change) =
            self.partition.acquire(self.now, member, &self.config, &request, &run, &mut acquired);
        self.change = change;
        self.partition.check_invariants();
        assert_eq!(count, acquired.iter().map(|range| range.range.offset_count()).sum::<i64>());
        for pair in acquired.windows(2) {
            assert!(pair[0].range.last() < pair[1].range.first(), "ranges are ascending and disjoint");
        }
        let texts = acquired.iter().map(|range| format!("{}×{}", range.range, range.delivery_count));
        texts.collect::<Vec<_>>().join(" ")
    }

    fn fetch(&mut self, member: &str) -> String {
        self.fetch_with(member, 500, 500, AcquireMode::BatchOptimized)
    }

    fn fetch_strictly(&mut self, member: &str, max_records: i64) -> String {
        self.fetch_with(member, max_records, 500, AcquireMode::RecordLimit)
    }

    fn decide(&mut self, member: &str, ranges: Ranges<'_>) -> Result<(), ErrorCode> {
        self.decide_with(member, ranges, RULES)
    }

    fn decide_with(
        &mut self,
        member: &str,
        ranges: Ranges<'_>,
        rules: AcknowledgeRules,
    ) -> Result<(), ErrorCode> {
        let batches: Vec<_> = ranges
            .iter()
            .map(|&(first_offset, last_offset, types)| AcknowledgementBatch {
                first_offset,
                last_offset,
                types,
            })
            .collect();
        self.partition.decide_acknowledge(member, &batches, &rules, &self.config, &mut self.plan)
    }

    /// Acknowledges and stores in one step.
    fn acknowledge(&mut self, member: &str, ranges: Ranges<'_>) -> ErrorCode {
        match self.decide(member, ranges) {
            Ok(()) => {
                self.change = self.partition.apply(self.now, &self.config, &self.plan);
                self.partition.check_invariants();
                ErrorCode::None
            }
            Err(error) => {
                assert!(self.plan.batches().is_empty(), "nothing is stored on an error");
                self.change = self.partition.apply(self.now, &self.config, &self.plan);
                self.partition.check_invariants();
                error
            }
        }
    }

    fn accept(&mut self, member: &str, first: i64, last: i64) -> ErrorCode {
        self.acknowledge(member, &[(first, last, &[1])])
    }

    fn release(&mut self, member: &str, first: i64, last: i64) -> ErrorCode {
        self.acknowledge(member, &[(first, last, &[2])])
    }

    fn stage(&mut self, member: Option<&str>, by: Producer, ranges: Ranges<'_>) -> ErrorCode {
        let outcome = self.decide_stage(member, by, ranges);
        if outcome.is_ok() {
            self.change = self.partition.apply(self.now, &self.config, &self.plan);
            self.partition.check_invariants();
        }
        ErrorCode::of(&outcome)
    }

    fn decide_stage(
        &mut self,
        member: Option<&str>,
        by: Producer,
        ranges: Ranges<'_>,
    ) -> Result<(), ErrorCode> {
        let batches: Vec<_> = ranges
            .iter()
            .map(|&(first_offset, last_offset, types)| AcknowledgementBatch {
                first_offset,
                last_offset,
                types,
            })
            .collect();
        let rules = StageRules { allows_gap: true };
        self.partition.decide_stage(member, by, &batches, &rules, &self.config, &mut self.plan)
    }

    fn resolve(&mut self, by: Producer, first: i64, last: i64, state: RecordState) {
        let resolved = ResolvedRange { range: range(first, last), producer: by, state };
        self.change = self.partition.resolve(self.now, &self.config, &[resolved]);
        self.partition.check_invariants();
    }

    fn hold(&mut self) -> TransitionId {
        let id = self.partition.hold(self.now, &self.config, &self.plan);
        self.partition.check_invariants();
        id
    }

    fn complete(&mut self, id: TransitionId) {
        self.change = self.partition.complete(self.now, id);
        self.partition.check_invariants();
    }

    fn fail(&mut self, id: TransitionId) -> Vec<StateBatch> {
        let mut batches = Vec::new();
        self.change = self.partition.fail(&self.config, id, &mut batches);
        self.partition.check_invariants();
        batches
    }

    /// Moves the clock to `ms` and lets locks run out; returns what is to be stored.
    fn expire(&mut self, ms: i64) -> Vec<StateBatch> {
        self.now = at(ms);
        let mut batches = Vec::new();
        self.change = self.partition.expire(self.now, &self.config, &mut batches);
        self.partition.check_invariants();
        batches
    }

    fn close(&mut self, member: &str) {
        self.partition.decide_release(member, &self.config, &mut self.plan);
        self.change = self.partition.apply(self.now, &self.config, &self.plan);
        self.partition.check_invariants();
    }

    fn archive_below(&mut self, log_start: i64) {
        self.change = self.partition.archive_below(Offset::new(log_start).unwrap());
        self.partition.check_invariants();
        self.log.retain(|batch| log_start <= batch.range.last().get());
    }

    fn start(&self) -> i64 {
        self.partition.start_offset().get()
    }

    /// The tracked records as text.
    fn view(&self) -> String {
        let mut runs = Vec::new();
        self.partition.records(self.now, &mut runs);
        let texts = runs.iter().map(|run| {
            let mut text = format!("{} {}×{}", run.range, run.state.name(), run.delivery_count);
            if run.in_transition {
                text += "*";
            }
            if let (Some(member), Some(left)) = (run.member, run.lock_ms_left) {
                text += &format!(" {member} {left}");
            }
            if let Some(staged) = run.staged {
                text += &format!(" {}/{} {}", staged.producer.id, staged.producer.epoch, staged.state.name());
            }
            text
        });
        texts.collect::<Vec<_>>().join(" | ")
    }
}
