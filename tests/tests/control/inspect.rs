use serde_json::{Value, json};
use sharemark::ControlError;

use crate::support::{ask, metrics, run, server, sum, told, with_session};

#[test]
fn a_share_partition_shows_every_record() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        let unknown = ask(&server, "GET", "/share-groups/h/t/0", "");
        assert_eq!(unknown.0, 404, "there is no such group: {}", unknown.1);
        let begun = told(&server, "GET", "/share-groups/g/t/0", "");
        assert_eq!((&begun["loaded"], &begun["records"]), (&json!(false), &json!([])), "nobody has fetched");
        told(&server, "POST", "/clock/hold", "");
        run(session, "init-producer p1 txn=x");
        run(session, "produce t-0 count=10");
        run(session, "share-fetch member=A epoch=0 t-0");
        run(session, "share-acknowledge member=A epoch=1 t-0 accept 0 release 3 accept 5");
        run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 1-2");
        told(&server, "POST", "/clock/advance", r#"{"ms": 1000}"#);
        let shown = told(&server, "GET", "/share-groups/g/t/0", "");
        for (field, wanted) in [
            ("node", 0),
            ("startOffset", 1),
            ("endOffset", 9),
            ("leaderEpoch", 0),
            ("deliveryCompleteCount", 1),
        ] {
            assert_eq!(shown[field], json!(wanted), "{field}: {shown}");
        }
        let transaction = told(&server, "GET", "/transactions/x", "");
        let member = shown["records"][2]["member"].as_str().unwrap_or_default().to_owned();
        assert!(!member.is_empty(), "{shown}");
        let acquired = |first: i64, last: i64| {
            json!({"first": first, "last": last, "state": "ACQUIRED", "deliveryCount": 1, "member": member,
                "lockMsLeft": 29_000})
        };
        let wanted = json!([
            {"first": 1, "last": 2, "state": "TX_PENDING", "deliveryCount": 1,
                "producerId": transaction["producerId"], "producerEpoch": transaction["producerEpoch"],
                "stagedState": "ACKNOWLEDGED"},
            {"first": 3, "last": 3, "state": "AVAILABLE", "deliveryCount": 1},
            acquired(4, 4),
            {"first": 5, "last": 5, "state": "ACKNOWLEDGED", "deliveryCount": 1},
            acquired(6, 9),
        ]);
        assert_eq!(shown["records"], wanted);
        let view = server.share_partition("g", "t", 0).unwrap();
        assert_eq!((view.start_offset, view.end_offset, view.records.len()), (1, 9, 5));
    });
}

#[test]
fn what_is_stored_is_shown_when_nobody_fetches() {
    let server = server();
    let pending = || {
        let name = "kafka_server_ShareGroupMetrics_TxnPendingRecordsCount";
        sum(&metrics(&server), name, &[r#"node="0""#])
    };
    // What is not done with; where the start is stored depends on what was written last.
    let left = || {
        let records = server.share_partition("g", "t", 0).unwrap().records.into_iter();
        let left = records.filter(|run| !run.state.is_final());
        left.map(|run| (run.range.first().get(), run.range.last().get(), run.state.name()))
            .collect::<Vec<_>>()
    };
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=4");
        run(session, "init-producer p1 txn=x");
        run(session, "share-fetch member=A epoch=0 t-0");
        run(session, "share-acknowledge member=A epoch=1 t-0 accept 0");
        let staged = run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 1-2");
        assert!(staged.contains("NONE"), "{staged}");
        assert_eq!(told(&server, "GET", "/share-groups/g/t/0", "")["loaded"], json!(true));
        run(session, "close A");
        while told(&server, "GET", "/share-groups/g/t/0", "")["loaded"] == json!(true) {
            std::thread::yield_now(); // The server has not seen yet that the connection is gone.
        }
        assert_eq!(left(), [(1, 2, "TX_PENDING"), (3, 3, "AVAILABLE")]);
        assert_eq!(pending(), 2.0);
        run(session, "end-txn p1 commit");
        assert_eq!(left(), [(3, 3, "AVAILABLE")]);
        assert_eq!(pending(), 0.0);
    });
}

#[test]
fn a_transaction_shows_where_it_stands() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "init-producer p1 txn=x timeout=60000");
        run(session, "init-producer p2 txn=y");
        let held = told(&server, "POST", "/clock/hold", "");
        assert_eq!(held["held"], json!(true));
        run(session, "produce t-0 producer=p1");
        told(&server, "POST", "/clock/advance", r#"{"ms": 500}"#);
        let shown = told(&server, "GET", "/transactions/x", "");
        for (field, wanted) in [
            ("transactionalId", json!("x")),
            ("node", json!(0)),
            ("state", json!("Ongoing")),
            ("producerEpoch", json!(0)),
            ("partitions", json!([{"topic": "t", "partition": 0}])),
            ("ageMs", json!(500)),
            ("timeoutMs", json!(60_000)),
        ] {
            assert_eq!(shown[field], wanted, "{field}: {shown}");
        }
        run(session, "end-txn p1 abort");
        let all = told(&server, "GET", "/transactions", "");
        let states: Vec<&Value> = all.as_array().unwrap().iter().map(|shown| &shown["state"]).collect();
        assert_eq!(states, [&json!("CompleteAbort"), &json!("Empty")], "{all}");
        assert_eq!(ask(&server, "GET", "/transactions/z", "").0, 404);
        assert!(matches!(server.transaction("z"), Err(ControlError::NotFound(_))));
        assert_eq!(server.transactions().unwrap().len(), 2);
    });
}

#[test]
fn leaders_and_requests_are_shown() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t partitions=2");
        run(session, "produce t-1");
        let all = told(&server, "GET", "/leaders", "");
        let of = |topic: &str, partition: i32| {
            let leaders = all.as_array().unwrap().iter();
            let mut found = leaders.filter(|it| it["topic"] == topic && it["partition"] == partition);
            found.next().unwrap_or_else(|| panic!("{topic}-{partition} is shown: {all}")).clone()
        };
        let wanted = json!({"topic": "t", "partition": 1, "node": 0, "leaderEpoch": 0, "replicas": [0]});
        assert_eq!(of("t", 1), wanted);
        assert_eq!(of("__share_group_state", 0)["leaderEpoch"], json!(0));
        let last = told(&server, "GET", "/requests?last=1", "");
        assert_eq!(last.as_array().unwrap().len(), 1);
        let last = &last[0];
        assert_eq!((&last["api"], &last["node"]), (&json!("Produce"), &json!(0)), "{last}");
        assert!(last["request"].as_str().unwrap().contains("topic_data"), "{last}");
        assert!(last["answer"].as_str().unwrap().contains("base_offset: 0"), "{last}");
        let numbers: Vec<i64> = told(&server, "GET", "/requests", "")
            .as_array()
            .unwrap()
            .iter()
            .map(|request| request["number"].as_i64().unwrap())
            .collect();
        assert!(1 < numbers.len() && numbers.is_sorted(), "the newest is last: {numbers:?}");
        for path in ["/requests?last=x", "/requests?first=1", "/share-groups/g/t/x"] {
            assert_eq!(ask(&server, "GET", path, "").0, 400, "{path}");
        }
        for path in ["/share-groups/g/t/2", "/share-groups/g/nowhere/0", "/share-groups/g/t"] {
            assert_eq!(ask(&server, "GET", path, "").0, 404, "{path}");
        }
        assert_eq!(server.leaders().unwrap().iter().filter(|it| &*it.topic == "t").count(), 2);
        assert_eq!(server.requests(1).unwrap()[0].api.api().name, "Produce");
    });
}
