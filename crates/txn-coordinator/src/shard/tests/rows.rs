//! The transaction behaviour that was seen on Kafka 4.4, row by row.

use sharemark_protocol::ErrorCode::{
    ConcurrentTransactions, InvalidProducerIdMapping, InvalidRequest, InvalidTxnState, ProducerFenced,
    TransactionAbortable,
};
use sharemark_protocol::{ErrorCode, Producer};

use super::harness::{Harness, ID, V0, V1, V2, partitions, producer};
use crate::Outcome::{self, Abort, Commit};
use crate::{TransactionState, TransactionVersion};

#[test]
fn a_new_transactional_id() {
    let mut harness = Harness::new(V2);
    assert_eq!(harness.init(None), Ok(producer(0, 0)));
    let view = harness.shard.describe(ID).unwrap();
    assert_eq!((view.state, view.started_at), (TransactionState::Empty, None));
    assert_eq!(harness.init_as("y", None), Ok(producer(1, 0)));
}

#[test]
fn the_first_partition_begins_the_transaction() {
    for version in [V0, V1, V2] {
        let mut harness = Harness::new(version);
        let held = harness.init(None).unwrap();
        assert_eq!(harness.add(held, &[0]), Ok(()));
        let begun_at = harness.now;
        harness.advance(5);
        assert_eq!(harness.add(held, &[1]), Ok(()));
        let view = harness.shard.describe(ID).unwrap();
        assert_eq!((view.state, view.started_at), (TransactionState::Ongoing, Some(begun_at)));
        assert_eq!(view.partitions.into_iter().collect::<Vec<_>>(), partitions(&[0, 1]));
    }
}

#[test]
fn adding_again_appends_nothing() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.add(held, &[0, 1]).unwrap();
    let record_count = harness.log.len();
    for indexes in [&[][..], &[0], &[1, 0]] {
        assert_eq!(harness.add(held, indexes), Ok(()));
    }
    assert_eq!(harness.log.len(), record_count);
}

#[test]
fn version_2_bumps_the_epoch_at_each_end() {
    for outcome in [Commit, Abort] {
        let mut harness = Harness::at_epoch(V2, 7);
        harness.add(producer(0, 7), &[0, 1]).unwrap();
        assert_eq!(harness.end(producer(0, 7), outcome), Ok(producer(0, 8)));
        harness.settle();
        let marker = &harness.markers[0];
        assert_eq!((marker.producer, marker.outcome), (producer(0, 8), outcome));
        assert_eq!((marker.transaction_version, marker.key.coordinator_epoch.get()), (V2, 3));
        assert_eq!(marker.partitions, partitions(&[0, 1]));
        assert_eq!(harness.state().completed(), Some(outcome));
    }
}

#[test]
fn before_version_2_the_epoch_stays() {
    for (version, outcome) in [(V0, Commit), (V0, Abort), (V1, Commit), (V1, Abort)] {
        let mut harness = Harness::at_epoch(version, 7);
        harness.add(producer(0, 7), &[0]).unwrap();
        assert_eq!(harness.end(producer(0, 7), outcome), Ok(producer(0, 7)));
        harness.settle();
        let marker = &harness.markers[0];
        assert_eq!((marker.producer, marker.transaction_version), (producer(0, 7), V0));
        assert_eq!(harness.state().completed(), Some(outcome));
    }
}

/// How a transaction stands when a request comes.
#[derive(Clone, Copy, Debug)]
enum Stand {
    Empty,
    Ongoing,
    Committed,
    Aborted,
}

/// Version, stand, epoch of the request, outcome it asks for, epoch of the answer; the epochs are relative to the
/// current one.
type EndTxnRow = (TransactionVersion, Stand, i16, Outcome, Result<i16, ErrorCode>);

