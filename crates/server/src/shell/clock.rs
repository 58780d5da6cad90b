//! The clocks of the process.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sharemark_protocol::Timestamp;

use crate::broker::Now;

/// Reads both clocks of the process, and holds the broker's on demand.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    start_ms: i64,
    newest: Timestamp,
    /// What the broker's clock is ahead of the wall clock, since it was held or advanced.
    ahead_ms: i64,
    /// Whether the broker's clock stands still.
    is_held: bool,
}

impl Clock {
    pub(super) fn new() -> Self {
        let start_ms = wall_clock_ms();
        let newest = Timestamp::from_ms(start_ms);
        Self { start: Instant::now(), start_ms, newest, ahead_ms: 0, is_held: false }
    }

    /// Returns the time on both clocks. Neither runs backwards: the wall clock stands still when it is set back,
    /// and real time is counted from the start.
    pub(super) fn now(&mut self) -> Now {
        if !self.is_held {
            self.newest = self.newest.max(Timestamp::from_ms(wall_clock_ms()).plus_ms(self.ahead_ms));
        }
        let elapsed_ms = i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now { clock: self.newest, real: Timestamp::from_ms(self.start_ms).plus_ms(elapsed_ms) }
    }

    /// Holds the broker's clock where it stands; holding it twice is holding it once.
    pub(super) fn hold(&mut self) {
        self.now();
        self.is_held = true;
    }

    /// Lets the broker's clock go on from where it stands.
    pub(super) fn release(&mut self) {
        if self.is_held {
            self.is_held = false;
            self.ahead_ms = self.newest.ms_since(Timestamp::from_ms(wall_clock_ms()));
        }
    }

    /// Returns whether the broker's clock is held.
    pub(super) const fn is_held(&self) -> bool {
        self.is_held
    }

    /// Moves a held clock forward.
    pub(super) fn advance_to(&mut self, date: Timestamp) {
        assert!(self.is_held, "a clock that runs is not moved");
        self.newest = self.newest.max(date);
    }
}

fn wall_clock_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
