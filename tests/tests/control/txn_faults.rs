//! Transactions whose coordinator, leaders or client meet a fault, stop, or come back after a while.

use std::collections::BTreeSet;
use std::time::Duration;

use sharemark::{Fault, FaultAction, FaultPoint, Server};
use sharemark_protocol::{ApiKey, ErrorCode};
use sharemark_testkit::transcript::Session;

use crate::support::{builder, run, server, told, with_session};

/// What says that EndTxn is to be asked again, beside a connection that is cut.
const ASK_AGAIN: [&str; 4] = [
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "CONCURRENT_TRANSACTIONS",
];

/// Opens a transaction of one record and one offset, as id1/0.
fn begin(session: &mut Session<'_>) {
    run(session, "create-topic t");
    run(session, "commit-offsets t-0@1");
    assert_eq!(run(session, "init-producer p1 txn=x"), "NONE producer=id1/0\n");
    assert_eq!(run(session, "produce t-0 producer=p1"), "t-0 NONE base_offset=0\n");
    assert_eq!(run(session, "txn-commit-offsets p1 t-0@5"), "t-0 NONE\n");
}

/// Asks for the end as a client does that keeps asking while it may; returns the definite answer.
fn end(session: &mut Session<'_>, server: &Server, outcome: &str) -> String {
    for _ in 0..20 {
        // The broker may have cut the connection.
        let answer = session.run(&format!("end-txn p1 {outcome} epoch=0")).unwrap_or_default();
        let is_cut = answer.is_empty() || answer.starts_with("connection closed");
        if !is_cut && !ASK_AGAIN.contains(&answer.trim()) {
            return answer;
        }
        if is_cut {
            run(session, "open main");
        }
        server.advance_clock(Duration::from_secs(1)).unwrap();
    }
    panic!("no definite answer");
}

/// Every fault that EndTxn can meet on its way, first to last.
fn faults_of_an_end() -> Vec<Fault> {
    let end = |at, action| Fault::new(at, action).apis([ApiKey::EndTxn]);
    let append = |topic, error| Fault::new(FaultPoint::LogAppend, FaultAction::Error(error)).topic(topic);
    let mut faults = vec![
        end(FaultPoint::Request, FaultAction::Disconnect),
        end(FaultPoint::Request, FaultAction::Delay(5)),
        end(FaultPoint::Request, FaultAction::Repeat),
        end(FaultPoint::Response, FaultAction::Disconnect),
        end(FaultPoint::Response, FaultAction::Delay(5)),
    ];
    let refusals = [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::KafkaStorageError,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::RequestTimedOut,
        ErrorCode::UnknownTopicOrPartition,
    ];
    for error in refusals {
        faults.extend(["__transaction_state", "__consumer_offsets", "t"].map(|topic| append(topic, error)));
        faults.push(Fault { count: Some(3), ..append("__transaction_state", error) });
        faults.push(Fault::new(FaultPoint::TxnMarkers, FaultAction::Error(error)));
    }
    let at_markers = [
        FaultAction::Drop,
        FaultAction::Disconnect,
        FaultAction::Repeat,
        FaultAction::Delay(5),
        FaultAction::Error(ErrorCode::UnknownServerError),
    ];
    faults.extend(at_markers.map(|action| Fault::new(FaultPoint::TxnMarkers, action)));
    faults
}

/// Checks what everybody sees of an ended transaction, and that the next one works.
fn check_ended(session: &mut Session<'_>, outcome: &str) {
    let (state, marker, offset) = match outcome {
        "commit" => ("CompleteCommit", "COMMIT", 5),
        _ => ("CompleteAbort", "ABORT", 1),
    };
    let described = run(session, "describe-txn x");
    assert_eq!(described, format!("NONE {state} producer=id1/1 timeout_ms=60000 started=yes\n"));
    let read = run(session, "fetch t-0 isolation=committed");
    assert!(read.contains(&format!("id1/1 {marker}")), "{read}");
    assert_eq!(read.contains("aborted=id1@0"), outcome == "abort", "{read}");
    let stable = run(session, "list-offsets t-0 isolation=committed");
    assert_eq!(stable, run(session, "list-offsets t-0"), "nothing is left open");
    assert_eq!(run(session, "fetch-offsets t-0 stable"), format!("t-0 {offset} epoch=-1 text=\n"));
    assert!(run(session, "produce t-0 producer=p1").contains("NONE"));
    assert_eq!(run(session, "end-txn p1 commit"), "NONE producer=id1/2\n");
}

