use std::thread;
use std::time::Duration;

use serde_json::json;
use sharemark::ControlError;

use crate::support::{builder, metrics, run, server, sum, told, with_session};

#[test]
fn a_lock_ends_when_the_clock_is_advanced_past_it() {
    let server = server();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=3");
        let held = told(&server, "POST", "/clock/hold", "");
        assert_eq!(held["held"], json!(true));
        assert!(run(session, "share-fetch member=A epoch=0 t-0").contains("acquired 0-2x1"));
        let now_ms = held["nowMs"].as_i64().unwrap();
        let advanced = told(&server, "POST", "/clock/advance", r#"{"ms": 29999}"#);
        assert_eq!(advanced, json!({"held": true, "nowMs": now_ms + 29_999}));
        let nothing = run(session, "share-fetch member=A epoch=1 t-0 wait=0");
        assert!(!nothing.contains("acquired"), "{nothing}");
        told(&server, "POST", "/clock/advance", r#"{"ms": 1}"#);
        let again = run(session, "share-fetch member=A epoch=2 t-0 wait=0");
        assert!(again.contains("acquired 0-2x2"), "{again}");
        let name = "kafka_server_SharePartitionMetrics_AcquisitionLockTimeoutPerSec_total";
        assert_eq!(sum(&metrics(&server), name, &[r#"topic="t""#, r#"group="g""#]), 3.0);
        assert_eq!(told(&server, "POST", "/clock/release", "")["held"], json!(false));
        assert_eq!(told(&server, "GET", "/clock", "")["held"], json!(false));
    });
}

#[test]
fn deadlines_pass_in_order_on_the_way() {
    let server = server();
    server.hold_clock().unwrap();
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "init-producer p1 txn=x timeout=60000");
        run(session, "produce t-0 producer=p1");
        run(session, "produce t-0 count=2");
        assert!(run(session, "share-fetch member=A epoch=0 t-0").contains("acquired 0-2x1"));
        // Locks at 30 s, the session of the member at 45 s, the transaction at 60 s: in one go.
        server.advance_clock(Duration::from_secs(100)).unwrap();
        assert_eq!(run(session, "heartbeat member=A"), "UNKNOWN_MEMBER_ID\n");
        // 0 is the transaction's, 1 and 2 are plain, 3 is the marker of its abort.
        let read = run(session, "fetch t-0 isolation=committed");
        assert!(read.contains("last_stable_offset=4") && read.contains("ABORT"), "{read}");
        assert_eq!(run(session, "end-txn p1 commit"), "INVALID_TXN_STATE\n");
    });
}

#[test]
fn months_pass_without_harm() {
    let server = server();
    let held = server.hold_clock().unwrap();
    let month = Duration::from_millis(1 << 31);
    for round in 1..=3_i64 {
        let now = server.advance_clock(month).unwrap();
        assert_eq!(now.now_ms, held.now_ms + round * (1 << 31));
    }
    let too_far = server.advance_clock(Duration::from_secs(400 * 86_400));
    assert!(matches!(too_far, Err(ControlError::Invalid(_))), "{too_far:?}");
    let released = server.release_clock().unwrap();
    assert!(!released.is_held && held.now_ms + 3 * (1 << 31) <= released.now_ms);
    assert!(matches!(server.advance_clock(month), Err(ControlError::Conflict(_))));
}

/// A year of deadlines takes seconds, and nobody has to wait for it.
#[test]
fn others_are_served_while_the_clock_is_on_its_way() {
    let server =
        builder().config(|config| config.property("log.retention.check.interval.ms", "1")).start().unwrap();
    let held = server.hold_clock().unwrap();
    let by = Duration::from_secs(200);
    thread::scope(|scope| {
        let advancing = scope.spawn(|| server.advance_clock(by).unwrap());
        let mut seen = Vec::new();
        while !advancing.is_finished() {
            seen.push(server.clock().unwrap().now_ms);
        }
        let end_ms = held.now_ms + 200_000;
        assert_eq!(advancing.join().unwrap().now_ms, end_ms);
        assert!(seen.is_sorted(), "the clock goes forward");
        assert!(seen.iter().any(|now_ms| (held.now_ms + 1..end_ms).contains(now_ms)), "nobody was let in");
    });
}
