//! Points in time.

/// Milliseconds since 1970-01-01T00:00:00Z, as in Kafka's records.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A time that no deadline reaches.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the time `ms` milliseconds after the epoch.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the epoch.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// Returns the time `ms` milliseconds later, saturating.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this time; negative when it is later.
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}
