//! Locks, their ends, renewals, and changes that are still being stored.

use super::*;
use crate::share_partition::word::LOCK_DURATION_MS_MAX;

fn held(duration_ms: i64) -> Driver {
    let mut driver = Driver::new(&[10]);
    driver.config.lock_duration_ms = duration_ms;
    assert_eq!(driver.fetch("A"), "0-9×1");
    driver
}

#[test]
fn a_lock_ends_at_its_deadline() {
    let mut driver = held(1_500);
    assert_eq!(driver.partition.poll_timeout(), Some(at(1_500)));
    assert_eq!(driver.expire(1_499), []);
    assert_eq!(driver.expire(1_500), [stored(0, 9, RecordState::Available, 1)]);
    assert!(driver.change.freed_records);
    assert_eq!(driver.partition.poll_timeout(), None);
    assert_eq!(driver.fetch("B"), "0-9×2");
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::InvalidRecordState);
    assert_eq!(driver.accept("B", 0, 0), ErrorCode::None);
}

#[test]
fn a_renewal_is_a_full_new_lock_for_what_it_names() {
    let mut driver = Driver::new(&[6]);
    driver.config.lock_duration_ms = 1_500;
    assert_eq!(driver.fetch("A"), "0-5×1");
    assert_eq!(driver.acknowledge("A", &[(0, 2, &[4])]), ErrorCode::None);
    assert!(driver.plan.batches().is_empty(), "a renewal stores nothing");
    driver.now = at(1_000);
    assert_eq!(driver.acknowledge("A", &[(0, 2, &[4])]), ErrorCode::None);
    assert_eq!(driver.view(), "0-2 ACQUIRED×1 A 1500 | 3-5 ACQUIRED×1 A 500");
    assert_eq!(driver.expire(1_500), [stored(3, 5, RecordState::Available, 1)]);
    assert_eq!(driver.fetch("B"), "3-5×2");
    assert_eq!(driver.expire(2_500), [stored(0, 2, RecordState::Available, 1)]);
    assert_eq!(driver.fetch("B"), "0-2×2");
}

#[test]
fn renewals_mix_with_other_types() {
    let mut driver = held(1_500);
    driver.now = at(1_000);
    assert_eq!(driver.acknowledge("A", &[(0, 3, &[4, 1, 4, 2])]), ErrorCode::None);
    assert_eq!(
        driver.view(),
        "0-0 ACQUIRED×1 A 1500 | 1-1 ACKNOWLEDGED×1 | 2-2 ACQUIRED×1 A 1500 | 3-3 AVAILABLE×1 | 4-9 ACQUIRED×1 A 500"
    );
    let mut driver = held(1_500);
    assert_eq!(driver.acknowledge("A", &[(0, 4, &[4]), (4, 6, &[1])]), ErrorCode::None);
    assert_eq!(driver.acknowledge("A", &[(7, 7, &[1]), (7, 7, &[4])]), ErrorCode::InvalidRecordState);
}

#[test]
fn a_renewal_stays_when_what_follows_it_fails() {
    let mut driver = held(1_500);
    driver.now = at(1_000);
    assert_eq!(driver.acknowledge("A", &[(0, 1, &[4]), (2, 99, &[1])]), ErrorCode::InvalidRequest);
    assert_eq!(
        driver.acknowledge("A", &[(2, 2, &[1]), (3, 3, &[4]), (4, 99, &[4])]),
        ErrorCode::InvalidRequest
    );
    assert_eq!(driver.acknowledge("B", &[(4, 4, &[4])]), ErrorCode::InvalidRecordState);
    let view = "0-1 ACQUIRED×1 A 1500 | 2-2 ACQUIRED×1 A 500 | 3-3 ACQUIRED×1 A 1500 | 4-9 ACQUIRED×1 A 500";
    assert_eq!(driver.view(), view);
}

#[test]
fn the_last_lapse_archives() {
    let mut driver = held(1_000);
    driver.config.delivery_count_limit = 1;
    driver.config.dead_letter_queue = true;
    assert_eq!(driver.expire(1_000), [stored(0, 9, RecordState::Archiving, 1)]);
    assert!(driver.change.archiving && !driver.change.freed_records);
    let mut driver = held(1_000);
    driver.config.delivery_count_limit = 1;
    assert_eq!(driver.expire(1_000), [stored(0, 9, RecordState::Archived, 1)]);
    assert!(driver.change.moved_start);
}

