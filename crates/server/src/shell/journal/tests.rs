use bytes::Bytes;
use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::{ApiKey, ErrorCode, NodeId, Reader, Timestamp, Writer};

use super::layout::{self, Kind};
use super::replay::{Counts, Ending, Verdict};
use super::*;
use crate::broker::{
    Command, ConnectionId, Fault, FaultAction, FaultPoint, Input, ListenerId, Now, Origin, Principal, Request,
};
use crate::config::{BrokerConfig, Profile};

fn now(ms: i64) -> Now {
    Now { clock: Timestamp::from_ms(ms), real: Timestamp::from_ms(ms + 1) }
}

/// Returns what an entry is and holds.
fn parts(entry: Writer) -> (Kind, Bytes) {
    let bytes = entry.into_bytes();
    (Kind::from_wire(bytes[0]).unwrap(), bytes.slice(1..))
}

fn full_fault(action: FaultAction) -> Fault {
    Fault {
        at: FaultPoint::ShareStateWrite,
        action,
        count: Some(u64::MAX),
        apis: vec![ApiKey::Produce, ApiKey::TxnShareAcknowledge],
        from: Some(NodeId::new(0)),
        to: Some(NodeId::new(1)),
        node: Some(NodeId::new(2)),
        topic: Some("t".to_owned()),
        partition: Some(7),
        group: Some("g".to_owned()),
        transactional_id: Some(String::new()),
    }
}

#[test]
fn faults_are_read_as_they_were_written() {
    let actions = [
        FaultAction::Error(ErrorCode::NotCoordinator),
        FaultAction::Hold,
        FaultAction::Drop,
        FaultAction::Repeat,
        FaultAction::Disconnect,
        FaultAction::Delay(i64::MAX),
    ];
    let of_points = FaultPoint::ALL.map(|(point, _)| Fault::new(point, FaultAction::Hold).for_ever());
    for written in actions.map(full_fault).into_iter().chain(of_points) {
        let mut out = Writer::new();
        fault::write(&written, &mut out);
        let bytes = out.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(fault::read(&mut reader), Ok(written));
        assert_eq!(reader.finish(), Ok(()));
    }
}

#[test]
fn commands_are_read_as_they_were_written() {
    let node = NodeId::new(3);
    for written in [
        Command::InstallFault(Box::new(full_fault(FaultAction::Hold))),
        Command::DeleteFault(u64::MAX),
        Command::DeleteFaults,
        Command::StopNode(node),
        Command::StartNode(node),
        Command::IsolateNode(node),
        Command::RejoinNode(node),
    ] {
        let (kind, payload) = parts(layout::command(now(5), &written));
        assert_eq!((kind, layout::read_command(&payload)), (Kind::Command, Ok((now(5), written))));
    }
}

#[test]
fn a_configuration_is_read_as_it_was_written() {
    let all = BrokerConfig::builder()
        .brokers(3)
        .first_node_id(4)
        .listen("[::1]:9092")
        .advertise("my-host:1")
        .property("listener.name.plaintext.share.txn.dialect", "k93")
        .property("advertised.listeners", "NOBODY://x:1")
        .property("num.partitions", "3")
        .topic("a:2:cleanup.policy=compact,delete,retention.ms=5")
        .topic("b")
        .feature("share.version=1")
        .seed(u64::MAX)
        .memory_limit_bytes(77);
    let with_listeners = BrokerConfig::builder()
        .property("listeners", "INNER://127.0.0.1:1,OUTER://127.0.0.1:2")
        .property("listener.security.protocol.map", "INNER:PLAINTEXT,OUTER:PLAINTEXT")
        .property("listener.name.outer.share.txn.dialect", "off");
    for builder in [all, with_listeners, BrokerConfig::builder().profile(Profile::Kafka44)] {
        let written = builder.build(&mut Vec::new()).unwrap();
        assert_eq!(config::read(&config::write(&written)), Ok(written));
    }
    assert!(config::read("{}").is_err() && config::read("[").is_err());
    let mut nobody = BrokerConfig::builder().build(&mut Vec::new()).unwrap();
    nobody.nodes.clear();
    assert!(config::read(&config::write(&nobody)).is_err(), "a cluster has a node");
}

