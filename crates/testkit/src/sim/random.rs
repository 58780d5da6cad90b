//! Randomness that follows from a seed.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A small generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Starts the sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        // Mixed, since a seed that is a multiple of the step apart would only begin elsewhere in the same sequence.
        Self { state: mixed(seed.wrapping_add(STEP)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state)
    }

    /// Returns a number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1).unsigned_abs()) as i64
    }

    /// Returns true once in `times` times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of `all`, which is not empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
