//! Nodes that go at the worst moment: while somebody waits for them, while a call between them is on its way, all of
//! them. Nothing hangs, the server goes on, and what was asked for can be asked for again.

use std::thread;
use std::time::{Duration, Instant};

use sharemark::{ControlError, Fault, FaultAction, FaultPoint, NodeState, Server};
use sharemark_testkit::transcript::Session;

use crate::failures::{self, GROUPS, SHARE, SOURCE, TRANSACTIONS, assert_none, at, cluster, leader};
use crate::support::{builder, run, server, with_session, with_session_at};

const STAGE: &str = "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2";

/// Whoever waits at a node is cut off within this time when it stops.
const CUT_WITHIN: Duration = Duration::from_secs(5);

/// What becomes of a node, and how that is called.
type Absence = (&'static str, fn(&Server, i32));

/// How a node goes while a call is on its way.
const ABSENCES: [Absence; 3] = [
    ("stops", |server, id| server.stop_node(id).unwrap()),
    ("stops and starts", |server, id| {
        server.stop_node(id).unwrap();
        server.start_node(id).unwrap();
    }),
    ("is cut off for a moment", |server, id| {
        server.isolate_node(id).unwrap();
        server.rejoin_node(id).unwrap();
    }),
];

/// Runs a command, and `meanwhile` once a fault holds what it asks another node for.
fn while_held(
    server: &Server,
    session: &mut Session<'_>,
    point: FaultPoint,
    command: impl FnOnce(&mut Session<'_>) -> String,
    meanwhile: impl FnOnce(&Server) + Send,
) -> String {
    server.install_fault(Fault::new(point, FaultAction::Hold).for_ever()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while server.faults().unwrap()[0].held == 0 {
                assert!(began.elapsed() < CUT_WITHIN, "{point:?} is met");
                thread::yield_now();
            }
            meanwhile(server);
            server.delete_faults().unwrap();
        });
        command(session)
    })
}

/// Lets each of the two ends of a call go while it is held, in each way, and checks that all goes on.
fn held_calls_survive(point: FaultPoint, ends: [i32; 2], topic: &str, commands: &[&str]) {
    let (last, before) = commands.split_last().unwrap();
    for (node, (how, go)) in ends.into_iter().flat_map(|node| ABSENCES.map(|absence| (node, absence))) {
        cluster(|server, session| {
            for command in before {
                at(server, session, topic, command);
            }
            let told = while_held(
                server,
                session,
                point,
                |session| at(server, session, topic, last),
                |server| go(server, node),
            );
            let what = format!("{point:?}, node {node} {how}: {told}");
            assert!(server.nodes().unwrap().len() == 5, "{what}");
            assert_goes_on(server, session, &what);
        });
    }
}

/// Ends what is open, and checks that every record can be had and is done with in the end.
fn assert_goes_on(server: &Server, session: &mut Session<'_>, what: &str) {
    for _ in 0..2 {
        at(server, session, failures::TRANSACTION_TOPIC, "init-producer p9 txn=x"); // Aborts what is open.
    }
    server.advance_clock(Duration::from_secs(60)).unwrap(); // Locks and members' sessions run out.
    at(server, session, failures::GROUP_TOPIC, "join member=Z topics=t");
    let mut fetched = String::new();
    for _ in 0..20 {
        fetched = at(server, session, "t", "share-fetch member=Z on=it epoch=0 t-0 wait=500");
        let is_done = server.share_partition("g", "t", 0).is_ok_and(|view| 3 <= view.start_offset);
        if is_done || fetched.contains("acquired") {
            break;
        }
        server.advance_clock(Duration::from_secs(2)).unwrap(); // A call that is made again is told by then.
    }
    if fetched.contains("acquired") {
        let node = leader(server, "t");
        let accept = format!("via n{node} share-acknowledge member=Z on=n{node} t-0 accept 0-2");
        let done = run(session, &accept);
        assert!(done.contains("t-0 NONE"), "{what}: {done}");
    }
    assert_eq!(server.share_partition("g", "t", 0).unwrap().start_offset, 3, "{what}: {fetched}");
}

#[test]
fn a_node_goes_while_its_member_is_checked() {
    held_calls_survive(FaultPoint::GroupMemberCheck, [SOURCE, GROUPS], "t", &[STAGE]);
}

#[test]
fn a_node_goes_while_a_state_partition_joins_a_transaction() {
    held_calls_survive(FaultPoint::TxnAddPartition, [SOURCE, TRANSACTIONS], "t", &[STAGE]);
}

