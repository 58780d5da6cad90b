//! Transactional share acknowledgements: requests that no well-behaved client sends, and random runs that a plain
//! model follows record by record.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "txn_share/conformance.rs"]
mod conformance;
#[path = "txn_share/crashes.rs"]
mod crashes;
#[path = "txn_share/hostile.rs"]
mod hostile;
#[path = "txn_share/kills.rs"]
mod kills;
#[path = "txn_share/many.rs"]
mod many;
#[path = "txn_share/model.rs"]
mod model;
#[path = "txn_share/random.rs"]
mod random;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sharemark::Server;
use sharemark::config::BrokerConfig;
use sharemark_testkit::transcript::{CoreTarget, Kind, Names, Session, TcpTarget, find_coordinators};

const START_MS: i64 = 1_900_000_000_000;

/// Starts a core with these broker properties.
fn core(properties: &[(&str, &str)]) -> CoreTarget {
    let mut config = BrokerConfig::builder().listen("127.0.0.1:9092");
    for (name, value) in properties {
        config = config.property(*name, *value);
    }
    CoreTarget::new(config.build(&mut Vec::new()).unwrap(), START_MS)
}

/// Runs `script` on a core of its own, once its coordinators are there.
fn with_session<T>(properties: &[(&str, &str)], script: impl FnOnce(&mut Session<'_>) -> T) -> T {
    let mut target = core(properties);
    find_coordinators(&mut Session::new(&mut target, Names::new(String::new(), START_MS))).unwrap();
    script(&mut Session::new(&mut target, Names::new(String::new(), START_MS)))
}

/// Runs `script` on a connection to a server, once its coordinators are there.
fn with_server(server: &Server, script: impl FnOnce(&mut Session<'_>)) {
    let (_, address) = &server.addresses()[0].listeners[0];
    let mut target = TcpTarget::new(Kind::Sharemark, *address);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let now_ms = i64::try_from(since.as_millis()).unwrap();
    let mut session = Session::new(&mut target, Names::new(String::new(), now_ms));
    find_coordinators(&mut session).unwrap();
    script(&mut session);
}

/// Runs commands, one a line, and returns what came out.
fn run(session: &mut Session<'_>, commands: &str) -> String {
    commands
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| session.run(line).unwrap())
        .collect()
}