#[test]
fn a_lock_below_the_log_start_ends_in_the_archive() {
    let mut driver = held(1_000);
    driver.archive_below(4);
    assert_eq!(
        driver.expire(1_000),
        [stored(0, 3, RecordState::Archived, 1), stored(4, 9, RecordState::Available, 1)]
    );
    assert_eq!((driver.start(), driver.partition.delivery_complete_count()), (4, 0));
}

#[test]
fn a_shorter_lock_duration_is_noticed_in_time() {
    let mut driver = Driver::new(&[3, 3, 3]);
    let mode = AcquireMode::BatchOptimized;
    for (duration_ms, expected) in [(3_000, "0-2×1"), (1_000, "3-5×1"), (2_000, "6-8×1")] {
        driver.config.lock_duration_ms = duration_ms;
        assert_eq!(driver.fetch_with("A", 3, 3, mode), expected);
    }
    assert_eq!(driver.expire(1_000), [stored(3, 5, RecordState::Available, 1)]);
    assert_eq!(driver.expire(2_000), [stored(6, 8, RecordState::Available, 1)]);
    assert_eq!(driver.expire(3_000), [stored(0, 2, RecordState::Available, 1)]);
}

#[test]
fn deadlines_of_what_is_done_do_not_pile_up() {
    let mut driver = Driver::new(&[1; 400]);
    assert_eq!(driver.fetch_with("B", 1, 1, AcquireMode::BatchOptimized), "0-0×1");
    for index in 1..400 {
        driver.now = at(index);
        assert_eq!(driver.fetch_with("A", 1, 1, AcquireMode::BatchOptimized), format!("{index}-{index}×1"));
        if 10 < index {
            assert_eq!(driver.accept("A", index - 10, index - 10), ErrorCode::None);
        }
    }
    assert!(driver.partition.locks.len() <= 50, "{}", driver.partition.locks.len());
    assert_eq!(driver.expire(40_000).len(), 2);
}

/// 1,600 records, of one batch, that were locked at 1,600 times.
fn locked_one_by_one() -> Driver {
    let mut driver = Driver::new(&[1_600]);
    for index in 0..1_600 {
        driver.now = at(index);
        let expected = format!("{index}-{index}×1");
        assert_eq!(driver.fetch_with("A", 1, 1, AcquireMode::RecordLimit), expected);
    }
    driver
}

#[test]
fn deadlines_of_all_records_take_room_for_an_eighth_of_them() {
    let driver = locked_one_by_one();
    assert!(driver.partition.locks.len() <= 200, "{}", driver.partition.locks.len());
}

#[test]
fn deadlines_that_share_an_entry_stay_exact() {
    let mut driver = locked_one_by_one();
    for index in [0, 1, 2, 700] {
        assert_eq!(driver.accept("A", index, index), ErrorCode::None);
    }
    for index in 3..1_600 {
        let deadline = 30_000 + index;
        assert!(driver.expire(deadline - 1).is_empty(), "{index}");
        let expected = [stored(index, index, RecordState::Available, 1)];
        let expected = if index == 700 { &[][..] } else { &expected };
        assert_eq!(driver.expire(deadline), expected, "{index}");
    }
    assert_eq!(driver.partition.poll_timeout(), None);
}

#[test]
fn locks_of_other_durations_join_an_entry_that_many_share() {
    let mut driver = locked_one_by_one();
    driver.now = at(2_000);
    for (first, last, duration_ms) in
        [(900, 900, 28_700), (10, 20, 28_000), (30, 30, 40_000), (1_599, 1_599, 1)]
    {
        driver.config.lock_duration_ms = duration_ms;
        assert_eq!(driver.acknowledge("A", &[(first, last, &[4])]), ErrorCode::None);
    }
    driver.partition.check_invariants();
    assert_eq!(driver.expire(2_001), [stored(1_599, 1_599, RecordState::Available, 1)]);
    assert_eq!(driver.expire(29_999), []);
    let mut batches = driver.expire(30_000);
    batches.sort_by_key(|batch| batch.range.first());
    assert_eq!(batches, [stored(0, 0, RecordState::Available, 1), stored(10, 20, RecordState::Available, 1)]);
    assert_eq!(
        driver.expire(30_030),
        [stored(1, 9, RecordState::Available, 1), stored(21, 29, RecordState::Available, 1)]
    );
    assert_eq!(driver.expire(30_699).len(), 1);
    let mut batches = driver.expire(30_700);
    batches.sort_by_key(|batch| batch.range.first());
    assert_eq!(
        batches,
        [stored(700, 700, RecordState::Available, 1), stored(900, 900, RecordState::Available, 1)]
    );
    assert_eq!(driver.expire(41_999).len(), 2);
    assert_eq!(driver.expire(42_000), [stored(30, 30, RecordState::Available, 1)]);
}