/// B074: whatever EndTxn meets, its client is told to ask again or how it ended, and that is what everybody sees.
#[test]
fn no_fault_hides_how_a_transaction_ended() {
    for fault in faults_of_an_end() {
        for (outcome, other) in [("commit", "abort"), ("abort", "commit")] {
            let server = server();
            server.hold_clock().unwrap();
            with_session(&server, |session| {
                begin(session);
                server.install_fault(fault.clone()).unwrap();
                let case = format!("{outcome} with {fault:?}");
                assert_eq!(end(session, &server, outcome), "NONE producer=id1/1\n", "{case}");
                assert!(0 < server.faults().unwrap()[0].met, "{case}");
                server.delete_faults().unwrap();
                while !server.transaction("x").unwrap().view.state.name().starts_with("Complete") {
                    server.advance_clock(Duration::from_millis(100)).unwrap();
                }
                assert_eq!(end(session, &server, outcome), "NONE producer=id1/1\n", "{case}, once more");
                assert_eq!(end(session, &server, other), "INVALID_TXN_STATE\n", "{case}, otherwise");
                check_ended(session, outcome);
            });
        }
    }
}

/// B074: the last record of a transaction is refused; until it is written whoever asks has to ask again.
#[test]
fn an_end_that_cannot_be_recorded_is_recorded_later() {
    let server = server();
    server.hold_clock().unwrap();
    with_session(&server, |session| {
        begin(session);
        let hold = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever();
        let hold = server.install_fault(hold).unwrap();
        assert_eq!(run(session, "end-txn p1 commit epoch=0"), "NONE producer=id1/1\n");
        let refuse = FaultAction::Error(ErrorCode::NotEnoughReplicas);
        let refuse = Fault::new(FaultPoint::LogAppend, refuse).topic("__transaction_state").for_ever();
        let refuse = server.install_fault(refuse).unwrap();
        server.delete_fault(hold).unwrap();
        for _ in 0..3 {
            server.advance_clock(Duration::from_secs(1)).unwrap();
            assert!(run(session, "describe-txn x").starts_with("NONE PrepareCommit "));
            for command in [
                "end-txn p1 commit epoch=0",
                "end-txn p1 abort epoch=0",
                "init-producer p2 txn=x",
                "end-txn p1 commit epoch=1",
            ] {
                assert_eq!(run(session, command), "CONCURRENT_TRANSACTIONS\n", "{command}");
            }
            let early = run(session, "produce t-0 producer=p1");
            assert_eq!(early, "t-0 CONCURRENT_TRANSACTIONS\n");
        }
        server.delete_fault(refuse).unwrap();
        server.advance_clock(Duration::from_secs(1)).unwrap();
        check_ended(session, "commit");
    });
}

const PREPARED: usize = 100;

/// Returns how many transactions are in a state.
fn count(server: &Server, state: &str) -> usize {
    let all = server.transactions().unwrap();
    all.iter().filter(|it| it.view.state.name() == state).count()
}

/// Returns the node that leads the only partition of an internal topic.
fn leader(server: &Server, topic: &str) -> i64 {
    let all = told(server, "GET", "/leaders", "");
    all.as_array().unwrap().iter().find(|it| it["topic"] == topic).unwrap()["node"].as_i64().unwrap()
}

