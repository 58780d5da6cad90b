//! The tests that franz-go brings in its own package pass against the server, which they take for Kafka.
//!
//! They are built once from the module in `tests/interop/go`. By default each group of tests runs once with few
//! records; with `SHAREMARK_FULL=1` as often and with as many records as the counts below say, each run at a server of
//! its own. What ran, how often, is printed. `INTEROP_BOOTSTRAP=host:port` tries them on another broker.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use sharemark_testkit::process::{Sharemark, full, has_tools, workspace};

const SCRIPT: &str = "tests/interop/go/client-tests.sh";
const RECORDS_FULL: u32 = 50_000;
const RECORDS_SAMPLE: u32 = 5_000;

/// Which of franz-go's tests run, and how often in the long form.
struct Tests {
    name: &'static str,
    /// Go's pattern of test names in the long form.
    pattern: &'static str,
    /// The pattern of the short form.
    sample: &'static str,
    runs: usize,
    /// Whether they cut connections and move groups on their own.
    chaos: bool,
}

/// How many of the tests passed and were skipped, over all runs.
#[derive(Default)]
struct Counts {
    passed: BTreeMap<String, usize>,
    skipped: BTreeMap<String, usize>,
}

impl Counts {
    /// Counts what one run printed, and returns the tests that failed.
    fn add(&mut self, printed: &str) -> Vec<String> {
        let mut failed = Vec::new();
        for line in printed.lines() {
            let Some((outcome, rest)) = line.strip_prefix("--- ").and_then(|line| line.split_once(": "))
            else {
                continue; // Not a test of the first level.
            };
            let test = rest.split(' ').next().unwrap().to_owned();
            match outcome {
                "PASS" => *self.passed.entry(test).or_default() += 1,
                "SKIP" => *self.skipped.entry(test).or_default() += 1,
                _ => failed.push(test),
            }
        }
        failed
    }
}

/// Runs the tests as often as asked, and fails with the first run that fails.
fn run(tests: &Tests) {
    if !has_tools("franz-go's own tests", &[("go", "version")]) {
        return;
    }
    let built = Command::new(workspace().join(SCRIPT)).arg("build").status().unwrap();
    assert!(built.success(), "franz-go's tests build");
    let (runs, pattern, records) =
        if full() { (tests.runs, tests.pattern, RECORDS_FULL) } else { (1, tests.sample, RECORDS_SAMPLE) };
    let mut counts = Counts::default();
    for run in 1..=runs {
        let failed = run_once(tests, pattern, records, &mut counts);
        assert!(failed.is_empty(), "{}, run {run} of {runs}: {failed:#?}", tests.name);
    }
    println!("{}: {runs} runs with {records} records", tests.name);
    for (test, times) in &counts.passed {
        println!("  passed {times} times: {test}");
    }
    for (test, times) in &counts.skipped {
        println!("  skipped {times} times: {test}");
    }
    assert!(!counts.passed.is_empty(), "{}: some test ran", tests.name);
    assert!(counts.passed.values().all(|times| *times == runs), "{}: every test ran each time", tests.name);
}

/// Runs the tests once against a server of their own, and returns what failed.
fn run_once(tests: &Tests, pattern: &str, records: u32, counts: &mut Counts) -> Vec<String> {
    let server;
    let bootstrap = if let Ok(bootstrap) = std::env::var("INTEROP_BOOTSTRAP") {
        bootstrap
    } else {
        server = Sharemark::start_on_free_port(&[]).unwrap();
        server.bootstrap().to_string()
    };
    let output = Command::new(workspace().join(SCRIPT))
        .args(["-test.timeout", "30m", "-test.run", pattern])
        .env("BOOTSTRAP", bootstrap)
        .env("RECORDS", records.to_string())
        .env("CHAOS", if tests.chaos { "1" } else { "0" })
        .output()
        .unwrap();
    let mut failed = counts.add(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() || !failed.is_empty() {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("franz-go-{}.log", tests.name));
        std::fs::write(&log, [output.stdout, output.stderr].concat()).unwrap();
        failed.push(format!("ended with {}; all it said is in {}", output.status, log.display()));
    }
    failed
}

#[test]
fn share_groups() {
    run(&Tests { name: "share-groups", pattern: "Share", sample: "Share", runs: 20, chaos: false });
}

/// The whole package: producers, consumers, groups of both protocols, transactions.
#[test]
fn everything() {
    let sample = "^(TestGroupSimple|TestGroupETL|TestTxnEtl)$";
    run(&Tests { name: "everything", pattern: ".", sample, runs: 10, chaos: false });
}

#[test]
fn everything_with_chaos() {
    run(&Tests { name: "chaos", pattern: ".", sample: "^TestGroupETL$", runs: 3, chaos: true });
}
