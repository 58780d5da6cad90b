//! Random operations: replay at every prefix of the log equals the live state, and both equal a model that
//! keeps each offset by itself.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const NEVER_SEEN: i64 = 40;

#[derive(Clone, Debug)]
enum Operation {
    Initialize { key: usize, epoch_step: i32, start: Option<i64> },
    Read { key: usize, leader_epoch: i32 },
    Write { key: usize, start_step: i64, complete: i32, batches: Vec<StateBatch> },
    Stage { key: usize, producer: Producer, first: i64, more: i64, count: i16, state: RecordState },
    End { producer: Producer, version: i16, outcome: TransactionOutcome },
    Reconcile { producer: Producer, outcome: TransactionOutcome },
    Delete { key: usize },
    Cold,
}

/// What one share partition stores, offset by offset.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Model {
    start: Option<i64>,
    offsets: BTreeMap<i64, (RecordState, i16, Option<Staged>)>,
}

enum Entry {
    Record(sharemark_protocol::CoordinatorRecord),
    Marker(EndTransactionMarker),
}

fn small_config() -> ShareCoordinatorConfig {
    ShareCoordinatorConfig { updates_per_snapshot: 3, cold_snapshot_interval_ms: 50, ..config() }
}

fn any_state() -> impl Strategy<Value = RecordState> {
    prop::sample::select(vec![Available, Acknowledged, Archiving, Archived])
}

fn any_batch() -> impl Strategy<Value = StateBatch> {
    (0..20_i64, 0..5_i64, any_state(), 1..4_i16)
        .prop_map(|(first, more, state, count)| batch(first, first + more, state, count))
}

fn any_producer() -> impl Strategy<Value = Producer> {
    (1..3_i64, 0..4_i16).prop_map(|(id, epoch)| producer(id, epoch))
}

fn any_outcome() -> impl Strategy<Value = TransactionOutcome> {
    prop::sample::select(vec![Commit, Abort])
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let key = || 0..3_usize;
    let final_state = prop::sample::select(vec![Acknowledged, Archiving, Archived]);
    prop_oneof![
        2 => (key(), -1..2_i32, prop::option::of(0..3_i64))
            .prop_map(|(key, epoch_step, start)| Operation::Initialize { key, epoch_step, start }),
        1 => (key(), 0..4_i32).prop_map(|(key, leader_epoch)| Operation::Read { key, leader_epoch }),
        6 => (key(), -1..2_i64, -1..5_i32, prop::collection::vec(any_batch(), 0..4)).prop_map(
            |(key, start_step, complete, batches)| Operation::Write { key, start_step, complete, batches }
        ),
        6 => (key(), any_producer(), 0..20_i64, 0..3_i64, 1..7_i16, final_state).prop_map(
            |(key, producer, first, more, count, state)| Operation::Stage { key, producer, first, more, count, state }
        ),
        4 => (any_producer(), prop::sample::select(vec![0_i16, 1, 2]), any_outcome())
            .prop_map(|(producer, version, outcome)| Operation::End { producer, version, outcome }),
        1 => (any_producer(), any_outcome())
            .prop_map(|(producer, outcome)| Operation::Reconcile { producer, outcome }),
        1 => key().prop_map(|key| Operation::Delete { key }),
        1 => Just(Operation::Cold),
    ]
}

fn keys() -> [SharePartitionKey; 3] {
    [key("a"), key("b"), SharePartitionKey { partition: 1, ..key("a") }]
}

fn policy() -> ResolutionPolicy {
    ResolutionPolicy { log_start_offset: offset(3), ..plain_policy() }
}

/// A live shard, its log, a shard that follows the log, and the model.
struct World {
    live: ShareCoordinatorShard,
    log: Vec<Entry>,
    follower: ShareCoordinatorShard,
    models: BTreeMap<SharePartitionKey, Model>,
    now: Timestamp,
}

impl World {
    fn new() -> Self {
        Self {
            live: ShareCoordinatorShard::new(small_config()),
            log: Vec::new(),
            follower: ShareCoordinatorShard::new(small_config()),
            models: BTreeMap::new(),
            now: NOW,
        }
    }

    fn append(&mut self, records: &[StateRecord]) {
        for record in records {
            self.live.replay(offset(i64::try_from(self.log.len()).unwrap()), record);
            self.log.push(Entry::Record(record.encode()));
            self.follow();
        }
    }

    fn append_marker(&mut self, marker: EndTransactionMarker) {
        self.live.replay_end_transaction_marker(offset(i64::try_from(self.log.len()).unwrap()), marker);
        self.log.push(Entry::Marker(marker));
        self.follow();
    }

