//! Transactions that are open too long, ids that nobody uses, and the clock (S-U3).

use sharemark_protocol::ErrorCode::{InvalidProducerIdMapping, InvalidTxnState, ProducerFenced};
use sharemark_protocol::{LeaderEpoch, Timestamp};

use super::harness::{Harness, ID, TIMEOUT_MS, V0, V1, V2, config, producer};
use crate::{Outcome, TransactionState, TxnConfig, TxnCoordinatorShard};

/// B069, B085, B120 (c): the first sweep after the timeout aborts under a bumped epoch.
#[test]
fn a_transaction_times_out() {
    for version in [V0, V1, V2] {
        let mut harness = Harness::at_epoch(version, 5);
        let held = producer(0, 5);
        harness.add(held, &[0]).unwrap();
        let due_at = harness.now.plus_ms(1_100); // The sweep after 1,001 ms.
        assert_eq!(harness.shard.poll_timeout(), Some(due_at));
        harness.advance(1_099);
        assert_eq!(harness.sweep(), 0);
        harness.advance(1);
        assert_eq!(harness.sweep(), 1);
        harness.settle();
        assert_eq!(harness.markers[0].producer, producer(0, 6));
        assert_eq!(harness.state(), TransactionState::CompleteAbort);
        assert_eq!(harness.sweep(), 0);
        assert_eq!(harness.add(held, &[0]), Err(ProducerFenced));
        let late = if version == V2 { InvalidTxnState } else { ProducerFenced };
        assert_eq!(harness.commit(held), Err(late), "never a commit");
    }
}

#[test]
fn an_exact_timeout_is_not_over() {
    let config = TxnConfig { abort_timed_out_interval_ms: 1, ..config() };
    let mut harness = Harness::new(V2);
    harness.shard = TxnCoordinatorShard::new(config, LeaderEpoch::new(0), harness.now);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.advance(i64::from(TIMEOUT_MS));
    assert_eq!(harness.sweep(), 0);
    harness.advance(1);
    assert_eq!(harness.sweep(), 1);
}

#[test]
fn more_partitions_do_not_prolong_a_transaction() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    let due_at = harness.shard.poll_timeout();
    harness.advance(500);
    harness.add(held, &[1]).unwrap();
    assert_eq!(harness.shard.poll_timeout(), due_at);
}

#[test]
fn a_decided_end_stands_however_late_its_markers_are() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.commit(held).unwrap();
    harness.advance(50_000);
    assert_eq!(harness.sweep(), 0);
    harness.settle();
    assert_eq!(harness.state(), TransactionState::CompleteCommit);
}

/// B093: the clock steps back in the middle of a transaction, and in larger steps too.
#[test]
fn the_clock_steps_back() {
    for step_ms in [5, 5_000, 900_000, 2_000_000] {
        let mut harness = Harness::new(V2);
        let held = harness.init(None).unwrap();
        harness.advance(-step_ms);
        harness.add(held, &[0]).unwrap();
        harness.advance(-step_ms);
        harness.add(held, &[1]).unwrap();
        assert_eq!(harness.sweep(), 0);
        let next = harness.commit(held).unwrap();
        harness.advance(-step_ms);
        harness.settle();
        assert_eq!(harness.state(), TransactionState::CompleteCommit);
        harness.add(next, &[0]).unwrap();
        harness.recover();
        harness.advance(3 * step_ms + 2_000);
        assert_eq!(harness.sweep(), 1);
        harness.settle();
        assert_eq!(harness.state(), TransactionState::CompleteAbort);
    }
}

/// B096: after a restart an overdue transaction has until the first sweep.
#[test]
fn downtime_counts() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.advance(90_000);
    harness.recover();
    assert_eq!(harness.sweep(), 0);
    assert_eq!(harness.shard.poll_timeout(), Some(harness.now.plus_ms(100)));
    assert!(harness.commit(held).is_ok());
}

/// B084: the append of a timeout fails, and sweeps rest for a moment.
#[test]
fn a_sweep_is_retried_after_a_failed_append() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.advance(2_000);
    harness.failing_appends = 1;
    assert_eq!(harness.sweep(), 0);
    assert_eq!(harness.shard.ongoing(ID), Some(held));
    let retry_at = harness.now.plus_ms(20);
    assert_eq!(harness.shard.poll_timeout(), Some(retry_at));
    harness.advance(19);
    assert_eq!(harness.sweep(), 0);
    harness.advance(1);
    assert_eq!(harness.sweep(), 1);
    harness.settle();
    assert_eq!(harness.state(), TransactionState::CompleteAbort);
}

#[test]
fn a_rest_in_the_future_of_a_clock_that_stepped_back_counts_for_nothing() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.advance(200_000);
    harness.shard.fail_expired(harness.now);
    harness.advance(-100_000);
    assert_eq!(harness.sweep(), 1);
}

#[test]
fn a_transaction_without_timeout_stays_open() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    let mut record = harness.log[0].clone();
    record.value.as_mut().unwrap().timeout_ms = i32::MAX;
    harness.append(record).unwrap();
    harness.add(held, &[0]).unwrap();
    assert_eq!(harness.shard.poll_timeout(), None);
    harness.now = Timestamp::MAX;
    assert_eq!(harness.sweep(), 0);
}

/// B086: an id that nobody used is forgotten.
#[test]
fn unused_ids_expire() {
    for end in [None, Some(Outcome::Commit), Some(Outcome::Abort)] {
        let mut harness = Harness::new(V1);
        let held = harness.init(None).unwrap();
        if let Some(outcome) = end {
            harness.add(held, &[0]).unwrap();
            harness.end(held, outcome).unwrap();
            harness.settle();
        }
        assert_eq!(harness.shard.poll_timeout(), Some(harness.now.plus_ms(100_000)));
        harness.advance(99_999);
        assert_eq!(harness.sweep(), 0);
        harness.advance(1);
        assert_eq!(harness.sweep(), 1);
        assert_eq!(harness.log.last().unwrap().value, None);
        assert_eq!(harness.add(held, &[0]), Err(InvalidProducerIdMapping));
        assert_eq!(harness.commit(held), Err(InvalidProducerIdMapping));
        assert_eq!(harness.init(Some(held)), Ok(producer(1, 0)));
        assert_eq!(harness.shard.producer_id_max(), Some(producer(1, 0).id));
    }
}

#[test]
fn an_open_transaction_keeps_its_id() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.commit(held).unwrap();
    harness.advance(1_000_000);
    assert_eq!(harness.sweep(), 0);
    assert_eq!(harness.state(), TransactionState::PrepareCommit);
}
