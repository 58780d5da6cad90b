//! Kafka's own compiled tests of its clients, unmodified, against the server.
//!
//! `tests/conformance/` runs them: each method gets a broker of its own in another process. What became of each method
//! must be what `tests/conformance/methods.tsv` says, from which `cargo xtask docs` makes the table in
//! `docs/conformance.md`. Without a JDK and Maven the test is skipped with a line, but fails where `CI` is set.
//! A run takes a sample of what is said to pass, and with `SHAREMARK_FULL=1` everything, which also shows whether a
//! method that is said to have no chance has one. `UPDATE_CONFORMANCE=1` writes what a full run found.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use sharemark_testkit::process::{full, has_tools, sharemark_binary, workspace};

/// What may become of a method: it passes, or it needs one of these.
const OUTCOMES: [&str; 5] = [
    "passed",
    "a broker stopped",
    "an object inside the JVM broker",
    "a plug-in class loaded by the broker",
    "security enforced",
];
/// One of so many methods that pass is in the sample.
const SAMPLE_STEP: usize = 6;
/// A full run of Kafka's tests has at least so many methods; fewer were not found.
const METHODS_MIN: usize = 442;

/// What became of each method, by its name.
type Outcomes = BTreeMap<String, String>;

fn list() -> PathBuf {
    workspace().join("tests/conformance/methods.tsv")
}

fn expected() -> Outcomes {
    let text = fs::read_to_string(list()).unwrap();
    text.lines()
        .map(|line| {
            let (name, outcome) = line.split_once('\t').unwrap();
            (name.to_owned(), outcome.to_owned())
        })
        .collect()
}

/// Runs these methods, or all there are, and returns what became of each.
fn run(methods: Option<&BTreeSet<&str>>) -> Outcomes {
    let folder = std::env::temp_dir().join(format!("sharemark-conformance-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(workspace().join("tests/conformance/run.sh"));
    command.env("SHAREMARK_BIN", sharemark_binary().unwrap()).env("LOGS", &folder);
    if let Some(methods) = methods {
        let wanted = folder.join("methods");
        fs::write(&wanted, methods.iter().fold(String::new(), |text, name| text + name + "\n")).unwrap();
        command.env("METHODS", &wanted);
    }
    // The traces of failures go where the test's own words go.
    let output = command.arg("all").stderr(Stdio::inherit()).output().unwrap();
    let mut outcomes = Outcomes::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let ["run", name, _, result, _, reason] = parts[..] else { continue };
        let outcome = match (reason, result) {
            ("", "successful") => "passed",
            ("", _) => "failed",
            (reason, _) => reason,
        };
        // A method runs more than once where its annotations ask for several clusters.
        let of_method = outcomes.entry(name.to_owned()).or_insert_with(|| outcome.to_owned());
        if outcome != "passed" && of_method != "failed" {
            outcome.clone_into(of_method);
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    outcomes
}

/// A method that reads what only a broker inside the JVM writes fails without a word about it.
fn agrees(expected: Option<&String>, found: Option<&String>) -> bool {
    match (expected, found) {
        (Some(expected), Some(found)) => expected == found || (found == "failed" && expected != "passed"),
        (_, None) | (None, _) => false,
    }
}

#[test]
fn kafkas_own_tests() {
    if !has_tools("Kafka's own tests", &[("java", "-version"), ("mvn", "-version")]) {
        return;
    }
    let expected = expected();
    let is_full = full();
    let update = std::env::var_os("UPDATE_CONFORMANCE").is_some();
    let passing = expected.iter().filter(|(_, outcome)| *outcome == "passed").map(|(name, _)| name.as_str());
    let sample: BTreeSet<&str> = passing.step_by(SAMPLE_STEP).collect();
    let found = run((!is_full && !update).then_some(&sample));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in found.values() {
        *counts.entry(outcome).or_default() += 1;
    }
    println!("{} methods of Kafka's own tests: {counts:?}", found.len());
    if update {
        write(&expected, &found);
        return;
    }
    let names: BTreeSet<&str> =
        if is_full { expected.keys().chain(found.keys()).map(String::as_str).collect() } else { sample };
    let differ: Vec<String> = names
        .iter()
        .filter(|name| !agrees(expected.get(**name), found.get(**name)))
        .map(|name| format!("{name}: {:?}, not {:?}", found.get(*name), expected.get(*name)))
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Writes what a full run found; a failure keeps the reason that someone has given for it.
fn write(expected: &Outcomes, found: &Outcomes) {
    let text = found.iter().fold(String::new(), |text, (name, outcome)| {
        let before = expected.get(name).filter(|before| outcome == "failed" && *before != "passed");
        text + name + "\t" + before.unwrap_or(outcome) + "\n"
    });
    fs::write(list(), text).unwrap();
}

/// Every method is listed as passed or with one of the reasons, and with no other.
#[test]
fn every_method_is_listed() {
    let expected = expected();
    let other: Vec<_> =
        expected.iter().filter(|(_, outcome)| !OUTCOMES.contains(&outcome.as_str())).collect();
    assert!(other.is_empty(), "{other:?}");
    assert!(METHODS_MIN <= expected.len(), "{} methods are listed", expected.len());
}
