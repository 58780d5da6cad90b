//! InitProducerId, with all that it fences.

use sharemark_protocol::ErrorCode::{
    ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, InvalidProducerIdMapping,
    InvalidRequest, InvalidTransactionTimeout, InvalidTxnState, ProducerFenced, TransactionalIdNotFound,
};
use sharemark_protocol::Timestamp;

use super::harness::{Harness, ID, V0, V1, V2, producer};
use crate::{InitProducerId, InitProducerIdPlan, ProducerIds, TransactionState};

/// The highest epoch that a client gets.
const LAST: i16 = i16::MAX - 1;

#[test]
fn requests_that_make_no_sense() {
    let mut harness = Harness::new(V2);
    let expected = [
        ("", 1, InvalidRequest),
        (ID, 0, InvalidTransactionTimeout),
        (ID, -1, InvalidTransactionTimeout),
        (ID, i32::MIN, InvalidTransactionTimeout),
        (ID, 900_001, InvalidTransactionTimeout),
        (ID, i32::MAX, InvalidTransactionTimeout),
    ];
    for (transactional_id, timeout_ms, error) in expected {
        let request = InitProducerId { transactional_id, timeout_ms, known: None };
        let answer = harness.shard.decide_init_producer_id(harness.now, V2, &request, &mut harness.ids);
        assert_eq!(answer, Err(error), "{transactional_id:?} {timeout_ms}");
    }
    let request = InitProducerId { transactional_id: ID, timeout_ms: 900_000, known: None };
    assert!(harness.shard.decide_init_producer_id(harness.now, V2, &request, &mut harness.ids).is_ok());
}

#[test]
fn each_request_without_a_producer_bumps_the_epoch() {
    for version in [V0, V1, V2] {
        let mut harness = Harness::new(version);
        for epoch in 0..4 {
            assert_eq!(harness.init(None), Ok(producer(0, epoch)));
        }
    }
}

/// KIP-360: a producer goes on with its own epoch, and may repeat the request whose answer it lost.
#[test]
fn a_known_producer_goes_on() {
    let mut harness = Harness::at_epoch(V2, 5);
    assert_eq!(harness.init(Some(producer(0, 5))), Ok(producer(0, 6)));
    assert_eq!(harness.init(Some(producer(0, 5))), Ok(producer(0, 6)));
    assert_eq!(harness.init(Some(producer(0, 4))), Err(ProducerFenced));
    assert_eq!(harness.init(Some(producer(0, 7))), Err(ProducerFenced));
    assert_eq!(harness.init(Some(producer(9, 6))), Err(ProducerFenced));
    // Another incarnation asks, and whoever had the epoch before is out.
    assert_eq!(harness.init(None), Ok(producer(0, 7)));
    assert_eq!(harness.init(Some(producer(0, 6))), Err(ProducerFenced));
    assert_eq!(harness.init(Some(producer(0, 5))), Err(ProducerFenced));
}

#[test]
fn a_known_producer_of_a_forgotten_id_gets_a_new_one() {
    let mut harness = Harness::new(V2);
    assert_eq!(harness.init(Some(producer(77, 3))), Ok(producer(0, 0)));
}

#[test]
fn the_timeout_is_that_of_the_last_request() {
    let mut harness = Harness::new(V2);
    harness.init(None).unwrap();
    let request = InitProducerId { transactional_id: ID, timeout_ms: 5, known: None };
    let plan = harness.shard.decide_init_producer_id(harness.now, V2, &request, &mut harness.ids).unwrap();
    let InitProducerIdPlan::Grant { record, .. } = plan else { panic!("nothing is open") };
    harness.append(record).unwrap();
    assert_eq!(harness.shard.describe(ID).unwrap().timeout_ms, 5);
}

/// B087, B120 (a): the open transaction is aborted under a bumped epoch, and the next try succeeds.
#[test]
fn an_open_transaction_is_fenced() {
    for version in [V0, V1, V2] {
        let mut harness = Harness::at_epoch(version, 5);
        harness.add(producer(0, 5), &[0]).unwrap();
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        assert_eq!(harness.state(), TransactionState::PrepareAbort);
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        harness.settle();
        assert_eq!(harness.markers[0].producer, producer(0, 6), "the marker fences");
        assert_eq!(harness.init(None), Ok(producer(0, 7)));
        assert_eq!(harness.init(Some(producer(0, 5))), Err(ProducerFenced));
        assert_eq!(harness.add(producer(0, 5), &[0]), Err(ProducerFenced));
        assert_eq!(harness.commit(producer(0, 5)), Err(ProducerFenced));
    }
}

/// Version 2 takes the fence for the end that the producer itself asked for, as Kafka 4.4 does.
#[test]
fn what_a_fenced_known_producer_is_told_depends_on_the_version() {
    for (version, expected) in [(V1, Err(ProducerFenced)), (V2, Ok(producer(0, 6)))] {
        let mut harness = Harness::at_epoch(version, 5);
        harness.add(producer(0, 5), &[0]).unwrap();
        assert_eq!(harness.init(Some(producer(0, 5))), Err(ConcurrentTransactions));
        harness.settle();
        assert_eq!(harness.init(Some(producer(0, 5))), expected);
    }
}

/// The producer before the fenced one cannot take the fence for the answer that it lost.
#[test]
fn a_fence_forgets_the_last_epoch_before_version_2() {
    let mut harness = Harness::at_epoch(V1, 5);
    let held = harness.init(Some(producer(0, 5))).unwrap();
    harness.add(held, &[0]).unwrap();
    assert_eq!(harness.init(None), Err(ConcurrentTransactions));
    harness.settle();
    assert_eq!(harness.init(Some(producer(0, 5))), Err(ProducerFenced));
}