const END_TXN: [EndTxnRow; 32] = [
    (V2, Stand::Empty, 0, Commit, Err(InvalidTxnState)),
    (V2, Stand::Empty, 0, Abort, Ok(1)),
    (V2, Stand::Empty, -1, Commit, Err(ProducerFenced)),
    (V2, Stand::Empty, -1, Abort, Err(ProducerFenced)),
    (V2, Stand::Ongoing, 0, Commit, Ok(1)),
    (V2, Stand::Ongoing, 0, Abort, Ok(1)),
    (V2, Stand::Ongoing, -1, Commit, Err(ProducerFenced)),
    (V2, Stand::Ongoing, 1, Abort, Err(ProducerFenced)),
    (V2, Stand::Committed, -1, Commit, Ok(0)),
    (V2, Stand::Committed, -1, Abort, Err(InvalidTxnState)),
    (V2, Stand::Committed, 0, Commit, Err(InvalidTxnState)),
    (V2, Stand::Committed, 0, Abort, Ok(1)),
    (V2, Stand::Committed, -2, Commit, Err(ProducerFenced)),
    (V2, Stand::Committed, 1, Commit, Err(ProducerFenced)),
    (V2, Stand::Aborted, -1, Abort, Ok(0)),
    (V2, Stand::Aborted, -1, Commit, Err(InvalidTxnState)),
    (V2, Stand::Aborted, 0, Commit, Err(InvalidTxnState)),
    (V2, Stand::Aborted, 0, Abort, Ok(1)),
    (V2, Stand::Aborted, -2, Abort, Err(ProducerFenced)),
    (V1, Stand::Empty, 0, Commit, Err(InvalidTxnState)),
    (V1, Stand::Empty, 0, Abort, Err(InvalidTxnState)),
    (V1, Stand::Empty, -1, Abort, Err(ProducerFenced)),
    (V1, Stand::Ongoing, 0, Commit, Ok(0)),
    (V1, Stand::Ongoing, 0, Abort, Ok(0)),
    (V1, Stand::Ongoing, -1, Commit, Err(ProducerFenced)),
    (V1, Stand::Ongoing, 1, Commit, Err(ProducerFenced)),
    (V1, Stand::Committed, 0, Commit, Ok(0)),
    (V1, Stand::Committed, 0, Abort, Err(InvalidTxnState)),
    (V1, Stand::Committed, -1, Commit, Err(ProducerFenced)),
    (V1, Stand::Aborted, 0, Abort, Ok(0)),
    (V1, Stand::Aborted, 0, Commit, Err(InvalidTxnState)),
    (V0, Stand::Aborted, 1, Abort, Err(ProducerFenced)),
];

/// Returns a shard whose transaction stands so, and its producer.
fn stand(version: TransactionVersion, stand: Stand) -> (Harness, Producer) {
    let mut harness = Harness::at_epoch(version, 5);
    let mut held = producer(0, 5);
    match stand {
        Stand::Empty => {}
        Stand::Ongoing => harness.add(held, &[0]).unwrap(),
        Stand::Committed | Stand::Aborted => {
            harness.add(held, &[0]).unwrap();
            let outcome = if matches!(stand, Stand::Committed) { Commit } else { Abort };
            held = harness.end(held, outcome).unwrap();
            harness.settle();
        }
    }
    (harness, held)
}

/// Every row, and S-U2: the same request again has the same answer, unless it ends the next transaction.
#[test]
fn end_txn() {
    for (version, standing, epoch, outcome, expected) in END_TXN {
        let (mut harness, held) = stand(version, standing);
        let asking = producer(0, held.epoch.get() + epoch);
        let expected = expected.map(|epoch| producer(0, held.epoch.get() + epoch));
        let row = format!("{version:?} {standing:?} {epoch} {outcome:?}");
        assert_eq!(harness.end(asking, outcome), expected, "{row}");
        harness.settle();
        assert_eq!(harness.end(asking, outcome), expected, "{row} again");
    }
}

#[test]
fn end_txn_of_strangers() {
    for version in [V0, V1, V2] {
        for standing in [Stand::Empty, Stand::Ongoing, Stand::Committed, Stand::Aborted] {
            let (mut harness, held) = stand(version, standing);
            for outcome in [Commit, Abort] {
                let other = producer(9, held.epoch.get());
                assert_eq!(harness.end(other, outcome), Err(InvalidProducerIdMapping));
                assert_eq!(harness.end_as("unknown", held, outcome), Err(InvalidProducerIdMapping));
                assert_eq!(harness.end_as("", held, outcome), Err(InvalidRequest));
            }
        }
    }
}

/// While markers are out, everything waits (B067, B071); before version 2 a stranger is told first.
#[test]
fn everything_waits_for_the_markers() {
    for (version, outcome) in [(V0, Commit), (V1, Abort), (V2, Commit), (V2, Abort)] {
        let (mut harness, held) = stand(version, Stand::Ongoing);
        let next = harness.end(held, outcome).unwrap();
        let marker = harness.shard.poll_marker(harness.now).unwrap();
        let record_count = harness.log.len();
        for asking in [held, next] {
            assert_eq!(harness.end(asking, Commit), Err(ConcurrentTransactions));
            assert_eq!(harness.end(asking, Abort), Err(ConcurrentTransactions));
            assert_eq!(harness.add(asking, &[0]), Err(ConcurrentTransactions));
            assert_eq!(harness.init(Some(asking)), Err(ConcurrentTransactions));
        }
        assert_eq!(harness.init(None), Err(ConcurrentTransactions));
        assert_eq!(harness.verify(next, 0), Err(ConcurrentTransactions));
        let other = producer(9, 0);
        let expected = if version == V2 { ConcurrentTransactions } else { InvalidProducerIdMapping };
        assert_eq!(harness.end(other, Commit), Err(expected));
        assert_eq!(harness.log.len(), record_count);
        harness.shard.confirm_marker(&marker.key, &marker.partitions[0]);
        harness.settle();
        assert_eq!(harness.add(next, &[0]), Ok(()));
    }
}

