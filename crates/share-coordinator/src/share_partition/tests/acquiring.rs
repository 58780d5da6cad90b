//! Rows of the behaviour table about what a fetch acquires.

use super::*;

#[test]
fn a_fresh_partition_gives_all_to_the_first_member_and_nothing_to_the_second() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    assert_eq!(driver.view(), "0-9 ACQUIRED×1 A 30000");
    assert_eq!(driver.fetch("B"), "");
    assert_eq!(driver.partition.fetch_offset().get(), 10);
}

#[test]
fn the_second_half_of_a_record_batch_is_rounded_up_to_in_mode_0() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch_with("A", 5, 5, AcquireMode::BatchOptimized), "0-9×1");
}

#[test]
fn the_record_limit_is_kept_in_mode_1_and_the_rest_goes_to_another() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch_strictly("A", 4), "0-3×1");
    assert_eq!(driver.view(), "0-3 ACQUIRED×1 A 30000 | 4-9 AVAILABLE×0");
    assert_eq!(driver.fetch_strictly("B", 3), "4-6×1");
    assert_eq!(driver.partition.fetch_offset().get(), 7);
}

#[test]
fn batch_size_shapes_new_ranges_in_mode_0_only() {
    let mut driver = Driver::new(&[3; 10]);
    assert_eq!(
        driver.fetch_with("A", 500, 5, AcquireMode::BatchOptimized),
        "0-5×1 6-11×1 12-17×1 18-23×1 24-29×1"
    );
    let mut driver = Driver::new(&[3; 10]);
    assert_eq!(driver.fetch_with("A", 500, 5, AcquireMode::RecordLimit), "0-29×1");
}

#[test]
fn max_records_is_rounded_up_to_a_record_batch() {
    let mut driver = Driver::new(&[3; 10]);
    assert_eq!(driver.fetch_with("A", 7, 500, AcquireMode::BatchOptimized), "0-8×1");
    assert_eq!(driver.fetch_with("A", 1, 500, AcquireMode::BatchOptimized), "9-11×1");
    assert_eq!(driver.fetch_with("A", 0, 500, AcquireMode::BatchOptimized), "");
    assert_eq!(driver.fetch_with("A", 7, 500, AcquireMode::RecordLimit), "12-18×1");
    assert_eq!(driver.partition.next_offset().get(), 21);
}

#[test]
fn the_window_is_a_span_and_may_be_overshot_once() {
    let mut driver = Driver::new(&[30; 10]);
    driver.config.record_locks_max = 100;
    assert_eq!(driver.fetch("A"), "0-119×1");
    assert!(!driver.partition.can_acquire(&driver.config));
    assert_eq!(driver.fetch("A"), "");
    assert_eq!(driver.accept("A", 30, 59), ErrorCode::None);
    assert_eq!(driver.fetch("A"), "");
    assert_eq!(driver.release("A", 60, 69), ErrorCode::None);
    assert!(driver.partition.can_acquire(&driver.config));
    assert_eq!(driver.partition.last_acquirable_offset(&driver.config), Offset::new(119));
    assert_eq!(driver.fetch("A"), "60-69×2");
    assert_eq!(driver.accept("A", 0, 29), ErrorCode::None);
    assert_eq!(driver.start(), 60);
    assert_eq!(driver.fetch("A"), "120-179×1");
}

#[test]
fn each_acquired_range_lies_in_what_was_read() {
    let mut driver = Driver::new(&[10, 10]);
    driver.config.record_locks_max = 20;
    assert_eq!(driver.fetch("A"), "0-19×1");
    assert_eq!(driver.release("A", 5, 14), ErrorCode::None);
    let first_batch = [driver.log[0]];
    let run = FetchedRun { fetch_offset: driver.partition.fetch_offset(), batches: &first_batch };
    let request = AcquireRequest { max_records: 500, batch_size: 500, mode: AcquireMode::BatchOptimized };
    let mut acquired = Vec::new();
    let (count, _) = driver.partition.acquire(driver.now, "B", &driver.config, &request, &run, &mut acquired);
    assert_eq!((count, acquired[0].range), (5, range(5, 9)));
    assert_eq!(driver.expire(30_000).len(), 3, "the lock of every range ends");
}

