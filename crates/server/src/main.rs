//! The `sharemark` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    sharemark::shell::run_cli(std::env::args_os())
}