/// B067: a commit, and at once the abort of a transaction that never began.
#[test]
fn an_empty_abort_after_a_commit() {
    let (mut harness, held) = stand(V2, Stand::Ongoing);
    let next = harness.commit(held).unwrap();
    assert_eq!(harness.abort(next), Err(ConcurrentTransactions));
    harness.settle();
    assert_eq!(harness.abort(next), Ok(producer(0, next.epoch.get() + 1)));
    harness.settle();
    assert_eq!(harness.state(), TransactionState::CompleteAbort);
    assert_eq!(harness.markers.len(), 1, "an end without partitions owes no marker");
}

/// B073: the broker adds the partition, then every append of the client fails.
#[test]
fn an_abort_with_and_without_partitions() {
    let (mut harness, held) = stand(V2, Stand::Ongoing);
    let next = harness.abort(held).unwrap();
    harness.settle();
    assert_eq!(next, producer(0, held.epoch.get() + 1));
    assert_eq!(harness.abort(next), Ok(producer(0, held.epoch.get() + 2)));
    harness.settle();
    assert_eq!(harness.shard.ongoing(ID), None);
    assert!(harness.shard.describe(ID).unwrap().started_at.is_some());
}

/// B119: a transaction that holds a partition of `__share_group_state` alone is not an empty one.
#[test]
fn share_state_partitions_are_partitions() {
    for version in [V1, V2] {
        let mut harness = Harness::new(version);
        let held = harness.init(None).unwrap();
        let state_partition = sharemark_protocol::TopicPartition::new("__share_group_state", 7);
        let request = crate::AddPartitions {
            transactional_id: ID,
            producer: held,
            partitions: std::slice::from_ref(&state_partition),
            client_version: harness.client,
        };
        let record = harness.shard.decide_add_partitions(harness.now, &request).unwrap().unwrap();
        harness.append(record).unwrap();
        harness.commit(held).unwrap();
        harness.settle();
        assert_eq!(harness.markers[0].partitions, [state_partition]);
        assert_eq!(harness.state(), TransactionState::CompleteCommit);
    }
}

#[test]
fn add_partitions_of_strangers() {
    for version in [V0, V1, V2] {
        let (mut harness, held) = stand(version, Stand::Ongoing);
        assert_eq!(harness.add(producer(9, 5), &[0]), Err(InvalidProducerIdMapping));
        for epoch in [-1, 1] {
            let other = producer(0, held.epoch.get() + epoch);
            assert_eq!(harness.add(other, &[0]), Err(ProducerFenced));
            assert_eq!(harness.verify(other, 0), Err(ProducerFenced));
        }
        assert_eq!(harness.verify(producer(9, 5), 0), Err(InvalidProducerIdMapping));
    }
    assert_eq!(Harness::new(V2).add(producer(0, 0), &[0]), Err(InvalidProducerIdMapping));
}

/// B091: VerifyOnly adds nothing.
#[test]
fn verification() {
    let (mut harness, held) = stand(V2, Stand::Ongoing);
    assert_eq!(harness.verify(held, 0), Ok(()));
    assert_eq!(harness.verify(held, 1), Err(TransactionAbortable));
    assert_eq!(harness.verify(held, 1), Err(TransactionAbortable));
    let next = harness.commit(held).unwrap();
    harness.settle();
    assert_eq!(harness.verify(next, 0), Err(TransactionAbortable));
    assert_eq!(harness.shard.describe(ID).unwrap().partitions.len(), 0);
}

#[test]
fn a_transaction_has_room_for_so_many_partitions() {
    let (mut harness, held) = stand(V2, Stand::Ongoing);
    assert_eq!(harness.add(held, &[1, 2, 3, 4, 5, 6, 7]), Ok(()));
    assert_eq!(harness.add(held, &[8]), Err(TransactionAbortable));
    assert_eq!(harness.add(held, &[7]), Ok(()));
    assert!(harness.abort(held).is_ok());
}
