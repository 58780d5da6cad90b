//! Transactions: readers that wait for them, many of them, versions of their protocol, ids that expire.

use std::io::ErrorKind;
use std::time::Duration;

use sharemark_protocol::messages as m;

use m::api_versions_request::ApiVersionsRequest;
use m::fetch_request::FetchRequest;

use crate::brokers::{Broker, Topic, fetch_request, on_both};

/// B102: bytes of an open transaction satisfy no reader of committed data; its end does, commit and abort alike.
#[test]
fn b102_the_end_of_a_transaction_wakes_who_reads_committed() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.with_session(|run| {
            run("init-producer p1 txn=x");
            let mut offset = 0;
            for outcome in ["commit", "abort"] {
                run("produce t-0 producer=p1");
                let request = FetchRequest {
                    isolation_level: 1,
                    max_wait_ms: 20_000,
                    ..fetch_request(&[(&topic, 0, offset)])
                };
                let mut reader = broker.connect();
                reader.send(&request, 18).unwrap();
                reader.set_read_timeout(Duration::from_millis(300)).unwrap();
                let early = reader.read_frame().expect_err("nothing is committed yet");
                assert!(matches!(early.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
                run(&format!("end-txn p1 {outcome}"));
                reader.set_read_timeout(Duration::from_secs(10)).unwrap();
                let (_, answer) = reader.receive::<FetchRequest>(18).unwrap();
                let data = &answer.responses[0].partitions[0];
                assert_eq!(data.last_stable_offset, offset + 2, "the record and the marker: {data:?}");
                assert!(data.records.as_ref().is_some_and(|records| !records.is_empty()));
                offset += 2;
            }
        });
    });
}

/// B076: small transactions one after the other never meet one that is still ending.
#[test]
fn b076_a_transaction_is_over_when_its_end_is_answered() {
    let broker = Broker::with_defaults(&[]);
    broker.topic("t", 2);
    broker.with_session(|run| {
        run("init-producer p1 txn=x");
        for round in 0..1000 {
            let produced = run(&format!("produce t-{} producer=p1", round % 2));
            assert!(produced.contains(" NONE "), "round {round}: {produced}");
            let ended = run(if round % 3 == 0 { "end-txn p1 abort" } else { "end-txn p1 commit" });
            assert!(ended.starts_with("NONE "), "round {round}: {ended}");
        }
        let stable = run("list-offsets t-0 isolation=committed");
        assert_eq!(stable, run("list-offsets t-0"), "nothing is left open");
    });
}

/// B077: what a transaction committed is found at once, over another connection too; never what was before as stable.
#[test]
fn b077_offsets_are_there_when_their_commit_is_answered() {
    on_both(|broker| {
        broker.topic("t", 1);
        broker.with_session(|run| {
            run("init-producer p1 txn=x");
            // Kafka writes its markers a moment after the answer, and tells everybody to ask again until then.
            let mut ask = |command: &str, again: &str| loop {
                let answer = run(command);
                if !(broker.is_kafka() && answer.contains(again)) {
                    return answer;
                }
            };
            for round in 1..=1000 {
                let staged = ask(&format!("txn-commit-offsets p1 t-0@{round}"), "CONCURRENT_TRANSACTIONS");
                assert_eq!(staged, "t-0 NONE\n", "round {round}");
                let ended = ask("end-txn p1 commit at-once", "CONCURRENT_TRANSACTIONS");
                assert!(ended.starts_with("NONE "), "round {round}: {ended}");
                let wanted = format!("t-0 {round} epoch=-1 text=\n");
                let stable = ask("via other fetch-offsets t-0 stable", "UNSTABLE_OFFSET_COMMIT");
                assert_eq!(stable, wanted, "round {round}");
                assert_eq!(ask("via other fetch-offsets t-0", "nothing"), wanted, "round {round}");
            }
        });
    });
}

