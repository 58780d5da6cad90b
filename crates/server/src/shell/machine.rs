//! What the machine says of itself and of this process.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What `--memory-limit` is when the machine's memory cannot be read.
const MEMORY_LIMIT_FALLBACK: u64 = 1 << 30;

/// Returns a quarter of the machine's memory, in bytes.
pub(super) fn quarter_of_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(MEMORY_LIMIT_FALLBACK, |kib| kib * 1024 / 4)
}

/// Returns how long this process has run on a processor so far: read first thing in `main`, that is about the
/// time since it was started. Zero where the system does not say.
pub(super) fn time_on_processor() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns a seed that differs from run to run.
pub(super) fn fresh_seed() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = u64::try_from(since_epoch.as_nanos() & u128::from(u64::MAX)).unwrap_or(0);
    nanoseconds ^ (u64::from(std::process::id()) << 32)
}