#[test]
fn a_whole_tracked_batch_that_reaches_past_what_was_read_is_split() {
    let mut driver = Driver::new(&[10, 10]);
    assert_eq!(driver.fetch("A"), "0-19×1");
    assert_eq!(driver.release("A", 0, 19), ErrorCode::None);
    driver.log.truncate(1);
    assert_eq!(driver.fetch("B"), "0-9×2");
    assert_eq!(driver.view(), "0-9 ACQUIRED×2 B 30000 | 10-19 AVAILABLE×1");
}

#[test]
fn often_failed_records_come_in_ever_smaller_numbers() {
    let mut driver = Driver::new(&[8, 3]);
    let mut fetches = Vec::new();
    loop {
        let fetched = driver.fetch("A");
        if fetched.is_empty() {
            break;
        }
        fetches.push(fetched);
        driver.close("A");
    }
    let mut expected = vec!["0-10×1".to_owned(), "0-10×2".to_owned(), "0-10×3".to_owned()];
    expected.push("0-4×4".to_owned());
    expected.extend((0..5).map(|offset| format!("{offset}-{offset}×5")));
    expected.push("5-9×4".to_owned());
    expected.extend((5..10).map(|offset| format!("{offset}-{offset}×5")));
    expected.extend(["10-10×4".to_owned(), "10-10×5".to_owned()]);
    assert_eq!(fetches, expected);
    assert_eq!(driver.start(), 11);
}

#[test]
fn the_last_attempt_of_three_is_alone() {
    let mut driver = Driver::new(&[5]);
    driver.config.delivery_count_limit = 3;
    for expected in ["0-4×1", "0-4×2", "0-0×3", "1-1×3", "2-2×3", "3-3×3", "4-4×3", ""] {
        assert_eq!(driver.fetch("A"), expected);
        driver.close("A");
    }
}

#[test]
fn the_last_attempt_of_two_is_not_held_back() {
    let mut driver = Driver::new(&[5]);
    driver.config.delivery_count_limit = 2;
    for expected in ["0-4×1", "0-4×2", ""] {
        assert_eq!(driver.fetch("A"), expected);
        driver.close("A");
    }
}

#[test]
fn a_large_batch_is_halved_at_its_threshold() {
    for (limit, whole, halves) in [(5, 3, 256), (6, 3, 256), (10, 5, 256)] {
        let mut driver = Driver::new(&[512]);
        driver.config.delivery_count_limit = limit;
        for round in 1..=whole {
            assert_eq!(
                driver.fetch_with("A", 512, 512, AcquireMode::BatchOptimized),
                format!("0-511×{round}")
            );
            driver.close("A");
        }
        let throttled = driver.fetch_with("A", 512, 512, AcquireMode::BatchOptimized);
        assert_eq!(throttled, format!("0-{}×{}", halves - 1, whole + 1), "limit {limit}");
    }
}

#[test]
fn a_throttled_record_never_follows_others_and_the_throttle_can_be_off() {
    let mut driver = Driver::loaded(
        0,
        &[stored(0, 1, RecordState::Available, 1), stored(2, 3, RecordState::Available, 4)],
        &[4, 6],
    );
    let mut other =
        Driver { partition: driver.partition.clone(), log: driver.log.clone(), ..Driver::new(&[]) };
    assert_eq!(driver.fetch("A"), "0-1×2");
    assert_eq!(driver.fetch("A"), "2-2×5");
    assert_eq!(driver.fetch("A"), "3-3×5");
    assert_eq!(driver.fetch("A"), "4-9×1");
    other.config.throttles_redelivery = false;
    assert_eq!(other.fetch("A"), "0-1×2 2-3×5 4-9×1");
}

#[test]
fn what_failed_often_limits_what_comes_with_it_of_its_own_batch() {
    let mut driver = Driver::new(&[10, 10]);
    assert_eq!(driver.fetch_with("A", 20, 10, AcquireMode::BatchOptimized), "0-9×1 10-19×1");
    for _ in 0..2 {
        assert_eq!(driver.release("A", 2, 19), ErrorCode::None);
        let _ = driver.fetch("A");
    }
    driver.close("A");
    // Offsets 0 and 1 were delivered once, the others three times; half a batch may be together.
    assert_eq!(driver.fetch("B"), "0-1×2 2-4×4");
    assert_eq!(driver.fetch("B"), "5-9×4");
    assert_eq!(driver.fetch("B"), "10-14×4");
    driver.close("B");
    assert_eq!(driver.fetch("B"), "0-1×3", "then come some on their last attempt");
    assert_eq!(driver.fetch("B"), "2-2×5");
}

