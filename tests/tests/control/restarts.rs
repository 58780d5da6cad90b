//! What is left when a node goes and what it coordinated is loaded again, and when an append fails or only seems to.
//! A take-over and a start load in the same way.

use std::collections::BTreeMap;
use std::time::Duration;

use sharemark::{Fault, FaultAction, FaultPoint, Server};
use sharemark_protocol::ErrorCode;
use sharemark_testkit::transcript::Session;

use crate::support::{hold_records, run, server, with_session};

const SHARE_TOPIC: &str = "__share_group_state";
const TRANSACTION_TOPIC: &str = "__transaction_state";

/// How many transactions are to be replayed, and how many records each of them acknowledges.
const TRANSACTIONS: usize = 500;
const RECORDS_EACH: usize = 20;
const PARTITIONS: usize = 5;

/// Makes a topic of three records, of which a member holds all, and a producer.
fn prepare(server: &Server, session: &mut Session<'_>) {
    server.hold_clock().unwrap();
    hold_records(session, 3);
    run(session, "init-producer p1 txn=x");
}

fn restart(server: &Server, session: &mut Session<'_>) {
    server.stop_node(0).unwrap();
    server.start_node(0).unwrap();
    for link in ["main", "A"] {
        run(session, &format!("open {link}"));
    }
}

/// Returns each run of tracked records with its state, as `0-2 TX_PENDING`.
fn states(server: &Server) -> Vec<String> {
    let view = server.share_partition("g", "t", 0).unwrap();
    let told = view.records.iter();
    told.map(|it| format!("{}-{} {}", it.range.first(), it.range.last(), it.state.name())).collect()
}

fn start_offset(server: &Server) -> i64 {
    server.share_partition("g", "t", 0).unwrap().start_offset
}

fn state_of_transaction(server: &Server) -> &'static str {
    server.transaction("x").unwrap().view.state.name()
}

fn stage(session: &mut Session<'_>) -> String {
    run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2")
}

/// The next append to an internal topic fails.
fn append_fails(server: &Server, topic: &str) {
    let error = FaultAction::Error(ErrorCode::KafkaStorageError);
    server.install_fault(Fault::new(FaultPoint::LogAppend, error).topic(topic)).unwrap();
}

/// D-24, B107 (a), B118: a stage that is not stored has not happened.
#[test]
fn a_stage_whose_append_fails_leaves_the_record_with_its_member() {
    let server = server();
    with_session(&server, |session| {
        prepare(&server, session);
        // No error that may pass: the leader would ask again and hide it.
        let error = FaultAction::Error(ErrorCode::UnknownServerError);
        server.install_fault(Fault::new(FaultPoint::LogAppend, error).topic(SHARE_TOPIC)).unwrap();
        let refused = stage(session);
        assert!(!refused.contains("NONE"), "{refused}");
        assert_eq!(states(&server), ["0-2 ACQUIRED"]);
        assert!(stage(session).contains("NONE"));
        assert_eq!(states(&server), ["0-2 TX_PENDING"]);
        run(session, "end-txn p1 commit");
        assert_eq!(start_offset(&server), 3);
    });
}

/// D-24, B107 (b, c), B118: a marker that is not stored leaves the record pending, with its owner, and comes again.
#[test]
fn a_marker_whose_append_fails_leaves_the_record_pending() {
    for (end, done) in [("commit", "CompleteCommit"), ("abort", "CompleteAbort")] {
        let server = server();
        with_session(&server, |session| {
            prepare(&server, session);
            stage(session);
            let owner = server.share_partition("g", "t", 0).unwrap().records[0].staged;
            append_fails(&server, SHARE_TOPIC);
            assert!(run(session, &format!("end-txn p1 {end}")).contains("NONE"), "it is decided");
            assert_eq!(states(&server), ["0-2 TX_PENDING"]);
            assert_eq!(server.share_partition("g", "t", 0).unwrap().records[0].staged, owner);
            run(session, "join member=B topics=t");
            let fetched = run(session, "share-fetch member=B epoch=0 t-0 wait=0");
            assert!(!fetched.contains("acquired"), "nobody gets what may be committed: {fetched}");
            assert!(state_of_transaction(&server).starts_with("Prepare"));
            server.advance_clock(Duration::from_secs(2)).unwrap();
            assert_eq!(state_of_transaction(&server), done);
            let fetched = run(session, "share-fetch member=B wait=0");
            assert_eq!(fetched.contains("acquired 0-2x2"), end == "abort", "{fetched}");
        });
    }
}

