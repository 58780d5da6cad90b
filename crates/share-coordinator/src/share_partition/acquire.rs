//! Acquiring records for a member.

mod acquisition;
mod throttle;

use sharemark_protocol::{Offset, OffsetRange, Timestamp};

use self::acquisition::{Acquisition, Progress};
use self::throttle::Throttle;
use super::batches::Batch;
use super::locks::Lock;
use super::plan::range;
use super::word::Word;
use super::{Change, SharePartition, SharePartitionConfig};
use crate::RecordState;

/// Whether a record batch may be delivered in parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AcquireMode {
    /// What is acquired is rounded up to the end of a record batch (Kafka's mode 0).
    BatchOptimized,
    /// Never more than the wanted number of records (Kafka's mode 1).
    RecordLimit,
}

/// What a fetch wants of one share partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcquireRequest {
    /// How many records, a wish or a limit depending on the mode. Nothing is acquired for zero.
    pub max_records: i64,
    /// From what length on a range of new records is closed at the next record batch.
    pub batch_size: i64,
    /// How record batches are treated.
    pub mode: AcquireMode,
}

/// A record batch that was read from the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FetchedBatch {
    /// Its offsets.
    pub range: OffsetRange,
    /// Whether its records belong to an aborted transaction that the group must not see.
    pub is_aborted: bool,
}

/// What one read of the log found.
#[derive(Clone, Copy, Debug)]
pub struct FetchedRun<'a> {
    /// The offset that was asked for.
    pub fetch_offset: Offset,
    /// The record batches from there on, ascending, whole, and readable under the group's isolation level.
    pub batches: &'a [FetchedBatch],
}

/// Records that were acquired together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcquiredRange {
    /// The offsets.
    pub range: OffsetRange,
    /// How often they have been delivered, this time included.
    pub delivery_count: i16,
}

impl SharePartition {
    /// Locks records for `member` and lists them in `acquired`, ascending; returns how many offsets they are.
    ///
    /// What can be delivered again goes before what is new. Records that the log does not have any more, or
    /// that the group must not see, are archived; that shows in the next write.
    pub fn acquire(
        &mut self,
        now: Timestamp,
        member: &str,
        config: &SharePartitionConfig,
        request: &AcquireRequest,
        fetched: &FetchedRun<'_>,
        acquired: &mut Vec<AcquiredRange>,
    ) -> (i64, Change) {
        let (Some(front), Some(back)) = (fetched.batches.first(), fetched.batches.last()) else {
            return (0, Change::default());
        };
        self.catch_up(now);
        let begin = acquired.len();
        let mut moved_start = false;
        if self.archive_vanished(fetched.fetch_offset.get(), front.range.first().get() - 1) {
            moved_start = self.settle(self.first_available);
        }
        let search_from = self.first_available;
        let (max_records, last) = self.acquisition_bounds(config, request, back.range.last().get());
        let mut record_count = 0;
        if 0 < max_records
            && let Some(owner) = self.member_number(member)
        {
            let mut acquisition = Acquisition {
                owner,
                deadline_ms: now.plus_ms(config.lock_ms()).ms(),
                mode: request.mode,
                batch_size: request.batch_size,
                max_records,
                fetched: fetched.batches,
                throttle: Throttle::new(config),
                record_count: 0,
                acquired,
            };
            self.acquire_runs(&mut acquisition, front.range.first().get(), last);
            let deadline_ms = acquisition.deadline_ms;
            record_count = acquisition.record_count;
            if let (Some(low), Some(high)) = (acquired.get(begin), acquired.last()) {
                let (first, last) = (low.range.first().get(), high.range.last().get());
                self.locks.push(Lock::new(deadline_ms, first, last));
            }
        }
        let has_aborted = fetched.batches.iter().any(|batch| batch.is_aborted);
        if has_aborted {
            record_count -= self.archive_aborted(fetched.batches, begin, acquired);
        }
        if has_aborted || self.log_start_moved {
            moved_start |= self.settle(search_from);
        } else if 0 < record_count {
            self.settle_acquired(search_from);
        }
        (record_count, Change { freed_records: false, moved_start, archiving: false })
    }

    /// Returns how many records may be acquired, and the last offset to look at.
    fn acquisition_bounds(
        &self,
        config: &SharePartitionConfig,
        request: &AcquireRequest,
        last: i64,
    ) -> (i64, i64) {
        let room = config.record_locks_max - self.in_flight_count();
        if 0 < room {
            return (request.max_records.min(room), last);
        }
        // A full window: only what is in it already.
        (request.max_records.min(self.next - self.first_available), last.min(self.next - 1))
    }

