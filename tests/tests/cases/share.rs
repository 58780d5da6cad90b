//! Share groups: what takes several nodes, many partitions or other settings to show.

use std::time::{Duration, Instant};

use sharemark_protocol::messages as m;
use sharemark_testkit::records::Batch;

use m::metadata_request::MetadataRequest;
use m::share_fetch_request::{FetchPartition, FetchTopic, ShareFetchRequest};
use m::share_group_describe_request::ShareGroupDescribeRequest;

use crate::brokers::{Broker, Topic, now_ms, on_both};

const SHARE_SESSION_LIMIT_REACHED: i16 = 133;

fn share_fetch(broker: &Broker, member: &str, epoch: i32, topics: &[(&Topic, i32)]) -> ShareFetchRequest {
    ShareFetchRequest {
        group_id: Some(broker.name("g").as_str().into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        max_records: 500,
        batch_size: 500,
        topics: topics
            .iter()
            .map(|(topic, partition)| FetchTopic {
                topic_id: topic.id,
                partitions: vec![FetchPartition { partition_index: *partition, ..FetchPartition::default() }],
            })
            .collect(),
        ..ShareFetchRequest::default()
    }
}

/// B017: partitions that are full take turns, however little one answer holds.
#[test]
fn b017_full_partitions_take_turns() {
    const PARTITIONS: i32 = 20;
    on_both(|broker| {
        let topic = broker.topic("t", PARTITIONS);
        broker.run(&["group-config g share.auto.offset.reset=earliest", "join member=A topics=t"]);
        let places: Vec<(&Topic, i32)> = (0..PARTITIONS).map(|index| (&topic, index)).collect();
        let mut connection = broker.connect();
        connection.call(&share_fetch(broker, "A", 0, &places), 2).unwrap();
        for index in 0..PARTITIONS {
            for _ in 0..3 {
                broker.produce(&topic, index, Batch::of_values([vec![b'x'; 1000]], now_ms()).encode());
            }
        }
        let mut turns = vec![0; 20];
        for epoch in 1..=40 {
            let request = ShareFetchRequest { max_bytes: 1000, ..share_fetch(broker, "A", epoch, &[]) };
            let answer = connection.call(&request, 2).unwrap();
            assert_eq!(answer.error_code, 0);
            for data in answer.responses.iter().flat_map(|topic| &topic.partitions) {
                turns[usize::try_from(data.partition_index).unwrap()] += data.acquired_records.len();
            }
        }
        assert!(turns.iter().all(|turn| 1 <= *turn), "each partition had a turn: {turns:?}");
    });
}

/// B020: the ranges of an answer are in order and apart, and no record has two owners.
#[test]
fn b020_no_record_is_acquired_twice() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.run(&["group-config g share.auto.offset.reset=earliest", "join member=A topics=t"]);
        for count in [7, 1, 30, 2, 9] {
            broker.produce(&topic, 0, Batch::of_values(vec!["v"; count], now_ms()).encode());
        }
        let members = ["A", "B", "C"];
        let mut owners = [None; 49];
        // Sessions end with their connections.
        let mut links = members.map(|_| broker.connect());
        for round in 0..12 {
            let member = members[round % 3];
            let epoch = i32::try_from(round / 3).unwrap();
            let places = [(&topic, 0)];
            let request = ShareFetchRequest {
                max_records: 5,
                share_acquire_mode: 1,
                batch_size: 3,
                ..share_fetch(broker, member, epoch, if epoch == 0 { &places } else { &[] })
            };
            let answer = links[round % 3].call(&request, 2).unwrap();
            let mut last = -1;
            for range in answer.responses.iter().flat_map(|t| &t.partitions).flat_map(|p| &p.acquired_records)
            {
                assert!(last < range.first_offset && range.first_offset <= range.last_offset, "{answer:?}");
                last = range.last_offset;
                for offset in range.first_offset..=range.last_offset {
                    let owner = &mut owners[usize::try_from(offset).unwrap()];
                    assert_eq!(*owner, None, "offset {offset} has an owner");
                    *owner = Some(member);
                }
            }
        }
        assert!(owners.iter().all(Option::is_some), "all were acquired: {owners:?}");
    });
}

/// B043: no session makes room for another; a client that is refused is told so late, so that it does not spin.
#[test]
fn b043_sessions_do_not_make_room_for_others() {
    let broker =
        Broker::sharemark(&["-c", "group.share.max.size=10", "-c", "group.share.max.share.sessions=10"]);
    let topic = broker.topic("t", 1);
    let names: Vec<String> = (0..11).map(|index| format!("m{index}")).collect();
    let mut links: Vec<_> = names.iter().map(|_| broker.connect()).collect();
    for (name, link) in names.iter().zip(&mut links).take(10) {
        let request = ShareFetchRequest { max_wait_ms: 0, ..share_fetch(&broker, name, 0, &[(&topic, 0)]) };
        assert_eq!(link.call(&request, 2).unwrap().error_code, 0);
    }
    let started = Instant::now();
    let request = share_fetch(&broker, &names[10], 0, &[(&topic, 0)]);
    assert_eq!(links[10].call(&request, 2).unwrap().error_code, SHARE_SESSION_LIMIT_REACHED);
    assert!(Duration::from_millis(400) <= started.elapsed(), "the refusal waits as the fetch would have");
    for (name, link) in names.iter().zip(&mut links).take(10) {
        let request = ShareFetchRequest { max_wait_ms: 0, ..share_fetch(&broker, name, 1, &[]) };
        assert_eq!(link.call(&request, 2).unwrap().error_code, 0, "{name} goes on");
    }
    let mut last = links.pop().unwrap();
    drop(links);
    // The broker hears of the end of connections some time after.
    let room = || last.call(&share_fetch(&broker, &names[10], 0, &[(&topic, 0)]), 2).unwrap().error_code == 0;
    assert!(std::iter::repeat_with(room).take(20).any(|room| room), "there is room again");
}

