mod replay;

use sharemark_protocol::{ErrorCode, LeaderEpoch, OffsetRange, ProducerEpoch, StateEpoch, Timestamp};

use super::*;
use crate::{AcknowledgeType, RecordState, ResolvedRange, Staged, StateSnapshot, StateUpdate};
use RecordState::{Acknowledged, Archived, Archiving, Available, TxPending};
use TransactionOutcome::{Abort, Commit};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

/// A shard with its log, so that nothing is appended without being replayed.
struct Log {
    shard: ShareCoordinatorShard,
    next: i64,
}

fn config() -> ShareCoordinatorConfig {
    ShareCoordinatorConfig {
        updates_per_snapshot: 500,
        cold_snapshot_interval_ms: 300_000,
        cold_snapshot_count_max: 100,
        share_partition_count_max: 100,
        state_batch_count_max: 1_000,
    }
}

impl Log {
    fn new(config: ShareCoordinatorConfig) -> Self {
        Self { shard: ShareCoordinatorShard::new(config), next: 0 }
    }

    /// Makes a log with the share partitions `a` and `b` initialised at state epoch 2.
    fn initialised() -> Self {
        let mut log = Self::new(config());
        for key in [key("a"), key("b")] {
            log.initialize(&key, 2, None).unwrap();
        }
        log
    }

    fn append(&mut self, record: &StateRecord) {
        self.shard.replay(offset(self.next), record);
        self.shard.check_invariants();
        self.next += 1;
    }

    fn initialize(
        &mut self,
        key: &SharePartitionKey,
        state_epoch: i32,
        start: Option<i64>,
    ) -> Result<StateRecord, ErrorCode> {
        let state_epoch = StateEpoch::new(state_epoch);
        let initialize = InitializeState { key: key.clone(), state_epoch, start_offset: start.map(offset) };
        let record = self.shard.decide_initialize(&initialize, NOW)?;
        self.append(&record);
        Ok(record)
    }

    fn write(&mut self, write: &WriteState) -> Result<StateRecord, ErrorCode> {
        let record = self.shard.decide_write(write, NOW)?;
        self.append(&record);
        Ok(record)
    }

    fn read(&mut self, key: &SharePartitionKey, leader_epoch: Option<i32>) -> Result<ReadState, ErrorCode> {
        let decision = self.shard.decide_read(key, leader_epoch.map(LeaderEpoch::new), NOW)?;
        if let Some(record) = &decision.record {
            self.append(record);
        }
        Ok(decision.state)
    }

    fn stage(&mut self, producer: Producer, write: &WriteState) -> Result<Option<StateRecord>, ErrorCode> {
        let record = self.shard.decide_stage(producer, write)?;
        if let Some(record) = &record {
            self.append(record);
        }
        Ok(record)
    }

    /// Appends the control batch and what follows it.
    fn end(&mut self, producer: Producer, version: i16, outcome: TransactionOutcome) -> Resolution {
        self.end_by(producer, version, outcome, plain_policy())
    }

    fn end_by(
        &mut self,
        producer: Producer,
        version: i16,
        outcome: TransactionOutcome,
        policy: ResolutionPolicy,
    ) -> Resolution {
        let marker = EndTransactionMarker { producer, outcome };
        let resolution = self.shard.decide_end_transaction_marker(marker, version, |_| policy, NOW);
        self.shard.replay_end_transaction_marker(offset(self.next), marker);
        self.shard.check_invariants();
        self.next += 1;
        for record in &resolution.records {
            self.append(record);
        }
        resolution
    }

    fn batches(&self, key: &SharePartitionKey) -> Vec<StateBatch> {
        self.shard.decide_read(key, None, NOW).unwrap().state.batches
    }

