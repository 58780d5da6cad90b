//! How records that failed often are held back.

use crate::share_partition::SharePartitionConfig;
use crate::share_partition::word::Word;

/// How often failed records are held back, so that one bad record does not use up the deliveries of its
/// neighbours.
#[derive(Clone, Copy)]
pub(super) struct Throttle {
    is_on: bool,
    from_count: i16,
    count_limit: i16,
}

impl Throttle {
    pub(super) fn new(config: &SharePartitionConfig) -> Self {
        let count_limit = config.delivery_count_limit;
        let half = count_limit / 2 + count_limit % 2;
        Self { is_on: config.throttles_redelivery, from_count: half.max(2), count_limit }
    }

    /// Returns whether the next delivery of a record that was delivered `count` times is its last, so that it
    /// is delivered alone.
    pub(super) fn is_last_attempt(&self, count: i16) -> bool {
        self.is_on && 2 < self.count_limit && self.count_limit == count.saturating_add(1)
    }

    /// Returns whether `word` may be acquired but failed often.
    pub(super) fn holds_back(&self, word: Word) -> bool {
        self.is_on && word.is_available() && self.from_count <= word.delivery_count()
    }

    /// Returns how many records of a tracked batch may be delivered together, or `None` if that is not limited.
    pub(super) fn limit(&self, count: i16, batch_len: i64) -> Option<i64> {
        if !self.is_on || count < self.from_count {
            return None;
        }
        let halvings = u32::from((count - self.from_count + 1).unsigned_abs());
        Some(batch_len.checked_shr(halvings).unwrap_or(0).max(1))
    }
}
