//! What DescribeTransactions, ListTransactions and the broker see.

use sharemark_protocol::{ErrorCode, TopicPartition};

use super::harness::{Harness, ID, V0, V1, V2, partitions, producer};
use crate::Outcome::{Abort, Commit};
use crate::{ListFilter, TransactionOutcome, TransactionState};

fn listed(harness: &Harness, filter: &ListFilter) -> Vec<String> {
    let mut listings = Vec::new();
    harness.shard.list(harness.now, filter, &mut listings);
    let lines = listings.iter().map(|found| format!("{} {}", found.transactional_id, found.state.name()));
    lines.collect()
}

/// B092: one open transaction and one unused id.
#[test]
fn lists_are_filtered() {
    let mut harness = Harness::new(V2);
    let held = harness.init(None).unwrap();
    harness.init_as("y", None).unwrap();
    harness.add(held, &[0]).unwrap();
    harness.advance(500);
    let both = ["x Ongoing", "y Empty"];
    assert_eq!(listed(&harness, &ListFilter::default()), both);

    let states: [(&[&str], &[bool], &[&str]); 5] = [
        (&["Ongoing"], &[true], &["x Ongoing"]),
        (&["Empty", "Ongoing"], &[true, true], &both),
        (&["Dead"], &[true], &[]),
        (&["Nonsense"], &[false], &[]),
        (&["Nonsense", "Empty"], &[false, true], &["y Empty"]),
    ];
    for (names, known, expected) in states {
        let mut filter = ListFilter::default();
        let found: Vec<_> = names.iter().map(|name| filter.add_state(name)).collect();
        assert_eq!(found, known, "{names:?}");
        assert_eq!(listed(&harness, &filter), expected, "{names:?}");
    }

    let mut filter = ListFilter::default();
    filter.add_producer_id(held.id.get());
    filter.add_producer_id(99);
    assert_eq!(listed(&harness, &filter), ["x Ongoing"]);

    // Where nothing began, Kafka counts from -1.
    for (duration_ms, expected) in [(-1, &both[..]), (499, &both), (500, &["y Empty"])] {
        let mut filter = ListFilter::default();
        filter.set_longer_than_ms(duration_ms);
        assert_eq!(listed(&harness, &filter), expected, "{duration_ms}");
    }
}

#[test]
fn descriptions() {
    let mut harness = Harness::new(V2);
    assert_eq!(harness.shard.describe(""), Err(ErrorCode::InvalidRequest));
    assert_eq!(harness.shard.describe(ID), Err(ErrorCode::TransactionalIdNotFound));
    let held = harness.init(None).unwrap();
    assert_eq!(harness.shard.ongoing(ID), None);
    harness.add(held, &[1, 0]).unwrap();
    assert_eq!(harness.shard.ongoing(ID), Some(held));
    let view = harness.shard.describe(ID).unwrap();
    assert_eq!(view.partitions.into_iter().collect::<Vec<_>>(), partitions(&[0, 1]));
    let partition = TopicPartition::new("t", 1);
    assert!(harness.shard.is_partition_in_transaction(ID, &partition));
    assert!(!harness.shard.is_partition_in_transaction(ID, &TopicPartition::new("t", 2)));
    assert!(!harness.shard.is_partition_in_transaction("y", &partition));
    harness.commit(held).unwrap();
    assert_eq!(harness.shard.ongoing(ID), None);
    harness.settle();
    assert!(!harness.shard.is_partition_in_transaction(ID, &partition));
    assert_eq!(harness.shard.describe(ID).unwrap().state, TransactionState::CompleteCommit);
}

#[test]
fn outcomes_follow_the_transaction() {
    use TransactionOutcome::{Completed, Ongoing, Prepared, Unknown};
    for version in [V0, V1, V2] {
        for outcome in [Commit, Abort] {
            let mut harness = Harness::at_epoch(version, 5);
            let writer = producer(0, 5);
            assert_eq!(harness.shard.outcome_of(writer), Unknown);
            harness.add(writer, &[0]).unwrap();
            assert_eq!(harness.shard.outcome_of(writer), Ongoing);
            for other in [producer(0, 4), producer(0, 6), producer(1, 5)] {
                assert_eq!(harness.shard.outcome_of(other), Unknown);
            }
            let next = harness.end(writer, outcome).unwrap();
            assert_eq!(harness.shard.outcome_of(writer), Prepared(outcome));
            assert_eq!(harness.shard.outcome_of(producer(0, 3)), Unknown);
            harness.settle();
            assert_eq!(harness.shard.outcome_of(writer), Completed(outcome));
            if version == V2 {
                assert_eq!(harness.shard.outcome_of(next), Unknown, "the next has not begun");
                harness.add(next, &[0]).unwrap();
                assert_eq!(harness.shard.outcome_of(writer), Unknown, "the last word is about another");
                assert_eq!(harness.shard.outcome_of(next), Ongoing);
            }
        }
    }
}

#[test]
fn outcomes_of_fenced_writers() {
    for version in [V1, V2] {
        let mut harness = Harness::at_epoch(version, 5);
        harness.add(producer(0, 5), &[0]).unwrap();
        harness.init(None).unwrap_err();
        assert_eq!(harness.shard.outcome_of(producer(0, 5)), TransactionOutcome::Prepared(Abort));
        harness.settle();
        harness.recover();
        assert_eq!(harness.shard.outcome_of(producer(0, 5)), TransactionOutcome::Completed(Abort));
        assert_eq!(harness.shard.outcome_of(producer(0, 4)), TransactionOutcome::Unknown);
    }
}

#[test]
fn outcomes_across_an_exchanged_id() {
    const LAST: i16 = i16::MAX - 1;
    let mut harness = Harness::at_epoch(V2, LAST);
    let writer = producer(0, LAST);
    harness.add(writer, &[0]).unwrap();
    let next = harness.commit(writer).unwrap();
    assert_eq!(harness.shard.outcome_of(writer), TransactionOutcome::Prepared(Commit));
    harness.settle();
    assert_eq!(harness.shard.outcome_of(writer), TransactionOutcome::Completed(Commit));
    assert_eq!(harness.shard.outcome_of(next), TransactionOutcome::Unknown);
}