/// Returns the bytes of a journal with these entries.
fn journal(entries: Vec<Writer>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    for entry in entries {
        recorder::append(entry, &mut bytes);
    }
    bytes
}

fn start() -> Writer {
    let config = BrokerConfig::builder().build(&mut Vec::new()).unwrap();
    layout::start(now(1), "0.0.0", &config::write(&config))
}

fn metadata_request() -> Writer {
    let origin = Origin {
        connection: ConnectionId(1),
        node: NodeId::new(0),
        listener: ListenerId(0),
        principal: Principal::anonymous(),
        client_id: None,
        client_host: "/127.0.0.1".into(),
        api_version: 12,
    };
    let message = RequestMessage::Metadata(MetadataRequest::default());
    layout::input(now(2), &Input::Request(Box::new(Request::prepare(origin, message, 1024))))
}

fn verdict(entries: Vec<Writer>) -> Verdict {
    replay(journal(entries).as_slice()).unwrap()
}

#[test]
fn an_answer_that_the_journal_lacks_is_a_difference() {
    let verdict = verdict(vec![start(), metadata_request(), layout::end(&End::Stopped)]);
    let Ending::Differs(difference) = &verdict.ending else { panic!("{verdict}") };
    assert_eq!((difference.place.entry, difference.journal.as_str()), (3, "the end"));
    assert!(difference.replay.starts_with("answer to connection 1, Metadata v12: "), "{verdict}");
    assert_eq!(verdict.counts, Counts { entries: 2, requests: 1, answers: 0 });
    assert!(!verdict.is_same() && verdict.to_string().starts_with("written by version 0.0.0, "), "{verdict}");
}

#[test]
fn an_answer_that_the_core_does_not_give_is_a_difference() {
    let close = crate::broker::Output::Close { connection: ConnectionId(9) };
    let verdict = verdict(vec![start(), layout::output(&close)]);
    let Ending::Differs(difference) = &verdict.ending else { panic!("{verdict}") };
    assert_eq!(
        (difference.journal.as_str(), difference.replay.as_str()),
        ("connection 9 is closed", "nothing")
    );
}

#[test]
fn what_is_out_of_place_makes_no_sense() {
    let tick = || layout::input(now(2), &Input::Tick);
    for entries in [vec![tick()], vec![start(), start()], vec![layout::start(now(1), "", "{}")]] {
        let verdict = verdict(entries);
        assert!(matches!(verdict.ending, Ending::Senseless(..)), "{verdict}");
        assert!(!verdict.is_same());
    }
    assert_eq!(verdict(Vec::new()).ending, Ending::Open);
    let failed = End::Core("it is wrong".to_owned());
    assert!(matches!(verdict(vec![start(), layout::end(&failed)]).ending, Ending::Differs(_)));
    let full = End::Storage("it is full".to_owned());
    assert!(verdict(vec![start(), layout::end(&full)]).is_same());
}

/// A file that somebody sends may hold anything, with the right checksums.
#[test]
fn no_byte_of_an_entry_ends_the_program() {
    let fault = Command::InstallFault(Box::new(full_fault(FaultAction::Hold)));
    for entry in [metadata_request, start] {
        let bytes = entry().into_bytes();
        for at in 0..bytes.len() {
            for value in [0, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] = value;
                let before = if entry().into_bytes()[0] == Kind::Start as u8 { None } else { Some(start()) };
                let mut raw = Writer::new();
                changed.iter().for_each(|byte| raw.write_i8(byte.cast_signed()));
                let entries = before.into_iter().chain([raw, layout::command(now(3), &fault)]).collect();
                let text = verdict(entries).to_string();
                assert!(!text.is_empty());
            }
        }
    }
}
