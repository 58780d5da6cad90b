//! Frames on the connections of a broker, with closes and time between them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sharemark_testkit::fuzz::run_frames;

fuzz_target!(|bytes: &[u8]| run_frames(bytes));
