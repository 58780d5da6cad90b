//! The clocks of the process.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sharemark_protocol::Timestamp;

use crate::broker::Now;

/// Reads both clocks of the process.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    start_ms: i64,
    newest: Timestamp,
}

impl Clock {
    pub(super) fn new() -> Self {
        let start_ms = wall_clock_ms();
        Self { start: Instant::now(), start_ms, newest: Timestamp::from_ms(start_ms) }
    }

    /// Returns the time on both clocks. Neither runs backwards: the wall clock stands still when it is set back,
    /// and real time is counted from the start.
    pub(super) fn now(&mut self) -> Now {
        self.newest = self.newest.max(Timestamp::from_ms(wall_clock_ms()));
        let elapsed_ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now { clock: self.newest, real: Timestamp::from_ms(self.start_ms).plus_ms(elapsed_ms) }
    }
}

fn wall_clock_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
