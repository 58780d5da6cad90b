//! Acknowledgements that are part of a transaction.

use super::*;

const INVALID_STATE: ErrorCode = ErrorCode::InvalidRecordState;
const INVALID_REQUEST: ErrorCode = ErrorCode::InvalidRequest;

fn held() -> Driver {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    driver
}

#[test]
fn a_committed_accept_is_final_and_moves_the_start() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 9, &[1])]), ErrorCode::None);
    let batch = driver.plan.batches()[0];
    assert_eq!((batch.range, batch.state, batch.delivery_count), (range(0, 9), RecordState::TxPending, 1));
    let staged = batch.staged.unwrap();
    assert_eq!((staged.producer, staged.acknowledge_type), (owner, AcknowledgeType::Accept));
    assert_eq!(staged.state, RecordState::Acknowledged);
    assert_eq!(driver.view(), "0-9 TX_PENDING×1 7/3 ACKNOWLEDGED");
    driver.resolve(owner, 0, 9, RecordState::Acknowledged);
    assert_eq!((driver.start(), driver.view().as_str()), (10, ""));
    assert!(driver.change.moved_start);
}

#[test]
fn a_pending_record_blocks_the_start_and_is_touched_by_nobody() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 0, &[1])]), ErrorCode::None);
    assert_eq!(driver.accept("A", 1, 9), ErrorCode::None);
    assert_eq!((driver.start(), driver.partition.delivery_complete_count()), (0, 9));
    for member in ["A", "B"] {
        assert_eq!(driver.fetch(member), "");
        for id in [0, 1, 2, 3, 4] {
            assert_eq!(driver.acknowledge(member, &[(0, 0, &[id])]), INVALID_STATE);
        }
        driver.close(member);
    }
    assert_eq!(driver.expire(60_000), [], "its lock was cancelled");
    assert_eq!(driver.view(), "0-0 TX_PENDING×1 7/3 ACKNOWLEDGED | 1-9 ACKNOWLEDGED×1");
    driver.resolve(owner, 0, 0, RecordState::Acknowledged);
    assert_eq!(driver.start(), 10);
}

#[test]
fn only_the_middle_of_three_is_staged() {
    let mut driver = Driver::new(&[3]);
    assert_eq!(driver.fetch("A"), "0-2×1");
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(1, 1, &[1])]), ErrorCode::None);
    driver.resolve(owner, 1, 1, RecordState::Acknowledged);
    // Lag: the end of the log, less the start, less what is complete.
    assert_eq!(3 - driver.start() - driver.partition.delivery_complete_count(), 2);
}

#[test]
fn an_abort_makes_records_available_whatever_was_said() {
    for id in [0, 1, 3] {
        let mut driver = held();
        driver.config.dead_letter_queue = true;
        let owner = producer(7, 3);
        assert_eq!(driver.stage(Some("A"), owner, &[(0, 9, &[id])]), ErrorCode::None);
        driver.resolve(owner, 0, 9, RecordState::Available);
        assert!(driver.change.freed_records);
        assert_eq!(driver.fetch("B"), "0-9×2");
    }
}

#[test]
fn staged_states_follow_the_type_and_the_dead_letter_queue() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 2, &[1, 3, 0])]), ErrorCode::None);
    driver.config.dead_letter_queue = true;
    assert_eq!(driver.stage(Some("A"), owner, &[(3, 5, &[1, 3, 0])]), ErrorCode::None);
    let states: Vec<_> = driver.plan.batches().iter().map(|batch| batch.staged.unwrap().state).collect();
    assert_eq!(states, [RecordState::Acknowledged, RecordState::Archiving, RecordState::Archived]);
    assert_eq!(
        driver.view(),
        "0-0 TX_PENDING×1 7/3 ACKNOWLEDGED | 1-1 TX_PENDING×1 7/3 ARCHIVED | 2-2 TX_PENDING×1 7/3 ARCHIVED | \
         3-3 TX_PENDING×1 7/3 ACKNOWLEDGED | 4-4 TX_PENDING×1 7/3 ARCHIVING | 5-5 TX_PENDING×1 7/3 ARCHIVED | \
         6-9 ACQUIRED×1 A 30000"
    );
}