/// B089: a sink that probes thousands of ids which were never used.
#[test]
fn b089_unused_transactional_ids_are_cheap() {
    const IDS: usize = 2000;
    let broker = Broker::with_defaults(&["-c", "transaction.state.log.num.partitions=1"]);
    broker.with_session(|run| {
        let mut seen = Vec::new();
        for index in 0..IDS {
            let granted = run(&format!("init-producer p{index} txn=x{index}"));
            assert_eq!(granted, format!("NONE producer=id{}/0\n", index + 1), "an id of its own");
            seen.push(granted);
        }
        let log = run("txn-log x7");
        assert!(log.starts_with("v1 Empty ") && log.lines().count() == 1, "{log}");
        let listed = run("list-txns states=Empty");
        assert_eq!(listed.lines().filter(|line| line.contains("Empty")).count(), IDS, "all are listed");
        assert!(!run("list-txns states=Ongoing").contains("Empty"), "as empty only");
        assert_eq!(
            run("init-producer p7 txn=x7"),
            "NONE producer=id8/1\n",
            "the same producer, one epoch on"
        );
    });
}

/// B086: an id that was forgotten is unknown, and can be had anew; one with an open transaction is never forgotten.
#[test]
fn b086_transactional_ids_expire_when_idle() {
    let broker = Broker::sharemark(&[
        "-c",
        "transactional.id.expiration.ms=600",
        "-c",
        "transaction.remove.expired.transaction.cleanup.interval.ms=100",
    ]);
    broker.topic("t", 1);
    broker.with_session(|run| {
        run("init-producer p1 txn=idle");
        run("init-producer p2 txn=open");
        run("produce t-0 producer=p2");
        run("advance 1500");
        assert_eq!(run("add-partitions p1 t-0"), "t-0 INVALID_PRODUCER_ID_MAPPING\n");
        assert_eq!(run("end-txn p1 commit"), "INVALID_PRODUCER_ID_MAPPING\n");
        assert_eq!(run("produce t-0 producer=p1"), "t-0 INVALID_PRODUCER_ID_MAPPING\n");
        assert_eq!(run("init-producer p3 txn=idle"), "NONE producer=id3/0\n", "another producer id");
        assert_eq!(run("end-txn p2 commit"), "NONE producer=id2/1\n");
    });
}

/// B094: what clients are told of the protocol of transactions, by the level that is finalized.
#[test]
fn b094_the_level_of_transactions_is_told() {
    for level in 0..=2 {
        let broker = Broker::with_defaults(&["--feature", &format!("transaction.version={level}")]);
        for version in [3, 4] {
            let request = ApiVersionsRequest {
                client_software_name: "cases".into(),
                client_software_version: "1".into(),
                ..ApiVersionsRequest::default()
            };
            let answer = broker.connect().call(&request, version).unwrap();
            assert!(0 <= answer.finalized_features_epoch);
            let found =
                answer.finalized_features.iter().find(|feature| &*feature.name == "transaction.version");
            assert_eq!(found.map_or(0, |feature| feature.max_version_level), level, "version {version}");
        }
    }
}

/// What a client sends that speaks both protocols of transactions.
const BOTH_PROTOCOLS: &[&str] = &[
    "init-producer p1 txn=x",
    "produce t-0 producer=p1",
    "produce t-0 producer=p1 version=11",
    "add-partitions p1 t-1",
    "add-partitions p1 t-1 version=4",
    "produce t-1 producer=p1",
    "produce t-1 producer=p1 version=11",
    "txn-log x",
    "end-txn p1 commit",
    "txn-log x",
    "end-txn p1 commit",
    "end-txn p1 abort",
    "end-txn p1 abort version=4",
    "add-partitions p1 t-1",
    "end-txn p1 commit version=4",
    "end-txn p1 commit version=4",
    "end-txn p1 abort version=4",
    "txn-log x",
    "produce t-2 producer=p1",
    "end-txn p1 abort",
    "fetch t-0",
    "fetch t-1",
    "fetch t-2",
    "init-producer p2 txn=x",
    "produce t-1 producer=p1",
];

