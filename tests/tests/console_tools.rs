//! The console tools of Kafka 4.4 work against the server, as the README says.
//!
//! They come from Kafka's published jars. Without a JDK and Maven the test is skipped with a line, but fails where
//! `CI` is set.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write;
use std::process::{Command, Stdio};

use sharemark_testkit::process::{Sharemark, has_tools, workspace};

/// Runs a tool with `input` on its standard input, and returns what it printed.
fn tool(class: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(workspace().join("scripts/kafka-peer.sh"))
        .args(["tool", class])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{class} {arguments:?}: {stdout}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

#[test]
fn console_tools() {
    if !has_tools("the console tools", &[("java", "-version"), ("mvn", "-version")]) {
        return;
    }
    let server = Sharemark::start_on_free_port(&[]).unwrap();
    let bootstrap = server.bootstrap().to_string();
    let run = |class: &str, arguments: &[&str], input: &str| {
        let mut all = vec!["--bootstrap-server", &bootstrap];
        all.extend(arguments);
        tool(class, &all, input)
    };
    const TOPICS: &str = "org.apache.kafka.tools.TopicCommand";

    let created = run(TOPICS, &["--create", "--topic", "greetings", "--partitions", "2"], "");
    assert!(created.contains("Created topic greetings."), "{created}");
    let described = run(TOPICS, &["--describe", "--topic", "greetings"], "");
    assert!(described.contains("PartitionCount: 2\tReplicationFactor: 1"), "{described}");

    let produced = run(
        "org.apache.kafka.tools.ConsoleProducer",
        &["--topic", "greetings", "--sync"],
        "one\ntwo\nthree\n",
    );
    assert!(!produced.contains("ERROR"), "{produced}");

    let altered = run(
        "org.apache.kafka.tools.ConfigCommand",
        &[
            "--alter",
            "--entity-type",
            "groups",
            "--entity-name",
            "readers",
            "--add-config",
            "share.auto.offset.reset=earliest",
        ],
        "",
    );
    assert!(altered.contains("Completed updating config for group readers."), "{altered}");

    let shared = run(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        &["--topic", "greetings", "--group", "readers", "--max-messages", "3", "--timeout-ms", "60000"],
        "",
    );
    let mut words: Vec<&str> = shared.lines().collect();
    words.sort_unstable();
    assert_eq!(words, ["one", "three", "two"]);

    let offsets = run(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        &["--describe", "--group", "readers", "--offsets"],
        "",
    );
    assert!(offsets.contains("START-OFFSET") && offsets.contains("greetings"), "{offsets}");

    let read: usize = (0..2).map(|partition| read_back(&run, partition)).sum();
    assert_eq!(read, 3);

    let features = run("org.apache.kafka.tools.FeatureCommand", &["describe"], "");
    assert!(features.contains("Feature: share.version"), "{features}");
}

/// Reads one partition to its end, and returns how many records it held.
fn read_back(run: &dyn Fn(&str, &[&str], &str) -> String, partition: i32) -> usize {
    let at = format!("greetings:{partition}");
    let ends = run("org.apache.kafka.tools.GetOffsetShell", &["--topic-partitions", &at], "");
    let count = ends.trim().rsplit(':').next().unwrap();
    if count == "0" {
        return 0; // A consumer would wait there until its time is up.
    }
    let partition = partition.to_string();
    let arguments = [
        "--topic",
        "greetings",
        "--partition",
        &partition,
        "--offset",
        "earliest",
        "--max-messages",
        count,
        "--timeout-ms",
        "60000",
    ];
    run("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments, "").lines().count()
}
