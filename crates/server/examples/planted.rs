//! The `sharemark` program with the bugs that can be built in on purpose (`demo --plant`), under a name of its own so
//! that it never lies where the real one is expected.

use std::process::ExitCode;

fn main() -> ExitCode {
    sharemark::shell::run_cli(std::env::args_os())
}