/// B066, B084: a decision whose append fails leaves nothing behind.
#[test]
fn failed_appends_leave_nothing_behind() {
    for version in [V0, V2] {
        let mut harness = Harness::new(version);
        harness.failing_appends = 1;
        assert_eq!(harness.init(None), Err(CoordinatorNotAvailable));
        assert_eq!(harness.shard.describe(ID), Err(TransactionalIdNotFound));
        let held = harness.init(None).unwrap();
        harness.failing_appends = 1;
        assert_eq!(harness.add(held, &[0]), Err(CoordinatorNotAvailable));
        assert_eq!(harness.state(), TransactionState::Empty);
        harness.add(held, &[0]).unwrap();
        harness.failing_appends = 1;
        assert_eq!(harness.commit(held), Err(CoordinatorNotAvailable));
        assert_eq!(harness.shard.ongoing(ID), Some(held));
        assert!(harness.shard.poll_marker(Timestamp::MAX).is_none());
        harness.failing_appends = 3;
        for _ in 0..3 {
            assert_eq!(harness.init(None), Err(CoordinatorNotAvailable));
        }
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        harness.settle();
        let expected = producer(held.id.get(), held.epoch.get() + 2);
        assert_eq!(harness.init(None), Ok(expected), "the normal amount only");
    }
}

#[test]
fn the_last_epoch_exchanges_the_producer_id() {
    for version in [V0, V2] {
        let mut harness = Harness::at_epoch(version, LAST - 1);
        assert_eq!(harness.init(Some(producer(0, LAST - 1))), Ok(producer(0, LAST)));
        assert_eq!(harness.init(Some(producer(0, LAST))), Ok(producer(1, 0)));
        assert_eq!(harness.init(Some(producer(0, 0))), Err(ProducerFenced), "an old epoch of the old id");
        assert_eq!(harness.init(Some(producer(0, LAST))), Ok(producer(1, 0)), "a repeat");
        assert_eq!(harness.init(Some(producer(0, LAST - 1))), Err(ProducerFenced));
        assert_eq!(harness.init(None), Ok(producer(1, 1)));
        assert_eq!(harness.init(Some(producer(0, LAST))), Err(ProducerFenced));
        let mut harness = Harness::at_epoch(version, LAST);
        assert_eq!(harness.init(None), Ok(producer(1, 0)), "without a known producer");
    }
}

#[test]
fn an_end_at_the_last_epoch_exchanges_the_producer_id() {
    let mut harness = Harness::at_epoch(V2, LAST);
    let held = producer(0, LAST);
    harness.add(held, &[0]).unwrap();
    assert_eq!(harness.commit(held), Ok(producer(1, 0)));
    assert_eq!(harness.commit(held), Err(ConcurrentTransactions));
    harness.settle();
    assert_eq!(harness.markers[0].producer, producer(0, i16::MAX));
    assert_eq!(harness.commit(held), Ok(producer(1, 0)), "a repeat");
    assert_eq!(harness.abort(held), Err(InvalidTxnState));
    assert_eq!(harness.init(Some(held)), Ok(producer(1, 0)), "a repeat of another kind");
    harness.add(producer(1, 0), &[0]).unwrap();
    assert_eq!(harness.commit(held), Err(InvalidProducerIdMapping));
    assert_eq!(harness.commit(producer(1, 0)), Ok(producer(1, 1)));
}

#[test]
fn an_exchanged_id_before_anything_was_begun() {
    let mut harness = Harness::at_epoch(V2, LAST);
    assert_eq!(harness.init(Some(producer(0, LAST))), Ok(producer(1, 0)));
    assert_eq!(harness.abort(producer(0, LAST)), Err(ProducerFenced));
    assert_eq!(harness.abort(producer(0, LAST - 1)), Err(InvalidProducerIdMapping));
}

#[test]
fn a_fence_at_the_last_epoch() {
    for (version, expected) in [(V1, producer(1, 0)), (V2, producer(1, 1))] {
        let mut harness = Harness::at_epoch(version, LAST);
        harness.add(producer(0, LAST), &[0]).unwrap();
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        harness.settle();
        assert_eq!(harness.markers[0].producer, producer(0, i16::MAX));
        assert_eq!(harness.init(None), Ok(expected));
    }
}

#[test]
fn without_a_block_of_ids_clients_ask_again() {
    let mut harness = Harness::at_epoch(V2, LAST);
    harness.add(producer(0, LAST), &[0]).unwrap();
    let ids = std::mem::replace(&mut harness.ids, ProducerIds::new());
    assert_eq!(harness.init_as("y", None), Err(CoordinatorLoadInProgress));
    assert_eq!(harness.init(None), Err(CoordinatorLoadInProgress));
    assert_eq!(harness.commit(producer(0, LAST)), Err(CoordinatorLoadInProgress));
    harness.ids = ids;
    assert_eq!(harness.commit(producer(0, LAST)), Ok(producer(1, 0)));
}

#[test]
fn a_shard_has_room_for_so_many_ids() {
    let mut harness = Harness::new(V2);
    for id in ["a", "b", "c", "d"] {
        harness.init_as(id, None).unwrap();
    }
    assert_eq!(harness.init_as("e", None), Err(CoordinatorNotAvailable));
    assert_eq!(harness.init_as("d", None), Ok(producer(3, 1)));
}
