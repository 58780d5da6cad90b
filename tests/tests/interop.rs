//! Runs the suites of real clients in `tests/interop/` against the server.
//!
//! A suite prints `cases N` and fails by its exit code. Without its tool it is skipped with a printed line, but
//! fails where `CI` is set. `INTEROP_BOOTSTRAP=host:port` tries the suites on another broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::process::Command;

use sharemark_testkit::process::{Sharemark, has_tools, replay, workspace};

/// The keys that Kafka 4.4 does not know and that the default profile announces.
const UNKNOWN_KEYS: &str = "32025,32093,95";
const KCAT_TOPICS: [&str; 5] = ["kcat-none", "kcat-gzip", "kcat-snappy", "kcat-lz4", "kcat-zstd"];

/// A suite, and how it is run.
struct Suite<'a> {
    name: &'a str,
    tools: &'a [(&'a str, &'a str)],
    /// At least so many cases are there, and so many more that need the control endpoint.
    cases_min: usize,
    control_cases: usize,
    /// The nodes of the server.
    nodes: usize,
    /// The cases to run; none means all.
    only: &'a [&'a str],
}

impl<'a> Suite<'a> {
    const fn new(
        name: &'a str,
        tools: &'a [(&'a str, &'a str)],
        cases_min: usize,
        control_cases: usize,
    ) -> Self {
        Self { name, tools, cases_min, control_cases, nodes: 1, only: &[] }
    }

    /// Runs it, unless a tool is missing.
    fn run(self) {
        let Self { name, tools, mut cases_min, control_cases, nodes, only } = self;
        if !has_tools(&format!("the {name} suite"), tools) {
            return;
        }
        let mut run = Command::new(workspace().join("tests/interop").join(name).join("run.sh"));
        run.args(only);
        let file = format!("interop-{name}-{nodes}-{}.journal", std::process::id());
        let journal = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
        let mut server = None;
        if let Ok(bootstrap) = std::env::var("INTEROP_BOOTSTRAP") {
            run.env("BOOTSTRAP", bootstrap);
        } else {
            let brokers = nodes.to_string();
            let mut arguments = vec![
                "--brokers",
                &brokers,
                "--control",
                "127.0.0.1:0",
                "--journal",
                journal.to_str().unwrap(),
            ];
            for topic in KCAT_TOPICS {
                arguments.extend(["--topic", topic]);
            }
            let started = server.insert(Sharemark::start_on_free_port(&arguments).unwrap());
            run.env("BOOTSTRAP", started.field("bootstrap").unwrap())
                .env("EXPECT_UNKNOWN_KEYS", UNKNOWN_KEYS);
            cases_min += control_cases;
            run.env("CONTROL", started.field("control").unwrap());
            if 1 < nodes {
                run.env("NODES", &brokers);
            }
        }
        let output = run.env("TOPICS", KCAT_TOPICS.join(" ")).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        println!("{name}:\n{stdout}");
        let cases: usize = stdout
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("cases "))
            .unwrap_or_else(|| {
                panic!("{name} prints how many cases it ran: {}", String::from_utf8_lossy(&output.stderr))
            })
            .parse()
            .expect("a number of cases");
        let failed: Vec<&str> = stdout.lines().filter(|line| line.starts_with("FAILED")).collect();
        assert!(output.status.success(), "{name}: {failed:?}");
        assert!(cases_min <= cases, "{name} ran {cases} cases, at least {cases_min} are there");
        if let Some(server) = server {
            server.stop().unwrap();
            let (code, printed) = replay(&journal).unwrap();
            println!("{name}: {printed}");
            assert_eq!(code, Some(0), "the core answers {name} again as it did: {printed}");
            std::fs::remove_file(journal).unwrap();
        }
    }
}

#[test]
fn java() {
    const TOOLS: &[(&str, &str)] = &[("java", "-version"), ("mvn", "-version")];
    Suite::new("java", TOOLS, 76, 4).run();
    // Row C-S2 of `docs/conformance.md`: nodes stop and are cut off under the load of sink tasks.
    if std::env::var("INTEROP_BOOTSTRAP").is_err() {
        Suite { nodes: 3, only: &["sink-nodes-fail"], ..Suite::new("java", TOOLS, 0, 1) }.run();
    }
}

#[test]
fn go() {
    Suite::new("go", &[("go", "version")], 18, 0).run();
}

#[test]
fn python() {
    Suite::new("python", &[("python3", "--version")], 30, 1).run();
}

#[test]
fn kcat() {
    Suite::new("kcat", &[("kcat", "-V")], 16, 0).run();
}

#[test]
fn node() {
    Suite::new("node", &[("node", "--version"), ("npm", "--version")], 9, 0).run();
}

#[test]
fn rust() {
    Suite::new("rust", &[("cargo", "--version")], 12, 0).run();
}
