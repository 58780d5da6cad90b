//! Record batches as clients produce them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_records;

fuzz_target!(|bytes: &[u8]| run_records(bytes));
