use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sharemark::{Fault, FaultAction, FaultPoint};
use sharemark_testkit::process::{Sharemark, replay, sharemark_binary};
use sharemark_testkit::transcript::Session;

use crate::support::{builder, run, with_session};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.journal"))
}

/// Groups of three kinds, a share consumer, transactions.
fn work(session: &mut Session<'_>) {
    run(session, "create-topic t partitions=3");
    run(session, "group-config g share.auto.offset.reset=earliest");
    run(session, "join member=A topics=t");
    run(session, "produce t-0 count=5");
    assert!(run(session, "share-fetch member=A epoch=0 t-0").contains("acquired 0-4x1"));
    run(session, "init-producer p1 txn=x");
    run(session, "produce t-1 producer=p1 count=2");
    assert!(run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-2").contains("NONE"));
    run(session, "share-acknowledge member=A epoch=1 t-0 release 3");
}

/// Writes a journal of a server that has been through all that one can do to it.
fn journal(name: &str) -> PathBuf {
    let path = file(name);
    let server = builder().journal(&path).start().unwrap();
    with_session(&server, |session| {
        work(session);
        server.hold_clock().unwrap();
        let held = server.install_fault(Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever());
        run(session, "end-txn p1 commit");
        server.delete_fault(held.unwrap()).unwrap();
        assert!(server.delete_fault(77).is_err());
        server.advance_clock(Duration::from_secs(40)).unwrap();
        let fetched = run(session, "fetch t-1 isolation=committed");
        assert!(fetched.contains("COMMIT"), "{fetched}");
    });
    server.stop_node(0).unwrap();
    assert!(server.stop_node(0).is_err());
    server.release_clock().unwrap();
    server.start_node(0).unwrap();
    with_session(&server, |session| {
        run(session, "create-topic u");
        run(session, "join member=B topics=u");
        run(session, "produce u-0");
        let fetched = run(session, "share-fetch member=B epoch=0 u-0");
        assert!(fetched.contains("acquired 0-0x1"), "{fetched}");
    });
    server.stop().unwrap();
    path
}

fn assert_same(path: &Path, ending: &str) {
    let (code, printed) = replay(path).unwrap();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.starts_with(ending), "{ending}: {printed}");
}

/// Returns where each entry begins, with its length, which counts from behind its checksum.
fn entries(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut entries = Vec::new();
    let mut at = 12;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        entries.push((at, length));
        at += 8 + length;
    }
    entries
}

#[test]
fn a_run_over_tcp_is_the_same_again() {
    assert_same(&journal("same"), "same: the server was stopped\n");
}

#[test]
fn a_changed_answer_is_found() {
    let path = journal("changed");
    let mut bytes = fs::read(&path).unwrap();
    const ANSWER: u8 = 10;
    let all = entries(&bytes);
    let (number, (at, length)) =
        all.iter().enumerate().filter(|(_, (at, _))| bytes[at + 8] == ANSWER).nth(5).unwrap();
    let place = format!("entry {} (at byte {at})", number + 1);
    bytes[at + 8 + length - 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (code, printed) = replay(&path).unwrap();
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.starts_with(&format!("damaged: {place}")), "{printed}");
    // With the checksum of the changed bytes it is an entry like any other.
    let checksum =
        crc32c::crc32c_append(crc32c::crc32c(&bytes[*at..at + 4]), &bytes[at + 8..at + 8 + length]);
    bytes[at + 4..at + 8].copy_from_slice(&checksum.to_be_bytes());
    fs::write(&path, &bytes).unwrap();
    let (code, printed) = replay(&path).unwrap();
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.starts_with(&format!("differs at {place}\n  journal: ")), "{printed}");
    assert!(printed.contains("\n  replay:  ") && printed.contains("\n  request: entry "), "{printed}");
}

#[test]
fn a_journal_without_its_last_entries_is_replayed_as_far_as_it_goes() {
    let path = journal("cut");
    let bytes = fs::read(&path).unwrap();
    let all = entries(&bytes);
    let (at, length) = all[all.len() / 2];
    let place = format!("entry {} (at byte {at})", all.len() / 2 + 1);
    for within in [1, 5, 8, 7 + length] {
        fs::write(&path, &bytes[..at + within]).unwrap();
        assert_same(&path, &format!("same, as far as it goes: the journal ends within {place}\n"));
    }
    fs::write(&path, &bytes[..at]).unwrap();
    assert_same(&path, "same, as far as it goes: the journal has no end\n");
}

#[test]
fn a_killed_server_leaves_what_it_has_answered() {
    let path = file("killed");
    let server = Sharemark::start_on_free_port(&["--journal", path.to_str().unwrap()]).unwrap();
    let mut connection =
        sharemark_testkit::client::Connection::open_and_negotiate(server.bootstrap()).unwrap();
    let request = sharemark_protocol::messages::metadata_request::MetadataRequest::default();
    connection.call(&request, 12).unwrap();
    // What was answered is on its way to the file: a Metadata of version 12.
    const METADATA: [u8; 4] = [0, 3, 0, 12];
    while !fs::read(&path).unwrap().windows(4).any(|bytes| bytes == METADATA) {
        std::thread::yield_now();
    }
    drop(server);
    assert_same(&path, "same, as far as it goes: the journal ");
}

#[test]
fn what_is_no_journal_is_refused() {
    let path = file("none");
    for (bytes, problem) in [
        (&b""[..], "it is not a journal"),
        (b"SHMKJRNL\0\0", "it is not a journal"),
        (b"some text that goes on and on", "it is not a journal"),
        (b"SHMKJRNL\0\0\0\x09", "it has version 9 of the layout"),
    ] {
        fs::write(&path, bytes).unwrap();
        let (code, printed) = replay(&path).unwrap();
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(problem) && printed.lines().count() == 1, "{printed}");
    }
    assert_eq!(replay(Path::new("/no/such/file")).unwrap().0, Some(2));
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error() {
    let refused = builder().journal("/no/such/folder/journal").start().map(drop).unwrap_err();
    assert!(refused.to_string().contains("/no/such/folder/journal"), "{refused}");
}

#[test]
fn a_full_disk_ends_the_journal_alone() {
    const FULL: &str = "/dev/full";
    if !Path::new(FULL).exists() {
        return sharemark_testkit::process::skip("a journal on a full disk: there is no /dev/full here");
    }
    let mut server = Command::new(sharemark_binary().unwrap());
    server.args(["--listen", "127.0.0.1:0", "--journal", FULL]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    let mut stdout = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut ready).unwrap();
    let address = ready.split_once("bootstrap=").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    let mut connection = sharemark_testkit::client::Connection::open_and_negotiate(address).unwrap();
    for _ in 0..20 {
        let request = sharemark_protocol::messages::metadata_request::MetadataRequest::default();
        connection.call(&request, 12).unwrap();
    }
    Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    let output = server.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.lines().count() == 1 && said.contains("the journal ends here"), "{said}");
}