    /// Lets the follower read the newest entry: then it has seen exactly this prefix of the log.
    fn follow(&mut self) {
        let at = self.log.len() - 1;
        replay_entry(&mut self.follower, at, &self.log[at]);
        assert_same(&self.live, &self.follower);
        self.live.check_invariants();
    }

    fn run(&mut self, operation: Operation) {
        self.now = self.now.plus_ms(7);
        match operation {
            Operation::Initialize { key, epoch_step, start } => {
                self.initialize(&keys()[key], epoch_step, start)
            }
            Operation::Read { key, leader_epoch } => {
                let epoch = Some(LeaderEpoch::new(leader_epoch));
                if let Ok(decision) = self.live.decide_read(&keys()[key], epoch, self.now) {
                    self.append(decision.record.as_slice());
                }
            }
            Operation::Write { key, start_step, complete, batches } => {
                self.write(&keys()[key], start_step, complete, &batches);
            }
            Operation::Stage { key, producer, first, more, count, state } => {
                self.stage(&keys()[key], producer, staged(first, first + more, count, producer, state));
            }
            Operation::End { producer, version, outcome } => {
                let marker = EndTransactionMarker { producer, outcome };
                let resolution =
                    self.live.decide_end_transaction_marker(marker, version, |_| policy(), self.now);
                self.append_marker(marker);
                self.append(&resolution.records);
                let ends = |owner: Producer| match version {
                    2 => owner.id == producer.id && owner.epoch < producer.epoch,
                    _ => owner.id == producer.id && owner.epoch <= producer.epoch,
                };
                self.resolve_models(outcome, ends);
            }
            Operation::Reconcile { producer, outcome } => {
                let resolution = self.live.decide_reconcile(producer, outcome, |_| policy(), self.now);
                self.append(&resolution.records);
                self.resolve_models(outcome, |owner| owner == producer);
            }
            Operation::Delete { key } => {
                let record = self.live.decide_delete(&keys()[key]);
                assert_eq!(record.is_some(), self.models.remove(&keys()[key]).is_some());
                self.append(record.as_slice());
            }
            Operation::Cold => {
                let mut records = Vec::new();
                self.live.decide_cold_snapshots(self.now, &mut records);
                self.append(&records);
            }
        }
        self.assert_models();
        self.assert_pruned_log_is_enough();
    }

    fn initialize(&mut self, key: &SharePartitionKey, epoch_step: i32, start: Option<i64>) {
        let known = self.live.summary(key).state_epoch.get();
        let state_epoch = StateEpoch::new(known + epoch_step);
        let request = InitializeState { key: key.clone(), state_epoch, start_offset: start.map(offset) };
        if let Ok(record) = self.live.decide_initialize(&request, self.now) {
            assert!(0 <= epoch_step, "an older generation is fenced");
            self.append(&[record]);
            self.models.insert(key.clone(), Model { start, ..Model::default() });
        }
    }

    fn write(&mut self, key: &SharePartitionKey, start_step: i64, complete: i32, batches: &[StateBatch]) {
        let start = self.models.get(key).and_then(|model| model.start).unwrap_or(0) + start_step;
        let request =
            WriteState { state_epoch: None, leader_epoch: None, ..write(key, start, complete, batches) };
        let record = self.live.decide_write(&request, self.now);
        let Some(model) = self.models.get_mut(key) else {
            assert_eq!(record, Err(ErrorCode::InvalidRequest));
            return;
        };
        model.start = model.start.max(if start < 0 { None } else { Some(start) });
        let mut update = BTreeMap::new();
        for batch in batches {
            for offset in batch.range.offsets() {
                let new = (batch.delivery_count, batch.state);
                let entry = update.entry(offset.get()).or_insert(new);
                *entry = new.max(*entry);
            }
        }
        for (offset, (count, state)) in update {
            let entry = model.offsets.entry(offset).or_insert((state, count, None));
            if (entry.2.is_some() && entry.1 <= count) || (entry.1, entry.0) < (count, state) {
                *entry = (state, count, None);
            }
        }
        model.cut();
        self.append(&[record.unwrap()]);
    }