/// What a Kafka 4.4 at transaction.version 1 answered.
const BOTH_PROTOCOLS_ANSWERED: &str = "\
NONE producer=id1/0
t-0 NONE base_offset=0
t-0 NONE base_offset=1
t-1 NONE
t-1 NONE
t-1 NONE base_offset=0
t-1 NONE base_offset=1
v1 Empty producer=id1/0 previous=id1 next=none/-1 client_version=0 timeout_ms=60000 partitions=null
v1 Ongoing producer=id1/0 previous=id1 next=none/-1 client_version=2 timeout_ms=60000 partitions=t-0
v1 Ongoing producer=id1/0 previous=id1 next=none/-1 client_version=0 timeout_ms=60000 partitions=t-0,t-1
NONE producer=id1/1
v1 PrepareCommit producer=id1/1 previous=id1 next=none/-1 client_version=2 timeout_ms=60000 partitions=t-0,t-1
v1 CompleteCommit producer=id1/1 previous=id1 next=none/-1 client_version=2 timeout_ms=60000 partitions=
INVALID_TXN_STATE
NONE producer=id1/2
NONE
t-1 NONE
NONE
NONE
INVALID_TXN_STATE
v1 PrepareAbort producer=id1/2 previous=id1 next=none/-1 client_version=2 timeout_ms=60000 partitions=
v1 CompleteAbort producer=id1/2 previous=id1 next=none/-1 client_version=2 timeout_ms=60000 partitions=
v1 Ongoing producer=id1/2 previous=id1 next=none/-1 client_version=0 timeout_ms=60000 partitions=t-1
v1 PrepareCommit producer=id1/2 previous=id1 next=none/-1 client_version=0 timeout_ms=60000 partitions=t-1
v1 CompleteCommit producer=id1/2 previous=id1 next=none/-1 client_version=0 timeout_ms=60000 partitions=
t-2 NONE base_offset=0
NONE producer=id1/3
t-0 NONE high_watermark=3 last_stable_offset=3 log_start=0
0 id1/0 sequence=0 transactional v0
1 id1/0 sequence=1 transactional v0
2 id1/1 COMMIT
t-1 NONE high_watermark=4 last_stable_offset=4 log_start=0
0 id1/0 sequence=0 transactional v0
1 id1/0 sequence=1 transactional v0
2 id1/1 COMMIT
3 id1/2 COMMIT
t-2 NONE high_watermark=2 last_stable_offset=2 log_start=0
0 id1/2 sequence=0 transactional v0
1 id1/3 ABORT
NONE producer=id1/4
t-1 INVALID_PRODUCER_EPOCH
";

/// B094: a Kafka 4.4 at transaction.version 1 goes by the version of each request, and so do we.
#[test]
fn b094_at_level_1_each_request_says_which_protocol_it_speaks() {
    let broker = Broker::sharemark(&["--feature", "transaction.version=1"]);
    broker.topic("t", 3);
    assert_eq!(broker.run(BOTH_PROTOCOLS), BOTH_PROTOCOLS_ANSWERED);
}

/// B091: the marker carries the epoch of the coordinator that sent it.
#[test]
fn b091_a_marker_carries_the_epoch_of_its_coordinator() {
    on_both(|broker| {
        let topic: Topic = broker.topic("t", 1);
        broker.run(&["init-producer p1 txn=x", "write-markers p1 commit t-0 epoch=1 coordinator-epoch=7"]);
        let bytes = broker.fetch(&topic, 0, 0).records.unwrap().to_bytes();
        let batch = &sharemark_testkit::records::decode_batches(&bytes).unwrap()[0];
        assert_eq!(batch.marker(), Some(true));
        let value = batch.records[0].value.as_deref().unwrap();
        assert_eq!(value[2..6], 7_i32.to_be_bytes());
    });
}
