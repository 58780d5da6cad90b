//! The log's start: moved by request, by age and by size.

use sharemark_protocol::{ErrorCode, Offset, Timestamp};

use super::Log;
use crate::{StorageChange, StorageWrite};

impl Log {
    /// Judges a DeleteRecords up to `before`, or up to the high watermark without one. Returns the start to
    /// move to, which is the present one if it is higher.
    ///
    /// # Errors
    ///
    /// - `PolicyViolation` if the topic's cleanup policy is not to delete.
    /// - `OffsetOutOfRange` beyond the high watermark.
    pub fn decide_delete_records(&self, before: Option<Offset>) -> Result<Offset, ErrorCode> {
        if !self.config.delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let before = before.unwrap_or(self.high_watermark());
        if self.high_watermark() < before {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        Ok(before.max(self.start))
    }

    /// Moves the log's start up to `before`. Batches wholly below it go; a batch that holds it stays whole.
    ///
    /// # Panics
    ///
    /// If `before` lies beyond the log's end.
    pub fn delete_records(&mut self, before: Offset, writes: &mut Vec<StorageWrite>) {
        assert!(before <= self.end, "the log starts before it ends");
        if before <= self.start {
            return;
        }
        self.start = before;
        while let Some(entry) = self.batches.front()
            && entry.header.last_offset < before
        {
            let size = u64::from(entry.header.size);
            let base_offset = entry.header.base_offset;
            self.size_bytes -= size;
            // The batch belongs to the last segment that begins at it or before it.
            while self.segments.get(1).is_some_and(|second| second.base_offset <= base_offset) {
                self.segments.pop_front();
            }
            if let Some(segment) = self.segments.front_mut() {
                segment.size_bytes -= size;
            }
            self.batches.pop_front();
        }
        while self.segments.get(1).is_some_and(|second| second.base_offset <= before) {
            self.segments.pop_front();
        }
        if self.batches.is_empty() {
            self.segments.clear();
        }
        self.compacted_size_bytes = self.compacted_size_bytes.min(self.size_bytes);
        self.leader_epochs.truncate_below(before);
        self.transactions.truncate_below(before);
        self.write(StorageChange::Start(before), writes);
    }

    /// Deletes what retention lets go, in whole segments from the front, and returns the log's start.
    ///
    /// Kept are segments with a record younger than `retention.ms`; the active one goes by age as well, as
    /// in Kafka, and by size only the closed ones do. Records of an open transaction go too.
    pub fn apply_retention(&mut self, now: Timestamp, writes: &mut Vec<StorageWrite>) -> Offset {
        let start = self.decide_retention(now);
        self.delete_records(start, writes);
        self.start
    }

    /// Returns where the log would start once retention has done its work; changes nothing.
    fn decide_retention(&self, now: Timestamp) -> Offset {
        let mut start = self.start;
        if !self.config.delete {
            return start;
        }
        let mut excess = self.config.retention_bytes.map_or(0, |limit| self.size_bytes.saturating_sub(limit));
        let mut by_size = true;
        let mut by_age = self.config.retention_ms.is_some();
        for (index, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map(|next| next.base_offset);
            by_age &=
                self.config.retention_ms.is_some_and(|limit| limit < now.ms_since(segment.max_timestamp));
            by_size &= next.is_some() && segment.size_bytes <= excess;
            if !by_age && !by_size {
                break;
            }
            excess = excess.saturating_sub(segment.size_bytes);
            start = start.max(next.unwrap_or(self.end));
        }
        start
    }
}
