//! The failures that KIP-1289 lists (S-C1 to S-C8), over TCP, each at its very moment, in a cluster where the leader of
//! the records, the share coordinator, the transaction coordinator and the group coordinator are nodes apart.

use std::time::Duration;

use sharemark::{Fault, FaultAction, FaultPoint, Server};
use sharemark_protocol::ApiKey;
use sharemark_testkit::transcript::Session;

use crate::support::{builder, run, with_session_at};

/// The roles, by the node that has each at first. Clients find their way by the last, which stays.
pub(crate) const SOURCE: i32 = 0;
pub(crate) const SHARE: i32 = 1;
pub(crate) const TRANSACTIONS: i32 = 2;
pub(crate) const GROUPS: i32 = 3;
const BYSTANDER: usize = 4;
const ROLES: [i32; 4] = [SOURCE, SHARE, TRANSACTIONS, GROUPS];

pub(crate) const GROUP_TOPIC: &str = "__consumer_offsets";
const SHARE_TOPIC: &str = "__share_group_state";
pub(crate) const TRANSACTION_TOPIC: &str = "__transaction_state";

/// How a node goes away and comes back.
type Absence = (fn(&Server, i32), fn(&Server, i32));

const CRASH: Absence =
    (|server, id| server.stop_node(id).unwrap(), |server, id| server.start_node(id).unwrap());
const CUT_OFF: Absence =
    (|server, id| server.isolate_node(id).unwrap(), |server, id| server.rejoin_node(id).unwrap());

pub(crate) fn leader(server: &Server, topic: &str) -> i32 {
    let leaders = server.leaders().unwrap();
    let of_topic = leaders.iter().find(|it| &*it.topic == topic && it.partition == 0);
    of_topic.unwrap_or_else(|| panic!("{topic} is there")).leader.get()
}

/// Runs a command at whoever leads the only partition of a topic.
pub(crate) fn at(server: &Server, session: &mut Session<'_>, topic: &str, command: &str) -> String {
    at_node(session, leader(server, topic), command)
}

/// Runs a command on a new connection to a node.
fn at_node(session: &mut Session<'_>, node: i32, command: &str) -> String {
    run(session, &format!("open n{node} node={node}"));
    let command = command.replace("on=it", &format!("on=n{node}"));
    run(session, &format!("via n{node} {command}"))
}

pub(crate) fn assert_none(told: &str) {
    assert!(told.contains("NONE"), "{told}");
}

