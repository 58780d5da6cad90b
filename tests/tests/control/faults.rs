use std::time::Duration;

use serde_json::{Value, json};
use sharemark::{ControlError, Fault, FaultAction, FaultPoint, Server};
use sharemark_protocol::{ApiKey, ErrorCode};
use sharemark_testkit::transcript::Session;

use crate::support::{ask, hold_records, run, server, told, with_session};

/// Makes a topic of three records, of which a member holds all, and a producer.
fn prepare(session: &mut Session<'_>) {
    hold_records(session, 3);
    run(session, "init-producer p1 txn=x");
}

fn states(server: &Server) -> Vec<String> {
    let shown = told(server, "GET", "/share-groups/g/t/0", "");
    shown["records"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn held_markers_keep_acknowledgements_pending() -> Result<(), ControlError> {
    let server = server();
    with_session(&server, |session| {
        prepare(session);
        let staged = run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
        assert!(staged.contains("NONE"), "{staged}");
        held(&server, |command| {
            if command == "commit" {
                return run(session, "end-txn p1 commit");
            }
            let staged = run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
            assert!(staged.contains("CONCURRENT_TRANSACTIONS"), "{staged}");
            run(session, "produce t-0 producer=p1")
        })
        .unwrap();
    });
    Ok(())
}

/// The example of the README, which is compared with it: `client` stands for the producer.
fn held(server: &Server, mut client: impl FnMut(&str) -> String) -> Result<(), ControlError> {
    // README
    let markers = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever();
    let fault = server.install_fault(markers)?;
    client("commit"); // Answered: the commit is decided. But nobody is told.
    let pending = server.share_partition("g", "t", 0)?;
    assert_eq!(pending.records[0].state.name(), "TX_PENDING");
    assert_eq!(server.transaction("x")?.view.state.name(), "PrepareCommit");
    assert!(client("begin another").contains("CONCURRENT_TRANSACTIONS"));

    server.delete_fault(fault)?; // The markers go out before this returns.
    assert_eq!(server.share_partition("g", "t", 0)?.start_offset, 3);
    assert_eq!(server.transaction("x")?.view.state.name(), "CompleteCommit");
    // README
    Ok(())
}

#[test]
fn the_readme_shows_what_is_tested() {
    let root = sharemark_testkit::process::workspace();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let source = std::fs::read_to_string(root.join("tests/tests/control/faults.rs")).unwrap();
    let tested = source.split("    // README\n").nth(1).unwrap().replace("\n    ", "\n");
    assert!(readme.contains(tested.trim()), "the README holds:\n{tested}");
}

#[test]
fn lost_markers_are_sent_again() {
    let server = server();
    with_session(&server, |session| {
        prepare(session);
        run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
        server.hold_clock().unwrap();
        server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Drop)).unwrap();
        assert!(run(session, "end-txn p1 commit").contains("NONE"));
        assert_eq!(states(&server), ["TX_PENDING"]);
        server.advance_clock(Duration::from_secs(1)).unwrap();
        assert_eq!(server.share_partition("g", "t", 0).unwrap().start_offset, 3);
    });
}

#[test]
fn a_repeated_marker_changes_nothing() {
    let server = server();
    with_session(&server, |session| {
        prepare(session);
        run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
        server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Repeat)).unwrap();
        run(session, "end-txn p1 abort");
        assert_eq!(states(&server), ["AVAILABLE"]);
        assert_eq!(server.transaction("x").unwrap().view.state.name(), "CompleteAbort");
    });
}

#[test]
fn an_acknowledgement_waits_while_its_state_is_written() {
    let server = server();
    with_session(&server, |session| {
        prepare(session);
        let hold =
            Fault::new(FaultPoint::ShareStateWrite, FaultAction::Hold).group("g").topic("t").for_ever();
        let fault = server.install_fault(hold).unwrap();
        run(session, "share-fetch member=A epoch=1 wait=0 async ack t-0 accept 0-2");
        // The request is in the broker once it holds the write.
        while server.faults().unwrap()[0].held == 0 {
            std::thread::yield_now();
        }
        let view = server.share_partition("g", "t", 0).unwrap();
        assert!(view.records[0].in_transition && view.start_offset == 0, "{view:?}");
        server.delete_fault(fault).unwrap();
        assert_eq!(server.share_partition("g", "t", 0).unwrap().start_offset, 3);
        let answer = run(session, "await member=A");
        assert!(answer.contains("NONE"), "{answer}");
    });
}

