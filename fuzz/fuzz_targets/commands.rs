//! Commands of transcripts, with the ids and epochs that answers told.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_commands;

fuzz_target!(|bytes: &[u8]| run_commands(bytes));