/// B044: the end of a session at one node leaves what the same member holds at another.
#[test]
fn b044_sessions_at_two_nodes_end_apart() {
    let broker = Broker::with_defaults(&["--brokers", "2"]);
    broker.with_session(|run| {
        run("create-topic t partitions=2");
        run("group-config g share.auto.offset.reset=earliest");
        run("open first node=0");
        run("open second node=1");
        let joined = ["first", "second"].map(|link| run(&format!("via {link} join member=A topics=t")));
        assert!(joined.contains(&"NONE assigned=t-0,t-1\n".to_owned()), "{joined:?}");
        let led_by = |run: &mut dyn FnMut(&str) -> String, link: &str| {
            (0..2)
                .find(|index| run(&format!("via {link} list-offsets t-{index}")).contains(" NONE "))
                .unwrap()
        };
        let (at_first, at_second) = (led_by(run, "first"), led_by(run, "second"));
        assert_ne!(at_first, at_second, "each node leads one");
        run(&format!("via first produce t-{at_first} count=3"));
        run(&format!("via second produce t-{at_second} count=3"));
        let acquired = run(&format!("share-fetch member=A on=first epoch=0 t-{at_first}"));
        assert!(acquired.contains("acquired 0-2x1"), "{acquired}");
        let acquired = run(&format!("share-fetch member=A on=second epoch=0 t-{at_second}"));
        assert!(acquired.contains("acquired 0-2x1"), "{acquired}");
        run("share-fetch member=A on=first epoch=-1");
        run("open third node=0");
        run("open fourth node=1");
        let again = run(&format!("share-fetch member=B on=third epoch=0 t-{at_first}"));
        assert!(again.contains("acquired 0-2x2"), "released at once: {again}");
        let held = run(&format!("share-fetch member=B on=fourth epoch=0 t-{at_second} wait=50"));
        assert_eq!(held, format!("t-{at_second} NONE\n"), "still held");
        let accepted = run(&format!("share-acknowledge member=A on=second epoch=1 t-{at_second} accept 0-2"));
        assert_eq!(accepted, format!("t-{at_second} NONE\n"));
    });
}

/// B047: requests about the offsets of a group are for its coordinator; another node says so.
#[test]
fn b047_offset_requests_at_a_wrong_node() {
    let broker = Broker::with_defaults(&["--brokers", "2"]);
    broker.with_session(|run| {
        run("create-topic t");
        run("group-config g share.auto.offset.reset=earliest");
        run("open first node=0");
        run("open second node=1");
        let joined = run("via first join member=A topics=t");
        let is_first = joined == "NONE assigned=t-0\n";
        let (home, other) = if is_first { ("first", "second") } else { ("second", "first") };
        if !is_first {
            assert_eq!(joined, "NOT_COORDINATOR\n");
            assert_eq!(run("via second join member=A topics=t"), "NONE assigned=t-0\n");
        }
        run(&format!("via {home} leave member=A"));
        for request in [
            "describe-share-offsets t-0",
            "alter-share-offsets t-0 to=0",
            "delete-share-offsets t",
            "describe-share-group g",
        ] {
            let refused = run(&format!("via {other} {request}"));
            assert_eq!(refused, "NOT_COORDINATOR\n", "{request}");
            let answered = run(&format!("via {home} {request}"));
            assert!(!answered.contains("NOT_COORDINATOR"), "{request}: {answered}");
        }
    });
}

/// B050: with the last member gone, the epochs of the group and of its assignment are the same.
#[test]
fn b050_an_empty_group_has_one_epoch() {
    on_both(|broker| {
        broker.topic("t", 1);
        broker.run(&[
            "group-config g share.session.timeout.ms=1000",
            "join member=A topics=t",
            "advance 2500",
        ]);
        let request = ShareGroupDescribeRequest {
            group_ids: vec![broker.name("g").as_str().into()],
            include_authorized_operations: false,
        };
        let answer = broker.connect().call(&request, 1).unwrap();
        let group = &answer.groups[0];
        assert_eq!((group.error_code, &*group.group_state, group.members.len()), (0, "Empty", 0));
        assert_eq!(group.group_epoch, group.assignment_epoch);
    });
}

/// B148: with several nodes every group is told by one of them, and all name the same controller.
#[test]
fn b148_a_group_is_listed_by_one_node() {
    let broker = Broker::with_defaults(&["--brokers", "3"]);
    broker.topic("t", 1);
    broker.with_session(|run| {
        for node in 0..3 {
            run(&format!("open n{node} node={node}"));
        }
        for group in 0..6 {
            let homes = (0..3)
                .filter(|node| {
                    let joined = run(&format!(
                        "via n{node} heartbeat group=g{group} member=A epoch=0 topics=t no-epoch"
                    ));
                    assert!(joined.starts_with("NONE") || joined.starts_with("NOT_COORDINATOR"), "{joined}");
                    joined.starts_with("NONE")
                })
                .count();
            assert_eq!(homes, 1, "g{group} has one coordinator");
            let listed = (0..3)
                .filter(|node| {
                    run(&format!("via n{node} list-groups")).contains(&format!("g{group} type=share"))
                })
                .count();
            assert_eq!(listed, 1, "g{group} is listed once");
        }
        for node in 0..3 {
            assert_eq!(run(&format!("via n{node} create-topic u{node}")), "NONE\n", "any node takes it");
        }
    });
    let answer = broker.connect().call(&MetadataRequest::default(), 13).unwrap();
    assert_eq!(answer.brokers.len(), 3);
    assert!(answer.brokers.iter().any(|node| node.node_id == answer.controller_id));
}