#[test]
fn redelivery_comes_before_new_records_and_takes_whole_batches() {
    let mut driver = Driver::new(&[3, 3, 3]);
    assert_eq!(driver.fetch_with("A", 6, 3, AcquireMode::BatchOptimized), "0-2×1 3-5×1");
    driver.close("A");
    assert_eq!(driver.fetch_with("B", 1, 3, AcquireMode::BatchOptimized), "0-2×2");
    assert_eq!(driver.fetch_with("B", 1, 3, AcquireMode::RecordLimit), "3-3×2");
    assert_eq!(driver.fetch_with("B", 4, 3, AcquireMode::RecordLimit), "4-5×2 6-7×1");
}

#[test]
fn ranges_of_offsets_join_within_a_batch_when_their_counts_are_equal() {
    let mut driver = Driver::new(&[4, 4]);
    assert_eq!(driver.fetch_with("A", 8, 4, AcquireMode::BatchOptimized), "0-3×1 4-7×1");
    assert_eq!(driver.release("A", 1, 2), ErrorCode::None);
    assert_eq!(driver.fetch("A"), "1-2×2");
    driver.close("A");
    assert_eq!(driver.fetch("A"), "0-0×2 1-2×3 3-3×2 4-7×2");
}

#[test]
fn what_vanished_from_the_log_is_archived() {
    let mut driver = Driver::new(&[10, 10]);
    assert_eq!(driver.fetch_with("A", 10, 500, AcquireMode::BatchOptimized), "0-9×1");
    driver.close("A");
    driver.log.remove(0);
    assert_eq!(driver.fetch("A"), "10-19×1");
    assert!(driver.change.moved_start);
    assert_eq!((driver.start(), driver.view().as_str()), (10, "10-19 ACQUIRED×1 A 30000"));
}

#[test]
fn what_vanished_before_it_was_ever_fetched_is_archived_too() {
    let mut driver = Driver::new(&[10, 10, 10]);
    assert_eq!(driver.fetch_with("A", 10, 500, AcquireMode::BatchOptimized), "0-9×1");
    driver.log.remove(1);
    assert_eq!(driver.fetch("A"), "20-29×1");
    assert_eq!(driver.accept("A", 0, 9), ErrorCode::None);
    assert_eq!((driver.start(), driver.partition.delivery_complete_count()), (20, 0));
}

#[test]
fn aborted_records_are_left_out_and_the_markers_are_not() {
    let mut driver = Driver::new(&[2, 3, 1, 2, 1]);
    driver.log[1].is_aborted = true;
    assert_eq!(driver.fetch("A"), "0-1×1 5-8×1");
    assert_eq!(driver.view(), "0-1 ACQUIRED×1 A 30000 | 2-4 ARCHIVED×1 | 5-8 ACQUIRED×1 A 30000");
    assert_eq!(driver.partition.delivery_complete_count(), 3);
    assert_eq!(driver.accept("A", 0, 1), ErrorCode::None);
    assert_eq!(driver.start(), 5);
    driver.close("A");
    assert_eq!(driver.fetch("B"), "5-8×2");
}

#[test]
fn a_window_of_nothing_but_aborted_records_does_not_block() {
    let mut driver = Driver::new(&[10, 10]);
    driver.config.record_locks_max = 10;
    driver.log[0].is_aborted = true;
    assert_eq!(driver.fetch("A"), "");
    assert_eq!(driver.start(), 10);
    assert_eq!(driver.fetch("A"), "10-19×1");
}

#[test]
fn the_filter_holds_on_redelivery_after_a_load() {
    let mut driver = Driver::loaded(0, &[stored(0, 5, RecordState::Available, 1)], &[2, 2, 2]);
    driver.log[1].is_aborted = true;
    assert_eq!(driver.fetch("A"), "0-1×2 4-5×2");
}

