//! Offsets and runs of them.

use std::fmt;

/// A place in a partition's log; never negative.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Offset(i64);

impl Offset {
    /// The offset of the first record ever written.
    pub const ZERO: Self = Self(0);
    /// The highest offset there can be.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the offset, or `None` for a negative number (a sentinel on the wire).
    pub const fn new(raw: i64) -> Option<Self> {
        if raw < 0 { None } else { Some(Self(raw)) }
    }

    /// Returns the number as on the wire.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the offset `count` above this one, saturating.
    ///
    /// # Panics
    ///
    /// If the outcome were negative.
    pub const fn plus(self, count: i64) -> Self {
        let sum = self.0.saturating_add(count);
        assert!(0 <= sum, "an offset is never negative");
        Self(sum)
    }

    /// Returns the next higher offset.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// Returns the next lower offset, or `None` at zero.
    pub const fn previous(self) -> Option<Self> {
        Self::new(self.0 - 1)
    }

    /// Returns how far this offset is above `other`; negative when it is below.
    pub const fn since(self, other: Self) -> i64 {
        self.0 - other.0
    }

    /// Returns the wire form of an offset that may be missing: -1 for none.
    pub const fn to_wire(offset: Option<Self>) -> i64 {
        match offset {
            Some(offset) => offset.0,
            None => -1,
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of offsets, both ends included as on the wire. Never empty.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OffsetRange {
    first: Offset,
    last: Offset,
}

impl OffsetRange {
    /// Returns `first..=last`, or `None` if that holds no offset.
    pub const fn new(first: Offset, last: Offset) -> Option<Self> {
        if last.0 < first.0 {
            return None;
        }
        Some(Self { first, last })
    }

    /// Returns the range that holds `offset` alone.
    pub const fn single(offset: Offset) -> Self {
        Self { first: offset, last: offset }
    }

    /// Returns the lowest offset.
    pub const fn first(self) -> Offset {
        self.first
    }

    /// Returns the highest offset, which belongs to the range.
    pub const fn last(self) -> Offset {
        self.last
    }

    /// Returns how many offsets the range holds.
    pub const fn offset_count(self) -> i64 {
        self.last.0 - self.first.0 + 1
    }

    /// Returns whether `offset` belongs to the range.
    pub const fn contains(self, offset: Offset) -> bool {
        self.first.0 <= offset.0 && offset.0 <= self.last.0
    }

    /// Returns the offsets that both ranges hold, or `None` if there are none.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// Returns the offsets of the range in ascending order.
    pub fn offsets(self) -> impl DoubleEndedIterator<Item = Offset> {
        (self.first.0..=self.last.0).map(Offset)
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