/// Brings a cluster to where member A holds three records, and a producer has no transaction yet.
pub(crate) fn cluster(body: impl FnOnce(&Server, &mut Session<'_>)) {
    let one_each = |config: sharemark::config::ConfigBuilder| {
        ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"]
            .iter()
            .fold(config.brokers(5), |config, name| config.property(format!("{name}.num.partitions"), "1"))
    };
    let server = builder().config(one_each).start().unwrap();
    server.hold_clock().unwrap();
    with_session_at(&server, BYSTANDER, |session| {
        run(session, "create-topic t");
        run(session, "create-topic out");
        let places = [("t", SOURCE), ("out", GROUPS)].into_iter();
        for (topic, node) in
            places.chain([(SHARE_TOPIC, SHARE), (TRANSACTION_TOPIC, TRANSACTIONS), (GROUP_TOPIC, GROUPS)])
        {
            run(session, &format!("reassign {topic}-0={node}"));
            assert_eq!(leader(&server, topic), node);
        }
        run(session, "group-config g share.auto.offset.reset=earliest");
        at(&server, session, GROUP_TOPIC, "join member=A topics=t");
        at(&server, session, "t", "produce t-0 count=3");
        let fetched = at(&server, session, "t", "share-fetch member=A on=it epoch=0 t-0");
        assert!(fetched.contains("acquired 0-2x1"), "{fetched}");
        at(&server, session, TRANSACTION_TOPIC, "init-producer p1 txn=x");
        body(&server, session);
    });
}

/// Goes on to where A has staged the records, and a record is written to `out`, in one transaction.
fn with_staged(body: impl FnOnce(&Server, &mut Session<'_>)) {
    cluster(|server, session| {
        assert_none(&at(server, session, "out", "produce out-0 producer=p1"));
        let staged = at(server, session, "t", "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2");
        assert_none(&staged);
        body(server, session);
    });
}

/// Has member B look at the leader; returns what it is told.
fn fetched_by_b(server: &Server, session: &mut Session<'_>) -> String {
    at(server, session, GROUP_TOPIC, "join member=B topics=t");
    at(server, session, "t", "share-fetch member=B on=it epoch=0 t-0 wait=0")
}

/// Checks that nobody gets what is staged.
fn assert_pending(server: &Server, session: &mut Session<'_>, what: &str) {
    let fetched = fetched_by_b(server, session);
    assert!(!fetched.contains("acquired"), "{what}: {fetched}");
    let view = server.share_partition("g", "t", 0).unwrap();
    assert!(view.records.iter().all(|it| it.state.name() == "TX_PENDING"), "{what}: {view:?}");
    assert_eq!(view.start_offset, 0, "{what}");
}

/// Checks that acknowledgements and output are both there or both not, and that what is not done comes again (S-C8).
fn assert_ended(server: &Server, session: &mut Session<'_>, committed: bool, what: &str) {
    let fetched = fetched_by_b(server, session);
    assert_eq!(fetched.contains("acquired 0-2x2"), !committed, "{what}: {fetched}");
    let view = server.share_partition("g", "t", 0).unwrap();
    assert_eq!(view.start_offset, if committed { 3 } else { 0 }, "{what}: {view:?}");
    // A reader of what is committed gets the record, or skips it.
    let read = at(server, session, "out", "read out-0 isolation=committed");
    let marker = if committed { "COMMIT" } else { "ABORT" };
    assert!(read.contains(marker), "{what}: {read}");
    assert_transaction_ended(server, committed, what);
}

fn assert_transaction_ended(server: &Server, committed: bool, what: &str) {
    let state = server.transaction("x").unwrap().view.state.name();
    // A new incarnation of the producer leaves it empty.
    let right: &[&str] = if committed { &["CompleteCommit"] } else { &["CompleteAbort", "Empty"] };
    assert!(right.contains(&state), "{what}: {state}");
}

fn end(server: &Server, session: &mut Session<'_>, committed: bool) -> String {
    let how = if committed { "commit" } else { "abort" };
    at(server, session, TRANSACTION_TOPIC, &format!("end-txn p1 {how}"))
}

fn pass(server: &Server, seconds: u64) {
    server.advance_clock(Duration::from_secs(seconds)).unwrap();
}

/// S-C2, S-I4, D-13 to D-19: each node goes before the end is decided, and the end is decided without it.
#[test]
fn a_node_fails_before_the_end_is_decided() {
    for (role, committed) in ROLES.into_iter().flat_map(|role| [(role, true), (role, false)]) {
        with_staged(|server, session| {
            let what = format!("node {role}, committed {committed}");
            server.stop_node(role).unwrap();
            assert_pending(server, session, &what);
            assert_none(&end(server, session, committed));
            assert_ended(server, session, committed, &what);
            server.start_node(role).unwrap();
            assert_ended_once_more(server, session, committed, &what);
        });
    }
}

/// Looks again without the deliveries that another look would count.
fn assert_ended_once_more(server: &Server, session: &mut Session<'_>, committed: bool, what: &str) {
    let view = server.share_partition("g", "t", 0).unwrap();
    assert_eq!(view.start_offset, if committed { 3 } else { 0 }, "{what}");
    assert_transaction_ended(server, committed, what);
    let read = at(server, session, "out", "read out-0 isolation=committed");
    assert!(read.contains(if committed { "COMMIT" } else { "ABORT" }), "{what}: {read}");
}

/// S-C2: the coordinator goes before the end is decided, and nobody decides it: the next one does, by timeout.
#[test]
fn a_transaction_whose_coordinator_failed_times_out_at_the_next() {
    with_staged(|server, session| {
        server.stop_node(TRANSACTIONS).unwrap();
        assert_pending(server, session, "the next coordinator goes on with it");
        pass(server, 120);
        assert_ended(server, session, false, "timed out");
    });
}

/// S-C1, S-C3: the end is decided and nobody has heard of it when a node goes.
#[test]
fn a_node_fails_after_the_end_is_decided() {
    for (role, committed) in ROLES.into_iter().flat_map(|role| [(role, true), (role, false)]) {
        with_staged(|server, session| {
            let what = format!("node {role}, committed {committed}");
            server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever()).unwrap();
            assert_none(&end(server, session, committed));
            assert!(server.transaction("x").unwrap().view.state.name().starts_with("Prepare"), "{what}");
            server.stop_node(role).unwrap();
            assert_pending(server, session, &what);
            server.delete_faults().unwrap();
            pass(server, 2); // What met a node that is gone is sent again.
            assert_ended(server, session, committed, &what);
        });
    }
}

/// S-C4: the member that staged is gone; what it staged waits for its transaction, and is nobody else's.
#[test]
fn a_consumer_fails_in_its_transaction() {
    for committed in [true, false] {
        with_staged(|server, session| {
            run(session, &format!("close n{SOURCE}"));
            assert_pending(server, session, "its connection is closed");
            pass(server, 50); // Its session and its lock run out.
            assert_pending(server, session, "the group has removed it");
            assert_none(&end(server, session, committed));
            assert_ended(server, session, committed, "without its consumer");
        });
    }
}

/// S-C5, S-I5: a node is cut off from the others, before and after the end is decided; each but one cannot end it.
#[test]
fn a_node_is_cut_off_from_the_others() {
    let (cut, join) = CUT_OFF;
    for (role, committed) in ROLES.into_iter().flat_map(|role| [(role, true), (role, false)]) {
        with_staged(|server, session| {
            let what = format!("node {role}, committed {committed}");
            cut(server, role);
            assert_pending(server, session, &what);
            let how = if committed { "abort" } else { "commit" };
            let refused = at_node_that_is_known(session, role, &format!("end-txn p1 {how} at-once"));
            assert!(!refused.contains("NONE"), "{what}: {refused}");
            assert_none(&end(server, session, committed));
            assert_ended(server, session, committed, &what);
            join(server, role);
            assert_ended_once_more(server, session, committed, &what);
        });
        with_staged(|server, session| {
            let what = format!("decided, node {role}, committed {committed}");
            server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever()).unwrap();
            assert_none(&end(server, session, committed));
            cut(server, role);
            server.delete_faults().unwrap();
            pass(server, 2);
            assert_ended(server, session, committed, &what);
            join(server, role);
            assert_ended_once_more(server, session, committed, &what);
        });
    }
}

