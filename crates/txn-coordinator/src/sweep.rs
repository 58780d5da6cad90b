//! When a periodic look happens.

use sharemark_protocol::Timestamp;

/// A look that is taken every so often since a shard was opened, never at the opening itself.
///
/// It keeps no count of looks taken: each date follows from the opening alone, so a clock that steps back
/// cannot confuse it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sweep {
    opened_at: Timestamp,
    interval_ms: i64,
}

impl Sweep {
    pub(crate) fn new(opened_at: Timestamp, interval_ms: i32) -> Self {
        assert!(0 < interval_ms, "time passes between two sweeps");
        Self { opened_at, interval_ms: i64::from(interval_ms) }
    }

    /// Returns the date of the first look at or after `time`.
    pub(crate) fn first_from(self, time: Timestamp) -> Timestamp {
        let since = time.ms_since(self.opened_at).max(1);
        let looks = 1 + (since - 1) / self.interval_ms;
        self.opened_at.plus_ms(looks.saturating_mul(self.interval_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_on_the_grid_and_never_at_the_opening() {
        let sweep = Sweep::new(Timestamp::from_ms(1_000), 10);
        for (time, expected) in
            [(0, 1_010), (1_000, 1_010), (1_001, 1_010), (1_010, 1_010), (1_011, 1_020), (5_000, 5_000)]
        {
            assert_eq!(sweep.first_from(Timestamp::from_ms(time)), Timestamp::from_ms(expected), "{time}");
        }
        assert_eq!(sweep.first_from(Timestamp::MAX), Timestamp::MAX);
        let sweep = Sweep::new(Timestamp::from_ms(1_000), 1);
        for (time, expected) in [(999, 1_001), (1_000, 1_001), (1_001, 1_001), (1_002, 1_002)] {
            assert_eq!(sweep.first_from(Timestamp::from_ms(time)), Timestamp::from_ms(expected), "{time}");
        }
    }
}
