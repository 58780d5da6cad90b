//! What a share partition needs to know of its group's settings.

/// The settings that a share partition obeys, as they are at the time of a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SharePartitionConfig {
    /// How long a record stays locked: `share.record.lock.duration.ms`.
    pub lock_duration_ms: i64,
    /// How often a record is delivered at most: `share.delivery.count.limit`.
    pub delivery_count_limit: i16,
    /// How many offsets the window holds before nothing new is acquired: `share.partition.max.record.locks`.
    pub record_locks_max: i64,
    /// Whether a lock may be renewed: `share.renew.acknowledge.enable`.
    pub renew_enabled: bool,
    /// Whether rejected records are copied before they are archived: `errors.deadletterqueue.topic.name`.
    pub dead_letter_queue: bool,
    /// Whether records that failed often are delivered in ever smaller numbers, as Kafka does.
    pub throttles_redelivery: bool,
    /// Whether an abort gives a record back to its member for the rest of its lock
    /// (`share.txn.abort.target`), rather than making it available.
    pub abort_restores_lock: bool,
}

impl SharePartitionConfig {
    /// Returns the time until a lock that starts now ends, within what the lock table can tell apart.
    pub(super) fn lock_ms(&self) -> i64 {
        self.lock_duration_ms.clamp(0, super::word::LOCK_DURATION_MS_MAX)
    }

    /// Returns the state of a record that is given up after its `delivery_count`-th delivery.
    pub(super) const fn released_state(&self, delivery_count: i16) -> crate::RecordState {
        if delivery_count < self.delivery_count_limit {
            crate::RecordState::Available
        } else {
            self.rejected_state()
        }
    }

    /// Returns the state of a record that can never be dealt with.
    pub(super) const fn rejected_state(&self) -> crate::RecordState {
        if self.dead_letter_queue { crate::RecordState::Archiving } else { crate::RecordState::Archived }
    }
}
