//! The log alone rebuilds everything, and markers applied twice equal once.

use sharemark_protocol::ErrorCode::{ConcurrentTransactions, ProducerFenced};
use sharemark_protocol::{LeaderEpoch, Offset};

use super::harness::{Harness, ID, V0, V1, V2, config, partitions, producer};
use crate::{MarkerProgress, Outcome, TransactionState, TxnCoordinatorShard};

/// B083: every decided end found in the log owes its markers again, under the new coordinator's epoch.
#[test]
fn decided_ends_are_resumed() {
    for (version, outcome) in [(V0, Outcome::Abort), (V1, Outcome::Commit), (V2, Outcome::Commit)] {
        let mut harness = Harness::at_epoch(version, 5);
        harness.add(producer(0, 5), &[0, 1]).unwrap();
        let next = harness.end(producer(0, 5), outcome).unwrap();
        let old = harness.shard.poll_marker(harness.now).unwrap();
        harness.shard.confirm_marker(&old.key, &old.partitions[0]);
        harness.recover();
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        let marker = harness.shard.poll_marker(harness.now).unwrap();
        assert_eq!(marker.partitions, partitions(&[0, 1]), "nobody remembers the confirmation");
        assert_eq!((marker.producer, marker.outcome), (next, outcome));
        assert_eq!(marker.key.coordinator_epoch, LeaderEpoch::new(4));
        // Answers to the old coordinator say nothing to the new one.
        let partition = &old.partitions[1];
        assert_eq!(harness.shard.confirm_marker(&old.key, partition), MarkerProgress::Stale);
        assert_eq!(harness.shard.fail_marker(harness.now, &old.key, partition), MarkerProgress::Stale);
        assert_eq!(harness.shard.decide_complete(harness.now, &old.key), None);
        for partition in &marker.partitions {
            harness.shard.confirm_marker(&marker.key, partition);
        }
        harness.settle();
        assert_eq!(harness.state().completed(), Some(outcome));
        assert_eq!(harness.add(next, &[0]), Ok(()));
    }
}

#[test]
fn a_decided_end_without_partitions_is_resumed() {
    let mut harness = Harness::at_epoch(V2, 5);
    let next = harness.abort(producer(0, 5)).unwrap();
    harness.recover();
    harness.settle();
    assert_eq!(harness.state(), TransactionState::CompleteAbort);
    assert_eq!(harness.abort(producer(0, 5)), Ok(next), "a repeat of what was answered before");
}

#[test]
fn an_exchanged_id_survives() {
    const LAST: i16 = i16::MAX - 1;
    let mut harness = Harness::at_epoch(V2, LAST);
    harness.add(producer(0, LAST), &[0]).unwrap();
    let next = harness.commit(producer(0, LAST)).unwrap();
    harness.recover();
    assert_eq!(harness.shard.producer_id_max(), Some(next.id));
    harness.settle();
    harness.recover();
    assert_eq!(harness.commit(producer(0, LAST)), Ok(next));
    assert_eq!(harness.add(next, &[0]), Ok(()));
}

/// As in Kafka, whose log has no place for the last epoch.
#[test]
fn a_repeated_init_producer_id_is_fenced_after_a_failover() {
    let mut harness = Harness::at_epoch(V2, 5);
    assert_eq!(harness.init(Some(producer(0, 5))), Ok(producer(0, 6)));
    harness.recover();
    assert_eq!(harness.init(Some(producer(0, 5))), Err(ProducerFenced));
    assert_eq!(harness.init(Some(producer(0, 6))), Ok(producer(0, 7)));
}

#[test]
fn the_last_record_is_enough() {
    let mut harness = Harness::at_epoch(V2, 5);
    harness.add(producer(0, 5), &[0]).unwrap();
    harness.commit(producer(0, 5)).unwrap();
    let last = i64::try_from(harness.log.len()).unwrap() - 1;
    let mut fresh = TxnCoordinatorShard::new(config(), LeaderEpoch::new(4), harness.now);
    fresh.replay(Offset::new(last).unwrap(), &harness.log.last().unwrap().as_logged(V2));
    fresh.check_invariants();
    assert_eq!(fresh.describe(ID), harness.shard.describe(ID));
    assert!(fresh.poll_marker(harness.now).is_some());
}

/// Late and repeated answers belong to the end that they answer, also when producer and epoch are the same.
#[test]
fn a_repeated_answer_does_not_reach_the_next_transaction() {
    let mut harness = Harness::at_epoch(V1, 5);
    let held = producer(0, 5);
    harness.add(held, &[0]).unwrap();
    harness.commit(held).unwrap();
    harness.settle();
    let first = harness.markers[0].clone();
    harness.add(held, &[0]).unwrap();
    harness.abort(held).unwrap();
    harness.shard.poll_marker(harness.now).unwrap();
    assert_eq!(harness.shard.confirm_marker(&first.key, &first.partitions[0]), MarkerProgress::Stale);
    assert_eq!(harness.shard.decide_complete(harness.now, &first.key), None);
    assert_eq!(harness.state(), TransactionState::PrepareAbort);
}

#[test]
fn an_end_is_recorded_once_every_marker_is_confirmed() {
    let mut harness = Harness::at_epoch(V2, 5);
    harness.add(producer(0, 5), &[0, 1]).unwrap();
    harness.commit(producer(0, 5)).unwrap();
    let marker = harness.shard.poll_marker(harness.now).unwrap();
    assert_eq!(harness.shard.decide_complete(harness.now, &marker.key), None);
    harness.shard.confirm_marker(&marker.key, &marker.partitions[0]);
    assert_eq!(harness.shard.decide_complete(harness.now, &marker.key), None);
    let owed = harness.shard.describe(ID).unwrap().partitions;
    assert_eq!(owed.into_iter().collect::<Vec<_>>(), partitions(&[1]));
    harness.shard.fail_marker(harness.now, &marker.key, &marker.partitions[1]);
    assert_eq!(harness.shard.poll_timeout(), Some(harness.now.plus_ms(20)));
    harness.advance(20);
    let again = harness.shard.poll_marker(harness.now).unwrap();
    assert_eq!((again.key.clone(), again.partitions.clone()), (marker.key, partitions(&[1])));
    assert_eq!(harness.shard.confirm_marker(&again.key, &again.partitions[0]), MarkerProgress::Complete);
    harness.failing_appends = 1;
    harness.settle();
    assert_eq!(harness.state(), TransactionState::PrepareCommit);
    harness.advance(20);
    harness.settle();
    assert_eq!(harness.state(), TransactionState::CompleteCommit);
    assert_eq!(harness.shard.decide_complete(harness.now, &again.key), None);
}