#[test]
fn holes_of_the_stored_state_are_new_and_never_overlap() {
    let mut driver = Driver::loaded(10, &[stored(15, 18, RecordState::Acknowledged, 1)], &[10, 10]);
    assert_eq!(driver.partition.fetch_offset().get(), 10);
    assert_eq!(driver.fetch_with("A", 5, 500, AcquireMode::BatchOptimized), "10-14×1");
    assert_eq!(driver.fetch_with("A", 5, 500, AcquireMode::BatchOptimized), "19-19×1");
    assert_eq!(driver.fetch_with("A", 5, 500, AcquireMode::BatchOptimized), "");
    assert_eq!(driver.accept("A", 10, 14), ErrorCode::None);
    assert_eq!(driver.start(), 19);
}

#[test]
fn a_hole_holds_the_start_offset_until_it_is_resolved() {
    let states = [stored(0, 2, RecordState::Acknowledged, 1), stored(6, 9, RecordState::Acknowledged, 1)];
    let mut driver = Driver::loaded(0, &states, &[10]);
    assert_eq!((driver.start(), driver.partition.delivery_complete_count()), (3, 4));
    assert_eq!(driver.fetch_strictly("A", 2), "3-4×1");
    assert_eq!(driver.fetch_strictly("B", 9), "5-5×1");
    assert_eq!(driver.accept("A", 3, 4), ErrorCode::None);
    assert_eq!(driver.start(), 5);
    assert_eq!(driver.accept("B", 5, 5), ErrorCode::None);
    assert_eq!(driver.start(), 10);
}

#[test]
fn a_start_within_a_record_batch_is_kept() {
    let mut driver = Driver::loaded(3, &[], &[6]);
    assert_eq!(driver.fetch("A"), "3-5×1");
    let mut driver = Driver::loaded(12, &[stored(15, 18, RecordState::Available, 2)], &[10, 10]);
    assert_eq!(driver.fetch_strictly("A", 4), "12-14×1 15-15×3");
}

#[test]
fn a_record_batch_that_straddles_the_log_start_is_delivered_whole() {
    let mut driver = Driver::new(&[5, 5]);
    assert_eq!(driver.fetch_with("A", 5, 5, AcquireMode::BatchOptimized), "0-4×1");
    driver.archive_below(7);
    assert_eq!((driver.start(), driver.partition.fetch_offset().get()), (7, 7));
    assert_eq!(driver.fetch("A"), "5-9×1");
    assert_eq!(driver.accept("A", 0, 4), ErrorCode::None, "ignored");
    assert_eq!(driver.accept("A", 0, 9), ErrorCode::None, "the part from 7 on counts");
    assert_eq!(driver.start(), 10);
}

#[test]
fn a_log_start_archives_what_is_available_and_leaves_what_is_locked() {
    let mut driver = Driver::new(&[10]);
    assert_eq!(driver.fetch("A"), "0-9×1");
    assert_eq!(driver.release("A", 0, 3), ErrorCode::None);
    driver.archive_below(7);
    assert!(driver.change.moved_start);
    assert_eq!((driver.start(), driver.fetch("B").as_str()), (7, ""));
    assert_eq!(driver.accept("A", 0, 9), ErrorCode::None);
    assert_eq!(driver.start(), 10);
    driver.archive_below(5);
    assert_eq!(driver.start(), 10, "the start offset never goes back");
    driver.archive_below(25);
    assert_eq!((driver.start(), driver.partition.in_flight_count()), (25, 0));
}

#[test]
fn members_are_forgotten_when_they_hold_nothing() {
    let mut driver = Driver::new(&[1; 300]);
    for index in 0..300 {
        let member = format!("member-{index}");
        let mode = AcquireMode::BatchOptimized;
        assert_eq!(driver.fetch_with(&member, 1, 1, mode), format!("{index}-{index}×1"));
        if index != 7 {
            assert_eq!(driver.accept(&member, index, index), ErrorCode::None);
        }
    }
    assert!(driver.partition.members.number_bound() <= 70, "{}", driver.partition.members.number_bound());
    assert_eq!(driver.accept("member-7", 7, 7), ErrorCode::None);
    assert_eq!(driver.start(), 300);
}
