//! The chores of this workspace, run as `cargo xtask <chore>`.

mod codegen;
mod conformance;
mod docs;
mod files;
mod test;
mod vectors;

/// The table of served APIs. The generator includes its source rather than depend on the crate, so
/// that it still builds when generated code does not.
#[path = "../../crates/protocol/src/apis.rs"]
#[expect(dead_code, unreachable_pub, reason = "the crate uses and exports what a chore does not need")]
mod apis;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask CHORE

chores:
  test             runs everything that must hold: format, lints, docs, dependencies, all tests
  test --full      the same with long tests run whole (SHAREMARK_FULL=1), not sampled
  codegen          writes crates/protocol/src/generated from the message schemas
  codegen --check  compares it with a fresh generation; exits 1 on a difference
  docs             writes the generated parts of docs/protocol.md and docs/conformance.md
  docs --check     compares them with the tables; exits 1 on a difference
  vectors [COUNT [SEED]]
                   makes COUNT (5) random messages of each version of each schema with Kafka's
                   own classes, and checks that the codec reads and writes the same; needs a JDK
  vectors records [COUNT [SEED]]
                   the same for what internal topics and clients store, without requests
  storm [--steps N] ...
                   runs the simulator of clusters in bad weather, and prints what happened how
                   often; `storm --help` tells the rest";

/// Why a chore failed, in words for the one who ran it.
type Failure = String;

/// Runs the simulator, optimised.
fn storm(arguments: &[&str]) -> Result<(), Failure> {
    let mut command = std::process::Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--package", "sharemark-testkit", "--bin", "storm", "--"]);
    let status = command.args(arguments).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the simulator found something".to_owned()) }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["codegen"] => codegen::run(files::Mode::Write),
        ["codegen", "--check"] => codegen::run(files::Mode::Check),
        ["docs"] => docs::run(files::Mode::Write),
        ["docs", "--check"] => docs::run(files::Mode::Check),
        ["test"] => test::run(test::Extent::Sampled),
        ["test", "--full"] => test::run(test::Extent::Full),
        ["storm", ref rest @ ..] => storm(rest),
        ["vectors"] => vectors::run("all", "5", None),
        ["vectors", "records"] => vectors::run("records", "5", None),
        ["vectors", "records", count] => vectors::run("records", count, None),
        ["vectors", "records", count, seed] => vectors::run("records", count, Some(seed)),
        ["vectors", count] => vectors::run("all", count, None),
        ["vectors", count, seed] => vectors::run("all", count, Some(seed)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
