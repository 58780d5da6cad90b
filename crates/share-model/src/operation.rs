//! Random operations, made from bytes, on the model and the lock table side by side.

use sharemark_protocol::{
    ErrorCode, LeaderEpoch, Offset, OffsetRange, Producer, ProducerEpoch, ProducerId, StateEpoch, Timestamp,
};
use sharemark_share_coordinator::{
    AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, AcquireMode, AcquireRequest, FetchedBatch,
    FetchedRun, ReadState, RecordState, ResolvedRange, SharePartition, SharePartitionConfig, StageRules,
    Staged, StateBatch, StatePlan, TransitionId,
};

use super::acknowledge::NaivePlan;
use super::compare::member_name;
use super::{NaiveSharePartition, range};

/// How many bytes make one operation.
pub const OPERATION_LEN: usize = 10;

/// How many offsets the log of a run has.
const LOG_LEN: i64 = 64;

/// By how much the clock jumps, mostly not at all: around what the lock table tells apart, and far beyond.
const JUMPS_MS: [i64; 16] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (1 << 27) - 20, 1 << 27, (1 << 28) - 4, 1 << 28, 1 << 31, (1 << 40) - 3];

/// Carries out what `bytes` says, on the lock table and on the model, and compares them after each step.
///
/// Any bytes will do: the first operation's worth chooses configs, log and stored state.
///
/// # Panics
///
/// If the two differ.
pub fn run_operations(bytes: &[u8]) {
    let mut operations = bytes.chunks_exact(OPERATION_LEN);
    let Some(first) = operations.next() else { return };
    let mut pair = Pair::new(&mut Bytes(first, 0), bytes);
    for operation in operations {
        pair.run(&mut Bytes(operation, 0));
        pair.model.assert_equals(&pair.real, pair.now);
    }
}

/// The bytes of one operation, from which it takes what it needs; zeros when they run out.
struct Bytes<'a>(&'a [u8], usize);

impl Bytes<'_> {
    fn take(&mut self) -> u8 {
        let byte = self.0.get(self.1).copied().unwrap_or(0);
        self.1 += 1;
        byte
    }

    fn below(&mut self, bound: i64) -> i64 {
        i64::from(self.take()) % bound
    }

    fn flag(&mut self) -> bool {
        self.take() % 2 == 1
    }
}

struct Pair {
    real: SharePartition,
    model: NaiveSharePartition,
    now: Timestamp,
    log: Vec<FetchedBatch>,
    plan: StatePlan,
    held: Vec<(TransitionId, usize)>,
}

/// Ranges of a request, with their own types.
type Ranges = Vec<(i64, i64, Vec<i8>)>;

impl Pair {
    fn new(bytes: &mut Bytes<'_>, all: &[u8]) -> Self {
        let config = SharePartitionConfig {
            lock_duration_ms: 10 + bytes.below(40),
            delivery_count_limit: 1 + bytes.below(6) as i16,
            record_locks_max: 4 + bytes.below(40),
            renew_enabled: bytes.below(4) != 0,
            dead_letter_queue: bytes.flag(),
            throttles_redelivery: bytes.below(3) != 0,
            abort_restores_lock: bytes.below(3) == 0,
        };
        let mut log = Vec::new();
        let mut next = 0;
        for &byte in all.iter().rev().chain([7; LOG_LEN as usize].iter()) {
            if LOG_LEN <= next {
                break;
            }
            let last = next + i64::from(byte) % 7;
            log.push(FetchedBatch { range: range(next, last), is_aborted: byte % 11 == 0 });
            next = last + 1;
        }
        let start = bytes.below(6);
        let stored = stored_state(bytes, all);
        let state = ReadState {
            state_epoch: StateEpoch::new(1),
            start_offset: None,
            delivery_complete_count: None,
            batches: stored.clone(),
        };
        let real = SharePartition::load(&state, Offset::ZERO.plus(start), LeaderEpoch::new(1));
        assert!(real.is_ok(), "what a leader stores can be loaded");
        let Ok(real) = real else { unreachable!("checked above") };
        let model = NaiveSharePartition::load(config, start, &stored);
        let now = Timestamp::from_ms((1 << 28) - 300);
        model.assert_equals(&real, now);
        Self { real, model, now, log, plan: StatePlan::new(), held: Vec::new() }
    }