    fn summary(&self, key: &SharePartitionKey) -> (Option<i64>, Option<i32>) {
        let summary = self.shard.summary(key);
        (summary.start_offset.map(Offset::get), summary.delivery_complete_count)
    }
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn key(group_id: &str) -> SharePartitionKey {
    SharePartitionKey { group_id: group_id.into(), topic_id: TopicId::from_bytes([1; 16]), partition: 0 }
}

fn producer(id: i64, epoch: i16) -> Producer {
    Producer::from_wire(id, epoch).unwrap()
}

fn batch(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    let range = OffsetRange::new(offset(first), offset(last)).unwrap();
    StateBatch { range, state, delivery_count, staged: None }
}

fn staged(first: i64, last: i64, delivery_count: i16, owner: Producer, state: RecordState) -> StateBatch {
    let acknowledge_type =
        if state == Acknowledged { AcknowledgeType::Accept } else { AcknowledgeType::Reject };
    let staged = Some(Staged { producer: owner, acknowledge_type, state });
    StateBatch { staged, ..batch(first, last, TxPending, delivery_count) }
}

/// A write of the first leader at state epoch 2.
fn write(key: &SharePartitionKey, start: i64, complete: i32, batches: &[StateBatch]) -> WriteState {
    WriteState {
        key: key.clone(),
        state_epoch: Some(StateEpoch::new(2)),
        leader_epoch: Some(LeaderEpoch::new(0)),
        start_offset: Offset::new(start),
        delivery_complete_count: if complete < 0 { None } else { Some(complete) },
        batches: batches.to_vec(),
    }
}

fn plain_policy() -> ResolutionPolicy {
    ResolutionPolicy {
        delivery_count_limit: Some(5),
        has_dead_letter_queue: false,
        log_start_offset: Offset::ZERO,
    }
}

fn update_of(record: &StateRecord) -> &StateUpdate {
    match &record.change {
        StateChange::Update(update) => update,
        StateChange::Snapshot(_) | StateChange::Tombstone => panic!("an update is expected: {record:?}"),
    }
}

fn snapshot_of(record: &StateRecord) -> &StateSnapshot {
    match &record.change {
        StateChange::Snapshot(snapshot) => snapshot,
        StateChange::Update(_) | StateChange::Tombstone => panic!("a snapshot is expected: {record:?}"),
    }
}

#[test]
fn nothing_is_known_of_a_share_partition_that_was_never_initialised() {
    let mut log = Log::new(config());
    let a = key("a");
    assert_eq!(log.read(&a, Some(1)), Err(ErrorCode::InvalidRequest));
    assert_eq!(log.write(&write(&a, 0, 0, &[])), Err(ErrorCode::InvalidRequest));
    assert_eq!(log.stage(producer(1, 0), &write(&a, 0, 0, &[])), Err(ErrorCode::InvalidRequest));
    assert_eq!(log.shard.decide_delete(&a), None);
    let summary = log.shard.summary(&a);
    assert_eq!((summary.state_epoch, summary.leader_epoch), (StateEpoch::new(0), LeaderEpoch::new(0)));
    assert_eq!(log.summary(&a), (None, None));
}

#[test]
fn initialising_starts_afresh_unless_a_newer_generation_is_there() {
    let mut log = Log::new(config());
    let a = key("a");
    assert_eq!(log.initialize(&a, -1, None), Err(ErrorCode::InvalidRequest));
    let negative = SharePartitionKey { partition: -1, ..a.clone() };
    assert_eq!(log.initialize(&negative, 1, None), Err(ErrorCode::InvalidRequest));
    assert_eq!(snapshot_of(&log.initialize(&a, 2, None).unwrap()).snapshot_epoch, 0);
    log.write(&write(&a, 3, 1, &[batch(4, 4, Acknowledged, 1)])).unwrap();
    assert_eq!(log.initialize(&a, 1, Some(0)), Err(ErrorCode::FencedStateEpoch));
    assert_eq!(log.summary(&a), (Some(3), Some(1)));
    assert_eq!(snapshot_of(&log.initialize(&a, 3, Some(1)).unwrap()).snapshot_epoch, 1);
    assert_eq!((log.summary(&a), log.batches(&a)), ((Some(1), Some(0)), Vec::new()));
    assert_eq!(log.write(&write(&a, 5, 0, &[])), Err(ErrorCode::FencedStateEpoch));
    // Offsets of an empty group may be reset again before anybody joins: same epoch.
    log.initialize(&a, 3, Some(7)).unwrap();
    assert_eq!(log.summary(&a), (Some(7), Some(0)));
}

#[test]
fn a_repeated_call_that_initialises_is_told_from_another_one() {
    let mut log = Log::initialised();
    let wanted = |state_epoch: i32, start: i64| InitializeState {
        key: key("a"),
        state_epoch: StateEpoch::new(state_epoch),
        start_offset: Offset::new(start),
    };
    assert!(!log.shard.has_outrun(&wanted(2, -1)), "it may be initialised again, at another offset");
    log.write(&write(&key("a"), 0, 0, &[batch(0, 1, Available, 1)])).unwrap();
    assert!(log.shard.has_outrun(&wanted(2, -1)), "what was written since would be lost");
    assert!(!log.shard.has_outrun(&wanted(3, 0)), "another generation is another call");
    log.initialize(&key("a"), 3, Some(4)).unwrap();
    assert!(!log.shard.has_outrun(&wanted(3, 7)));
}

#[test]
fn a_full_shard_takes_no_more_share_partitions() {
    let mut log = Log::new(ShareCoordinatorConfig { share_partition_count_max: 1, ..config() });
    log.initialize(&key("a"), 2, None).unwrap();
    assert_eq!(log.initialize(&key("b"), 2, None), Err(ErrorCode::PolicyViolation));
    log.initialize(&key("a"), 3, None).unwrap();
}

#[test]
fn stale_leaders_are_fenced_and_an_unknown_epoch_is_not() {
    let mut log = Log::initialised();
    let a = key("a");
    log.read(&a, Some(5)).unwrap();
    let of_leader = |epoch: Option<i32>| WriteState {
        leader_epoch: epoch.map(LeaderEpoch::new),
        ..write(&a, 0, 1, &[batch(0, 0, Acknowledged, 1)])
    };
    assert_eq!(log.write(&of_leader(Some(4))), Err(ErrorCode::FencedLeaderEpoch));
    assert_eq!(log.read(&a, Some(4)), Err(ErrorCode::FencedLeaderEpoch));
    assert!(log.batches(&a).is_empty());
    assert!(log.write(&of_leader(Some(5))).is_ok());
    assert!(log.write(&of_leader(None)).is_ok());
    assert!(log.read(&a, None).is_ok());
    let old = WriteState { state_epoch: Some(StateEpoch::new(1)), ..of_leader(Some(5)) };
    assert_eq!(log.write(&old), Err(ErrorCode::FencedStateEpoch));
    assert!(log.write(&WriteState { state_epoch: None, ..of_leader(Some(5)) }).is_ok());
    // Where both are stale, Kafka names the leader epoch.
    let both = WriteState { state_epoch: Some(StateEpoch::new(1)), ..of_leader(Some(4)) };
    assert_eq!(log.write(&both), Err(ErrorCode::FencedLeaderEpoch));
}

#[test]
fn a_read_records_a_newer_leader_and_nothing_else() {
    let mut log = Log::initialised();
    let a = key("a");
    log.write(&write(&a, 2, 1, &[batch(3, 3, Acknowledged, 1)])).unwrap();
    let decision = log.shard.decide_read(&a, Some(LeaderEpoch::new(3)), NOW).unwrap();
    let record = decision.record.unwrap();
    let expected = StateUpdate {
        snapshot_epoch: 0,
        leader_epoch: Some(LeaderEpoch::new(3)),
        start_offset: Some(offset(2)),
        delivery_complete_count: Some(1),
        batches: Vec::new(),
    };
    assert_eq!(update_of(&record), &expected);
    log.append(&record);
    assert_eq!(log.batches(&a), [batch(3, 3, Acknowledged, 1)]);
    assert_eq!(log.shard.summary(&a).leader_epoch, LeaderEpoch::new(3));
    let again = log.shard.decide_read(&a, Some(LeaderEpoch::new(3)), NOW).unwrap();
    assert_eq!(again.record, None);
    // An initialisation does not let old leaders in again.
    log.initialize(&a, 3, None).unwrap();
    assert_eq!(log.read(&a, Some(2)), Err(ErrorCode::FencedLeaderEpoch));
}

#[test]
fn the_start_offset_never_moves_back() {
    let mut log = Log::initialised();
    let a = key("a");
    log.write(&write(&a, 5, 2, &[batch(6, 7, Acknowledged, 1)])).unwrap();
    log.write(&write(&a, 3, 9, &[batch(3, 5, Archived, 1)])).unwrap();
    assert_eq!(log.summary(&a), (Some(5), Some(2)));
    assert_eq!(log.batches(&a), [batch(5, 5, Archived, 1), batch(6, 7, Acknowledged, 1)]);
    log.write(&write(&a, -1, -1, &[])).unwrap();
    assert_eq!(log.summary(&a), (Some(5), Some(2)));
    log.write(&write(&a, 7, 1, &[])).unwrap();
    assert_eq!((log.summary(&a), log.batches(&a)), ((Some(7), Some(1)), vec![batch(7, 7, Acknowledged, 1)]));
}

#[test]
fn at_an_equal_start_the_larger_complete_count_holds() {
    let mut log = Log::initialised();
    let a = key("a");
    for (start, count, expected) in [(0, 3, 3), (0, 2, 3), (0, 4, 4), (0, -1, 4), (1, 1, 1), (0, 9, 1)] {
        log.write(&write(&a, start, count, &[])).unwrap();
        assert_eq!(log.summary(&a).1, Some(expected), "{count} at start {start}");
    }
}

#[test]
fn states_that_are_never_stored_are_refused() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    for bad in [
        batch(0, 0, RecordState::Acquired, 1),
        batch(0, 0, TxPending, 1),
        batch(0, 0, Available, -1),
        staged(0, 0, 1, owner, Acknowledged),
    ] {
        let bad = write(&a, 0, 0, &[batch(1, 1, Available, 1), bad]);
        assert_eq!(log.write(&bad), Err(ErrorCode::InvalidRequest));
    }
    for bad in [batch(0, 0, Acknowledged, 1), staged(0, 0, 1, producer(2, 0), Acknowledged)] {
        let bad = write(&a, 0, 0, &[staged(1, 1, 1, owner, Acknowledged), bad]);
        assert_eq!(log.stage(owner, &bad), Err(ErrorCode::InvalidRequest));
    }
    assert!(log.batches(&a).is_empty());
}

