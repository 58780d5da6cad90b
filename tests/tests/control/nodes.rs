use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use sharemark::{ControlError, NodeState, Server};
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_testkit::client::Connection;

use crate::support::{ask, builder, told};

fn addresses(server: &Server) -> Vec<SocketAddr> {
    server.bootstrap().split(',').map(|address| address.parse().unwrap()).collect()
}

/// Returns the node and the leader epoch of each partition of a topic.
fn leaders(server: &Server, topic: &str) -> Vec<(i64, i64)> {
    let all = told(server, "GET", "/leaders", "");
    let of_topic = all.as_array().unwrap().iter().filter(|it| it["topic"] == topic);
    of_topic.map(|it| (it["node"].as_i64().unwrap(), it["leaderEpoch"].as_i64().unwrap())).collect()
}

fn broker_ids(at: SocketAddr) -> Vec<i32> {
    let mut connection = Connection::open_and_negotiate(at).unwrap();
    let answer = connection.call(&MetadataRequest::default(), 12).unwrap();
    answer.brokers.iter().map(|broker| broker.node_id).collect()
}

#[test]
fn a_stopped_node_is_gone_until_it_starts_again() {
    let server = builder().config(|config| config.brokers(3).topic("t:3")).start().unwrap();
    let addresses = addresses(&server);
    assert_eq!(leaders(&server, "t"), [(0, 0), (1, 0), (2, 0)]);
    let mut connection = Connection::open_and_negotiate(addresses[1]).unwrap();
    let nodes = told(&server, "POST", "/nodes/1/stop", "");
    let shown = |running: [bool; 3]| -> Value {
        (0..3).zip(running).map(|(id, runs)| json!({"id": id, "running": runs, "isolated": false})).collect()
    };
    assert_eq!(nodes, shown([true, false, true]));
    assert!(connection.call(&MetadataRequest::default(), 12).is_err(), "its connections are closed");
    assert!(TcpStream::connect(addresses[1]).is_err(), "it listens no more");
    assert_eq!(broker_ids(addresses[0]), [0, 2]);
    let moved = leaders(&server, "t");
    assert!(moved[1].0 != 1 && moved[1].1 == 1, "another leads, in a new epoch: {moved:?}");
    assert_eq!((moved[0], moved[2]), ((0, 0), (2, 0)));
    for (path, status) in [
        ("/nodes/1/stop", 409),
        ("/nodes/0/start", 409),
        ("/nodes/7/stop", 404),
        ("/nodes/7/start", 404),
        ("/nodes/x/stop", 400),
    ] {
        assert_eq!(ask(&server, "POST", path, "").0, status, "{path}");
    }
    assert_eq!(told(&server, "POST", "/nodes/1/start", ""), shown([true; 3]));
    assert_eq!(broker_ids(addresses[1]), [0, 1, 2]);
    assert_eq!(leaders(&server, "t"), moved, "it leads nothing again by itself");
}

fn states(server: &Server) -> Vec<NodeState> {
    server.nodes().unwrap().iter().map(|(_, state)| *state).collect()
}

#[test]
fn a_node_that_is_cut_off_goes_on() {
    let server = builder().config(|config| config.brokers(3).topic("t:3")).start().unwrap();
    let addresses = addresses(&server);
    let mut connection = Connection::open_and_negotiate(addresses[1]).unwrap();
    let shown = told(&server, "POST", "/nodes/1/isolate", "");
    assert_eq!(shown[1], json!({"id": 1, "running": true, "isolated": true}));
    let known = connection.call(&MetadataRequest::default(), 12).unwrap();
    assert_eq!(known.brokers.len(), 3, "its connections stay, and it knows of nothing");
    assert_eq!(broker_ids(addresses[0]), [0, 2]);
    assert_eq!(broker_ids(addresses[1]), [0, 1, 2], "it listens");
    let moved = leaders(&server, "t");
    assert!(moved[1].0 != 1 && moved[1].1 == 1, "another leads, in a new epoch: {moved:?}");
    for (path, status) in [
        ("/nodes/1/isolate", 409),
        ("/nodes/1/start", 409),
        ("/nodes/0/rejoin", 409),
        ("/nodes/7/isolate", 404),
        ("/nodes/7/rejoin", 404),
        ("/nodes/x/isolate", 400),
        ("/nodes/x/rejoin", 400),
    ] {
        assert_eq!(ask(&server, "POST", path, "").0, status, "{path}");
    }
    let shown = told(&server, "POST", "/nodes/1/rejoin", "");
    assert_eq!(shown[1], json!({"id": 1, "running": true, "isolated": false}));
    assert_eq!(broker_ids(addresses[0]), [0, 1, 2]);
    assert_eq!(leaders(&server, "t"), moved, "it leads nothing again by itself");
    server.isolate_node(2).unwrap();
    assert_eq!(states(&server), [NodeState::Running, NodeState::Running, NodeState::Isolated]);
    server.rejoin_node(2).unwrap();
    assert!(matches!(server.rejoin_node(2), Err(ControlError::Conflict(_))));
}

#[test]
fn an_embedding_program_stops_and_starts_nodes() {
    let server = builder().config(|config| config.brokers(2)).start().unwrap();
    server.stop_node(1).unwrap();
    assert!(matches!(server.stop_node(1), Err(ControlError::Conflict(_))));
    assert_eq!(states(&server), [NodeState::Running, NodeState::Stopped]);
    server.start_node(1).unwrap();
    assert_eq!(broker_ids(addresses(&server)[1]), [0, 1]);
    server.stop_node(0).unwrap();
    server.stop_node(1).unwrap();
    server.start_node(1).unwrap();
    assert_eq!(
        broker_ids(addresses(&server)[1]),
        [1],
        "a cluster of which every node was stopped comes back"
    );
    server.stop().unwrap();
}
