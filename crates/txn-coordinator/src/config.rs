//! What a transaction coordinator can be told.

/// Settings of a shard; each names the broker property it comes from, or says that it is ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TxnConfig {
    /// `transaction.max.timeout.ms`: the longest timeout a producer may ask for.
    pub transaction_max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`: how long an id without an open transaction is remembered.
    pub transactional_id_expiration_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`: time between two looks for timeouts.
    pub abort_timed_out_interval_ms: i32,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`: time between two looks for unused ids.
    pub remove_expired_interval_ms: i32,
    /// Ours: how many transactional ids one shard remembers at most.
    pub transactional_id_count_max: usize,
    /// Ours: how many partitions one transaction holds at most.
    pub partition_count_max: usize,
    /// Ours: how long a marker that failed, or a sweep whose append failed, waits for its next try.
    pub retry_backoff_ms: i32,
}

impl TxnConfig {
    /// Checks what no setting may be.
    ///
    /// # Panics
    ///
    /// If an interval or a bound is not positive.
    pub(crate) fn check(&self) {
        assert!(0 < self.transaction_max_timeout_ms, "the longest timeout is positive");
        assert!(0 < self.transactional_id_expiration_ms, "ids are remembered for some time");
        assert!(0 < self.abort_timed_out_interval_ms, "time passes between two sweeps for timeouts");
        assert!(0 < self.remove_expired_interval_ms, "time passes between two sweeps for unused ids");
        assert!(0 < self.transactional_id_count_max, "a shard has room for a transactional id");
        assert!(0 < self.partition_count_max, "a transaction has room for a partition");
        assert!(0 < self.retry_backoff_ms, "a retry waits for some time");
    }
}
