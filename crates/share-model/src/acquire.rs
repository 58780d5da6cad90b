//! What the model acquires.

use sharemark_protocol::Offset;
use sharemark_share_coordinator::{
    AcquireMode, AcquireRequest, AcquiredRange, Change, FetchedRun, RecordState,
};

use super::{NaiveSharePartition, Record, range};

impl NaiveSharePartition {
    pub(super) fn acquire(
        &mut self,
        now_ms: i64,
        member: usize,
        request: &AcquireRequest,
        fetched: &FetchedRun<'_>,
    ) -> (Vec<AcquiredRange>, Change) {
        let (Some(front), Some(back)) = (fetched.batches.first(), fetched.batches.last()) else {
            return (Vec::new(), Change::default());
        };
        let base = front.range.first().get();
        self.archive_vanished(fetched.fetch_offset.get(), base);
        let mut change = Change { moved_start: self.advance(), ..Change::default() };
        let room = self.config.record_locks_max - (self.next - self.start);
        let (wanted, last) = if 0 < room {
            (request.max_records.min(room), back.range.last().get())
        } else {
            (
                request.max_records.min(self.next - self.fetch_offset()),
                back.range.last().get().min(self.next - 1),
            )
        };
        let acquired = self.acquire_offsets(base, last, wanted, request, fetched);
        let mut ranges: Vec<(AcquiredRange, (i64, i64))> = Vec::new();
        for (offset, is_joined) in acquired {
            let is_aborted = fetched
                .batches
                .iter()
                .any(|batch| batch.is_aborted && batch.range.contains(Offset::ZERO.plus(offset)));
            let Some(record) = self.records.get_mut(&offset) else { continue };
            record.delivery_count += 1;
            if is_aborted {
                let count = record.delivery_count;
                *record = Record::new(RecordState::Archived, count, record.batch);
                continue;
            }
            record.state = RecordState::Acquired;
            record.member = Some(member);
            record.deadline_ms = now_ms + self.config.lock_duration_ms;
            let (count, batch) = (record.delivery_count, record.batch);
            match ranges.last_mut() {
                Some((back, back_batch))
                    if is_joined
                        && *back_batch == batch
                        && back.delivery_count == count
                        && back.range.last().get() + 1 == offset =>
                {
                    back.range = range(back.range.first().get(), offset);
                }
                _ => {
                    let single = AcquiredRange { range: range(offset, offset), delivery_count: count };
                    ranges.push((single, batch));
                }
            }
        }
        change.moved_start |= self.advance();
        (ranges.into_iter().map(|(range, _)| range).collect(), change)
    }

    /// Archives what could be acquired from `fetch_offset` on but does not come before `base` any more.
    fn archive_vanished(&mut self, fetch_offset: i64, base: i64) {
        for offset in fetch_offset.max(self.start)..base {
            match self.records.get_mut(&offset) {
                Some(record) if record.is_available() => record.state = RecordState::Archived,
                Some(_) => {}
                None => {
                    let record = Record::new(RecordState::Archived, 0, (offset, offset));
                    self.records.insert(offset, record);
                    self.next = self.next.max(offset + 1);
                }
            }
        }
    }

    /// Chooses the offsets to acquire, tracking the new ones; the flag says whether an offset may join the
    /// range before it.
    fn acquire_offsets(
        &mut self,
        base: i64,
        last: i64,
        wanted: i64,
        request: &AcquireRequest,
        fetched: &FetchedRun<'_>,
    ) -> Vec<(i64, bool)> {
        let mut acquired = Vec::new();
        let floor = if self.tracks_anything() { self.floor } else { self.next };
        let mut offset = base.max(floor);
        while offset <= last && (acquired.len() as i64) < wanted {
            let remaining = wanted - acquired.len() as i64;
            if let Some(record) = self.records.get(&offset) {
                let (first, batch_last) = record.batch;
                let high = batch_last.min(last);
                let limit = if request.mode == AcquireMode::RecordLimit { remaining } else { i64::MAX };
                let batch_len = batch_last - first + 1;
                if self.acquire_again(offset, high, batch_len, limit, &mut acquired) {
                    break;
                }
                offset = batch_last + 1;
            } else {
                let high = self.records.range(offset..).next().map_or(last, |(&next, _)| last.min(next - 1));
                self.acquire_new(offset, high, remaining, request, fetched, &mut acquired);
                offset = high + 1;
            }
        }
        acquired
    }