    fn run(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(20) {
            0..=4 => self.acquire(bytes),
            5..=8 => self.acknowledge(bytes),
            9 | 10 => self.stage(bytes),
            11 => self.release(bytes),
            12 => self.archive(bytes),
            13 => self.end_transition(bytes, true),
            14 => self.end_transition(bytes, false),
            15 | 16 => self.resolve(bytes),
            17 => self.expire(bytes),
            18 => self.move_log_start(bytes),
            _ => self.change_surroundings(bytes),
        }
    }

    fn acquire(&mut self, bytes: &mut Bytes<'_>) {
        let member = bytes.below(4) as usize;
        let mode = if bytes.flag() { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized };
        let request = AcquireRequest { max_records: bytes.below(14), batch_size: bytes.below(8), mode };
        let fetch_offset = self.real.fetch_offset();
        let from = self.log.iter().position(|batch| fetch_offset <= batch.range.last());
        let Some(from) = from else { return };
        let to = self.log.len().min(from + 1 + bytes.below(5) as usize);
        let fetched = FetchedRun { fetch_offset, batches: &self.log[from..to] };
        let mut acquired = Vec::new();
        let config = self.model.config;
        let (count, change) =
            self.real.acquire(self.now, member_name(member), &config, &request, &fetched, &mut acquired);
        let (expected, expected_change) = self.model.acquire(self.now.ms(), member, &request, &fetched);
        assert_eq!(acquired, expected, "acquired ranges");
        assert_eq!(count, acquired.iter().map(|range| range.range.offset_count()).sum::<i64>());
        assert_eq!(change, expected_change, "acquire");
        let limit = if mode == AcquireMode::RecordLimit { request.max_records } else { i64::MAX };
        assert!(count <= limit, "the record limit is kept");
    }

    fn acknowledge(&mut self, bytes: &mut Bytes<'_>) {
        let member = bytes.below(4) as usize;
        let is_held = bytes.below(3) == 0;
        let rules = AcknowledgeRules { type_max: AcknowledgeType::Renew, is_renew_ack: bytes.below(8) != 0 };
        let ranges = self.ranges(bytes, 5);
        let batches = batches(&ranges);
        let config = self.model.config;
        let outcome =
            self.real.decide_acknowledge(member_name(member), &batches, &rules, &config, &mut self.plan);
        let (expected, plan) = self.model.decide_acknowledge(member, &batches, &rules);
        assert_eq!(outcome, expected, "decision");
        let is_held = is_held && outcome.is_ok();
        if outcome.is_err() && self.plan.is_empty() {
            assert!(plan.renewals.is_empty(), "renewals before what failed");
            return;
        }
        self.make(&plan, is_held);
    }

    fn stage(&mut self, bytes: &mut Bytes<'_>) {
        let member = bytes.below(5) as usize;
        let member = if member == 4 { None } else { Some(member) };
        let is_held = bytes.flag();
        let by = producer(bytes);
        let ranges = self.ranges(bytes, 4);
        let batches = batches(&ranges);
        let name = member.map(member_name);
        let rules = StageRules { allows_gap: true };
        let config = self.model.config;
        let outcome = self.real.decide_stage(name, by, &batches, &rules, &config, &mut self.plan);
        let expected = self.model.decide_stage(member, by, &batches);
        self.carry_out(outcome, expected, is_held);
    }

    fn release(&mut self, bytes: &mut Bytes<'_>) {
        let member = bytes.below(4) as usize;
        let is_held = bytes.below(4) == 0;
        self.real.decide_release(member_name(member), &self.model.config, &mut self.plan);
        let expected = self.model.decide_release(member);
        self.carry_out(Ok(()), Ok(expected), is_held);
    }

