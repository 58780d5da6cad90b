//! What is stored, and what a new leader makes of it.

use super::*;
use crate::Staged;

#[test]
fn the_stored_start_is_one_write_behind_and_the_count_makes_up_for_it() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    assert_eq!(driver.accept("A", 5, 6), ErrorCode::None);
    assert_eq!(driver.plan.batches(), [stored(5, 6, RecordState::Acknowledged, 1)]);
    assert_eq!((driver.plan.start_offset().get(), driver.plan.delivery_complete_count()), (0, 2));
    assert_eq!(driver.acknowledge("A", &[(7, 9, &[2, 3, 0])]), ErrorCode::None);
    assert_eq!(
        driver.plan.batches(),
        [stored(7, 7, RecordState::Available, 1), stored(8, 9, RecordState::Archived, 1)]
    );
    assert_eq!(driver.accept("A", 0, 1), ErrorCode::None);
    assert_eq!((driver.plan.start_offset().get(), driver.plan.delivery_complete_count()), (0, 6));
    assert_eq!(driver.accept("A", 2, 4), ErrorCode::None);
    assert_eq!((driver.plan.start_offset().get(), driver.plan.delivery_complete_count()), (2, 7));
    assert_eq!((driver.start(), driver.partition.delivery_complete_count()), (7, 2));
}

#[test]
fn a_load_keeps_every_state() {
    let owner = producer(7, 3);
    let staged = Staged {
        producer: owner,
        acknowledge_type: AcknowledgeType::Accept,
        state: RecordState::Acknowledged,
    };
    let states = [
        stored(0, 4, RecordState::Acknowledged, 1),
        stored(5, 6, RecordState::Archiving, 5),
        StateBatch { staged: Some(staged), ..stored(7, 8, RecordState::TxPending, 2) },
        stored(10, 12, RecordState::Available, 3),
    ];
    let mut driver = Driver::loaded(2, &states, &[15]);
    assert_eq!((driver.start(), driver.partition.next_offset().get()), (5, 13));
    let change = driver.partition.loaded_change();
    assert!(change.freed_records && change.archiving);
    assert_eq!(driver.view(), "5-6 ARCHIVING×5 | 7-8 TX_PENDING×2 7/3 ACKNOWLEDGED | 10-12 AVAILABLE×3");
    assert_eq!(driver.stage(Some("A"), owner, &[(7, 8, &[1])]), ErrorCode::None, "a retry after the move");
    assert!(driver.plan.is_empty());
    driver.config.abort_restores_lock = true;
    driver.resolve(owner, 7, 8, RecordState::Available);
    assert_eq!(driver.fetch("B"), "7-8×3 9-9×1", "then what failed often, held back");
}

#[test]
fn a_load_refuses_what_no_leader_stores() {
    let cases = [
        vec![stored(0, 1, RecordState::Acquired, 1)],
        vec![stored(0, 1, RecordState::TxPending, 1)],
        vec![stored(0, 5, RecordState::Available, 1), stored(5, 6, RecordState::Available, 1)],
        vec![stored(7, 8, RecordState::Available, 1), stored(5, 6, RecordState::Available, 1)],
        vec![stored(0, 1, RecordState::Available, -1)],
        vec![stored(0, i64::MAX, RecordState::Acknowledged, 1)],
        vec![stored(0, 1 << 40, RecordState::Available, 1)],
    ];
    for batches in cases {
        assert_eq!(load(0, &batches).err(), Some(ErrorCode::UnknownServerError), "{batches:?}");
    }
}

#[test]
fn a_plan_is_applied_to_the_state_it_was_made_for() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    driver.decide("A", &[(0, 0, &[1])]).unwrap();
    let stale = driver.plan.clone();
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::None);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        driver.partition.apply(driver.now, &driver.config, &stale)
    }));
    assert!(outcome.is_err());
}

#[test]
fn a_record_needs_at_most_sixteen_bytes() {
    assert_eq!(size_of::<word::Word>(), 8);
    assert_eq!(size_of::<batches::Batch>(), 32);
    assert_eq!(size_of::<locks::Lock>(), 32);
    // A list of deadlines is rebuilt when it has one for each eight records, and has room for twice as many at most.
    assert!(size_of::<word::Word>() + 2 * size_of::<locks::Lock>() / 8 <= 16);
}

#[test]
fn a_long_run_of_finished_records_costs_nothing() {
    let end = 1 << 40;
    let mut driver = Driver::loaded(0, &[stored(10, end - 1, RecordState::Acknowledged, 1)], &[10]);
    assert_eq!(driver.partition.in_flight_count(), end);
    driver.archive_below(20);
    assert_eq!((driver.start(), driver.partition.in_flight_count()), (end, 0));
}