#[test]
fn a_state_that_is_too_scattered_is_refused() {
    let mut log = Log::new(ShareCoordinatorConfig { state_batch_count_max: 5, ..config() });
    let a = key("a");
    log.initialize(&a, 2, None).unwrap();
    let scattered = [0, 2, 4, 6, 8].map(|at| batch(at, at, Acknowledged, 1));
    log.write(&write(&a, 0, 5, &scattered)).unwrap();
    let more = write(&a, 0, 6, &[batch(10, 10, Acknowledged, 1)]);
    assert_eq!(log.write(&more), Err(ErrorCode::InvalidRequest));
    assert!(log.write(&write(&a, 0, 6, &[batch(1, 1, Acknowledged, 1)])).is_ok());
    assert!(log.write(&more).is_ok());
}

#[test]
fn after_so_many_updates_comes_a_snapshot() {
    let mut log = Log::new(ShareCoordinatorConfig { updates_per_snapshot: 3, ..config() });
    let a = key("a");
    log.initialize(&a, 2, None).unwrap();
    for round in 0..3 {
        for step in 0..3 {
            let at = round * 4 + step;
            let record = log.write(&write(&a, 0, 1, &[batch(at, at, Acknowledged, 1)])).unwrap();
            assert_eq!(i64::from(update_of(&record).snapshot_epoch), round);
        }
        let at = round * 4 + 3;
        let record = log.write(&write(&a, 0, 1, &[batch(at, at, Acknowledged, 1)])).unwrap();
        let snapshot = snapshot_of(&record);
        assert_eq!(i64::from(snapshot.snapshot_epoch), round + 1);
        assert_eq!(snapshot.batches, [batch(0, at, Acknowledged, 1)]);
        assert_eq!(snapshot.create_timestamp, snapshot.write_timestamp);
    }
    for epoch in 1..=3 {
        log.read(&a, Some(epoch)).unwrap();
    }
    let decision = log.shard.decide_read(&a, Some(LeaderEpoch::new(4)), NOW).unwrap();
    assert_eq!(snapshot_of(&decision.record.unwrap()).leader_epoch, LeaderEpoch::new(4));
}

