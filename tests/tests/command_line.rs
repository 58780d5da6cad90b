//! The command line as a program that starts the server sees it: the ready line, exit codes, one line of error.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::TcpListener;
use std::process::{Command, Output};

use sharemark_testkit::process::{Sharemark, sharemark_binary};

fn run(arguments: &[&str]) -> Output {
    Command::new(sharemark_binary().unwrap()).args(arguments).output().unwrap()
}

fn assert_refused(arguments: &[&str], code: i32, wanted: &str) {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(wanted), "{arguments:?} says `{wanted}`: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?} prints nothing on standard output");
    assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
}

#[test]
fn the_ready_line_says_where_and_who() {
    let server = Sharemark::start_on_free_port(&[]).unwrap();
    assert_ne!(server.bootstrap().port(), 0, "port 0 stands for a free port");
    assert_eq!(server.field("pid"), Some(&*server.pid().to_string()));
    assert!(server.field("startup_ms").unwrap().parse::<u32>().is_ok());
    assert_eq!(server.field("control"), None, "there is no control endpoint unless asked for");
    let server = Sharemark::start_on_free_port(&["--control", "127.0.0.1:0"]).unwrap();
    let control = server.field("control").unwrap().parse().unwrap();
    let answer = sharemark_testkit::http::call(control, "GET", "/healthz", "").unwrap();
    assert_eq!(answer.0, 200, "ready means that the control endpoint answers, too");
}

#[test]
fn several_nodes_listen_on_ports_of_their_own() {
    let server = Sharemark::start_on_free_port(&["--brokers", "3"]).unwrap();
    let addresses: Vec<&str> = server.field("bootstrap").unwrap().split(',').collect();
    assert_eq!(addresses.len(), 3);
    for address in addresses {
        std::net::TcpStream::connect(address).unwrap();
    }
}

#[test]
fn a_signal_to_stop_ends_it_well() {
    let server = Sharemark::start_on_free_port(&[]).unwrap();
    assert_eq!(server.stop().unwrap().code(), Some(0));
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["--listen", &address]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "one line: {stderr}");
    assert!(stderr.contains(&address), "it names the address: {stderr}");
    assert_refused(&["--listen", "127.0.0.1:0", "--journal", "/no/such/folder/x"], 1, "/no/such/folder/x");
    assert_refused(&["replay", "/no/such/file"], 2, "/no/such/file");
    assert_refused(&["--no-such-option"], 2, "no-such-option");
    assert_refused(&["--profile", "kafka-9"], 2, "kafka-9");
    assert_refused(&["--listen", "nonsense"], 2, "nonsense");
    assert_refused(&["--listen", "127.0.0.1:0", "--control", "nonsense"], 2, "nonsense");
    assert_refused(&["--feature", "share.version=99"], 2, "share.version");
    for (value, wanted) in [
        ("share.txn.dialect=k96", "k96"),
        ("share.txn.dialect=k95,off", "off goes with no other form"),
        (
            "listener.name.inner.share.txn.dialect=k93",
            "listener.name.inner.share.txn.dialect is for no listener",
        ),
    ] {
        assert_refused(&["-c", value], 2, wanted);
        let stderr = run(&["-c", value]).stderr;
        assert_eq!(String::from_utf8_lossy(&stderr).lines().count(), 1, "one line for {value}");
    }
}

#[test]
fn what_is_not_built_is_refused() {
    assert_refused(&["--data-dir", "data"], 2, "not built yet");
}