#[test]
fn a_clock_may_jump_over_some_of_the_deadlines_that_share_an_entry() {
    let mut driver = locked_one_by_one();
    let jump_ms = 30_800 + LOCK_DURATION_MS_MAX;
    driver.now = at(jump_ms);
    assert_eq!(driver.acknowledge("A", &[(1_000, 1_000, &[4])]), ErrorCode::None);
    driver.partition.check_invariants();
    let freed = [stored(0, 999, RecordState::Available, 1), stored(1_001, 1_599, RecordState::Available, 1)];
    assert_eq!(driver.expire(jump_ms), freed);
    assert_eq!(driver.expire(jump_ms + 30_000), [stored(1_000, 1_000, RecordState::Available, 1)]);
}

#[test]
fn what_is_in_transition_is_left_alone() {
    let mut driver = held(30_000);
    driver.decide("A", &[(0, 4, &[2])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.view(), "0-4 ACQUIRED×1* A 30000 | 5-9 ACQUIRED×1 A 30000");
    assert_eq!(driver.fetch("B"), "");
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::InvalidRecordState);
    assert_eq!(driver.acknowledge("A", &[(0, 0, &[4])]), ErrorCode::InvalidRecordState);
    driver.close("A");
    assert_eq!(driver.plan.batches(), [stored(5, 9, RecordState::Available, 1)]);
    assert_eq!(driver.start(), 0);
    driver.complete(id);
    assert!(driver.change.freed_records);
    assert_eq!(driver.fetch("B"), "0-9×2");
    driver.complete(id);
    assert_eq!(driver.view(), "0-9 ACQUIRED×2 B 30000", "a second completion does nothing");
}

#[test]
fn a_release_that_could_not_be_stored_keeps_its_lock() {
    let mut driver = held(1_500);
    driver.decide("A", &[(0, 9, &[2])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.fetch("B"), "");
    driver.now = at(500);
    assert_eq!(driver.fail(id), []);
    assert_eq!(driver.view(), "0-9 ACQUIRED×1 A 1000");
    assert_eq!(driver.accept("B", 0, 0), ErrorCode::InvalidRecordState);
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::None);
    assert_eq!(driver.expire(1_500), [stored(1, 9, RecordState::Available, 1)]);
}