#[test]
fn deletion_leaves_nothing() {
    let mut log = Log::initialised();
    let (a, b) = (key("a"), key("b"));
    log.stage(producer(1, 0), &write(&a, 0, 0, &[staged(0, 0, 1, producer(1, 0), Acknowledged)])).unwrap();
    let tombstone = log.shard.decide_delete(&a).unwrap();
    assert_eq!(tombstone.change, StateChange::Tombstone);
    log.append(&tombstone);
    assert_eq!(log.summary(&a), (None, None));
    assert!(!log.shard.has_pending("a"));
    assert_eq!(log.shard.keys().collect::<Vec<_>>(), [&b]);
    assert!(log.end(producer(1, 1), 2, Commit).records.is_empty());

    let mut records = Vec::new();
    log.shard.decide_delete_topics(&BTreeSet::from([TopicId::from_bytes([9; 16])]), &mut records);
    assert!(records.is_empty());
    log.shard.decide_delete_topics(&BTreeSet::from([b.topic_id]), &mut records);
    assert_eq!(records, [StateRecord { key: b, change: StateChange::Tombstone }]);
}

#[test]
fn a_commit_makes_staged_states_final() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(7, 3);
    log.write(&write(&a, 0, 1, &[batch(5, 5, Acknowledged, 1)])).unwrap();
    let stage = write(&a, 0, 1, &[staged(0, 2, 1, owner, Acknowledged), staged(3, 4, 2, owner, Archiving)]);
    let record = log.stage(owner, &stage).unwrap().unwrap();
    assert_eq!(update_of(&record).batches, stage.batches);
    assert!(log.shard.has_pending("a"));
    assert_eq!(log.shard.pending_producers(), BTreeSet::from([owner]));
    assert_eq!(log.shard.pending_batches(&a).count(), 2);
    assert_eq!(log.summary(&a), (Some(0), Some(1)), "what is pending is not complete");

    let resolution = log.end(producer(7, 4), 2, Commit);
    let expected = StateUpdate {
        snapshot_epoch: 0,
        leader_epoch: Some(LeaderEpoch::new(0)),
        start_offset: Some(offset(0)),
        delivery_complete_count: Some(4),
        batches: vec![batch(0, 2, Acknowledged, 1), batch(3, 4, Archiving, 2)],
    };
    assert_eq!(resolution.records.len(), 1);
    assert_eq!(update_of(&resolution.records[0]), &expected);
    let ranges = [(0, 2, Acknowledged), (3, 4, Archiving)].map(|(first, last, state)| ResolvedRange {
        range: OffsetRange::new(offset(first), offset(last)).unwrap(),
        producer: owner,
        state,
    });
    let partition =
        ResolvedPartition { key: a.clone(), state_epoch: StateEpoch::new(2), ranges: ranges.into() };
    assert_eq!(resolution.partitions, [partition]);
    assert_eq!(log.summary(&a), (Some(0), Some(4)));
    let states = [batch(0, 2, Acknowledged, 1), batch(3, 4, Archiving, 2), batch(5, 5, Acknowledged, 1)];
    assert_eq!(log.batches(&a), states);
    assert!(!log.shard.has_pending("a"));
    // A write of the leader that does not know of it yet keeps the larger count.
    log.write(&write(&a, 0, 1, &[])).unwrap();
    assert_eq!(log.summary(&a), (Some(0), Some(4)));
}

