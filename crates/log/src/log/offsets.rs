//! Offsets by time and by leader epoch.

use sharemark_protocol::{LeaderEpoch, Offset, Timestamp};

use super::{Entry, Isolation, Log};
use crate::batch::Records;

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OffsetQuery {
    /// The log's start (-2, and -4 since there is no remote part).
    Earliest,
    /// Where the reader ends (-1).
    Latest,
    /// The record with the largest timestamp (-3), the first of equals.
    MaxTimestamp,
    /// The last offset in remote storage (-5) or the first still to be sent there (-6): there are none.
    Tiered,
    /// The first record that is this old or younger.
    AtOrAfter(Timestamp),
}

impl OffsetQuery {
    /// Reads the timestamp of a ListOffsets request, or returns `None` for a number without meaning.
    pub const fn from_wire(timestamp: i64) -> Option<Self> {
        match timestamp {
            -1 => Some(Self::Latest),
            -2 | -4 => Some(Self::Earliest),
            -3 => Some(Self::MaxTimestamp),
            -5 | -6 => Some(Self::Tiered),
            0.. => Some(Self::AtOrAfter(Timestamp::from_ms(timestamp))),
            _ => None,
        }
    }
}

/// An offset that was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FoundOffset {
    /// The offset.
    pub offset: Offset,
    /// The record's time, where a record was asked for.
    pub timestamp: Option<Timestamp>,
    /// The epoch of the leader that wrote it, or will.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Where a leader's epoch ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EpochEnd {
    /// The newest known epoch that is not above the one asked for.
    pub leader_epoch: LeaderEpoch,
    /// Where the next epoch begins, or the log's end.
    pub end_offset: Offset,
}

impl Log {
    /// Finds an offset, or `None` if no record is like that.
    pub fn find_offset(&self, query: OffsetQuery, isolation: Isolation) -> Option<FoundOffset> {
        let end = self.readable_end(isolation);
        match query {
            OffsetQuery::Earliest => Some(FoundOffset {
                offset: self.start,
                timestamp: None,
                leader_epoch: self.leader_epochs.epoch_of(self.start),
            }),
            OffsetQuery::Latest => {
                Some(FoundOffset { offset: end, timestamp: None, leader_epoch: self.leader_epochs.latest() })
            }
            OffsetQuery::MaxTimestamp => self.find_max_timestamp().filter(|found| found.offset < end),
            OffsetQuery::AtOrAfter(timestamp) => {
                self.find_at_or_after(timestamp).filter(|found| found.offset < end)
            }
            OffsetQuery::Tiered => None,
        }
    }

    /// Returns the epoch of the leader that wrote the record at `offset`, or would write it.
    pub fn leader_epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.leader_epochs.epoch_of(offset)
    }

    /// Returns where `epoch` ends, or `None` if it is newer than all that have written.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let (leader_epoch, end_offset) = self.leader_epochs.end_of(epoch, self.end)?;
        Some(EpochEnd { leader_epoch, end_offset })
    }

    fn find_max_timestamp(&self) -> Option<FoundOffset> {
        let newest = self.segments.iter().map(|segment| segment.max_timestamp).max()?;
        // A segment's largest timestamp is that of a batch, unless its batches have none or are gone.
        let found = self.find_batch_at_or_after(newest);
        if let Some(found) = found.and_then(|entry| self.find_in(entry, entry.header.max_timestamp)) {
            return Some(found);
        }
        let mut best: Option<FoundOffset> = None;
        for entry in &self.batches {
            let best_timestamp = best.and_then(|best| best.timestamp).unwrap_or(Timestamp::from_ms(-1));
            if best_timestamp < entry.header.max_timestamp {
                best =
                    self.find_max_in(entry).filter(|found| Some(best_timestamp) < found.timestamp).or(best);
            }
        }
        best
    }

    /// Returns the record with the largest timestamp of a batch, from the log's start on.
    fn find_max_in(&self, entry: &Entry) -> Option<FoundOffset> {
        let records = Records::read(entry.bytes.as_ref()?, self.config.decompressed_size_bytes_max).ok()?;
        let mut best: Option<(Timestamp, Offset)> = None;
        for record in records.iter().filter_map(Result::ok) {
            if self.start <= record.offset && best.is_none_or(|(timestamp, _)| timestamp < record.timestamp) {
                best = Some((record.timestamp, record.offset));
            }
        }
        let (timestamp, offset) = best?;
        Some(FoundOffset { offset, timestamp: Some(timestamp), leader_epoch: entry.header.leader_epoch })
    }

    fn find_at_or_after(&self, timestamp: Timestamp) -> Option<FoundOffset> {
        let entry = self.find_batch_at_or_after(timestamp)?;
        if let Some(found) = self.find_in(entry, timestamp) {
            return Some(found);
        }
        // The batch's youngest record lies below the log's start: go on after it.
        let from = self.index_of(entry.header.last_offset.next());
        let mut rest = self.batches.range(from..).filter(|entry| timestamp <= entry.header.max_timestamp);
        rest.find_map(|entry| self.find_in(entry, timestamp))
    }

    /// Returns the first batch that has a record as old as `timestamp` or younger.
    fn find_batch_at_or_after(&self, timestamp: Timestamp) -> Option<&Entry> {
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.max_timestamp < timestamp {
                continue;
            }
            let first = self.index_of(segment.base_offset);
            let last = self
                .segments
                .get(index + 1)
                .map_or(self.batches.len(), |next| self.index_of(next.base_offset));
            // The largest timestamp so far only grows within a segment.
            let (mut low, mut high) = (first, last);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.batches[middle].max_timestamp_so_far < timestamp {
                    low = middle + 1
                } else {
                    high = middle
                }
            }
            let found = self.batches.range(low..last).find(|entry| timestamp <= entry.header.max_timestamp);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the first record of a batch, from the log's start on, that is as old as `timestamp` or younger.
    fn find_in(&self, entry: &Entry, timestamp: Timestamp) -> Option<FoundOffset> {
        let records = Records::read(entry.bytes.as_ref()?, self.config.decompressed_size_bytes_max).ok()?;
        let record = records
            .iter()
            .filter_map(Result::ok)
            .find(|record| timestamp <= record.timestamp && self.start <= record.offset)?;
        Some(FoundOffset {
            offset: record.offset,
            timestamp: Some(record.timestamp),
            leader_epoch: entry.header.leader_epoch,
        })
    }
}