#[test]
fn a_lock_that_ends_in_transition_is_not_lost() {
    let mut driver = held(1_500);
    driver.decide("A", &[(0, 4, &[1])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.expire(1_500), [stored(5, 9, RecordState::Available, 1)]);
    assert_eq!(driver.fail(id), [stored(0, 4, RecordState::Available, 1)]);
    assert!(driver.change.freed_records);
    assert_eq!(driver.fetch("B"), "0-9×2", "one whole batch again, of split records");

    let mut driver = held(1_500);
    driver.decide("A", &[(0, 9, &[1])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.expire(1_500), []);
    driver.complete(id);
    assert_eq!(driver.start(), 10, "a stored acknowledgement counts although the lock has ended");
}

#[test]
fn the_limit_holds_when_the_write_fails_and_the_lock_ends() {
    let mut driver = held(1_000);
    driver.config.delivery_count_limit = 2;
    assert_eq!(driver.expire(1_000).len(), 1);
    assert_eq!(driver.fetch("A"), "0-9×2");
    driver.decide("A", &[(0, 9, &[1])]).unwrap();
    let id = driver.hold();
    assert_eq!(driver.expire(2_000), []);
    assert_eq!(driver.fail(id), [stored(0, 9, RecordState::Archived, 2)]);
    assert_eq!((driver.start(), driver.fetch("B").as_str()), (10, ""));
}

#[test]
fn a_release_that_completes_below_the_log_start_is_archived() {
    let mut driver = held(1_000);
    driver.decide("A", &[(0, 9, &[2])]).unwrap();
    let id = driver.hold();
    driver.archive_below(6);
    assert_eq!(driver.start(), 6);
    driver.complete(id);
    assert_eq!((driver.start(), driver.fetch("B").as_str()), (6, "6-9×2"));
}

#[test]
fn several_changes_may_be_stored_at_once() {
    let mut driver = held(1_000);
    driver.decide("A", &[(0, 2, &[1])]).unwrap();
    assert_eq!(driver.plan.delivery_complete_count(), 3);
    let one = driver.hold();
    driver.decide("A", &[(3, 4, &[1])]).unwrap();
    assert_eq!(driver.plan.delivery_complete_count(), 5, "both are stored, one after the other");
    let two = driver.hold();
    driver.complete(two);
    assert_eq!(driver.start(), 0);
    driver.complete(one);
    assert_eq!(driver.start(), 5);
}

#[test]
fn a_completion_for_an_earlier_table_is_not_taken_for_one_of_this() {
    let mut earlier = held(1_000);
    earlier.decide("A", &[(0, 9, &[1])]).unwrap();
    let late = earlier.hold();
    let mut driver = held(1_000);
    driver.partition.number_transitions_from(1 << 32);
    driver.decide("A", &[(0, 4, &[2])]).unwrap();
    let id = driver.hold();
    driver.complete(late);
    assert!(driver.view().starts_with("0-4 ACQUIRED×1* A"));
    driver.complete(id);
    assert!(driver.view().starts_with("0-4 AVAILABLE×1"));
}

/// More than the lock bits of a record tell apart, several times over.
const JUMP_MS: i64 = 1 << 31;

/// A held clock may jump, and a parked fetch may be answered before what is due then has lapsed.
#[test]
fn a_clock_may_jump_past_what_a_record_can_tell_apart() {
    for jump_ms in [(1 << 27) - 1_000, (1 << 28) - 1, 1 << 28, JUMP_MS, 1 << 45] {
        let mut driver = Driver::new(&[3, 3]);
        assert_eq!(driver.fetch_strictly("A", 3), "0-2×1");
        driver.now = at(jump_ms);
        assert_eq!(driver.fetch_strictly("B", 3), "3-5×1");
        assert!(driver.view().ends_with("3-5 ACQUIRED×1 B 30000"), "{}", driver.view());
        assert_eq!(driver.expire(jump_ms), [stored(0, 2, RecordState::Available, 1)]);
        assert_eq!(driver.view(), "0-2 AVAILABLE×1 | 3-5 ACQUIRED×1 B 30000");
        assert_eq!(driver.expire(jump_ms + 30_000), [stored(3, 5, RecordState::Available, 1)]);
    }
}

#[test]
fn what_ended_before_a_jump_is_pending_without_a_lock() {
    let by = producer(7, 0);
    let mut driver = Driver::new(&[4]);
    driver.config.abort_restores_lock = true;
    assert_eq!(driver.fetch("A"), "0-3×1");
    assert_eq!(driver.decide_stage(Some("A"), by, &[(0, 1, &[1])]), Ok(()));
    let id = driver.hold();
    assert_eq!(driver.expire(40_000), [stored(2, 3, RecordState::Available, 1)]);
    driver.now = at((1 << 28) - 10_000);
    driver.complete(id);
    driver.resolve(by, 0, 1, RecordState::Available);
    assert_eq!(driver.view(), "0-3 AVAILABLE×1");
}

#[test]
fn a_renewal_after_a_jump_keeps_the_other_locks() {
    let mut driver = Driver::new(&[4]);
    assert_eq!(driver.fetch("A"), "0-3×1");
    driver.now = at(JUMP_MS);
    assert_eq!(driver.acknowledge("A", &[(1, 1, &[4])]), ErrorCode::None);
    let freed = [stored(0, 0, RecordState::Available, 1), stored(2, 3, RecordState::Available, 1)];
    assert_eq!(driver.expire(JUMP_MS), freed);
    assert_eq!(driver.view(), "0-0 AVAILABLE×1 | 1-1 ACQUIRED×1 A 30000 | 2-3 AVAILABLE×1");
}