#[test]
fn an_abort_makes_records_available_or_gives_them_up_at_the_limit() {
    let limit = plain_policy();
    let table = [
        (limit, 4, Available),
        (limit, 5, Archived),
        (limit, 6, Archived),
        (ResolutionPolicy { has_dead_letter_queue: true, ..limit }, 5, Archiving),
        (ResolutionPolicy { has_dead_letter_queue: true, ..limit }, 4, Available),
        (ResolutionPolicy { delivery_count_limit: None, ..limit }, 9, Available),
    ];
    for staged_state in [Acknowledged, Archived, Archiving] {
        for (policy, delivery_count, expected) in table {
            let mut log = Log::initialised();
            let a = key("a");
            let owner = producer(7, 3);
            log.stage(owner, &write(&a, 0, 0, &[staged(0, 2, delivery_count, owner, staged_state)])).unwrap();
            let resolution = log.end_by(producer(7, 4), 2, Abort, policy);
            assert_eq!(log.batches(&a), [batch(0, 2, expected, delivery_count)]);
            assert_eq!(resolution.partitions[0].ranges[0].state, expected);
            assert_eq!(log.summary(&a).1, Some(if expected == Archived { 3 } else { 0 }));
        }
    }
}

#[test]
fn an_abort_archives_what_the_log_has_lost() {
    for (log_start, expected) in [
        (0, vec![batch(2, 5, Available, 1)]),
        (2, vec![batch(2, 5, Available, 1)]),
        (4, vec![batch(2, 3, Archived, 1), batch(4, 5, Available, 1)]),
        (5, vec![batch(2, 4, Archived, 1), batch(5, 5, Available, 1)]),
        (6, vec![batch(2, 5, Archived, 1)]),
        (99, vec![batch(2, 5, Archived, 1)]),
    ] {
        let mut log = Log::initialised();
        let a = key("a");
        let owner = producer(7, 3);
        log.stage(owner, &write(&a, 2, 0, &[staged(2, 5, 1, owner, Acknowledged)])).unwrap();
        let policy = ResolutionPolicy { log_start_offset: offset(log_start), ..plain_policy() };
        log.end_by(producer(7, 4), 2, Abort, policy);
        assert_eq!(log.batches(&a), expected, "log start {log_start}");
    }
}

#[test]
fn a_marker_ends_what_its_epoch_says() {
    // Staged epoch, marker epoch, transaction version, whether it ends.
    let table = [
        (5, 6, 2, true),
        (5, 7, 2, true),
        (5, 5, 2, false),
        (5, 4, 2, false),
        (5, 5, 1, true),
        (5, 6, 1, true),
        (5, 4, 1, false),
        (5, 5, 0, true),
        (5, 6, 3, true),
        (5, 5, 3, false),
    ];
    for (staged_epoch, marker_epoch, version, ends) in table {
        let mut log = Log::initialised();
        let a = key("a");
        let owner = producer(7, staged_epoch);
        log.stage(owner, &write(&a, 0, 0, &[staged(0, 2, 1, owner, Acknowledged)])).unwrap();
        let resolution = log.end(producer(7, marker_epoch), version, Commit);
        assert_eq!(!resolution.records.is_empty(), ends);
        assert_eq!(log.shard.has_pending("a"), !ends);
        let expected = if ends { batch(0, 2, Acknowledged, 1) } else { staged(0, 2, 1, owner, Acknowledged) };
        assert_eq!(log.batches(&a), [expected], "{staged_epoch} {marker_epoch} {version}");
    }
}

#[test]
fn a_late_duplicate_of_a_marker_leaves_the_next_transaction_alone() {
    let mut log = Log::initialised();
    let a = key("a");
    let (first, second) = (producer(7, 5), producer(7, 6));
    log.stage(first, &write(&a, 0, 0, &[staged(0, 0, 1, first, Acknowledged)])).unwrap();
    assert_eq!(log.end(producer(7, 6), 2, Commit).records.len(), 1);
    log.stage(second, &write(&a, 0, 1, &[staged(1, 1, 1, second, Acknowledged)])).unwrap();
    let before = log.batches(&a);
    assert_eq!(log.end(producer(7, 6), 2, Commit), Resolution::default());
    assert_eq!(log.batches(&a), before);
    log.end(producer(7, 7), 2, Abort);
    assert_eq!(log.batches(&a), [batch(0, 0, Acknowledged, 1), batch(1, 1, Available, 1)]);
    // The second duplicate finds nothing at all.
    assert_eq!(log.end(producer(7, 7), 2, Commit), Resolution::default());
    assert_eq!(log.batches(&a), [batch(0, 0, Acknowledged, 1), batch(1, 1, Available, 1)]);
}

