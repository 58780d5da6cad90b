//! Bytes as commands of transcripts, run on a broker in this process: sequences with the epochs and ids that answers
//! told, which bytes alone would never hit.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use sharemark_protocol::TopicId;

use super::connections::{Connections, START_MS};
use super::recorder::Recorder;
use crate::transcript::{Member, Names, Producer, Session, find_coordinators};

/// How many bytes make one command.
pub const COMMAND_LEN: usize = 6;
/// More commands make a run slow.
const COMMANDS_MAX: usize = 60;
/// What every run starts with.
const START: &[&str] = &[
    "create-topic t partitions=2",
    "create-topic out",
    "group-config g share.auto.offset.reset=earliest",
    "produce t-0 count=6 batches=2",
    "init-producer p1 txn=x",
    "init-producer p2 txn=y",
    "join member=A topics=t",
];

/// Runs the commands that `bytes` tell, and checks that the broker still serves.
///
/// # Panics
///
/// If it does not, or an answer cannot be read.
pub fn run_commands(bytes: &[u8]) {
    static READY: OnceLock<Ready> = OnceLock::new();
    let ready = READY.get_or_init(Ready::new);
    let mut recorder = Recorder::new(ready.connections.clone());
    let mut session = session(&mut recorder);
    for (id, name) in &ready.topics {
        session.names.learn_topic(*id, name);
    }
    session.producers.clone_from(&ready.producers);
    session.members.clone_from(&ready.members);
    for choice in bytes.as_chunks().0.iter().take(COMMANDS_MAX) {
        // An error means that the command made no sense where it stands, such as one of an unknown producer.
        drop(session.run(&command(choice)));
    }
    recorder.connections.assert_serves();
}

/// A broker that has run the first commands, and what a session has learnt from them.
struct Ready {
    connections: Connections,
    topics: Vec<(TopicId, String)>,
    producers: BTreeMap<String, Producer>,
    members: BTreeMap<(String, String), Member>,
}

impl Ready {
    fn new() -> Self {
        let mut recorder = Recorder::new(Connections::new());
        let mut session = session(&mut recorder);
        let found = find_coordinators(&mut session);
        assert!(found.is_ok(), "coordinators are found: {found:?}");
        for command in START {
            let outcome = session.run(command);
            assert!(outcome.as_ref().is_ok_and(|text| text.contains("NONE")), "{command}: {outcome:?}");
        }
        let names = ["t", "out"].into_iter();
        let topics =
            names.filter_map(|name| Some((session.names.topic_id(name)?, name.to_owned()))).collect();
        let (producers, members) = (session.producers.clone(), session.members.clone());
        Self { connections: recorder.connections, topics, producers, members }
    }
}

fn session(recorder: &mut Recorder) -> Session<'_> {
    Session::new(recorder, Names::new(String::new(), START_MS))
}

/// Returns the command that these bytes tell.
fn command(bytes: &[u8; COMMAND_LEN]) -> String {
    let words = Words::new(bytes);
    match bytes[0] % 24 {
        0..=11 => words.of_records(),
        12..=16 | 19..=20 => words.of_coordinators(),
        17 => format!("advance {}", u32::from(words.first) * u32::from(words.more) * 2),
        18 => format!("close {}", words.member),
        22 | 23 if bytes[5].is_multiple_of(4) => words.of_administrators(), // They are slow.
        _ => words.of_readers(),
    }
}

/// The words that commands are made of.
struct Words {
    kind: u8,
    first: u8,
    more: u8,
    extra: u8,
    member: &'static str,
    group: &'static str,
    producer: &'static str,
    partition: &'static str,
    end: &'static str,
    epoch: &'static str,
    acknowledgements: String,
}

impl Words {
    fn new(&[kind, who, what, first, more, extra]: &[u8; COMMAND_LEN]) -> Self {
        let partition = pick(what, &["t-0", "t-0", "t-0", "t-1", "out-0", "none-0"]);
        Self {
            kind: kind % 24,
            first,
            more,
            extra,
            member: pick(who, &["A", "A", "B", "C"]),
            group: pick(who / 4, &["g", "g", "g", "h"]),
            producer: pick(who / 16, &["p1", "p1", "p2", "p3"]),
            partition,
            end: pick(what / 8, &["commit", "commit", "abort"]),
            epoch: pick(extra, &["", "", "", "", "", "", "epoch=0", "epoch=1", "epoch=-1", "epoch=3"]),
            acknowledgements: acknowledgements(partition, what, first, more),
        }
    }

