//! Kafka's own system-test programs, from its published jars, copy records in transactions while they are killed.
//!
//! `VerifiableProducer` writes numbers, three `TransactionalMessageCopier`s of one classic group copy them with random
//! aborts and are killed and started again, and a `VerifiableConsumer` of a group of the new protocol reads the copies.
//! What comes out equals what went in. `SHAREMARK_FULL=1` copies 100,000 records; `INTEROP_BOOTSTRAP=host:port` tries
//! it on another broker that has topics of the names below, with three partitions each.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sharemark_testkit::process::{Sharemark, full, has_tools, workspace};

const INPUT: &str = "copy-input";
const OUTPUT: &str = "copy-output";
const COPIERS: usize = 3;
const POLL: Duration = Duration::from_millis(50);
const QUIET: Duration = Duration::from_secs(3);

/// How much is copied, and when copiers are killed.
struct Size {
    records: usize,
    transaction_size: &'static str,
    /// How often copiers are killed.
    kills: usize,
    /// How many of them at once.
    at_once: usize,
    time_max: Duration,
}

const SAMPLE: Size = Size {
    records: 3_000,
    transaction_size: "20",
    kills: 1,
    at_once: COPIERS,
    time_max: Duration::from_secs(240),
};
const FULL: Size = Size {
    records: 100_000,
    transaction_size: "200",
    kills: 9,
    at_once: 1,
    time_max: Duration::from_secs(900),
};

/// A running Java program and the lines that it has printed. It is killed when it is dropped.
struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn start(class: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(workspace().join("scripts/kafka-peer.sh"))
            .args(["tool", &format!("org.apache.kafka.tools.{class}")])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let printed = Arc::clone(&lines);
        let stdout = child.stdout.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                printed.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    /// Returns whether it has ended, and checks that it ended well.
    fn has_ended(&mut self) -> bool {
        let Some(status) = self.child.try_wait().unwrap() else { return false };
        assert!(status.success(), "a program ended with {status}: {:#?}", self.lines.lock().unwrap());
        true
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill()); // An error means that it has ended already.
        drop(self.child.wait());
    }
}

/// The values that were read, each with how often it came.
#[derive(Default)]
struct Values {
    counts: BTreeMap<String, usize>,
    lines_seen: usize,
}

impl Values {
    /// Takes in the lines that are new.
    fn update(&mut self, program: &Program) {
        let lines = program.lines.lock().unwrap();
        for line in &lines[self.lines_seen..] {
            // Other lines are the log's.
            let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            if event["name"] == "record_data" {
                *self.counts.entry(event["value"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
        self.lines_seen = lines.len();
    }
}

fn produce(bootstrap: &str, records: usize) {
    let count = records.to_string();
    let arguments = ["--bootstrap-server", bootstrap, "--topic", INPUT, "--max-messages", &count];
    let mut producer = Program::start("VerifiableProducer", &arguments);
    while !producer.has_ended() {
        thread::sleep(POLL);
    }
    let lines = producer.lines.lock().unwrap();
    let sent = lines.iter().filter(|line| line.contains("producer_send_success")).count();
    assert_eq!(sent, records, "every record is acknowledged");
}

fn start_copier(bootstrap: &str, index: usize, size: &Size) -> Program {
    let transactional_id = format!("copier-{index}");
    let required = ["--broker-list", bootstrap, "--input-topic", INPUT, "--input-partition", "0"];
    let mut arguments = required.to_vec();
    arguments.extend(["--output-topic", OUTPUT, "--consumer-group", "copiers"]);
    arguments.extend(["--transactional-id", &transactional_id, "--transaction-size", size.transaction_size]);
    arguments.extend(["--enable-random-aborts", "--group-mode", "--use-group-metadata"]);
    Program::start("TransactionalMessageCopier", &arguments)
}

fn start_consumer(bootstrap: &str) -> Program {
    let config = Path::new(env!("CARGO_TARGET_TMPDIR")).join("read-committed.properties");
    std::fs::write(&config, "isolation.level=read_committed\n").unwrap();
    let config = config.to_str().unwrap();
    let mut arguments = vec!["--bootstrap-server", bootstrap, "--topic", OUTPUT, "--group-id", "readers"];
    arguments.extend(["--group-protocol", "CONSUMER", "--verbose", "--command-config", config]);
    Program::start("VerifiableConsumer", &arguments)
}

/// Keeps the copiers at work, kills them in turn, and returns what the consumer has read when all is copied.
fn copy(bootstrap: &str, size: &Size) -> Values {
    let mut copiers: Vec<Program> = (0..COPIERS).map(|index| start_copier(bootstrap, index, size)).collect();
    let mut consumer = start_consumer(bootstrap);
    let started = Instant::now();
    let mut values = Values::default();
    let mut kills = 0;
    while values.counts.len() < size.records {
        assert!(!consumer.has_ended(), "the consumer ended: {:#?}", consumer.lines.lock().unwrap());
        let copied = values.counts.len();
        assert!(
            started.elapsed() < size.time_max,
            "only {copied} of {} records are copied after {kills} kills",
            size.records
        );
        if kills < size.kills && size.records * (kills + 1) / (size.kills + 2) <= copied {
            for index in kills..kills + size.at_once {
                copiers[index % COPIERS].kill();
            }
            kills += 1;
        }
        for (index, copier) in copiers.iter_mut().enumerate() {
            // One that gets no partition takes its work for done.
            if copier.child.try_wait().unwrap().is_some_and(|status| status.code().is_none())
                || copier.has_ended()
            {
                *copier = start_copier(bootstrap, index, size);
            }
        }
        thread::sleep(POLL);
        values.update(&consumer);
    }
    assert_eq!(kills, size.kills, "every kill fell into the copying");
    thread::sleep(QUIET); // Whatever came twice has come by now.
    values.update(&consumer);
    println!(
        "copied {copied} records in {:?} with {kills} kills",
        started.elapsed(),
        copied = values.counts.len()
    );
    values
}

#[test]
fn copies_equal_the_input_when_copiers_are_killed() {
    if !has_tools("Kafka's system-test programs", &[("java", "-version"), ("mvn", "-version")]) {
        return;
    }
    let size = if full() { &FULL } else { &SAMPLE };
    let server;
    let bootstrap = if let Ok(bootstrap) = std::env::var("INTEROP_BOOTSTRAP") {
        bootstrap
    } else {
        let topics = [format!("{INPUT}:3"), format!("{OUTPUT}:3")];
        server = Sharemark::start_on_free_port(&["--topic", &topics[0], "--topic", &topics[1]]).unwrap();
        server.bootstrap().to_string()
    };
    produce(&bootstrap, size.records);
    let values = copy(&bootstrap, size);
    let expected: BTreeMap<String, usize> = (0..size.records).map(|number| (number.to_string(), 1)).collect();
    assert!(
        values.counts == expected,
        "each record is copied exactly once: {:?}",
        differences(&values.counts)
    );
}

/// Returns some of the values that came more than once.
fn differences(counts: &BTreeMap<String, usize>) -> Vec<(&String, &usize)> {
    counts.iter().filter(|(_, count)| **count != 1).take(10).collect()
}