#[test]
fn a_marker_touches_only_its_producer() {
    let mut log = Log::initialised();
    let (a, b) = (key("a"), key("b"));
    let (one, two) = (producer(1, 0), producer(2, 0));
    log.stage(one, &write(&a, 0, 0, &[staged(0, 1, 1, one, Acknowledged)])).unwrap();
    log.stage(two, &write(&a, 0, 0, &[staged(2, 3, 1, two, Acknowledged)])).unwrap();
    log.stage(one, &write(&b, 0, 0, &[staged(0, 1, 1, one, Archived)])).unwrap();
    assert_eq!(log.end(producer(3, 9), 2, Commit), Resolution::default());
    let resolution = log.end(producer(1, 1), 2, Commit);
    let keys = resolution.partitions.iter().map(|partition| &partition.key).collect::<Vec<_>>();
    assert_eq!(keys, [&a, &b], "a transaction may span groups");
    assert_eq!(log.batches(&a), [batch(0, 1, Acknowledged, 1), staged(2, 3, 1, two, Acknowledged)]);
    assert_eq!(log.batches(&b), [batch(0, 1, Archived, 1)]);
    assert!(log.shard.has_pending("a"));
    assert!(!log.shard.has_pending("b"));
    assert!(!log.shard.has_pending(""));
}

#[test]
fn a_stage_is_all_or_nothing_and_a_repeat_writes_nothing() {
    let mut log = Log::initialised();
    let a = key("a");
    let (one, two) = (producer(1, 0), producer(2, 0));
    log.write(&write(&a, 0, 1, &[batch(4, 4, Acknowledged, 1), batch(6, 6, Available, 1)])).unwrap();
    let stage = write(&a, 0, 1, &[staged(0, 3, 1, one, Acknowledged)]);
    assert!(log.stage(one, &stage).unwrap().is_some());
    assert_eq!(log.stage(one, &stage), Ok(None));
    assert_eq!(log.stage(one, &write(&a, 0, 1, &[staged(1, 2, 1, one, Acknowledged)])), Ok(None));
    let refused = Err(ErrorCode::InvalidRecordState);
    let before = log.batches(&a);
    for batches in [
        vec![staged(1, 2, 1, one, Archived)],     // Another type.
        vec![staged(2, 4, 1, one, Acknowledged)], // One is final.
        vec![staged(8, 9, 1, one, Acknowledged), staged(4, 4, 1, one, Acknowledged)],
    ] {
        assert_eq!(log.stage(one, &write(&a, 0, 1, &batches)), refused);
    }
    assert_eq!(log.stage(two, &write(&a, 0, 1, &[staged(3, 3, 1, two, Acknowledged)])), refused);
    let later = producer(1, 1);
    assert_eq!(log.stage(later, &write(&a, 0, 1, &[staged(3, 3, 1, later, Acknowledged)])), refused);
    assert_eq!(log.batches(&a), before);
    // Partly staged already: the rest follows.
    let wider = write(&a, 0, 1, &[staged(2, 3, 1, one, Acknowledged), staged(6, 7, 2, one, Acknowledged)]);
    assert!(log.stage(one, &wider).unwrap().is_some());
    assert_eq!(log.shard.pending_batches(&a).count(), 2);
}

#[test]
fn a_stage_is_never_a_snapshot_and_a_resolution_may_be() {
    let mut log = Log::new(ShareCoordinatorConfig { updates_per_snapshot: 2, ..config() });
    let a = key("a");
    let (one, two) = (producer(1, 0), producer(2, 0));
    log.initialize(&a, 2, None).unwrap();
    for at in 0..5 {
        let record = log.stage(one, &write(&a, 0, 0, &[staged(at, at, 1, one, Acknowledged)])).unwrap();
        assert_eq!(update_of(&record.unwrap()).snapshot_epoch, 0);
    }
    log.stage(two, &write(&a, 0, 0, &[staged(9, 9, 1, two, Archived)])).unwrap();
    let resolution = log.end(producer(1, 1), 2, Commit);
    let snapshot = snapshot_of(&resolution.records[0]);
    assert_eq!(snapshot.batches, [batch(0, 4, Acknowledged, 1), staged(9, 9, 1, two, Archived)]);
    assert_eq!(snapshot.delivery_complete_count, Some(5));
    // The owner that the snapshot carries still finds its entry.
    assert_eq!(log.end(producer(2, 1), 2, Commit).records.len(), 1);
}

#[test]
fn staged_write_of_a_stale_leader_is_fenced() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    log.read(&a, Some(5)).unwrap();
    let stage = write(&a, 0, 0, &[staged(0, 0, 1, owner, Acknowledged)]);
    assert_eq!(log.stage(owner, &stage), Err(ErrorCode::FencedLeaderEpoch));
    let old = WriteState { state_epoch: Some(StateEpoch::new(1)), leader_epoch: None, ..stage };
    assert_eq!(log.stage(owner, &old), Err(ErrorCode::FencedStateEpoch));
    assert!(!log.shard.has_pending("a"));
}