    fn acquire_runs(&mut self, acquisition: &mut Acquisition<'_>, base: i64, last: i64) {
        let mut cursor = if self.batches.is_empty() { base.max(self.next) } else { base.max(self.floor) };
        if self.start <= cursor {
            cursor = cursor.max(self.first_available);
        }
        let mut index = self.batches.find(cursor);
        while cursor <= last && acquisition.record_count < acquisition.max_records {
            match self.batches.get_mut(index) {
                Some(batch) if batch.first() <= cursor => {
                    let high = batch.last().min(last);
                    if acquisition.acquire_again(batch, cursor, high) == Progress::Ends {
                        return;
                    }
                    cursor = batch.last() + 1;
                    index += 1;
                }
                following => {
                    let high = following.map_or(last, |batch| last.min(batch.first() - 1));
                    let inserted = acquisition.acquire_new(self.start, cursor, high);
                    cursor = high + 1;
                    for mut batch in inserted {
                        self.next = self.next.max(batch.last() + 1);
                        if batch.first() < self.start {
                            // It straddles the log start: its two parts go different ways.
                            self.log_start_moved = true;
                            batch.split();
                        }
                        self.batches.insert(index, batch);
                        index += 1;
                    }
                }
            }
        }
    }

    /// Archives the offsets from `first` to `last` that could be acquired but are not in the log any more.
    fn archive_vanished(&mut self, first: i64, last: i64) -> bool {
        let mut cursor = first.max(self.start);
        let mut has_archived = false;
        while cursor <= last {
            let index = self.batches.find(cursor);
            match self.batches.get_mut(index) {
                Some(batch) if batch.first() <= cursor => {
                    let high = batch.last().min(last);
                    let mut archived = 0;
                    batch.update_runs(cursor, high, |low, high, word| {
                        if !word.is_available() {
                            return word;
                        }
                        archived += high - low + 1;
                        Word::new(RecordState::Archived, word.delivery_count())
                    });
                    self.final_count += archived;
                    has_archived |= 0 < archived;
                    cursor = batch.last() + 1;
                }
                following => {
                    let high = following.map_or(last, |batch| last.min(batch.first() - 1));
                    if self.next < cursor {
                        break; // Never reached by a fetch: it stays a hole.
                    }
                    self.batches
                        .insert(index, Batch::whole(cursor, high, Word::new(RecordState::Archived, 0)));
                    self.next = self.next.max(high + 1);
                    self.final_count += high - cursor + 1;
                    has_archived = true;
                    cursor = high + 1;
                }
            }
        }
        has_archived
    }

    /// Takes aborted records out of what was acquired from `begin` on; returns how many.
    fn archive_aborted(
        &mut self,
        fetched: &[FetchedBatch],
        begin: usize,
        acquired: &mut Vec<AcquiredRange>,
    ) -> i64 {
        let mut archived = 0;
        let mut aborted = fetched.iter().filter(|batch| batch.is_aborted).map(|batch| batch.range).peekable();
        for whole in acquired.split_off(begin) {
            let (mut first, last) = (whole.range.first().get(), whole.range.last().get());
            while let Some(range) = aborted.peek().copied() {
                if range.last().get() < first {
                    aborted.next();
                    continue;
                }
                if last < range.first().get() {
                    break;
                }
                let (low, high) = (first.max(range.first().get()), last.min(range.last().get()));
                archived += high - low + 1;
                self.archive_run(low, high);
                acquired.extend(kept(first, low - 1, whole.delivery_count));
                first = high + 1;
                if last < range.last().get() {
                    break; // The rest of it lies in the next range.
                }
            }
            acquired.extend(kept(first, last, whole.delivery_count));
        }
        archived
    }

    fn archive_run(&mut self, first: i64, last: i64) {
        let start = self.start;
        let mut archived = 0;
        self.batches.update_runs(first, last, |low, high, word| {
            archived += (high - low.max(start) + 1).max(0);
            Word::new(RecordState::Archived, word.delivery_count())
        });
        self.final_count += archived;
    }

    /// Returns the number of `member`, or `None` if the share partition knows as many as it can.
    #[inline]
    fn member_number(&mut self, member: &str) -> Option<u16> {
        if let Some(number) = self.members.find(member) {
            self.members.note_recent(number);
            return Some(number);
        }
        if self.members.wants_sweep() {
            let mut is_used = vec![false; self.members.number_bound()];
            self.batches.each_run(i64::MIN, i64::MAX, |_, _, word| {
                if word.state() == RecordState::Acquired {
                    is_used[usize::from(word.owner())] = true;
                }
            });
            for owner in self.owners.iter().filter(|owner| owner.member != super::word::NO_OWNER) {
                is_used[usize::from(owner.member)] = true;
            }
            self.members.sweep(&is_used);
        }
        self.members.add(member)
    }
}

fn kept(first: i64, last: i64, delivery_count: i16) -> Option<AcquiredRange> {
    (first <= last).then(|| AcquiredRange { range: range(first, last), delivery_count })
}