#[test]
fn a_refused_write_leaves_the_lock() {
    let server = server();
    with_session(&server, |session| {
        prepare(session);
        let error = FaultAction::Error(ErrorCode::UnknownServerError);
        server.install_fault(Fault::new(FaultPoint::ShareStateWrite, error)).unwrap();
        let refused = run(session, "share-acknowledge member=A epoch=1 t-0 accept 0-2");
        assert!(refused.contains("UNKNOWN_SERVER_ERROR"), "{refused}");
        assert_eq!(states(&server), ["ACQUIRED"]);
        assert_eq!(run(session, "share-acknowledge member=A epoch=2 t-0 accept 0-2"), "t-0 NONE\n");
        let error = FaultAction::Error(ErrorCode::FencedLeaderEpoch);
        server.install_fault(Fault::new(FaultPoint::LogAppend, error).topic("t")).unwrap();
        let refused = run(session, "produce t-0");
        assert!(refused.contains("FENCED_LEADER_EPOCH"), "{refused}");
        assert!(run(session, "produce t-0").contains("NONE"));
    });
}

/// B023, B167: a share partition whose state cannot be read, or whose read hangs, holds up no other.
#[test]
fn one_share_partition_that_is_not_loaded_holds_up_no_other() {
    for (action, told) in [
        (FaultAction::Error(ErrorCode::UnknownServerError), "t-0 UNKNOWN_SERVER_ERROR\n"),
        (FaultAction::Hold, ""),
    ] {
        let server = server();
        with_session(&server, |session| {
            run(session, "create-topic t");
            run(session, "create-topic u");
            run(session, "group-config g share.auto.offset.reset=earliest");
            run(session, "join member=A topics=t,u");
            run(session, "produce t-0 count=2");
            run(session, "produce u-0 count=3");
            let read = Fault::new(FaultPoint::ShareStateRead, action).topic("t").for_ever();
            let fault = server.install_fault(read).unwrap();
            let served = format!("{told}u-0 NONE acquired 0-2x1 records 0-2\n");
            assert_eq!(run(session, "share-fetch member=A epoch=0 t-0 u-0 wait=300"), served);
            assert_eq!(run(session, "share-acknowledge member=A u-0 accept 0-2"), "u-0 NONE\n");
            server.delete_fault(fault).unwrap();
            let later = run(session, "share-fetch member=A wait=1500");
            assert!(later.contains("t-0 NONE acquired 0-1x1 records 0-1"), "{later}");
        });
    }
}

/// Rejects the three records of t-0 while the copy to the dead-letter topic meets `fault`.
fn reject(session: &mut Session<'_>, server: &Server, fault: Fault) {
    prepare(session);
    run(session, "create-topic dlq.d errors.deadletterqueue.group.enable=true");
    run(session, "group-config g errors.deadletterqueue.topic.name=dlq.d");
    server.hold_clock().unwrap();
    server.install_fault(fault).unwrap();
    assert_eq!(run(session, "share-acknowledge member=A epoch=1 t-0 reject 0-2"), "t-0 NONE\n");
}

fn copy_fails(error: ErrorCode) -> Fault {
    Fault::new(FaultPoint::DlqWrite, FaultAction::Error(error))
}

#[test]
fn a_dead_letter_is_copied_again_when_its_leader_was_not_there() {
    let server = server();
    with_session(&server, |session| {
        reject(session, &server, Fault { count: Some(2), ..copy_fails(ErrorCode::NotLeaderOrFollower) });
        assert_eq!(states(&server), ["ARCHIVING"]);
        server.advance_clock(Duration::from_secs(1)).unwrap();
        assert_eq!(states(&server), ["ARCHIVING"], "the second attempt failed as well");
        assert!(run(session, "fetch dlq.d-0").contains("high_watermark=0"));
        server.advance_clock(Duration::from_secs(2)).unwrap();
        assert_eq!(server.share_partition("g", "t", 0).unwrap().start_offset, 3);
        assert!(run(session, "fetch dlq.d-0").contains("high_watermark=3"));
    });
}