    /// Chooses available offsets of one tracked batch; returns whether the fetch ends there.
    fn acquire_again(
        &self,
        first: i64,
        last: i64,
        batch_len: i64,
        limit: i64,
        acquired: &mut Vec<(i64, bool)>,
    ) -> bool {
        let count_limit = self.config.delivery_count_limit;
        let threshold = 2.max((count_limit + 1) / 2);
        let available = self.records.range(first..=last).filter(|(_, record)| record.is_available());
        let available: Vec<(i64, i16)> =
            available.map(|(&offset, record)| (offset, record.delivery_count)).collect();
        let is_throttled = |count: i16| self.config.throttles_redelivery && threshold <= count;
        let is_last = |count: i16| is_throttled(count) && 2 < count_limit && count + 1 == count_limit;
        let ends = available.iter().any(|&(_, count)| is_throttled(count));
        if ends && !acquired.is_empty() {
            return true; // What failed often comes first in its fetch or not at all.
        }
        let first_throttled = available.iter().position(|&(_, count)| is_throttled(count));
        let cap = first_throttled.map(|index| {
            let halvings = u32::from((available[index].1 - threshold + 1).unsigned_abs());
            1.max(batch_len >> halvings.min(62))
        });
        for (index, &(offset, count)) in available.iter().enumerate() {
            let taken = index as i64;
            let has_passed_cap = first_throttled.is_some_and(|from| from < index) && cap == Some(taken);
            if limit <= taken || has_passed_cap || (is_last(count) && 0 < taken) {
                break;
            }
            acquired.push((offset, true));
            if is_last(count) {
                break;
            }
        }
        ends
    }

    /// Tracks and chooses offsets that were never acquired.
    fn acquire_new(
        &mut self,
        first: i64,
        last: i64,
        remaining: i64,
        request: &AcquireRequest,
        fetched: &FetchedRun<'_>,
        acquired: &mut Vec<(i64, bool)>,
    ) {
        let wanted_last = last.min(first + remaining - 1);
        // Rounded to the end of the last record batch that begins at or below the last wanted offset. That is
        // up, unless compaction has removed just that offset.
        let batches =
            fetched.batches.iter().map(|batch| (batch.range.first().get(), batch.range.last().get()));
        let batch_end =
            batches.clone().filter(|&(begin, _)| begin <= wanted_last).map(|(_, end)| end).next_back();
        let rounded = batch_end.unwrap_or(wanted_last).min(last);
        let (last_tracked, last_acquired) = match request.mode {
            _ if wanted_last == last => (last, last),
            AcquireMode::BatchOptimized => (rounded.max(first), rounded.max(first)),
            AcquireMode::RecordLimit => (rounded.max(first), rounded.max(first).min(wanted_last)),
        };
        // The offsets at which a range ends.
        let mut ends = Vec::new();
        if request.mode == AcquireMode::BatchOptimized {
            let mut range_first = first;
            for (begin, _) in batches.filter(|&(begin, _)| first < begin && begin <= last_tracked) {
                if request.batch_size <= begin - range_first {
                    ends.push(begin - 1);
                    range_first = begin;
                }
            }
        }
        ends.push(last_tracked);
        let mut range_first = first;
        for range_last in ends {
            for offset in range_first..=range_last {
                let is_passed = offset < self.start && last_acquired < offset;
                let state = if is_passed { RecordState::Archived } else { RecordState::Available };
                self.records.insert(offset, Record::new(state, 0, (range_first, range_last)));
                if offset <= last_acquired {
                    acquired.push((offset, true));
                }
            }
            range_first = range_last + 1;
        }
        self.next = self.next.max(last_tracked + 1);
    }
}
