//! What a broker must survive: bad frames, silence within a frame, and clients that vanish.

use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use sharemark_protocol::messages as m;
use sharemark_testkit::client::Connection;
use sharemark_testkit::records::Batch;

use m::metadata_request::MetadataRequest;
use m::share_fetch_request::{FetchPartition, FetchTopic, ShareFetchRequest};

use crate::brokers::{Broker, fetch_request, now_ms};

const PATIENCE: Duration = Duration::from_secs(10);

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    files: usize,
    threads: usize,
    memory_kib: usize,
}

fn holdings(broker: &Broker) -> Holdings {
    let folder = format!("/proc/{}", broker.pid());
    let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    Holdings {
        files: std::fs::read_dir(format!("{folder}/fd")).unwrap().count(),
        threads: number("Threads:"),
        memory_kib: number("VmRSS:"),
    }
}

/// Waits until the process holds the same for a while, and returns that.
fn settled(broker: &Broker) -> Holdings {
    let mut last = holdings(broker);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = holdings(broker);
        if (now.files, now.threads) == (last.files, last.threads) {
            return now;
        }
        last = now;
    }
}

/// Waits until the process holds no more than before, but for some memory.
fn assert_back_to(broker: &Broker, before: Holdings, what: &str) {
    const MEMORY_KIB_MORE: usize = 16 << 10;
    let started = Instant::now();
    loop {
        let now = holdings(broker);
        let back = now.files <= before.files
            && now.threads <= before.threads
            && now.memory_kib <= before.memory_kib + MEMORY_KIB_MORE;
        if back {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: before {before:?}, now {now:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn assert_serves(broker: &Broker) {
    assert!(!broker.connect().call(&MetadataRequest::default(), 13).unwrap().brokers.is_empty());
}

/// Reads until the broker closes.
fn assert_closes(connection: &mut Connection, what: &str) {
    connection.set_read_timeout(PATIENCE).unwrap();
    match connection.read_frame() {
        Ok(None) => {}
        other => panic!("{what}: not closed: {other:?}"),
    }
}

/// B161: thousands of bad frames cost their own connections and nothing else.
#[test]
fn b161_bad_frames_leave_nothing_behind() {
    const FRAMES: usize = 10_000;
    let broker = Broker::with_defaults(&["--topic", "t"]);
    let frames: Vec<BytesMut> = [
        (-1, 0),
        (0, 0),
        (i32::MAX, 64),
        (i32::MIN, 0),
        (64, 64),          // Nothing but zeros: a produce of version 0.
        (104_857_600, 64), // The longest that is allowed, and then the end.
    ]
    .map(|(length, zeros)| {
        let mut frame = BytesMut::new();
        frame.put_i32(length);
        frame.put_bytes(0, zeros);
        frame
    })
    .into();
    let send = |count: usize| {
        for frame in frames.iter().cycle().take(count) {
            let mut connection = broker.connect_silently();
            // The broker may have closed before all was written.
            drop(connection.send_bytes(frame));
            drop(connection.finish_sending());
            assert_closes(&mut connection, &format!("{:?}", &frame[..4]));
        }
    };
    send(100);
    let before = holdings(&broker);
    send(FRAMES);
    assert_back_to(&broker, before, "after bad frames");
    assert_serves(&broker);
}

/// B161: half a frame and then silence ends with the time that a connection may idle.
#[test]
fn b161_silence_within_a_frame_ends_the_connection() {
    let broker = Broker::with_defaults(&["-c", "connections.max.idle.ms=300"]);
    for half in [&[][..], &[0], &[0, 0, 0, 100], &[0, 0, 0, 100, 0, 18, 0, 4]] {
        let mut connection = broker.connect_silently();
        let started = Instant::now();
        connection.send_bytes(half).unwrap();
        assert_closes(&mut connection, &format!("{half:?}"));
        assert!(Duration::from_millis(250) <= started.elapsed(), "not before its time");
    }
    assert_serves(&broker);
}

/// B166: what waits for a connection that is gone acquires nothing, and nothing of it stays.
#[test]
fn b166_vanished_clients_leave_nothing_behind() {
    const CLIENTS: usize = 400;
    let broker = Broker::with_defaults(&[]);
    let topic = broker.topic("t", 1);
    broker.run(&["group-config g share.auto.offset.reset=earliest", "join member=A topics=t"]);
    let park = |count: usize| -> Vec<Connection> {
        (0..count)
            .map(|index| {
                let mut connection = broker.connect_silently();
                if index % 2 == 0 {
                    let request = m::fetch_request::FetchRequest {
                        max_wait_ms: 600_000,
                        ..fetch_request(&[(&topic, 0, 0)])
                    };
                    connection.send(&request, 18).unwrap();
                } else {
                    let request = ShareFetchRequest {
                        group_id: Some("g".into()),
                        member_id: Some(format!("member-{index}").into()),
                        max_wait_ms: 600_000,
                        min_bytes: 1,
                        max_bytes: 1 << 20,
                        max_records: 500,
                        batch_size: 500,
                        topics: vec![FetchTopic {
                            topic_id: topic.id,
                            partitions: vec![FetchPartition::default()],
                        }],
                        ..ShareFetchRequest::default()
                    };
                    connection.send(&request, 2).unwrap();
                }
                connection
            })
            .collect()
    };
    drop(park(20));
    let before = settled(&broker);
    for _ in 0..3 {
        let parked = park(CLIENTS);
        assert_serves(&broker);
        drop(parked);
        assert_back_to(&broker, before, "after clients that vanished");
    }
    broker.produce(&topic, 0, Batch::of_values(["a"], now_ms()).encode());
    let fetched = broker.run(&["share-fetch member=A epoch=0 t-0"]);
    assert!(fetched.starts_with("t-0 NONE acquired 0-0x1"), "the record is free: {fetched}");
}