#[test]
fn a_dead_letter_is_given_up_after_five_attempts_or_at_once() {
    let retriable = copy_fails(ErrorCode::NotLeaderOrFollower).for_ever();
    let fatal = copy_fails(ErrorCode::MessageTooLarge);
    for (fault, backoffs_s) in [(retriable, vec![1, 2, 4, 8]), (fatal, vec![])] {
        let server = server();
        with_session(&server, |session| {
            reject(session, &server, fault);
            for seconds in backoffs_s {
                assert_eq!(states(&server), ["ARCHIVING"], "before {seconds} s more");
                server.advance_clock(Duration::from_secs(seconds)).unwrap();
            }
            assert_eq!(server.share_partition("g", "t", 0).unwrap().start_offset, 3, "archived all the same");
            assert!(run(session, "fetch dlq.d-0").contains("high_watermark=0"));
        });
    }
}

#[test]
fn every_kind_of_request_can_be_refused_for_one_group() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "commit-offsets group=g t-0@3");
        let refuse = FaultAction::Error(ErrorCode::CoordinatorLoadInProgress);
        let fault = Fault::new(FaultPoint::Request, refuse).group("g").for_ever();
        let fault = server.install_fault(fault).unwrap();
        for command in ["commit-offsets group=g t-0@4", "fetch-offsets group=g t-0", "delete-groups g"] {
            let refused = run(session, command);
            assert!(refused.contains("COORDINATOR_LOAD_IN_PROGRESS"), "{command}: {refused}");
        }
        assert!(!run(session, "commit-offsets group=h t-0@4").contains("COORDINATOR_LOAD_IN_PROGRESS"));
        server.delete_fault(fault).unwrap();
        assert!(run(session, "fetch-offsets group=g t-0").contains("t-0 3 epoch="));
    });
}

#[test]
fn requests_and_answers_meet_faults() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        let refuse = FaultAction::Error(ErrorCode::NotLeaderOrFollower);
        let fault = Fault::new(FaultPoint::Request, refuse).apis([ApiKey::Produce]).topic("t");
        server.install_fault(fault).unwrap();
        assert!(run(session, "produce t-0").contains("NOT_LEADER_OR_FOLLOWER"));
        assert!(run(session, "produce t-0").contains("base_offset=0"), "nothing had changed");
        // The answer is lost, what was asked is done.
        let cut = Fault::new(FaultPoint::Response, FaultAction::Disconnect).apis([ApiKey::Produce]);
        server.install_fault(cut).unwrap();
        let lost = session.run("produce t-0").unwrap_or_default();
        assert!(!lost.contains("base_offset"), "the connection is cut: {lost}");
        run(session, "open main");
        assert!(run(session, "produce t-0").contains("base_offset=2"));
        // A request that comes twice is done twice, and answered once.
        let twice = Fault::new(FaultPoint::Request, FaultAction::Repeat).apis([ApiKey::Produce]);
        server.install_fault(twice).unwrap();
        assert!(run(session, "produce t-0").contains("base_offset=3"));
        assert!(run(session, "produce t-0").contains("base_offset=5"));
        let late = Fault::new(FaultPoint::Request, FaultAction::Delay(20)).apis([ApiKey::Produce]);
        server.install_fault(late).unwrap();
        assert!(run(session, "produce t-0").contains("base_offset=6"));
        assert!(server.faults().unwrap().iter().all(|view| view.met == 1), "each has met one");
    });
}

