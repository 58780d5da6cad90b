//! Records of the internal topics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_state_records;

fuzz_target!(|bytes: &[u8]| run_state_records(bytes));
