//! Segments: runs of batches that retention deletes as one. Only their boundaries are kept.

use std::collections::VecDeque;

use sharemark_protocol::{Offset, Timestamp};

use crate::LogConfig;
use crate::batch::BatchHeader;

/// A run of batches, up to the next segment or the log's end.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) base_offset: Offset,
    pub(super) size_bytes: u64,
    /// The time that its age counts from: the first batch's largest timestamp.
    pub(super) first_timestamp: Timestamp,
    /// The largest timestamp of its records, or the time of the last append if they have none.
    pub(super) max_timestamp: Timestamp,
}

/// Takes an appended batch into the active segment, closing that before where it is too large or too old.
/// Returns the largest timestamp of the segment so far.
pub(super) fn add(
    segments: &mut VecDeque<Segment>,
    batch: &BatchHeader,
    now: Timestamp,
    config: &LogConfig,
) -> Timestamp {
    let size = u64::from(batch.size);
    // A batch without timestamps ages from its append.
    let timestamp = if batch.max_timestamp.ms() < 0 { now } else { batch.max_timestamp };
    if let Some(active) = segments.back_mut() {
        let is_full = config.segment_size_bytes_max < active.size_bytes.saturating_add(size);
        let is_old = config.segment_ms < timestamp.ms_since(active.first_timestamp);
        let offsets_end = i64::from(i32::MAX) < batch.last_offset.since(active.base_offset);
        if !(is_full || is_old || offsets_end) {
            active.size_bytes += size;
            active.max_timestamp = active.max_timestamp.max(timestamp);
            return active.max_timestamp;
        }
    }
    segments.push_back(Segment {
        base_offset: batch.base_offset,
        size_bytes: size,
        first_timestamp: timestamp,
        max_timestamp: timestamp,
    });
    timestamp
}