#[test]
fn answers_are_selected_by_what_was_asked() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "create-topic u");
        let timeout = FaultAction::Error(ErrorCode::RequestTimedOut);
        let fault = Fault::new(FaultPoint::Response, timeout).apis([ApiKey::Produce]).topic("t").partition(0);
        server.install_fault(fault).unwrap();
        assert!(run(session, "produce u-0").contains("base_offset=0"));
        assert!(run(session, "produce t-0").contains("REQUEST_TIMED_OUT"));
        assert!(run(session, "produce t-0").contains("base_offset=1"), "what was asked had been done");
        let moved = FaultAction::Error(ErrorCode::NotCoordinator);
        let fault = Fault::new(FaultPoint::Response, moved).group("g").times(2);
        server.install_fault(fault).unwrap();
        for (command, is_met) in [
            ("commit-offsets group=h t-0@1", false),
            ("commit-offsets group=g t-0@2", true),
            ("fetch-offsets group=g t-0", true),
            ("commit-offsets group=g t-0@3", false),
        ] {
            let told = run(session, command);
            assert_eq!(told.contains("NOT_COORDINATOR"), is_met, "{command}: {told}");
        }
    });
}

#[test]
fn a_fault_that_is_refused_says_what_there_is() {
    let server = server();
    for (fault, wanted) in [
        (r#"{"at": "txn.marker", "action": "hold"}"#, "txn.markers"),
        (r#"{"at": "txn.markers", "action": "explode"}"#, "disconnect"),
        (r#"{"at": "log.append", "action": "hold"}"#, "error"),
        (r#"{"at": "response", "action": "repeat"}"#, "not be repeated"),
    ] {
        let (status, told) = ask(&server, "POST", "/faults", fault);
        let told = told["error"].as_str().unwrap();
        assert!(status == 400 && told.contains(wanted), "{fault}: {status} {told}");
    }
}

#[test]
fn faults_read_and_show_as_json() {
    let server = server();
    let full = json!({
        "at": "share.state.write", "apis": ["ShareFetch"], "from": 0, "to": 1, "node": 0, "topic": "t",
        "partition": 0, "group": "g", "transactionalId": "x", "action": "error", "error": "NOT_COORDINATOR",
        "count": 7,
    });
    assert_eq!(told(&server, "POST", "/faults", &full.to_string()), json!({"id": 1}));
    let short = r#"{"at": "txn.markers", "action": "delay", "delayMs": 100, "count": -1}"#;
    assert_eq!(told(&server, "POST", "/faults", short), json!({"id": 2}));
    let all = told(&server, "GET", "/faults", "");
    for (name, value) in full.as_object().unwrap() {
        assert_eq!(&all[0][name], value, "{name}");
    }
    let wanted = json!({"id": 2, "at": "txn.markers", "action": "delay", "delayMs": 100, "count": -1, "met": 0,
        "held": 0});
    assert_eq!(all[1], wanted);
    for wrong in [
        r#"{"action": "hold"}"#,
        r#"{"at": "txn.markers"}"#,
        r#"{"at": "nowhere", "action": "hold"}"#,
        r#"{"at": "txn.markers", "action": "explode"}"#,
        r#"{"at": "txn.markers", "action": "error"}"#,
        r#"{"at": "txn.markers", "action": "error", "error": "NONE"}"#,
        r#"{"at": "txn.markers", "action": "hold", "error": "NOT_COORDINATOR"}"#,
        r#"{"at": "txn.markers", "action": "delay"}"#,
        r#"{"at": "txn.markers", "action": "hold", "count": -2}"#,
        r#"{"at": "request", "action": "hold", "apis": ["Prodce"]}"#,
        r#"{"at": "log.append", "action": "hold"}"#,
        r#"{"at": "txn.markers", "action": "hold", "nodes": 1}"#,
    ] {
        assert_eq!(ask(&server, "POST", "/faults", wrong).0, 400, "{wrong}");
    }
    assert_eq!(ask(&server, "DELETE", "/faults/7", "").0, 404);
    assert_eq!(told(&server, "DELETE", "/faults/1", ""), json!({}));
    assert_eq!(told(&server, "DELETE", "/faults", ""), json!({}));
    assert_eq!(told(&server, "GET", "/faults", ""), Value::Array(Vec::new()));
}
