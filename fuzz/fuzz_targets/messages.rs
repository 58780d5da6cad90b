//! Requests and answers, read and written again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_messages;

fuzz_target!(|bytes: &[u8]| run_messages(bytes));