/// B118: what is stored and reported as failed has happened; the marker that comes again changes nothing.
#[test]
fn a_marker_that_only_seems_to_fail_is_done() {
    for (end, done) in [("commit", "CompleteCommit"), ("abort", "CompleteAbort")] {
        let server = server();
        with_session(&server, |session| {
            prepare(&server, session);
            stage(session);
            server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Disconnect)).unwrap();
            run(session, &format!("end-txn p1 {end}"));
            assert!(
                state_of_transaction(&server).starts_with("Prepare"),
                "the coordinator knows of no success"
            );
            let after_first = (states(&server), start_offset(&server));
            assert_eq!(after_first.1, if end == "commit" { 3 } else { 0 });
            server.advance_clock(Duration::from_secs(2)).unwrap();
            assert_eq!(state_of_transaction(&server), done);
            assert_eq!((states(&server), start_offset(&server)), after_first);
        });
    }
}

/// B118: a stage that is stored and reported as failed is asked for again, and is there once.
#[test]
fn a_stage_that_only_seems_to_fail_is_done() {
    let server = server();
    with_session(&server, |session| {
        prepare(&server, session);
        server.install_fault(Fault::new(FaultPoint::ShareStateWrite, FaultAction::Disconnect)).unwrap();
        assert!(stage(session).contains("NONE"), "the leader asks again");
        assert_eq!(states(&server), ["0-2 TX_PENDING"]);
        assert_eq!(server.faults().unwrap()[0].met, 1);
        run(session, "end-txn p1 commit");
        assert_eq!(start_offset(&server), 3);
    });
}

/// B118: an end that could not be written is not decided, and may be asked for again.
#[test]
fn an_end_whose_append_fails_is_not_decided() {
    let server = server();
    with_session(&server, |session| {
        prepare(&server, session);
        stage(session);
        append_fails(&server, TRANSACTION_TOPIC);
        let refused = run(session, "end-txn p1 commit");
        assert!(!refused.contains("NONE"), "{refused}");
        assert_eq!(
            (state_of_transaction(&server), states(&server)),
            ("Ongoing", vec!["0-2 TX_PENDING".into()])
        );
        assert!(run(session, "end-txn p1 commit").contains("NONE"));
        assert_eq!(start_offset(&server), 3);
    });
}

/// B115: ten thousand acknowledgements staged in five hundred transactions, some of them ended, are loaded again; those
/// that nobody ends time out.
#[test]
fn many_staged_acknowledgements_are_loaded_again() {
    let server = server();
    with_session(&server, |session| {
        server.hold_clock().unwrap();
        stage_many(session);
        for number in 0..200 {
            let end = if number % 2 == 0 { "commit" } else { "abort" };
            assert!(run(session, &format!("end-txn p{number} {end}")).contains("NONE"));
        }
        restart(&server, session);
        let fetched = run(session, "share-fetch member=A epoch=0 max-records=1 wait=0");
        assert!(fetched.contains("acquired"), "what was aborted is there: {fetched}");
        for partition in 0..PARTITIONS {
            run(session, &format!("share-fetch member=A epoch=0 t-{partition} max-records=1 wait=0"));
        }
        assert_eq!(counted(&server, "TX_PENDING"), 300 * RECORDS_EACH);
        server.advance_clock(Duration::from_secs(120)).unwrap();
        assert_eq!(counted(&server, "TX_PENDING"), 0, "they time out");
        assert_eq!(counted(&server, "AVAILABLE"), 400 * RECORDS_EACH, "but for what is committed");
    });
}

fn counted(server: &Server, state: &str) -> usize {
    let partitions = (0..PARTITIONS).map(|index| i32::try_from(index).unwrap());
    let runs = partitions.flat_map(|index| server.share_partition("g", "t", index).unwrap().records);
    let of_state = runs.filter(|it| it.state.name() == state);
    of_state.map(|it| usize::try_from(it.range.last().get() - it.range.first().get() + 1).unwrap()).sum()
}

