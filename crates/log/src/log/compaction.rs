//! Compaction: of each key only the last record stays. Offsets, sequences and producers stay as they were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use sharemark_protocol::{Offset, ProducerId, Timestamp};

use super::segments::Segment;
use super::{Entry, Log};
use crate::batch::{
    BatchFields, BatchHeader, BatchView, Compression, DELETE_HORIZON_BIT, Record, Records, write_batch,
    write_record,
};
use crate::{StorageChange, StorageWrite};

/// How far compaction may go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CompactionScope {
    /// Up to the active segment, as users of Kafka see it.
    ClosedSegments,
    /// Up to the last stable offset, for internal topics.
    Whole,
}

impl Log {
    /// Returns whether enough was appended since the last compaction to make another worth its while: as much
    /// as was left then, and `compaction_dirty_bytes_min`.
    pub fn is_compaction_due(&self) -> bool {
        let dirty = self.size_bytes.saturating_sub(self.compacted_size_bytes);
        self.config.compact && self.config.compaction_dirty_bytes_min.max(self.compacted_size_bytes) <= dirty
    }

    /// Returns whether a user's topic is to be compacted now, up to its active segment: because enough of what may be
    /// compacted is new (`min.cleanable.dirty.ratio`), or has waited for too long (`max.compaction.lag.ms`).
    pub fn is_cleaning_due(&self, now: Timestamp) -> bool {
        if !self.config.compact {
            return false;
        }
        let bound = self.compaction_bound(now, CompactionScope::ClosedSegments);
        let (mut clean_bytes, mut new_bytes) = (0, 0);
        for entry in self.batches.iter().take_while(|entry| entry.header.last_offset < bound) {
            let is_new = self.compacted_to <= entry.header.base_offset;
            let sum = if is_new { &mut new_bytes } else { &mut clean_bytes };
            *sum += u64::from(entry.header.size);
        }
        if new_bytes == 0 {
            return false;
        }
        let is_new =
            |segment: &&Segment| self.compacted_to <= segment.base_offset && segment.base_offset < bound;
        let oldest = self.segments.iter().filter(is_new).map(|segment| segment.first_timestamp).min();
        if oldest.is_some_and(|oldest| self.config.max_compaction_lag_ms < now.ms_since(oldest)) {
            return true;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes")]
        let ratio = new_bytes as f64 / (clean_bytes + new_bytes) as f64;
        self.config.min_cleanable_dirty_ratio < ratio
    }

    /// Removes every record whose key has a later one, aborted records, and, `delete.retention.ms` after
    /// their first compaction, tombstones and the markers of whose transaction no batch was left by then.
    ///
    /// The last batch of a producer stays, if need be empty, so that its sequence is known after a restart.
    /// Records without key stay. A batch too large to be decompressed stays as it is.
    pub fn compact(&mut self, now: Timestamp, scope: CompactionScope, writes: &mut Vec<StorageWrite>) {
        let bound = self.compaction_bound(now, scope);
        let mut compaction =
            Compaction { log: self, now, newest: self.newest_offsets(bound), with_data: BTreeSet::new() };
        let mut kept = VecDeque::with_capacity(self.batches.len());
        let mut changes = Vec::new();
        for entry in &self.batches {
            let fate = if entry.header.last_offset < bound { compaction.judge(entry) } else { Fate::Keep };
            match fate {
                Fate::Keep => kept.push_back(entry.clone()),
                Fate::Replace(bytes) => {
                    let Ok(header) = BatchView::new(&bytes).and_then(|view| view.header()) else {
                        unreachable!("a batch that was written here can be read")
                    };
                    let bytes = bytes.freeze();
                    changes.push(StorageChange::Put { header, bytes: bytes.clone() });
                    kept.push_back(Entry { header, bytes: Some(bytes), ..*entry });
                }
                Fate::Remove => changes.push(StorageChange::Remove(entry.header.base_offset)),
            }
        }
        self.batches = kept;
        self.measure_segments();
        self.compacted_size_bytes = self.size_bytes;
        self.compacted_to = self.compacted_to.max(bound);
        // The data of every transaction that was aborted below the bound is gone.
        self.transactions.truncate_below(bound);
        for change in changes {
            self.write(change, writes);
        }
    }

    /// Returns where compaction ends.
    fn compaction_bound(&self, now: Timestamp, scope: CompactionScope) -> Offset {
        let stable = self.last_stable_offset();
        let lag_ms = self.config.min_compaction_lag_ms;
        let is_young = |timestamp: Timestamp| 0 < lag_ms && now.ms_since(timestamp) < lag_ms;
        let bound = match scope {
            CompactionScope::Whole => {
                let young = self.batches.iter().find(|entry| is_young(entry.header.max_timestamp));
                young.map_or(stable, |entry| entry.header.base_offset.min(stable))
            }
            CompactionScope::ClosedSegments => {
                let young = self.segments.iter().find(|segment| is_young(segment.max_timestamp));
                let left_out = young.or(self.segments.back());
                left_out.map_or(stable, |segment| segment.base_offset.min(stable))
            }
        };
        let elsewhere = self.batches.iter().find(|entry| entry.bytes.is_none());
        elsewhere.map_or(bound, |entry| entry.header.base_offset.min(bound))
    }

    /// Returns the last offset of each key below `bound`.
    fn newest_offsets(&self, bound: Offset) -> BTreeMap<Bytes, Offset> {
        let mut newest = BTreeMap::new();
        for entry in self.batches.iter().take_while(|entry| entry.header.last_offset < bound) {
            if entry.header.control || self.is_aborted(&entry.header) {
                continue;
            }
            let Some(records) = self.records_of(entry) else { continue };
            for record in records.iter().filter_map(Result::ok) {
                if let Some(key) = record.key {
                    newest.insert(records.slice(key), record.offset);
                }
            }
        }
        newest
    }

    fn records_of(&self, entry: &Entry) -> Option<Records> {
        Records::read(entry.bytes.as_ref()?, self.config.decompressed_size_bytes_max).ok()
    }

    fn is_aborted(&self, header: &BatchHeader) -> bool {
        header.transactional
            && header
                .producer
                .is_some_and(|producer| self.transactions.is_aborted(producer.id, header.base_offset))
    }

    /// Measures sizes and timestamps of the segments anew. A segment that has lost all its batches goes,
    /// unless it is the active one.
    fn measure_segments(&mut self) {
        self.size_bytes = 0;
        let mut entries = self.batches.iter_mut().peekable();
        let mut segments = std::mem::take(&mut self.segments).into_iter().peekable();
        while let Some(mut segment) = segments.next() {
            let end = segments.peek().map(|next| next.base_offset);
            segment.size_bytes = 0;
            let is_active = end.is_none();
            let before = segment.max_timestamp;
            segment.max_timestamp = Timestamp::from_ms(-1);
            while let Some(entry) =
                entries.next_if(|entry| end.is_none_or(|end| entry.header.base_offset < end))
            {
                segment.size_bytes += u64::from(entry.header.size);
                segment.max_timestamp = segment.max_timestamp.max(entry.header.max_timestamp);
                entry.max_timestamp_so_far = segment.max_timestamp;
            }
            if segment.max_timestamp.ms() < 0 {
                segment.max_timestamp = before; // No record has a time: the segment keeps its age.
            }
            self.size_bytes += segment.size_bytes;
            if 0 < segment.size_bytes || is_active {
                self.segments.push_back(segment);
            }
        }
        if self.batches.is_empty() {
            self.segments.clear();
        }
    }
}

/// What becomes of a batch.
enum Fate {
    Keep,
    Replace(BytesMut),
    Remove,
}

/// One run over a log, from its start.
struct Compaction<'a> {
    log: &'a Log,
    now: Timestamp,
    /// The last offset of each key.
    newest: BTreeMap<Bytes, Offset>,
    /// Producers of whose transaction a batch was met, even if it goes in this very run, and whose marker is still to
    /// come.
    with_data: BTreeSet<ProducerId>,
}

