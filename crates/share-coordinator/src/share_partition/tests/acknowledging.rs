//! Rows of the behaviour table about acknowledgements.

use super::*;

const INVALID_STATE: ErrorCode = ErrorCode::InvalidRecordState;
const INVALID_REQUEST: ErrorCode = ErrorCode::InvalidRequest;

/// A share partition of which A holds 0 to 9.
fn held() -> Driver {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    driver
}

#[test]
fn refusals_come_in_their_order_and_apply_nothing() {
    // Rows 3 to 14 of the behaviour table.
    let cases: [(&str, Ranges<'_>, ErrorCode); 18] = [
        ("B", &[(0, 0, &[1])], INVALID_STATE),
        ("A", &[(10, 12, &[1])], INVALID_REQUEST),
        ("A", &[(5, 12, &[1])], INVALID_REQUEST),
        ("A", &[(0, 1, &[1]), (3, 12, &[1])], INVALID_REQUEST),
        ("A", &[(0, 4, &[1]), (3, 6, &[1])], INVALID_REQUEST),
        ("A", &[(0, 4, &[1]), (4, 6, &[1])], INVALID_STATE),
        ("A", &[(5, 6, &[1]), (0, 1, &[1])], INVALID_REQUEST),
        ("A", &[(6, 5, &[1])], INVALID_REQUEST),
        ("A", &[(0, 4, &[1, 2])], INVALID_REQUEST),
        ("A", &[(0, 4, &[])], INVALID_REQUEST),
        ("A", &[(0, 4, &[5])], INVALID_REQUEST),
        ("A", &[(0, 4, &[-1])], INVALID_REQUEST),
        ("A", &[(0, 2, &[1, 9, 1])], INVALID_REQUEST),
        ("B", &[(5, 12, &[1])], INVALID_REQUEST),
        ("A", &[(-5, 4, &[1])], INVALID_REQUEST),
        ("A", &[(i64::MIN, i64::MAX, &[1])], INVALID_REQUEST),
        ("A", &[(0, i64::MAX, &[1])], INVALID_REQUEST),
        ("A", &[(0, 4, &[1]), (4, 12, &[1])], INVALID_REQUEST),
    ];
    for (member, ranges, expected) in cases {
        let mut driver = held();
        assert_eq!(driver.acknowledge(member, ranges), expected, "{ranges:?}");
        assert_eq!(driver.view(), "0-9 ACQUIRED×1 A 30000");
        assert_eq!(driver.accept("A", 0, 9), ErrorCode::None);
    }
}

#[test]
fn a_renewal_must_be_announced_known_and_allowed() {
    let mut driver = held();
    let unannounced = AcknowledgeRules { is_renew_ack: false, ..RULES };
    assert_eq!(driver.decide_with("A", &[(0, 0, &[4])], unannounced), Err(INVALID_REQUEST));
    let older = AcknowledgeRules { type_max: AcknowledgeType::Reject, is_renew_ack: true };
    assert_eq!(driver.decide_with("A", &[(0, 0, &[4])], older), Err(INVALID_REQUEST));
    assert_eq!(driver.acknowledge("A", &[(0, 0, &[1])]), ErrorCode::None, "an announcement alone is fine");
    driver.config.renew_enabled = false;
    assert_eq!(driver.acknowledge("A", &[(1, 1, &[4])]), INVALID_STATE);
}

#[test]
fn what_is_below_the_start_is_ignored_whoever_says_it() {
    let mut driver = held();
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::None);
    assert_eq!(driver.start(), 1);
    assert_eq!(driver.accept("A", 0, 0), ErrorCode::None);
    assert!(driver.plan.is_empty());
    assert_eq!(driver.accept("B", 0, 0), ErrorCode::None);
    assert_eq!(driver.accept("A", 0, 3), ErrorCode::None, "the upper part counts");
    assert_eq!(driver.start(), 4);
}

#[test]
fn what_was_accepted_above_the_start_cannot_be_accepted_again() {
    let mut driver = held();
    assert_eq!(driver.accept("A", 5, 5), ErrorCode::None);
    assert_eq!(driver.start(), 0);
    assert_eq!(driver.accept("A", 5, 5), INVALID_STATE);
    assert_eq!(driver.accept("A", 4, 6), INVALID_STATE);
    assert_eq!(driver.accept("A", 4, 4), ErrorCode::None);
}

#[test]
fn each_offset_gets_its_own_type() {
    let mut driver = held();
    assert_eq!(driver.acknowledge("A", &[(6, 9, &[1, 2, 3, 0])]), ErrorCode::None);
    assert_eq!(
        driver.plan.batches(),
        [
            stored(6, 6, RecordState::Acknowledged, 1),
            stored(7, 7, RecordState::Available, 1),
            stored(8, 9, RecordState::Archived, 1),
        ]
    );
    assert!(driver.change.freed_records);
    assert!(!driver.change.moved_start);
    assert_eq!(driver.fetch("B"), "7-7×2");
}

#[test]
fn after_everything_is_done_the_table_is_empty() {
    let mut driver = held();
    assert_eq!(driver.accept("A", 0, 9), ErrorCode::None);
    assert!(driver.change.wakes_fetches());
    assert_eq!((driver.start(), driver.partition.next_offset().get()), (10, 10));
    assert_eq!(driver.view(), "");
    assert_eq!(driver.accept("A", 0, 9), ErrorCode::None, "ignored");
    assert_eq!(driver.accept("A", 10, 10), INVALID_STATE);
    assert_eq!(driver.partition.poll_timeout(), None);
}

