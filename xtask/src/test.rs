//! `cargo xtask test`: everything that must hold before a change lands, in one command.
//!
//! A step whose tool is missing is skipped, and said to be. Under CI nothing may be skipped. Long tests take a
//! sample that fits CI's time; `--full` has them run whole, by setting `SHAREMARK_FULL=1`.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;

/// One step of the run.
struct Step {
    name: &'static str,
    /// The tool that it needs, as a command that tells its version.
    needs: Option<&'static [&'static str]>,
    command: &'static [&'static str],
}

const CARGO_DENY: &[&str] = &["cargo-deny", "--version"];
/// How long after the end of the tests their last line may come.
const LAST_LINE_WAIT: Duration = Duration::from_secs(2);
const MAVEN: &[&str] = &["mvn", "--version"];

/// Cheap checks first, so that a slip is told early.
const STEPS: &[Step] = &[
    Step { name: "format", needs: None, command: &["cargo", "fmt", "--all", "--check"] },
    Step {
        name: "dependencies",
        needs: Some(CARGO_DENY),
        command: &["cargo", "deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
    },
    Step { name: "generated pages", needs: None, command: &["cargo", "xtask", "docs", "--check"] },
    Step {
        name: "generated messages",
        needs: Some(MAVEN),
        command: &["cargo", "xtask", "codegen", "--check"],
    },
    Step {
        name: "core without a shell",
        needs: None,
        command: &["cargo", "check", "--quiet", "--package", "sharemark", "--no-default-features"],
    },
    Step {
        name: "lints",
        needs: None,
        command: &["cargo", "clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    },
    Step {
        name: "documentation",
        needs: None,
        command: &["cargo", "doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"],
    },
    Step { name: "build", needs: None, command: &["cargo", "build", "--quiet", "--workspace"] },
    Step { name: "tests", needs: None, command: &["cargo", "test", "--workspace", "--no-fail-fast"] },
    // A broker of its own, so that nothing else is built with bugs in it.
    Step {
        name: "plants",
        needs: None,
        command: &[
            "cargo",
            "test",
            "--package",
            "sharemark-tests",
            "--features",
            "plants",
            "--test",
            "plants",
            "--",
            "--nocapture",
        ],
    },
];

/// How much of the long tests a run takes.
#[derive(Clone, Copy)]
pub(crate) enum Extent {
    /// What fits the time of CI, unless `SHAREMARK_FULL` is set around the run.
    Sampled,
    /// Everything.
    Full,
}

/// Runs all steps, and says in the end what was skipped and what failed.
pub(crate) fn run(extent: Extent) -> Result<(), Failure> {
    let is_ci = std::env::var_os("CI").is_some();
    let mut failed = Vec::new();
    let mut skipped = Vec::new();
    for step in STEPS {
        if let Some(needs) = step.needs
            && !succeeds(needs)
        {
            skipped.push(format!("{} (needs {})", step.name, needs[0]));
            continue;
        }
        println!("== {}", step.name);
        let started = Instant::now();
        if !run_step(step, extent)? {
            failed.push(step.name.to_owned());
        }
        println!("== {}: {:.0} s", step.name, started.elapsed().as_secs_f64());
    }
    if let Err(failure) = check_core_dependencies() {
        failed.push(failure);
    }
    for name in &skipped {
        println!("skipped: {name}");
    }
    if is_ci && !skipped.is_empty() {
        failed.push("a step was skipped under CI".to_owned());
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn run_step(step: &Step, extent: Extent) -> Result<bool, Failure> {
    let mut command = step_command(step.command, extent);
    if step.name == "documentation" {
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
    if step.name == "tests" {
        return run_tests(command, step.command, extent);
    }
    let status = command.status().map_err(|error| format!("{}: {error}", step.command.join(" ")))?;
    Ok(status.success())
}

fn step_command(words: &[&str], extent: Extent) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("SHAREMARK_BIN", binary());
    match extent {
        Extent::Sampled => {}
        Extent::Full => {
            command.env("SHAREMARK_FULL", "1");
        }
    }
    command
}

/// Runs all tests, and those from outside that failed once more: real clients and a real Kafka wait on the real clock,
/// which a busy machine may spoil. Both runs are printed, and what fails twice has failed.
fn run_tests(mut command: Command, words: &[&str], extent: Extent) -> Result<bool, Failure> {
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| format!("tests: {error}"))?;
    let stderr = child.stderr.take();
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines()).map_while(Result::ok)
        {
            eprintln!("{line}");
            drop(sender.send(line)); // Nobody listens any more when the run is over.
        }
    });
    let status = child.wait().map_err(|error| format!("tests: {error}"))?;
    let mut failed_targets = Vec::new();
    let mut only_from_outside = true;
    // A program that a test left behind may hold the other end open, so the last line is not waited for.
    while let Ok(line) = lines.recv_timeout(LAST_LINE_WAIT) {
        if let Some(target) = line.trim().strip_prefix("`-p ") {
            match target.trim_end_matches('`').strip_prefix("sharemark-tests --test ") {
                Some(name) => failed_targets.push(name.to_owned()),
                None => only_from_outside = false,
            }
        }
    }
    if status.success() || failed_targets.is_empty() || !only_from_outside {
        return Ok(status.success());
    }
    println!("== tests, once more: {}", failed_targets.join(", "));
    let mut again = step_command(words, extent);
    for name in &failed_targets {
        again.args(["--test", name]);
    }
    let status = again.status().map_err(|error| format!("tests: {error}"))?;
    Ok(status.success())
}

/// Returns where `cargo build` puts the program, for tests that start it.
fn binary() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let target = if target.is_absolute() { target } else { workspace().join(target) };
    target.join("debug/sharemark")
}

fn workspace() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

/// The deterministic core must build without threads and sockets.
fn check_core_dependencies() -> Result<(), Failure> {
    let output = Command::new("cargo")
        .args([
            "tree",
            "--package",
            "sharemark",
            "--no-default-features",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .output()
        .map_err(|error| format!("cargo tree: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !tree.contains("sharemark-log") {
        return Err("cargo tree does not tell the core's dependencies".to_owned());
    }
    match tree.lines().find(|line| line.starts_with("tokio ") || line.starts_with("crossbeam")) {
        Some(line) => Err(format!("the core depends on {line}")),
        None => Ok(()),
    }
}

fn succeeds(command: &[&str]) -> bool {
    let status =
        Command::new(command[0]).args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
