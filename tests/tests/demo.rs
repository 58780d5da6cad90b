//! `sharemark demo` as a newcomer runs it, and with a bug built in on purpose, which it must find.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use sharemark_testkit::process::{sharemark_binary, workspace};

const DURATION_MAX: Duration = Duration::from_secs(10);

/// What a run of the demo said.
struct Run {
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(program: &Path, arguments: &[&str]) -> Self {
        let started = Instant::now();
        let Output { status, stdout, stderr } =
            Command::new(program).arg("demo").args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let run = Self { exit_code: status.code(), stdout: text(stdout), stderr: text(stderr) };
        let elapsed = started.elapsed();
        assert!(elapsed < DURATION_MAX, "nobody waits long for a demo, but this took {elapsed:?}: {run}");
        run
    }

    /// Returns the number in the line of the account that begins with `name`.
    fn count(&self, name: &str) -> u32 {
        let line = self.stdout.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("the account has a line `{name}`: {self}"));
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}\n{}{}", self.exit_code, self.stdout, self.stderr)
    }
}

/// Builds the program that knows `--plant`. Only one crate is compiled again, and the real program stays as it is.
fn planted_program() -> PathBuf {
    // A test program lies in `<target>/<profile>/deps`.
    let test_program = std::env::current_exe().unwrap();
    let profile = test_program.ancestors().nth(2).unwrap();
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.current_dir(workspace()).args(["build", "--quiet", "--workspace", "--example", "planted"]);
    build.args(["--features", "sharemark/plants", "--target-dir"]).arg(profile.parent().unwrap());
    if profile.file_name() == Some(OsStr::new("release")) {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the program with plants builds");
    profile.join("examples/planted")
}

fn assert_well(run: &Run) {
    assert_eq!(run.exit_code, Some(0), "{run}");
    assert_eq!(run.count("records in"), 1000, "{run}");
    assert_eq!(run.count("committed"), 1000, "{run}");
    assert_eq!(run.count("outputs seen"), 1000, "{run}");
    assert_eq!(run.count("duplicates"), 0, "{run}");
    assert_eq!(run.count("lost"), 0, "{run}");
}

#[test]
fn the_demo_loses_nothing_and_repeats_nothing() {
    let run = Run::of(&sharemark_binary().unwrap(), &[]);
    assert_well(&run);
    assert_eq!(run.stderr, "", "{run}");
    // It only shows something if much went wrong on the way.
    assert!(300 < run.count("aborted"), "{run}");
    assert!(300 < run.count("redelivered"), "{run}");
    assert!(run.stdout.contains("answered with PRODUCER_FENCED"), "{run}");
    assert!(run.stdout.contains("worker-2 dies with 20 orders"), "{run}");
    let pictures: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("  ######")).collect();
    assert!(pictures.iter().any(|line| line.contains("tt")), "records wait for their transaction: {run}");
    assert!(pictures.last().unwrap().contains(&"#".repeat(50)), "all are acknowledged: {run}");
}

#[test]
fn the_demo_finds_an_abort_that_acknowledges() {
    let program = planted_program();
    assert_well(&Run::of(&program, &[]));
    let run = Run::of(&program, &["--plant", "abort-acknowledges"]);
    assert_eq!(run.exit_code, Some(1), "{run}");
    assert_eq!(run.count("records in"), 1000, "{run}");
    assert_eq!(run.count("duplicates"), 0, "{run}");
    assert_eq!(run.count("lost"), run.count("aborted"), "nothing that was aborted came back: {run}");
    assert!(0 < run.count("lost"), "{run}");
    assert!(run.stderr.contains("lost"), "{run}");
}

#[test]
fn no_bug_can_be_built_into_the_real_program() {
    let run = Run::of(&sharemark_binary().unwrap(), &["--plant", "abort-acknowledges"]);
    assert_eq!(run.exit_code, Some(2), "{run}");
}
