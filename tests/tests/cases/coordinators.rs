//! Coordinators at one node of two: others refer to them, and whoever takes over knows what they knew.

use crate::admin::leader;
use crate::brokers::Broker;

type Run<'a> = &'a mut dyn FnMut(&str) -> String;

/// Opens a connection to each of two nodes, and returns a session's coordinators: of groups, of transactions.
fn opened(run: Run<'_>) -> (u8, u8) {
    for command in ["create-topic t partitions=2", "open n0 node=0", "open n1 node=1"] {
        run(command);
    }
    (leader(run, "__consumer_offsets-0"), leader(run, "__transaction_state-0"))
}

/// Every request for a group's or a transaction's coordinator is refused at another node, and taken at its own.
#[test]
fn requests_at_a_node_that_does_not_coordinate() {
    let broker = Broker::sharemark(&["--brokers", "2"]);
    broker.with_session(|run| {
        let (groups, transactions) = opened(run);
        let of_groups = [
            "commit-offsets t-0@1",
            "fetch-offsets t-0",
            "delete-offsets t-0",
            "group-heartbeat member=A generation=1",
            "leave-group A",
            "describe-groups g",
            "delete-groups g",
            "consumer-heartbeat group=c member=M epoch=0 topics=t",
            "describe-consumer-group c",
            "heartbeat group=s member=M epoch=0 topics=t",
            "describe-share-group s",
        ];
        let of_transactions =
            ["init-producer p1 txn=x", "add-partitions p1 t-0", "add-offsets p1", "describe-txn x"];
        // An id that is known to the session, so that each request can be sent to the wrong node first.
        run(&format!("via n{transactions} init-producer p1 txn=x"));
        for (requests, home) in [(&of_groups[..], groups), (&of_transactions[..], transactions)] {
            for request in requests {
                let refused = run(&format!("via n{} {request}", 1 - home));
                assert!(refused.contains("NOT_COORDINATOR"), "{request}: {refused}");
                let taken = run(&format!("via n{home} {request}"));
                assert!(!taken.contains("NOT_COORDINATOR"), "{request}: {taken}");
            }
        }
        for request in ["join-group group=j member=A topics=t version=3", "sync-group group=j member=A"] {
            let refused = run(&format!("{request} on=n{}", 1 - groups));
            assert!(refused.contains("NOT_COORDINATOR"), "{request}: {refused}");
            let taken = run(&format!("{request} on=n{groups}"));
            assert!(taken.starts_with("NONE"), "{request}: {taken}");
        }
        let refused = run(&format!("via n{} txn-commit-offsets p1 t-0@1", 1 - groups));
        assert!(refused.contains("NOT_COORDINATOR"), "{refused}");
        assert_eq!(run(&format!("via n{groups} txn-commit-offsets p1 t-0@1")), "t-0 NONE\n");
    });
}

/// B078: the later commit wins, as on Kafka, for the coordinator that wrote it and for the one that takes over.
#[test]
fn b078_offsets_are_the_same_after_a_takeover() {
    let broker = Broker::sharemark(&["--brokers", "2"]);
    broker.with_session(|run| {
        let (groups, transactions) = opened(run);
        for (node, command) in [
            (transactions, "init-producer p1 txn=x"),
            (groups, "commit-offsets t-1@5"),
            (transactions, "add-offsets p1"),
            (groups, "txn-commit-offsets p1 t-0@10 t-1@10"),
            (groups, "commit-offsets t-0@20"),
            (groups, "delete-offsets t-1"),
            (transactions, "end-txn p1 commit"),
        ] {
            let answer = run(&format!("via n{node} {command}"));
            assert!(answer.contains("NONE"), "{command}: {answer}");
        }
        let before = run(&format!("via n{groups} fetch-offsets t-0 t-1"));
        assert_eq!(before, "t-0 20 epoch=-1 text=\nt-1 none\n", "what the log has last");
        run(&format!("reassign __consumer_offsets-0={}", 1 - groups));
        assert_eq!(run(&format!("via n{} fetch-offsets t-0 t-1", 1 - groups)), before);
    });
}

/// A group with members of both protocols goes on with them at the node that takes over, and back to a classic group.
#[test]
fn a_group_of_both_protocols_is_taken_over() {
    let broker = Broker::sharemark(&["--brokers", "2"]);
    broker.with_session(|run| {
        let (from, _) = opened(run);
        let to = 1 - from;
        assert!(run(&format!("join-group member=A topics=t version=3 on=n{from}")).starts_with("NONE"));
        assert!(run(&format!("sync-group member=A assigns=A:t-0+t-1 on=n{from}")).starts_with("NONE"));
        let joined = run(&format!("via n{from} consumer-heartbeat member=M epoch=0 topics=t"));
        assert_eq!(joined, "NONE epoch=2 assignment=none\n");
        let before = run(&format!("via n{from} describe-consumer-group g"));
        assert!(before.contains("type=0") && before.contains("type=1"), "{before}");
        run(&format!("reassign __consumer_offsets-0={to}"));
        assert_eq!(run(&format!("via n{to} describe-consumer-group g")), before);
        assert_eq!(run(&format!("via n{to} group-heartbeat member=A")), "REBALANCE_IN_PROGRESS\n");
        let rejoined = run(&format!("join-group member=A topics=t owned=t-0 subscription=1 on=n{to}"));
        assert!(rejoined.starts_with("NONE member=A generation=2 "), "the other is given up: {rejoined}");
        let kept = run(&format!("sync-group member=A partitions on=n{to}"));
        assert!(kept.ends_with("assignment=1:t-0\n"), "{kept}");
        run(&format!("via n{to} consumer-heartbeat member=M epoch=-1"));
        let classic = run(&format!("via n{to} describe-groups g partitions"));
        assert!(classic.starts_with("g NONE state=PreparingRebalance type=consumer"), "{classic}");
        run(&format!("reassign __consumer_offsets-0={from}"));
        let loaded = run(&format!("via n{from} describe-groups g partitions"));
        assert!(loaded.starts_with("g NONE state=Stable type=consumer protocol=range"), "{loaded}");
    });
}
