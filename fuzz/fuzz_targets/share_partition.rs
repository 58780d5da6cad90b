//! Operations on the lock table, compared with a naive model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_operations;

fuzz_target!(|bytes: &[u8]| run_operations(bytes));