#[test]
fn a_reset_drops_what_was_staged_and_its_marker_finds_nothing() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    log.stage(owner, &write(&a, 0, 0, &[staged(0, 3, 1, owner, Acknowledged)])).unwrap();
    log.initialize(&a, 3, Some(0)).unwrap();
    assert!(!log.shard.has_pending("a"));
    assert!(log.shard.pending_producers().is_empty());
    assert_eq!(log.end(producer(1, 1), 2, Commit), Resolution::default());
    assert_eq!((log.batches(&a), log.summary(&a)), (Vec::new(), (Some(0), Some(0))));
}

#[test]
fn a_start_offset_that_passes_pending_entries_drops_them() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    log.stage(owner, &write(&a, 0, 0, &[staged(0, 3, 1, owner, Acknowledged)])).unwrap();
    log.write(&write(&a, 2, 0, &[])).unwrap();
    assert_eq!(log.batches(&a), [staged(2, 3, 1, owner, Acknowledged)]);
    log.write(&write(&a, 4, 0, &[])).unwrap();
    assert!(!log.shard.has_pending("a"));
    assert_eq!(log.end(producer(1, 1), 2, Commit), Resolution::default());
}

#[test]
fn reconciliation_ends_one_incarnation_only() {
    let mut log = Log::initialised();
    let a = key("a");
    let (old, new) = (producer(1, 4), producer(1, 5));
    log.stage(old, &write(&a, 0, 0, &[staged(0, 0, 1, old, Acknowledged)])).unwrap();
    log.stage(new, &write(&a, 0, 0, &[staged(1, 1, 1, new, Acknowledged)])).unwrap();
    assert_eq!(log.shard.pending_producers(), BTreeSet::from([old, new]));
    let resolution = log.shard.decide_reconcile(old, Abort, |_| plain_policy(), NOW);
    for record in &resolution.records {
        log.append(record);
    }
    assert_eq!(log.batches(&a), [batch(0, 0, Available, 1), staged(1, 1, 1, new, Acknowledged)]);
    let resolution = log.shard.decide_reconcile(new, Commit, |_| plain_policy(), NOW);
    for record in &resolution.records {
        log.append(record);
    }
    assert_eq!(log.batches(&a), [batch(0, 0, Available, 1), batch(1, 1, Acknowledged, 1)]);
    assert!(log.shard.pending_producers().is_empty());
}

/// The write of a stage, or of what follows a marker, may fail: then nothing has changed, and a retry decides.
#[test]
fn what_was_decided_and_not_appended_has_not_happened() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    let stage = write(&a, 0, 0, &[staged(0, 3, 1, owner, Acknowledged)]);
    assert!(log.shard.decide_stage(owner, &stage).unwrap().is_some());
    assert!(!log.shard.has_pending("a"));
    log.stage(owner, &stage).unwrap();
    for outcome in [Commit, Abort] {
        let marker = EndTransactionMarker { producer: producer(1, 1), outcome };
        let lost = log.shard.decide_end_transaction_marker(marker, 2, |_| plain_policy(), NOW);
        assert_eq!(lost.records.len(), 1);
        assert_eq!(log.batches(&a), [staged(0, 3, 1, owner, Acknowledged)]);
        assert_eq!(log.shard.pending_producers(), BTreeSet::from([owner]));
    }
    log.end(producer(1, 1), 2, Commit);
    assert_eq!(log.batches(&a), [batch(0, 3, Acknowledged, 1)]);
}

/// An append may be durable although its completion was reported as failed: the retry must not act twice.
#[test]
fn a_retry_after_an_append_that_only_seemed_to_fail_changes_nothing() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = producer(1, 0);
    let stage = write(&a, 0, 0, &[staged(0, 3, 1, owner, Acknowledged)]);
    log.stage(owner, &stage).unwrap();
    assert_eq!(log.stage(owner, &stage), Ok(None));
    log.end(producer(1, 1), 2, Commit);
    let state = (log.batches(&a), log.summary(&a));
    assert_eq!(log.end(producer(1, 1), 2, Commit), Resolution::default());
    assert_eq!((log.batches(&a), log.summary(&a)), state);
    // The leader that thinks its plain write failed sends it again.
    let ack = write(&a, 0, 5, &[batch(4, 4, Acknowledged, 1)]);
    log.write(&ack).unwrap();
    let state = (log.batches(&a), log.summary(&a));
    log.write(&ack).unwrap();
    assert_eq!((log.batches(&a), log.summary(&a)), state);
}

#[test]
fn a_log_with_the_control_batch_alone_replays_to_the_same_states() {
    for (outcome, expected, complete) in [(Commit, Acknowledged, 5), (Abort, Available, 1)] {
        let mut log = Log::initialised();
        let a = key("a");
        let owner = producer(7, 3);
        log.write(&write(&a, 0, 1, &[batch(9, 9, Acknowledged, 1)])).unwrap();
        log.stage(owner, &write(&a, 0, 1, &[staged(0, 3, 1, owner, Acknowledged)])).unwrap();
        let marker = EndTransactionMarker { producer: producer(7, 4), outcome };
        log.shard.replay_end_transaction_marker(offset(log.next), marker);
        log.shard.check_invariants();
        assert_eq!(log.batches(&a), [batch(0, 3, expected, 1), batch(9, 9, Acknowledged, 1)]);
        assert_eq!(log.summary(&a), (Some(0), Some(complete)));
    }
}