fn stage_many(session: &mut Session<'_>) {
    let in_each = TRANSACTIONS * RECORDS_EACH / PARTITIONS;
    run(session, &format!("create-topic t partitions={PARTITIONS}"));
    run(session, "group-config g share.auto.offset.reset=earliest");
    run(session, "join member=A topics=t");
    for partition in 0..PARTITIONS {
        run(session, &format!("produce t-{partition} count={in_each}"));
        let epoch = if partition == 0 { "epoch=0 " } else { "" };
        let fetch = format!("share-fetch member=A {epoch}t-{partition} max-records={in_each}");
        let fetched = run(session, &fetch);
        assert!(fetched.contains(&format!("0-{}x1", in_each - 1)), "{fetched}");
    }
    let of_one = RECORDS_EACH / PARTITIONS;
    for number in 0..TRANSACTIONS {
        run(session, &format!("init-producer p{number} txn=x{number}"));
        let (first, last) = (number * of_one, number * of_one + of_one - 1);
        let places = (0..PARTITIONS).map(|partition| format!(" t-{partition} accept {first}-{last}"));
        let places: String = places.collect();
        let staged = run(session, &format!("txn-share-acknowledge producer=p{number} member=A{places}"));
        assert_eq!(staged.matches("NONE").count(), PARTITIONS, "{staged}");
    }
}

/// B117: what is aborted is seen on no way: not at first, not when it is given back, not by a leader that loads anew.
#[test]
fn aborted_input_is_seen_on_no_way() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest share.isolation.level=read_committed");
        run(session, "init-producer p1 txn=x");
        for end in ["commit", "abort", "commit"] {
            run(session, "produce t-0 count=2 producer=p1");
            run(session, &format!("end-txn p1 {end}"));
        }
        run(session, "join member=A topics=t");
        for (count, way) in [(1, "at first"), (2, "given back"), (3, "loaded anew")] {
            let epoch = if count == 2 { "" } else { " epoch=0 t-0" };
            let fetched = run(session, &format!("share-fetch member=A{epoch}"));
            let counts = delivery_counts(&fetched);
            assert!([3, 4].iter().all(|offset| !counts.contains_key(offset)), "{way}: {fetched}");
            assert!([0, 1, 6, 7].iter().all(|offset| counts.get(offset) == Some(&count)), "{way}: {fetched}");
            run(session, "share-acknowledge member=A t-0 release 0-1 release 6-7");
            if count == 2 {
                restart(&server, session);
            }
        }
    });
}

/// Returns how often each offset was delivered that an answer hands out, such as `t-0 NONE acquired 0-2x1 records 0-8`.
fn delivery_counts(fetched: &str) -> BTreeMap<i64, i64> {
    let acquired = fetched.split("acquired ").nth(1).unwrap().split(" records").next().unwrap();
    let mut counts = BTreeMap::new();
    for run in acquired.split(' ') {
        let (range, count) = run.split_once('x').unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let range: std::ops::RangeInclusive<i64> = first.parse().unwrap()..=last.parse().unwrap();
        counts.extend(range.map(|offset| (offset, count.parse::<i64>().unwrap())));
    }
    counts
}

/// Cases 66 and 67 of the specification of share partitions: what a crash forgets, and what the end of a session stores.
#[test]
fn deliveries_that_were_not_stored_are_not_counted() {
    for (session_ends, counts) in [(false, ["0-1x1", "2-3x2", "4-9x1"]), (true, ["0-1x2", "2-3x3", "4-9x2"])]
    {
        let server = server();
        with_session(&server, |session| {
            hold_records(session, 10);
            run(session, "share-acknowledge member=A t-0 release 2-3");
            assert!(run(session, "share-fetch member=A").contains("2-3x2"));
            if session_ends {
                run(session, "share-fetch member=A epoch=-1");
            }
            restart(&server, session);
            let fetched = run(session, "share-fetch member=A epoch=0 t-0");
            assert!(counts.iter().all(|count| fetched.contains(count)), "{session_ends}: {fetched}");
        });
    }
}

/// Reconciliation: what is staged in a transaction that no coordinator knows any more is given back by the next load.
#[test]
fn what_nobody_will_end_is_given_back_at_the_next_load() {
    let server = server();
    with_session(&server, |session| {
        prepare(&server, session);
        stage(session);
        run(session, &format!("delete-topic {TRANSACTION_TOPIC}"));
        assert_eq!(states(&server), ["0-2 TX_PENDING"], "nobody is left to end it");
        restart(&server, session);
        run(session, "find-coordinator g");
        let fetched = run(session, "share-fetch member=A epoch=0 t-0");
        assert!(fetched.contains("acquired 0-2x2"), "{fetched}");
    });
}
