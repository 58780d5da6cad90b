//! Servers within this process: they know nothing of each other, and leave nothing behind.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sharemark::{Server, ServerError};
use sharemark_protocol::TopicId;
use sharemark_protocol::messages as m;
use sharemark_testkit::client::Connection;
use sharemark_testkit::transcript::{Kind, Names, Session, TcpTarget, find_coordinators};

use m::api_versions_request::ApiVersionsRequest;
use m::metadata_request::{MetadataRequest, MetadataRequestTopic};

use crate::brokers::now_ms;

fn address(server: &Server) -> SocketAddr {
    server.bootstrap().parse().unwrap()
}

/// Starts a server on a port that was a server's before. A program that another test starts holds this process's
/// sockets until it is itself, so the port may be taken for a moment after its server has closed it.
fn start_again_on(listen: &str, topic: Option<&str>) -> Server {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let started = Server::builder()
            .config(|config| match topic {
                Some(topic) => config.listen(listen).topic(topic),
                None => config.listen(listen),
            })
            .start();
        match started {
            Err(ServerError::Listen { error, .. })
                if error.kind() == ErrorKind::AddrInUse && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other.unwrap(),
        }
    }
}

fn share_version(server: &Server) -> i16 {
    let mut connection = Connection::open(address(server)).unwrap();
    let request = ApiVersionsRequest {
        client_software_name: "cases".into(),
        client_software_version: "1".into(),
        ..ApiVersionsRequest::default()
    };
    let answer = connection.call(&request, 4).unwrap();
    let feature = answer.finalized_features.iter().find(|feature| &*feature.name == "share.version");
    feature.map_or(0, |feature| feature.max_version_level)
}

/// B163: what one server is told does not change another in the same process.
#[test]
fn b163_two_servers_do_not_share_settings() {
    let first = Server::builder().start().unwrap();
    let second = Server::builder().config(|config| config.feature("share.version=1")).start().unwrap();
    assert_eq!((share_version(&first), share_version(&second)), (3, 1));
    let third = Server::builder().start().unwrap();
    assert_eq!((share_version(&first), share_version(&second), share_version(&third)), (3, 1, 3));
    first.stop().unwrap();
    assert_eq!((share_version(&second), share_version(&third)), (1, 3));
}

/// B166: a server that is stopped frees its port, its threads and its files.
#[test]
fn b166_servers_start_and_stop_many_times() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let port = {
        let server = Server::builder().start().unwrap();
        let port = address(&server).port();
        server.stop().unwrap();
        port
    };
    let mut most = 0;
    for round in 0..200 {
        let listen = format!("127.0.0.1:{port}");
        let server = start_again_on(&listen, None);
        drop(Connection::open_and_negotiate(address(&server)).unwrap());
        most = most.max(threads());
        server.stop().unwrap();
        assert!(threads() < most + 100, "round {round}");
    }
}

/// B168: a server on the port of another is another: ids of topics, sessions and epochs mean nothing there.
#[test]
fn b168_a_new_server_on_the_same_port_is_no_successor() {
    let old = Server::builder().start().unwrap();
    let at = address(&old);
    let mut target = TcpTarget::new(Kind::Sharemark, at);
    let mut session = Session::new(&mut target, Names::new(String::new(), now_ms()));
    find_coordinators(&mut session).unwrap();
    let mut run = |command: &str| session.run(command).unwrap();
    run("create-topic t");
    run("group-config g share.auto.offset.reset=earliest");
    run("join member=A topics=t");
    run("produce t-0 count=3");
    assert!(run("share-fetch member=A epoch=0 t-0").contains("acquired 0-2x1"));
    run("init-producer p1 txn=x");
    run("produce t-0 producer=p1");
    let identity = |at| {
        let mut connection = Connection::open(at).unwrap();
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic { name: Some("t".into()), topic_id: TopicId::ZERO }]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let answer = connection.call(&request, 13).unwrap();
        (answer.cluster_id.unwrap().to_string(), answer.topics[0].topic_id)
    };
    let before = identity(at);
    old.stop().unwrap();
    let new = start_again_on(&at.to_string(), Some("t"));
    let after = identity(at);
    assert_ne!(before.0, after.0, "another cluster");
    assert_ne!(before.1, after.1, "another topic of the same name");
    let mut target = TcpTarget::new(Kind::Sharemark, at);
    find_coordinators(&mut Session::new(&mut target, Names::new(String::new(), now_ms()))).unwrap();
    // The old connections are closed; the client goes on with what it knew.
    for link in ["A", "main"] {
        run(&format!("open {link}"));
    }
    assert_eq!(run("share-fetch member=A epoch=1 t-0"), "SHARE_SESSION_NOT_FOUND nothing\n");
    assert_eq!(run("share-acknowledge member=A epoch=1 t-0 accept 0"), "SHARE_SESSION_NOT_FOUND nothing\n");
    assert_eq!(run("share-fetch member=A epoch=0 t-0 wait=0"), "t-0 UNKNOWN_TOPIC_ID\n");
    assert_eq!(run("produce t-0"), "t-0 UNKNOWN_TOPIC_ID\n");
    assert_eq!(run("fetch t-0"), "t-0 UNKNOWN_TOPIC_ID\n");
    assert_eq!(run("heartbeat member=A"), "GROUP_ID_NOT_FOUND\n");
    assert_eq!(run("end-txn p1 commit"), "INVALID_PRODUCER_ID_MAPPING\n");
    new.stop().unwrap();
}