/// B083: a coordinator goes while many ends are decided and not told, and so does the next one; the third tells them.
#[test]
fn decided_ends_outlive_two_coordinators() {
    let one = ("transaction.state.log.num.partitions", "1");
    let server = builder().config(|config| config.brokers(3).property(one.0, one.1)).start().unwrap();
    server.hold_clock().unwrap();
    with_session(&server, |session| {
        for command in [
            "create-topic t partitions=3",
            "open n0 node=0",
            "open n1 node=1",
            "open n2 node=2",
            "reassign __transaction_state-0=1 t-0=0 t-1=1 t-2=2",
        ] {
            run(session, command);
        }
        let hold = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever();
        let hold = server.install_fault(hold).unwrap();
        for index in 0..PREPARED {
            let granted = run(session, &format!("via n1 init-producer p{index} txn=x{index}"));
            assert!(granted.starts_with("NONE "), "{index}: {granted}");
            let (home, at) = (index % 3, index % 3);
            let produced = run(session, &format!("via n{home} produce t-{at} producer=p{index}"));
            assert!(produced.contains(" NONE "), "{index}: {produced}");
            let outcome = if index % 2 == 0 { "commit" } else { "abort" };
            let ended = run(session, &format!("via n1 end-txn p{index} {outcome}"));
            assert!(ended.starts_with("NONE "), "{index}: {ended}");
        }
        server.stop_node(1).unwrap();
        let second = leader(&server, "__transaction_state");
        assert_ne!(second, 1);
        assert_eq!(count(&server, "PrepareCommit") + count(&server, "PrepareAbort"), PREPARED);
        run(session, "reassign __transaction_state-0=2");
        server.advance_clock(Duration::from_secs(1)).unwrap();
        assert_eq!(
            (count(&server, "PrepareCommit"), count(&server, "PrepareAbort")),
            (50, 50),
            "it tries as well"
        );
        server.stop_node(2).unwrap();
        assert_eq!(leader(&server, "__transaction_state"), 0);
        server.delete_fault(hold).unwrap();
        server.advance_clock(Duration::from_secs(1)).unwrap();
        assert_eq!((count(&server, "CompleteCommit"), count(&server, "CompleteAbort")), (50, 50));
        assert_eq!(run(session, "list-txns states=PrepareCommit,PrepareAbort"), "NONE\n");
        for partition in 0..3 {
            let stable = run(session, &format!("list-offsets t-{partition} isolation=committed"));
            assert_eq!(stable, run(session, &format!("list-offsets t-{partition}")), "nothing is left open");
            let read = run(session, &format!("fetch t-{partition} isolation=committed"));
            // A marker may come twice when its coordinator fails, but not in two kinds.
            let lines = read.lines().filter(|line| line.ends_with("COMMIT") || line.ends_with("ABORT"));
            let markers: BTreeSet<&str> =
                lines.filter_map(|line| line.split_once(' ')).map(|(_, marker)| marker).collect();
            assert_eq!(markers.len(), PREPARED / 3 + usize::from(partition == 0), "{read}");
        }
        assert!(run(session, "produce t-0 producer=p0").contains("NONE"));
        assert!(run(session, "end-txn p0 commit").starts_with("NONE "));
    });
}

/// B096: the time in which nothing runs counts, as the start of a transaction is a date; what is staged stays staged.
#[test]
fn a_transaction_outlives_the_server_it_began_at() {
    for (timeout_s, is_late) in [(60, true), (120, false)] {
        let server = server();
        server.hold_clock().unwrap();
        with_session(&server, |session| {
            run(session, "create-topic t");
            run(session, "commit-offsets t-0@1");
            run(session, &format!("init-producer p1 txn=x timeout={}", timeout_s * 1000));
            run(session, "produce t-0 producer=p1");
            assert_eq!(run(session, "txn-commit-offsets p1 t-0@5"), "t-0 NONE\n");
            server.stop_node(0).unwrap();
            server.advance_clock(Duration::from_secs(90)).unwrap();
            server.start_node(0).unwrap();
            run(session, "open main");
            if is_late {
                server.advance_clock(Duration::from_secs(15)).unwrap();
                assert!(run(session, "describe-txn x").starts_with("NONE CompleteAbort producer=id1/1 "));
                assert_eq!(run(session, "end-txn p1 commit"), "INVALID_TXN_STATE\n", "it was aborted");
                assert_eq!(run(session, "fetch-offsets t-0 stable"), "t-0 1 epoch=-1 text=\n");
                assert!(run(session, "fetch t-0 isolation=committed").contains("aborted=id1@0"));
            } else {
                assert_eq!(run(session, "fetch-offsets t-0 stable"), "t-0 UNSTABLE_OFFSET_COMMIT\n");
                assert_eq!(run(session, "fetch-offsets t-0"), "t-0 1 epoch=-1 text=\n");
                assert_eq!(
                    run(session, "produce t-0 producer=p1"),
                    "t-0 NONE base_offset=1\n",
                    "its sequence is known"
                );
                assert_eq!(run(session, "end-txn p1 commit"), "NONE producer=id1/1\n");
                assert_eq!(run(session, "fetch-offsets t-0 stable"), "t-0 5 epoch=-1 text=\n");
            }
        });
    }
}
