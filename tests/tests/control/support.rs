//! An embedded server with its control endpoint, and a client in the words of the transcripts.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sharemark::{Server, ServerBuilder};
use sharemark_testkit::http;
use sharemark_testkit::transcript::{Kind, Names, Session, TcpTarget, find_coordinators};

/// A server of one node with its control endpoint.
pub(crate) fn server() -> Server {
    builder().start().unwrap()
}

pub(crate) fn builder() -> ServerBuilder {
    Server::builder().control("127.0.0.1:0")
}

/// Asks the control endpoint; what it answers is JSON.
pub(crate) fn ask(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, body) = http::call(server.control_address().unwrap(), method, path, body).unwrap();
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{method} {path}: {error}: {body:?}")))
}

/// Asks for something that must succeed.
pub(crate) fn told(server: &Server, method: &str, path: &str, body: &str) -> Value {
    let (status, value) = ask(server, method, path, body);
    assert_eq!(status, 200, "{method} {path}: {value}");
    value
}

/// Returns the text of all metrics.
pub(crate) fn metrics(server: &Server) -> String {
    let (status, text) = http::call(server.control_address().unwrap(), "GET", "/metrics", "").unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

/// Returns the sum of the samples of a metric whose labels hold all of `labels`.
pub(crate) fn sum(text: &str, metric: &str, labels: &[&str]) -> f64 {
    let samples = text.lines().filter(|line| {
        let name = line.split(['{', ' ']).next();
        name == Some(metric) && labels.iter().all(|label| line.contains(label))
    });
    samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// Runs commands of transcripts against a server, at its first node.
pub(crate) fn with_session(server: &Server, body: impl FnOnce(&mut Session<'_>)) {
    with_session_at(server, 0, body);
}

/// Runs commands of transcripts against a server, at the node with this index.
pub(crate) fn with_session_at(server: &Server, index: usize, body: impl FnOnce(&mut Session<'_>)) {
    let address = server.bootstrap().split(',').nth(index).unwrap().parse::<SocketAddr>().unwrap();
    let mut target = TcpTarget::new(Kind::Sharemark, address);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let now_ms = i64::try_from(since.as_millis()).unwrap();
    let mut session = Session::new(&mut target, Names::new(String::new(), now_ms));
    find_coordinators(&mut session).unwrap();
    body(&mut session);
}

/// Makes a topic of so many records, of which a member holds all.
pub(crate) fn hold_records(session: &mut Session<'_>, count: usize) {
    run(session, "create-topic t");
    run(session, "group-config g share.auto.offset.reset=earliest");
    run(session, "join member=A topics=t");
    run(session, &format!("produce t-0 count={count}"));
    let acquired = format!("acquired 0-{}x1", count - 1);
    assert!(run(session, "share-fetch member=A epoch=0 t-0").contains(&acquired));
}

/// Runs one command and returns what it prints.
pub(crate) fn run(session: &mut Session<'_>, command: &str) -> String {
    session.run(command).unwrap_or_else(|error| panic!("{command}: {error:?}"))
}