#[test]
fn old_snapshots_are_written_anew_so_that_the_log_can_be_pruned() {
    let mut log = Log::initialised();
    let (a, b) = (key("a"), key("b"));
    let at = |ms| NOW.plus_ms(ms);
    let decide = |log: &Log, now| {
        let mut records = Vec::new();
        log.shard.decide_cold_snapshots(now, &mut records);
        records
    };
    log.write(&write(&a, 3, 1, &[batch(4, 4, Acknowledged, 1)])).unwrap();
    assert_eq!(log.shard.poll_timeout(), Some(at(300_000)));
    assert!(decide(&log, at(299_999)).is_empty());
    let records = decide(&log, at(300_000));
    assert_eq!(records.iter().map(|record| &record.key).collect::<Vec<_>>(), [&a, &b]);
    let snapshot = snapshot_of(&records[0]);
    assert_eq!((snapshot.create_timestamp, snapshot.write_timestamp), (NOW, at(300_000)));
    assert_eq!((snapshot.snapshot_epoch, snapshot.start_offset), (1, Some(offset(3))));
    assert_eq!(snapshot.batches, [batch(4, 4, Acknowledged, 1)]);
    records.iter().for_each(|record| log.append(record));
    assert_eq!(log.shard.prune_before(), Some(offset(3)));
    assert_eq!(log.batches(&a), [batch(4, 4, Acknowledged, 1)]);
    // All is cold: nothing more to do until something is written by a snapshot of its own.
    assert_eq!(log.shard.poll_timeout(), None);
    assert!(decide(&log, at(900_000)).is_empty());
    log.initialize(&b, 3, None).unwrap();
    assert_eq!(log.shard.poll_timeout(), Some(at(300_000)));
    let records = decide(&log, at(600_000));
    assert_eq!(records.len(), 2, "b is old too");
}

#[test]
fn cold_snapshots_come_in_portions() {
    let mut log = Log::new(ShareCoordinatorConfig { cold_snapshot_count_max: 2, ..config() });
    for group in ["a", "b", "c", "d", "e"] {
        log.initialize(&key(group), 2, None).unwrap();
    }
    let mut portions = Vec::new();
    while log.shard.poll_timeout().is_some_and(|due| due <= NOW.plus_ms(300_000)) {
        let mut records = Vec::new();
        log.shard.decide_cold_snapshots(NOW.plus_ms(300_000), &mut records);
        records.iter().for_each(|record| log.append(record));
        portions.push(records.len());
    }
    assert_eq!(portions, [2, 2, 1]);
}

#[test]
fn pruning_stops_at_the_oldest_live_snapshot() {
    let mut log = Log::new(config());
    let (a, b) = (key("a"), key("b"));
    assert_eq!(log.shard.prune_before(), None);
    log.initialize(&a, 2, None).unwrap();
    log.initialize(&b, 2, None).unwrap();
    log.write(&write(&a, 0, 0, &[])).unwrap();
    assert_eq!(log.shard.prune_before(), Some(offset(0)));
    log.initialize(&a, 3, None).unwrap();
    assert_eq!(log.shard.prune_before(), Some(offset(1)));
    let tombstone = log.shard.decide_delete(&b).unwrap();
    log.append(&tombstone);
    assert_eq!(log.shard.prune_before(), Some(offset(3)));
    let tombstone = log.shard.decide_delete(&a).unwrap();
    log.append(&tombstone);
    assert_eq!(log.shard.prune_before(), Some(offset(6)), "no state is left");
}

#[test]
fn updates_that_lost_their_snapshot_to_pruning_are_passed_over() {
    let mut log = Log::new(config());
    let (a, owner) = (key("a"), producer(1, 0));
    let orphan = StateUpdate {
        snapshot_epoch: 0,
        leader_epoch: None,
        start_offset: None,
        delivery_complete_count: None,
        batches: vec![staged(0, 0, 1, owner, Acknowledged)],
    };
    log.append(&StateRecord { key: a.clone(), change: StateChange::Update(orphan) });
    assert!(!log.shard.has_pending("a"));
    assert_eq!(log.read(&a, None), Err(ErrorCode::InvalidRequest));
}

#[test]
fn epochs_are_compared_within_one_producer() {
    let mut log = Log::initialised();
    let a = key("a");
    let owner = Producer { epoch: ProducerEpoch::new(i16::MAX - 1), ..producer(1, 0) };
    log.stage(owner, &write(&a, 0, 0, &[staged(0, 0, 1, owner, Acknowledged)])).unwrap();
    assert_eq!(log.end(producer(2, i16::MAX), 2, Commit), Resolution::default());
    assert_eq!(log.end(producer(1, i16::MAX), 2, Commit).records.len(), 1);
}