#[test]
fn refusals_stage_nothing() {
    let owner = producer(7, 3);
    let cases: [(&str, Ranges<'_>, ErrorCode); 13] = [
        ("A", &[(0, 0, &[2])], INVALID_REQUEST),
        ("A", &[(0, 0, &[4])], INVALID_REQUEST),
        ("A", &[(0, 0, &[5])], INVALID_REQUEST),
        ("A", &[(0, 1, &[1, 2])], INVALID_REQUEST),
        ("A", &[(0, 2, &[1, 3])], INVALID_REQUEST),
        ("A", &[(0, 2, &[])], INVALID_REQUEST),
        ("A", &[(2, 0, &[1])], INVALID_REQUEST),
        ("A", &[(0, 4, &[1]), (4, 5, &[1])], INVALID_REQUEST),
        ("A", &[(5, 6, &[1]), (0, 1, &[1])], INVALID_REQUEST),
        ("A", &[(5, 10, &[1])], INVALID_REQUEST),
        ("A", &[(-1, 3, &[1])], INVALID_REQUEST),
        ("B", &[(0, 0, &[1])], INVALID_STATE),
        ("A", &[(0, 1, &[1]), (8, 8, &[1])], INVALID_STATE),
    ];
    for (member, ranges, expected) in cases {
        let mut driver = held();
        assert_eq!(driver.accept("A", 8, 8), ErrorCode::None);
        let before = driver.view();
        assert_eq!(driver.stage(Some(member), owner, ranges), expected, "{ranges:?}");
        assert!(driver.plan.is_empty());
        assert_eq!(driver.view(), before);
    }
    let mut driver = held();
    assert_eq!(driver.release("A", 0, 0), ErrorCode::None);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 0, &[1])]), INVALID_STATE, "available");
    let rules = StageRules { allows_gap: false };
    let gap = [AcknowledgementBatch { first_offset: 1, last_offset: 1, types: &[0] }];
    let outcome =
        driver.partition.decide_stage(Some("A"), owner, &gap, &rules, &driver.config, &mut driver.plan);
    assert_eq!(outcome, Err(INVALID_REQUEST));
}

#[test]
fn a_repeat_succeeds_without_a_write_and_anything_else_is_refused() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 3, &[1])]), ErrorCode::None);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 3, &[1])]), ErrorCode::None);
    assert!(driver.plan.batches().is_empty());
    assert_eq!(driver.stage(Some("A"), owner, &[(2, 5, &[1])]), ErrorCode::None);
    assert_eq!(driver.plan.batches()[0].range, range(4, 5), "only what is new is stored");
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 3, &[3])]), INVALID_STATE, "another type");
    assert_eq!(driver.stage(Some("A"), producer(7, 4), &[(0, 3, &[1])]), INVALID_STATE, "another epoch");
    assert_eq!(driver.stage(Some("A"), producer(8, 3), &[(0, 3, &[1])]), INVALID_STATE, "another producer");
}

/// It may be another transaction that has dealt with it: that must not count as this one's.
#[test]
fn what_is_below_the_start_is_not_staged() {
    let mut driver = held();
    assert_eq!(driver.accept("A", 0, 4), ErrorCode::None);
    let owner = producer(7, 3);
    for member in [Some("A"), Some("B"), None] {
        assert_eq!(driver.stage(member, owner, &[(0, 4, &[1])]), INVALID_STATE);
    }
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 6, &[1])]), INVALID_STATE, "partly below");
    assert_eq!(
        driver.stage(Some("A"), owner, &[(3, 3, &[1]), (5, 6, &[1])]),
        INVALID_STATE,
        "all or nothing"
    );
    assert!(driver.plan.is_empty());
    assert_eq!(driver.stage(Some("A"), owner, &[(5, 6, &[1])]), ErrorCode::None);
}

