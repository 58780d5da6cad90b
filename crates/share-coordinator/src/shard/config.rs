//! The settings of the share coordinator.

/// The settings of the share coordinator.
#[derive(Clone, Debug)]
pub struct ShareCoordinatorConfig {
    /// How many updates follow a snapshot before the next snapshot
    /// (`share.coordinator.snapshot.update.records.per.snapshot`).
    pub updates_per_snapshot: u32,
    /// How old a snapshot may become before a new one is written, so that the log can be pruned
    /// (`share.coordinator.cold.partition.snapshot.interval.ms`).
    pub cold_snapshot_interval_ms: i64,
    /// How many cold snapshots are written in one go.
    pub cold_snapshot_count_max: usize,
    /// How many share partitions one shard keeps; beyond, an initialisation is a `POLICY_VIOLATION`.
    pub share_partition_count_max: usize,
    /// How many runs of equal states a share partition may have; beyond, a write is an `INVALID_REQUEST`.
    pub state_batch_count_max: usize,
}
