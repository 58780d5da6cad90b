//! Operations on the lock table, compared with a naive model.
//!
//! It is linked without the server, whose counters would take half of the time of these short runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_share_model::run_operations;

fuzz_target!(|bytes: &[u8]| run_operations(bytes));