#[test]
fn only_the_owner_of_that_epoch_is_resolved() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 4, &[1])]), ErrorCode::None);
    let before = driver.view();
    for other in [producer(7, 2), producer(7, 4), producer(8, 3)] {
        driver.resolve(other, 0, 9, RecordState::Acknowledged);
        assert_eq!(driver.view(), before);
        assert!(!driver.change.wakes_fetches());
    }
    driver.resolve(owner, 0, 9, RecordState::Available);
    assert_eq!(driver.view(), "0-4 AVAILABLE×1 | 5-9 ACQUIRED×1 A 30000", "what is not pending stays");
    driver.resolve(owner, 0, 9, RecordState::Acknowledged);
    assert_eq!(driver.view(), "0-4 AVAILABLE×1 | 5-9 ACQUIRED×1 A 30000", "a second marker does nothing");
}

#[test]
fn a_stage_that_could_not_be_stored_leaves_the_record_as_before() {
    let mut driver = held();
    let owner = producer(7, 3);
    driver.decide_stage(Some("A"), owner, &[(2, 4, &[1])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.stage(Some("A"), owner, &[(2, 4, &[1])]), INVALID_STATE, "not durable yet");
    driver.now = at(10_000);
    assert_eq!(driver.fail(id), []);
    assert_eq!(driver.view(), "0-9 ACQUIRED×1 A 20000");
    driver.decide_stage(Some("A"), owner, &[(2, 4, &[1])]).unwrap();
    let id = driver.hold();
    assert_eq!(
        driver.expire(30_000),
        [stored(0, 1, RecordState::Available, 1), stored(5, 9, RecordState::Available, 1)]
    );
    assert_eq!(driver.fail(id), [stored(2, 4, RecordState::Available, 1)], "its lock has ended meanwhile");
}

#[test]
fn an_outcome_may_come_before_the_completion_of_its_stage() {
    let mut driver = held();
    let owner = producer(7, 3);
    driver.decide_stage(Some("A"), owner, &[(0, 9, &[1])]).unwrap();
    let id = driver.hold();
    driver.resolve(owner, 3, 5, RecordState::Available);
    assert_eq!(driver.fetch("B"), "3-5×2");
    driver.complete(id);
    assert_eq!(
        driver.view(),
        "0-2 TX_PENDING×1 7/3 ACKNOWLEDGED | 3-5 ACQUIRED×2 B 30000 | 6-9 TX_PENDING×1 7/3 ACKNOWLEDGED"
    );
}

#[test]
fn an_outcome_does_not_touch_an_acknowledgement_that_is_being_stored() {
    let mut driver = held();
    driver.decide("A", &[(0, 4, &[2])]).unwrap();
    let id = driver.hold();
    driver.resolve(producer(7, 3), 0, 9, RecordState::Acknowledged);
    assert_eq!(driver.view(), "0-4 ACQUIRED×1* A 30000 | 5-9 ACQUIRED×1 A 30000");
    driver.complete(id);
    assert_eq!(driver.view(), "0-4 AVAILABLE×1 | 5-9 ACQUIRED×1 A 30000");
}

#[test]
fn the_early_dialect_ignores_who_holds_a_record() {
    let mut driver = Driver::new(&[2, 2]);
    let mode = AcquireMode::BatchOptimized;
    assert_eq!(driver.fetch_with("A", 2, 2, mode), "0-1×1");
    assert_eq!(driver.fetch_with("B", 2, 2, mode), "2-3×1");
    let owner = producer(7, 3);
    assert_eq!(driver.stage(None, owner, &[(0, 3, &[1])]), ErrorCode::None);
    assert_eq!(driver.plan.batches().len(), 1);
    assert_eq!(driver.view(), "0-3 TX_PENDING×1 7/3 ACKNOWLEDGED");
    assert_eq!(driver.stage(None, owner, &[(0, 3, &[1])]), ErrorCode::None, "a repeat");
    driver.resolve(owner, 0, 3, RecordState::Acknowledged);
    assert_eq!(driver.start(), 4);
}

#[test]
fn an_abort_can_give_records_back_for_the_rest_of_their_locks() {
    let mut driver = Driver::new(&[2, 2]);
    driver.config.abort_restores_lock = true;
    let mode = AcquireMode::BatchOptimized;
    assert_eq!(driver.fetch_with("A", 2, 2, mode), "0-1×1");
    driver.now = at(10_000);
    assert_eq!(driver.fetch_with("B", 2, 2, mode), "2-3×1");
    driver.now = at(20_000);
    let owner = producer(7, 3);
    assert_eq!(driver.stage(None, owner, &[(0, 3, &[1])]), ErrorCode::None);
    driver.now = at(100_000);
    driver.resolve(owner, 0, 3, RecordState::Available);
    assert_eq!(driver.view(), "0-1 ACQUIRED×1 A 10000 | 2-3 ACQUIRED×1 B 20000");
    assert!(!driver.change.freed_records);
    assert_eq!(driver.expire(110_000), [stored(0, 1, RecordState::Available, 1)]);
    assert_eq!(driver.accept("B", 2, 3), ErrorCode::None);
}

#[test]
fn a_log_start_archives_what_is_pending_below_it() {
    let mut driver = held();
    let owner = producer(7, 3);
    assert_eq!(driver.stage(Some("A"), owner, &[(0, 9, &[1])]), ErrorCode::None);
    driver.archive_below(4);
    assert_eq!((driver.start(), driver.fetch("B").as_str()), (4, ""));
    driver.resolve(owner, 0, 9, RecordState::Available);
    assert_eq!(driver.fetch("B"), "4-9×2");
    let mut driver = held();
    driver.decide_stage(Some("A"), owner, &[(0, 9, &[1])]).unwrap();
    let id = driver.hold();
    driver.archive_below(4);
    driver.complete(id);
    assert_eq!(driver.view(), "0-3 ARCHIVED×1 | 4-9 TX_PENDING×1 7/3 ACKNOWLEDGED");
}

#[test]
fn a_transaction_may_stage_in_several_steps_and_for_several_members() {
    let mut driver = Driver::new(&[2, 2]);
    let mode = AcquireMode::BatchOptimized;
    assert_eq!(driver.fetch_with("A", 2, 2, mode), "0-1×1");
    assert_eq!(driver.fetch_with("B", 2, 2, mode), "2-3×1");
    let (one, two) = (producer(7, 3), producer(8, 0));
    assert_eq!(driver.stage(Some("A"), one, &[(0, 0, &[1])]), ErrorCode::None);
    assert_eq!(driver.stage(Some("B"), one, &[(2, 2, &[3])]), ErrorCode::None);
    assert_eq!(driver.stage(Some("A"), two, &[(1, 1, &[1])]), ErrorCode::None);
    driver.resolve(one, 0, 0, RecordState::Acknowledged);
    driver.resolve(one, 2, 2, RecordState::Archived);
    assert_eq!(
        driver.view(),
        "0-0 ACKNOWLEDGED×1 | 1-1 TX_PENDING×1 8/0 ACKNOWLEDGED | 2-2 ARCHIVED×1 | 3-3 ACQUIRED×1 B 30000"
    );
    assert_eq!(driver.start(), 1);
}

#[test]
fn owners_are_forgotten_when_nothing_waits_for_them() {
    let mut driver = Driver::new(&[1; 500]);
    for index in 0..500 {
        let mode = AcquireMode::BatchOptimized;
        assert_eq!(driver.fetch_with("A", 1, 1, mode), format!("{index}-{index}×1"));
        let owner = producer(index, 0);
        assert_eq!(driver.stage(Some("A"), owner, &[(index, index, &[1])]), ErrorCode::None);
        if index != 3 {
            driver.resolve(owner, index, index, RecordState::Acknowledged);
        }
    }
    assert!(driver.partition.owners.number_bound() <= 70);
    driver.resolve(producer(3, 0), 3, 3, RecordState::Acknowledged);
    assert_eq!(driver.start(), 500);
}