impl Compaction<'_> {
    fn judge(&mut self, entry: &Entry) -> Fate {
        let Some(Ok(view)) = entry.bytes.as_ref().map(|bytes| BatchView::new(bytes)) else {
            return Fate::Keep;
        };
        if entry.header.control {
            return self.judge_marker(entry, &view);
        }
        if let Some(producer) = entry.header.producer
            && entry.header.transactional
        {
            self.with_data.insert(producer.id);
        }
        if entry.header.record_count == 0 || self.log.is_aborted(&entry.header) {
            return self.judge_empty(entry, &view);
        }
        self.judge_data(entry, &view)
    }

    fn judge_marker(&mut self, entry: &Entry, view: &BatchView<'_>) -> Fate {
        let has_data = entry.header.producer.is_some_and(|producer| self.with_data.remove(&producer.id));
        if has_data || entry.header.record_count == 0 {
            return if has_data { Fate::Keep } else { self.judge_empty(entry, view) };
        }
        match view.delete_horizon() {
            Some(horizon) if horizon <= self.now => self.judge_empty(entry, view),
            Some(_) => Fate::Keep,
            None => self.log.records_of(entry).map_or(Fate::Keep, |records| {
                let all: Vec<_> = records.iter().filter_map(Result::ok).collect();
                self.rewrite(entry, view, &all, true)
            }),
        }
    }

    /// Judges a batch that has no record left to keep. The last batch of the log says where it ends.
    fn judge_empty(&self, entry: &Entry, view: &BatchView<'_>) -> Fate {
        let is_last = entry.header.last_offset.next() == self.log.end;
        if !is_last && !self.log.producers.is_last_batch(&entry.header) {
            return Fate::Remove;
        }
        if entry.header.record_count == 0 {
            return Fate::Keep;
        }
        let mut fields = BatchFields::of(view, &entry.header);
        fields.record_count = 0;
        Fate::Replace(write_batch(&fields, Compression::None, &[]))
    }

    fn judge_data(&self, entry: &Entry, view: &BatchView<'_>) -> Fate {
        let Some(records) = self.log.records_of(entry) else { return Fate::Keep };
        let horizon = view.delete_horizon();
        let tombstones_go = horizon.is_some_and(|horizon| horizon <= self.now);
        let mut kept = Vec::new();
        let mut has_tombstone = false;
        for record in records.iter().filter_map(Result::ok) {
            let is_newest = match record.key {
                None => true,
                Some(key) => self.newest.get(key).is_none_or(|&newest| newest == record.offset),
            };
            let is_tombstone = record.key.is_some() && record.value.is_none();
            if is_newest && !(is_tombstone && tombstones_go) {
                has_tombstone |= is_tombstone;
                kept.push(record);
            }
        }
        if kept.is_empty() {
            return self.judge_empty(entry, view);
        }
        let needs_horizon = has_tombstone && horizon.is_none();
        if kept.len() == entry.header.record_count as usize && !needs_horizon {
            return Fate::Keep;
        }
        self.rewrite(entry, view, &kept, needs_horizon)
    }

    /// Writes a batch anew with some of its records, and with a horizon for its tombstones or its marker if
    /// it has none yet. The horizon takes the place of the base timestamp, as in Kafka.
    fn rewrite(
        &self,
        entry: &Entry,
        view: &BatchView<'_>,
        records: &[Record<'_>],
        needs_horizon: bool,
    ) -> Fate {
        let mut fields = BatchFields::of(view, &entry.header);
        if needs_horizon {
            fields.base_timestamp = self.now.plus_ms(self.log.config.delete_retention_ms);
        }
        if needs_horizon || view.delete_horizon().is_some() {
            fields.attributes |= DELETE_HORIZON_BIT;
        }
        fields.record_count = i32::try_from(records.len()).unwrap_or(i32::MAX);
        let mut out = Vec::new();
        let mut max_timestamp = Timestamp::from_ms(-1);
        for record in records {
            max_timestamp = max_timestamp.max(record.timestamp);
            let offset_delta = record.offset.since(entry.header.base_offset);
            let timestamp_delta = record.timestamp.ms().wrapping_sub(fields.base_timestamp.ms());
            write_record(
                i32::try_from(offset_delta).unwrap_or(i32::MAX),
                timestamp_delta,
                record.key,
                record.value,
                record.headers,
                &mut out,
            );
        }
        fields.max_timestamp = max_timestamp;
        Fate::Replace(write_batch(&fields, entry.header.compression, &out))
    }
}
