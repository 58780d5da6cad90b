//! `kafka-consumer-groups.sh` says the same of the same groups, whichever broker it asks.

use std::cell::RefCell;
use std::io::Write;
use std::process::{Command, Stdio};

use sharemark_testkit::process::workspace;

use crate::brokers::{Broker, on_both_alone};

const TOOL: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
/// Groups of every kind: `old` speaks the classic protocol, `new` the consumer protocol, `both` both; `plain` never had
/// a member, `gone` has none any more.
const GROUPS: &[&str] = &[
    "create-topic t partitions=2",
    "create-topic u",
    "produce t-0 count=3",
    "produce t-1",
    "produce u-0",
    "join-group group=old member=A topics=t version=3 session=300000",
    "sync-group group=old member=A assigns=A:t-0+t-1",
    "commit-offsets group=old t-0@2 u-0@1 member=A",
    "group-config new consumer.session.timeout.ms=60000",
    "group-config both consumer.session.timeout.ms=60000",
    "consumer-heartbeat group=new member=M instance=i rack=r epoch=0 topics=t",
    "commit-offsets group=new t-0@2 u-0@1 member=M generation=2",
    "consumer-heartbeat group=both member=N epoch=0 topics=t",
    "join-group group=both member=B topics=t version=3 session=300000",
    "commit-offsets group=plain t-0@2:text t-1@1 u-0@1",
    "consumer-heartbeat group=gone member=M epoch=0 topics=t",
    "consumer-heartbeat group=gone member=M epoch=-1",
    "commit-offsets group=gone t-0@1",
    "group-config queue share.auto.offset.reset=earliest",
    "heartbeat group=queue member=S epoch=0 topics=t",
];
const LOOKS: &[&str] = &[
    "--list",
    "--list --state",
    "--list --type",
    "--list --state Stable,Reconciling",
    "--list --type classic",
    "--describe --all-groups --offsets",
    "--describe --all-groups --offsets --verbose",
    "--describe --all-groups --members",
    "--describe --all-groups --members --verbose",
    "--describe --all-groups --state",
    "--describe --all-groups --state --verbose",
    "--describe --group nobody",
    "--describe --group queue",
];
const CHANGES: &[&str] = &[
    "--reset-offsets --group plain --topic t --to-earliest --dry-run",
    "--reset-offsets --group plain --topic t:0 --to-offset 1 --execute",
    "--reset-offsets --group plain --all-topics --shift-by 1 --execute",
    "--reset-offsets --group plain --all-topics --by-duration PT0S --export --dry-run",
    "--reset-offsets --group gone --topic t --to-latest --execute",
    "--reset-offsets --group fresh --topic t --to-latest --execute",
    "--reset-offsets --group new --topic t --to-latest --execute",
    "--reset-offsets --group old --topic t --to-latest --execute",
    "--delete-offsets --group plain --topic t:0 --topic u",
    "--delete-offsets --group old --topic t --topic u",
    "--delete-offsets --group new --topic t --topic u",
    "--delete-offsets --group nobody --topic t",
    "--describe --all-groups --offsets",
    "--delete --group plain --group gone",
    "--delete --group old --group new",
    "--delete --group nobody",
    "--list --type --state",
];

/// Runs the tool with each list of arguments, and returns what it printed each time, without what differs between any
/// two brokers.
fn tool(broker: &Broker, lists: &[&str]) -> Vec<String> {
    let address = broker.address().to_string();
    let mut child = Command::new(workspace().join("scripts/kafka-peer.sh"))
        .arg("tool")
        .arg(workspace().join("tests/java/tools/Tools.java"))
        .args([TOOL, &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all((lists.join("\n") + "\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).replace(&address, "HERE");
    let runs: Vec<&str> = text.split_inclusive("\n-- ").collect();
    assert!(lists.len() < runs.len(), "each run ends with a line of its own: {text}");
    lists.iter().zip(runs).map(|(arguments, run)| format!("{arguments}\n{}\n", comparable(run))).collect()
}

fn comparable(run: &str) -> String {
    let lines = run.lines().map(|line| line.split_whitespace().map(named).collect::<Vec<_>>().join(" "));
    // The rows come in the order of hash tables.
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines.join("\n")
}

/// Returns a word, or what stands for an id that the broker made.
fn named(word: &str) -> &str {
    const BASE64_UUID_LENGTH: usize = 22;
    let is_made = word.starts_with("testkit-") || word.len() == BASE64_UUID_LENGTH;
    if is_made { "ID" } else { word }
}

#[test]
fn kafka_consumer_groups_says_the_same() {
    if !sharemark_testkit::process::has_tools("the group tool", &[("java", "-version"), ("mvn", "-version")])
    {
        return;
    }
    let said: RefCell<Vec<Vec<String>>> = RefCell::default();
    on_both_alone(&["node.id=1"], |broker| {
        broker.with_session(|run| {
            for command in GROUPS {
                let answer = run(command);
                assert!(answer.contains("NONE"), "{command}: {answer}");
            }
            said.borrow_mut().push(tool(broker, &[LOOKS, CHANGES].concat()));
        });
    });
    let said = said.into_inner();
    let ours = said.first().unwrap();
    assert!(ours.iter().any(|text| text.contains("LOG-END-OFFSET")), "{ours:?}");
    if let Some(kafkas) = said.get(1) {
        let differing: Vec<String> = ours
            .iter()
            .zip(kafkas)
            .filter(|(ours, kafkas)| ours != kafkas)
            .map(|(ours, kafkas)| format!("here: {ours}Kafka: {kafkas}"))
            .collect();
        assert!(differing.is_empty(), "{}", differing.join("\n"));
    }
}