    fn of_records(&self) -> String {
        let Self { first, more, extra, member, group, producer, partition, epoch, acknowledgements, .. } =
            self;
        let count = first % 4 + 1;
        match self.kind {
            0 => format!("produce {partition} count={count}"),
            1 => format!("produce {partition} count={count} producer={producer} {epoch}"),
            2..=4 => {
                let wait = pick(extra / 16, &["0", "0", "0", "100"]);
                let session_epoch = if extra % 8 == 7 { epoch } else { "" };
                let max = pick(*first, &["1", "2", "3", "500"]);
                let fetch = format!("share-fetch group={group} member={member} {session_epoch} wait={wait}");
                format!("{fetch} mode={} max-records={max}", more % 2)
            }
            5 => format!("share-fetch group={group} member={member} wait=0 ack {acknowledgements}"),
            6..=8 => format!("share-acknowledge group={group} member={member} {acknowledgements}"),
            _ => {
                let stage =
                    format!("txn-share-acknowledge producer={producer} group={group} member={member}");
                format!("{stage} {epoch} {acknowledgements}")
            }
        }
    }

    fn of_coordinators(&self) -> String {
        let Self { more, extra, member, group, producer, partition, end, epoch, .. } = self;
        match self.kind {
            12 | 13 => format!("end-txn {producer} {end} {epoch}"),
            14 => {
                let id = pick(*more, &["txn=x", "txn=x", "txn=y", "txn=z", ""]);
                let current = pick(*extra, &["", "", "current"]);
                format!("init-producer {producer} {id} {current} timeout=1000")
            }
            15 => format!("join group={group} member={member} topics=t"),
            16 if more % 2 == 0 => format!("heartbeat group={group} member={member}"),
            16 => format!("leave group={group} member={member}"),
            19 => format!("add-partitions {producer} {partition} {epoch} version={}", 3 + more % 3),
            _ => {
                let markers =
                    format!("write-markers {producer} {end} {partition} __share_group_state-0 {epoch}");
                format!("{markers} transaction-version={}", more % 3)
            }
        }
    }

    fn of_readers(&self) -> String {
        let Self { first, more, group, producer, partition, acknowledgements, .. } = self;
        match more % 6 {
            0 => format!("add-share-acks producer={producer} group={group} {partition}"),
            1 => format!("seed-txn-share-acknowledge txn=x group={group} {acknowledgements}"),
            2 => format!("fetch {partition} offset={first} isolation=committed"),
            3 => format!("list-offsets {partition}"),
            4 => format!("describe-share-offsets group={group}"),
            _ => format!("describe-share-group {group}"),
        }
    }

    fn of_administrators(&self) -> String {
        let Self { first, more, group, .. } = self;
        let topics = [
            "delete-topic t",
            "create-topic t partitions=2",
            "create-partitions t total=3",
            "delete-topic out",
        ];
        if self.kind != 22 {
            return pick(*more, &topics).to_owned();
        }
        let first = u32::from(*first);
        match more % 6 {
            0 => format!("group-config {group} share.record.lock.duration.ms={}", 1000 + first * 50),
            1 => format!("group-config {group} share.delivery.count.limit={}", 2 + first % 5),
            2 => format!("group-config {group} share.isolation.level=read_committed"),
            3 => format!("group-config {group} share.partition.max.record.locks={}", 100 + first),
            4 => "alter-configs broker 0 set share.version=2".to_owned(),
            _ => "alter-configs topic t set retention.ms=1000".to_owned(),
        }
    }
}

fn acknowledgements(partition: &str, what: u8, first: u8, more: u8) -> String {
    let kind = pick(
        what / 32,
        &["accept", "accept", "release", "reject", "renew", "gap", "types:1/2/3", "types:0/1/2/3"],
    );
    let (low, high) = (first % 16, first % 16 + more % 4);
    let other = pick(more / 4, &["", "", "", " release 2-3", " accept 6-7", " t-1 accept 0"]);
    format!("{partition} {kind} {low}-{high}{other}")
}

fn pick<T: Clone>(byte: u8, of: &[T]) -> T {
    of[usize::from(byte) % of.len()].clone()
}