    fn stage(&mut self, key: &SharePartitionKey, producer: Producer, batch: StateBatch) {
        let model = self.models.get_mut(key);
        let start = model.as_ref().and_then(|model| model.start).unwrap_or(0);
        let request = WriteState {
            state_epoch: None,
            leader_epoch: None,
            ..write(key, start, -1, std::slice::from_ref(&batch))
        };
        let record = self.live.decide_stage(producer, &request);
        let Some(model) = model else {
            assert_eq!(record, Err(ErrorCode::InvalidRequest));
            return;
        };
        let offsets = || batch.range.offsets().map(Offset::get).filter(|offset| start <= *offset);
        let allowed = offsets().all(|offset| match model.offsets.get(&offset) {
            Some((state, _, None)) => !state.is_final(),
            Some((_, _, owner)) => *owner == batch.staged,
            None => true,
        });
        if !allowed {
            assert_eq!(record, Err(ErrorCode::InvalidRecordState));
            return;
        }
        if let Some(record) = record.unwrap() {
            assert!(matches!(record.change, StateChange::Update(_)), "a stage is never a snapshot");
            for offset in offsets() {
                model.offsets.insert(offset, (TxPending, batch.delivery_count, batch.staged));
            }
            model.start = model.start.max(Some(start));
            self.append(&[record]);
        }
    }

    fn resolve_models(&mut self, outcome: TransactionOutcome, ends: impl Fn(Producer) -> bool) {
        for model in self.models.values_mut() {
            for (offset, entry) in &mut model.offsets {
                let (_, count, Some(staged)) = *entry else { continue };
                if !ends(staged.producer) {
                    continue;
                }
                let state = match outcome {
                    Commit => staged.state,
                    Abort if *offset < 3 || 5 <= count => Archived,
                    Abort => Available,
                };
                *entry = (state, count, None);
            }
        }
    }

    fn assert_models(&self) {
        for key in keys() {
            let Some(model) = self.models.get(&key) else {
                assert!(self.live.decide_read(&key, None, self.now).is_err());
                continue;
            };
            let stored = self.live.decide_read(&key, None, self.now).unwrap().state;
            assert_eq!(stored.start_offset.map(Offset::get), model.start);
            let mut offsets = BTreeMap::new();
            for batch in stored.batches {
                for offset in batch.range.offsets() {
                    offsets.insert(offset.get(), (batch.state, batch.delivery_count, batch.staged));
                }
            }
            assert_eq!(offsets, model.offsets);
        }
        for group in ["a", "b"] {
            let mut of_group = self.models.iter().filter(|(key, _)| &*key.group_id == group);
            let is_pending = of_group.any(|(_, model)| model.offsets.values().any(|entry| entry.2.is_some()));
            assert_eq!(self.live.has_pending(group), is_pending);
        }
        let owners = self.models.values().flat_map(|model| model.offsets.values());
        let owners = owners.filter_map(|entry| entry.2).map(|staged| staged.producer);
        assert_eq!(self.live.pending_producers(), owners.collect());
    }

    /// A shard that starts where pruning stopped knows as much as one that saw it all.
    fn assert_pruned_log_is_enough(&self) {
        let Some(from) = self.live.prune_before() else { return };
        let from = usize::try_from(from.get()).unwrap();
        let mut pruned = ShareCoordinatorShard::new(small_config());
        for (at, entry) in self.log.iter().enumerate().skip(from) {
            replay_entry(&mut pruned, at, entry);
        }
        assert_same(&self.live, &pruned);
    }
}

impl Model {
    fn cut(&mut self) {
        let start = self.start.unwrap_or(0);
        assert!(start < NEVER_SEEN);
        self.offsets.retain(|offset, _| start <= *offset);
    }
}

fn replay_entry(shard: &mut ShareCoordinatorShard, at: usize, entry: &Entry) {
    let at = offset(i64::try_from(at).unwrap());
    match entry {
        Entry::Record(record) => {
            let record = StateRecord::decode(&record.key, record.value.as_ref()).unwrap();
            shard.replay(at, &record);
        }
        Entry::Marker(marker) => shard.replay_end_transaction_marker(at, *marker),
    }
    shard.check_invariants();
}

fn assert_same(live: &ShareCoordinatorShard, replayed: &ShareCoordinatorShard) {
    assert_eq!(live.states, replayed.states);
    assert_eq!(live.pending, replayed.pending);
    assert_eq!(live.snapshots, replayed.snapshots);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replay_equals_live_and_both_equal_the_model(
        operations in prop::collection::vec(any_operation(), 1..60),
    ) {
        let mut world = World::new();
        for key in 0..3 {
            world.run(Operation::Initialize { key, epoch_step: 2, start: None });
        }
        for operation in operations {
            world.run(operation);
        }
    }
}