#[test]
fn a_range_may_cover_several_batches() {
    for types in [&[1][..], &[1; 6], &[1, 1, 1, 3, 1, 1]] {
        let mut driver = Driver::new(&[3, 3]);
        assert_eq!(driver.fetch_with("A", 6, 3, AcquireMode::BatchOptimized), "0-2×1 3-5×1");
        assert_eq!(driver.acknowledge("A", &[(0, 5, types)]), ErrorCode::None);
        assert_eq!(driver.start(), 6);
    }
}

#[test]
fn a_hole_is_held_by_nobody() {
    let states = [stored(0, 2, RecordState::Available, 1), stored(6, 9, RecordState::Available, 1)];
    let mut driver = Driver::loaded(0, &states, &[10]);
    assert_eq!(driver.accept("A", 0, 2), INVALID_STATE, "loaded records are held by nobody");
    assert_eq!(driver.fetch_with("A", 3, 3, AcquireMode::BatchOptimized), "0-2×2");
    assert_eq!(driver.accept("A", 2, 6), INVALID_STATE);
    assert_eq!(driver.accept("A", 2, 4), INVALID_REQUEST, "it ends in the hole");
    assert_eq!(driver.accept("A", 0, 2), ErrorCode::None);
    assert_eq!(driver.accept("A", 4, 7), INVALID_STATE, "nothing is tracked at its first offset");
}

#[test]
fn the_limit_archives_what_is_released_for_the_last_time() {
    let mut driver = Driver::new(&[10]);
    driver.config.delivery_count_limit = 2;
    assert_eq!(driver.fetch_strictly("A", 4), "0-3×1");
    assert_eq!(driver.release("A", 0, 3), ErrorCode::None);
    assert_eq!(driver.fetch_strictly("A", 4), "0-3×2");
    assert_eq!(driver.release("A", 0, 3), ErrorCode::None);
    assert_eq!(driver.plan.batches(), [stored(0, 3, RecordState::Archived, 2)]);
    assert!(!driver.change.freed_records);
    assert_eq!(driver.start(), 4);
}

#[test]
fn the_dead_letter_queue_holds_what_is_rejected_or_failed_too_often() {
    let mut driver = held();
    driver.config.dead_letter_queue = true;
    assert_eq!(driver.acknowledge("A", &[(0, 2, &[3, 0, 3])]), ErrorCode::None);
    assert_eq!(
        driver.plan.batches(),
        [
            stored(0, 0, RecordState::Archiving, 1),
            stored(1, 1, RecordState::Archived, 1),
            stored(2, 2, RecordState::Archiving, 1),
        ]
    );
    assert!(driver.change.archiving);
    assert_eq!(driver.start(), 0);
    driver.config.delivery_count_limit = 1;
    driver.close("A");
    let mut ranges = Vec::new();
    driver.partition.archiving(&mut ranges);
    assert_eq!(ranges, [(range(0, 0), 1), (range(2, 9), 1)]);
    assert_eq!(driver.fetch("B"), "", "what waits for its copy is not delivered");
    assert_eq!(driver.accept("A", 0, 0), INVALID_STATE);

    assert_eq!(driver.partition.decide_archive(range(0, 1), &mut driver.plan), Err(INVALID_STATE));
    assert_eq!(driver.partition.decide_archive(range(9, 10), &mut driver.plan), Err(INVALID_STATE));
    for done in [range(0, 0), range(2, 9)] {
        driver.partition.decide_archive(done, &mut driver.plan).unwrap();
        assert!(driver.plan.batches().iter().all(|batch| batch.state == RecordState::Archived));
        let _ = driver.partition.apply(driver.now, &driver.config, &driver.plan);
        driver.partition.check_invariants();
    }
    assert_eq!(driver.start(), 10);
}

#[test]
fn a_session_that_ends_releases_what_its_member_holds_and_no_more() {
    let mut driver = Driver::new(&[4, 4]);
    assert_eq!(driver.fetch_with("A", 4, 4, AcquireMode::BatchOptimized), "0-3×1");
    assert_eq!(driver.fetch_with("B", 4, 4, AcquireMode::BatchOptimized), "4-7×1");
    assert_eq!(driver.accept("A", 1, 1), ErrorCode::None);
    driver.close("A");
    assert!(driver.change.freed_records);
    assert_eq!(
        driver.plan.batches(),
        [stored(0, 0, RecordState::Available, 1), stored(2, 3, RecordState::Available, 1)]
    );
    driver.close("A");
    assert!(driver.plan.is_empty() && !driver.change.wakes_fetches());
    driver.close("nobody");
    assert_eq!(driver.fetch("B"), "0-0×2 2-3×2");
}

#[test]
fn counts_grow_with_every_delivery_and_never_fall() {
    let mut driver = Driver::new(&[1]);
    for round in 1..=5 {
        assert_eq!(driver.fetch("A"), format!("0-0×{round}"));
        driver.close("A");
    }
    assert_eq!((driver.fetch("A").as_str(), driver.start()), ("", 1));
}