/// As [`at_node`], on a connection that was opened before the node was cut off.
fn at_node_that_is_known(session: &mut Session<'_>, node: i32, command: &str) -> String {
    run(session, &format!("via n{node} {command}"))
}

/// S-C6: the client dies after its stage; a new incarnation, whose coordinator has failed as well, fences it.
#[test]
fn a_client_fails_between_its_stage_and_its_commit() {
    for (go, _) in [CRASH, CUT_OFF] {
        with_staged(|server, session| {
            go(server, TRANSACTIONS);
            let first = at(server, session, TRANSACTION_TOPIC, "init-producer p2 txn=x");
            assert!(first.contains("CONCURRENT_TRANSACTIONS"), "what was open is aborted first: {first}");
            assert_none(&at(server, session, TRANSACTION_TOPIC, "init-producer p2 txn=x"));
            let late = end(server, session, true);
            assert!(late.contains("PRODUCER_FENCED"), "{late}");
            assert_ended(server, session, false, "fenced");
        });
    }
}

/// S-C7: the commit is done and its answer lost; whoever asks again is told the same, by the next coordinator as well.
#[test]
fn a_client_fails_between_its_commit_and_the_word_of_it() {
    for (go, _) in [CRASH, CUT_OFF] {
        with_staged(|server, session| {
            let cut = Fault::new(FaultPoint::Response, FaultAction::Disconnect).apis([ApiKey::EndTxn]);
            server.install_fault(cut).unwrap();
            let lost = session.run(&format!("via n{TRANSACTIONS} end-txn p1 commit at-once"));
            assert!(!lost.as_ref().is_ok_and(|told| told.contains("NONE")), "{lost:?}");
            assert_ended(server, session, true, "nobody was told");
            go(server, TRANSACTIONS);
            assert_none(&end(server, session, true));
            let other = at(server, session, TRANSACTION_TOPIC, "end-txn p1 abort epoch=0");
            assert!(!other.contains("NONE"), "what is committed is not aborted: {other}");
            assert_ended(server, session, true, "asked again");
        });
    }
}