    fn archive(&mut self, bytes: &mut Bytes<'_>) {
        let is_held = bytes.flag();
        let mut waiting = Vec::new();
        self.real.archiving(&mut waiting);
        let wanted = match waiting.get(bytes.below(3) as usize) {
            Some(&(range, _)) => range,
            None => {
                let first = self.model.start + bytes.below(8);
                range(first, first + bytes.below(4))
            }
        };
        let outcome = self.real.decide_archive(wanted, &mut self.plan);
        let expected = self.model.decide_archive(wanted);
        self.carry_out(outcome, expected, is_held);
    }

    /// Compares two decisions and makes the change, at once or in a later step.
    fn carry_out(
        &mut self,
        outcome: Result<(), ErrorCode>,
        expected: Result<NaivePlan, ErrorCode>,
        is_held: bool,
    ) {
        assert_eq!(outcome.err(), expected.as_ref().err().copied(), "decision");
        let Ok(expected) = expected else {
            assert!(self.plan.is_empty(), "nothing is planned on an error");
            return;
        };
        self.make(&expected, is_held);
    }

    /// Makes a change that both decided.
    fn make(&mut self, expected: &NaivePlan, is_held: bool) {
        assert_eq!(self.plan.batches(), self.model.stored(&expected.changes), "stored batches");
        assert_eq!(self.plan.start_offset().get(), self.model.told_start, "stored start");
        let final_count = self.model.stored_final_count(&expected.changes);
        assert_eq!(self.plan.delivery_complete_count(), final_count, "stored count");
        let config = self.model.config;
        self.model.renew(self.now.ms(), expected);
        if is_held {
            let id = self.real.hold(self.now, &config, &self.plan);
            self.held.push((id, self.model.hold(expected.changes.clone())));
        } else {
            let change = self.real.apply(self.now, &config, &self.plan);
            assert_eq!(change, self.model.apply(self.now.ms(), &expected.changes), "change");
        }
    }

    fn end_transition(&mut self, bytes: &mut Bytes<'_>, is_stored: bool) {
        if self.held.is_empty() {
            return;
        }
        let (id, expected_id) = self.held.swap_remove(bytes.take() as usize % self.held.len());
        if is_stored {
            let change = self.real.complete(self.now, id);
            assert_eq!(change, self.model.complete(self.now.ms(), expected_id), "completion");
            return;
        }
        let (mut stored, mut expected) = (Vec::new(), Vec::new());
        let change = self.real.fail(&self.model.config, id, &mut stored);
        assert_eq!(change, self.model.fail(expected_id, &mut expected), "failure");
        assert_eq!(stored, expected, "what a failure stores");
    }

    fn resolve(&mut self, bytes: &mut Bytes<'_>) {
        let producer = producer(bytes);
        let first = (self.model.start + bytes.below(20) - 4).max(0);
        let state = match bytes.below(5) {
            0 | 1 => RecordState::Available,
            2 => RecordState::Acknowledged,
            3 => RecordState::Archiving,
            _ => RecordState::Archived,
        };
        let outcome = ResolvedRange { range: range(first, first + bytes.below(24)), producer, state };
        let change = self.real.resolve(self.now, &self.model.config, &[outcome]);
        assert_eq!(change, self.model.resolve(self.now.ms(), &outcome), "resolution");
    }

    fn expire(&mut self, bytes: &mut Bytes<'_>) {
        self.now = self.now.plus_ms(bytes.below(30));
        let (mut stored, mut expected) = (Vec::new(), Vec::new());
        let change = self.real.expire(self.now, &self.model.config, &mut stored);
        assert_eq!(change, self.model.expire(self.now.ms(), &mut expected), "expiry");
        assert_eq!(by_offset(&stored), by_offset(&expected), "what an expiry stores");
    }

    fn move_log_start(&mut self, bytes: &mut Bytes<'_>) {
        let log_start = self.model.start + bytes.below(12) - 2;
        let log_start = log_start.clamp(0, LOG_LEN);
        self.log.retain(|batch| log_start <= batch.range.last().get());
        let change = self.real.archive_below(Offset::ZERO.plus(log_start));
        assert_eq!(change, self.model.archive_below(log_start), "log start");
    }