#[test]
fn a_node_goes_while_a_stage_is_written() {
    held_calls_survive(FaultPoint::ShareStateWrite, [SOURCE, SHARE], "t", &[STAGE]);
}

#[test]
fn a_node_goes_while_an_acknowledgement_is_written() {
    let accept = ["share-acknowledge member=A on=it t-0 accept 0-2"];
    held_calls_survive(FaultPoint::ShareStateWrite, [SOURCE, SHARE], "t", &accept);
}

#[test]
fn a_node_goes_while_a_produced_partition_joins_a_transaction() {
    held_calls_survive(
        FaultPoint::TxnAddPartition,
        [GROUPS, TRANSACTIONS],
        "out",
        &["produce out-0 producer=p1"],
    );
}

#[test]
fn a_node_goes_while_states_are_summed_up() {
    let describe = ["describe-share-offsets"];
    held_calls_survive(FaultPoint::ShareStateSummary, [GROUPS, SHARE], failures::GROUP_TOPIC, &describe);
}

#[test]
fn requests_that_wait_at_a_node_are_cut_with_it() {
    let alone = ["join-group group=c member=M version=3", "sync-group group=c member=M assign=M:all"];
    let waiting = [
        (
            &["join member=B topics=t"][..],
            "share-fetch member=B epoch=0 t-0 wait=25000 async",
            "await member=B",
        ),
        (&alone[..], "join-group group=c member=N version=3 async", "await-join group=c member=N"),
    ];
    for (before, command, awaited) in waiting {
        let server = server();
        with_session(&server, |session| {
            run(session, "create-topic t");
            run(session, "produce t-0 count=3");
            for command in before {
                run(session, command);
            }
            let began = Instant::now();
            let told = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_millis(200)); // Until it waits; else it meets a node that is gone.
                    server.stop_node(0).unwrap();
                });
                session.run(command).and_then(|_sent| session.run(awaited))
            });
            assert!(began.elapsed() < CUT_WITHIN, "{command} is cut: {told:?}");
            let is_cut = told.as_ref().map_or(true, |told| told.contains("connection closed"));
            assert!(is_cut, "{command}: {told:?}");
            server.start_node(0).unwrap();
            for link in ["main", "B", "N"] {
                run(session, &format!("open {link}"));
            }
            assert_none(&run(session, "produce t-0"));
        });
    }
}

#[test]
fn a_cluster_without_nodes_can_be_asked_about() {
    let server = builder().config(|config| config.brokers(2).topic("t")).start().unwrap();
    with_session_at(&server, 1, |session| {
        run(session, "init-producer p1 txn=x");
        run(session, "join member=A topics=t");
    });
    server.hold_clock().unwrap();
    for (node, refused) in [(0, false), (1, true)] {
        assert_eq!(matches!(server.isolate_node(node), Err(ControlError::Conflict(_))), refused);
    }
    server.stop_node(1).unwrap();
    assert!(matches!(server.isolate_node(0), Err(ControlError::Conflict(_))), "it is cut off already");
    server.stop_node(0).unwrap();
    for node in [0, 1] {
        let refusals = [server.stop_node(node), server.isolate_node(node), server.rejoin_node(node)];
        assert!(refusals.iter().all(|it| matches!(it, Err(ControlError::Conflict(_)))), "{refusals:?}");
    }
    server.advance_clock(Duration::from_secs(86_400)).unwrap();
    assert!(server.share_partition("g", "t", 0).is_err());
    assert!(server.transactions().unwrap().is_empty());
    assert_eq!(server.leaders().unwrap().iter().filter(|it| &*it.topic == "t").count(), 1);
    server.metrics().unwrap();
    for node in [1, 0] {
        server.start_node(node).unwrap();
        assert!(matches!(server.start_node(node), Err(ControlError::Conflict(_))), "it runs already");
    }
    assert!(server.nodes().unwrap().iter().all(|(_, state)| *state == NodeState::Running));
    with_session_at(&server, 1, |session| {
        assert_none(&run(session, "create-topic u"));
        assert_none(&at(&server, session, "u", "produce u-0"));
        at(&server, session, failures::GROUP_TOPIC, "join group=h member=B topics=u");
        assert_none(&at(&server, session, failures::TRANSACTION_TOPIC, "init-producer p1 txn=x"));
    });
}