    fn change_surroundings(&mut self, bytes: &mut Bytes<'_>) {
        let config = &mut self.model.config;
        match bytes.below(6) {
            0 => config.lock_duration_ms = 10 + bytes.below(40),
            1 => config.delivery_count_limit = 1 + bytes.below(6) as i16,
            2 => config.dead_letter_queue = bytes.flag(),
            3 => config.record_locks_max = 4 + bytes.below(40),
            4 => {
                let ms = bytes.below(8);
                let jump_ms = JUMPS_MS[bytes.take() as usize % JUMPS_MS.len()];
                self.now = self.now.plus_ms(ms + jump_ms);
            }
            _ => {
                // Compaction removes a record batch.
                let index = bytes.take() as usize % self.log.len().max(1);
                if index < self.log.len() {
                    self.log.remove(index);
                }
            }
        }
    }

    /// Makes the ranges of a request: mostly well-formed, mostly near the start offset.
    fn ranges(&self, bytes: &mut Bytes<'_>, type_bound: i64) -> Ranges {
        let mut ranges = Vec::new();
        let mut cursor = self.model.start - 2 + bytes.below(12);
        let shape = bytes.take();
        for _ in 0..=shape % 3 {
            let first = cursor;
            let last = first + bytes.below(9) - i64::from(shape == 255);
            let seed = bytes.take();
            let len = last - first + 1;
            let types = if seed.is_multiple_of(3) && 0 < len {
                (0..len).map(|index| type_from(i64::from(seed) + index * 7, type_bound)).collect()
            } else if seed == 1 {
                Vec::new()
            } else {
                vec![type_from(i64::from(seed / 3), type_bound)]
            };
            ranges.push((first.max(0), last.max(0), types));
            cursor = last + i64::from(shape / 3 % 4);
        }
        ranges
    }
}

/// Returns an acknowledge type, mostly one below `bound`.
fn type_from(seed: i64, bound: i64) -> i8 {
    if seed % 37 == 36 { -1 } else { (seed % bound) as i8 }
}

fn batches(ranges: &Ranges) -> Vec<AcknowledgementBatch<'_>> {
    ranges
        .iter()
        .map(|(first_offset, last_offset, types)| AcknowledgementBatch {
            first_offset: *first_offset,
            last_offset: *last_offset,
            types,
        })
        .collect()
}

fn producer(bytes: &mut Bytes<'_>) -> Producer {
    let byte = bytes.take();
    Producer { id: ProducerId::new(i64::from(byte % 2)), epoch: ProducerEpoch::new(i16::from(byte / 2 % 2)) }
}

/// Makes a stored state: ascending batches with holes.
fn stored_state(bytes: &mut Bytes<'_>, all: &[u8]) -> Vec<StateBatch> {
    let mut stored = Vec::new();
    let mut cursor = 0;
    let mut seeds = all.iter().rev().skip(3).step_by(2);
    for _ in 0..bytes.below(6) {
        let Some(&seed) = seeds.next() else { break };
        let first = cursor + i64::from(seed / 64);
        let last = first + i64::from(seed % 5);
        let delivery_count = i16::from(seed / 5 % 6);
        let mut staged = None;
        let state = match seed / 30 % 5 {
            0 => RecordState::Available,
            1 => RecordState::Acknowledged,
            2 => RecordState::Archiving,
            3 => RecordState::Archived,
            _ => {
                staged = Some(Staged {
                    producer: producer(&mut Bytes(&[seed], 0)),
                    acknowledge_type: AcknowledgeType::Accept,
                    state: RecordState::Acknowledged,
                });
                RecordState::TxPending
            }
        };
        stored.push(StateBatch { range: range(first, last), state, delivery_count, staged });
        cursor = last + 1;
    }
    stored
}

/// Returns what is stored for each offset, in order of offset.
fn by_offset(batches: &[StateBatch]) -> Vec<StateBatch> {
    let mut singles: Vec<_> = batches
        .iter()
        .flat_map(|batch| {
            batch.range.offsets().map(|one| StateBatch { range: OffsetRange::single(one), ..*batch })
        })
        .collect();
    singles.sort_unstable();
    singles
}
