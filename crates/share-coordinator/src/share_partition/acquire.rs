//! Acquiring records for a member.

use sharemark_protocol::{Offset, OffsetRange, Timestamp};

use super::batches::{Batch, Body};
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

/// Whether a fetch may go on to further records.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Progress {
    GoesOn,
    /// Records that failed often are delivered without others behind them.
    Ends,
}

/// One call of [`SharePartition::acquire`] under way.
struct Acquisition<'a> {
    owner: u16,
    deadline_ms: i64,
    mode: AcquireMode,
    batch_size: i64,
    max_records: i64,
    fetched: &'a [FetchedBatch],
    throttle: Throttle,
    record_count: i64,
    acquired: &'a mut Vec<AcquiredRange>,
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
                self.locks.push(Lock { deadline_ms, first, last });
            }
        }
        let has_aborted = fetched.batches.iter().any(|batch| batch.is_aborted);
        if has_aborted {
            record_count -= self.archive_aborted(fetched.batches, begin, acquired);
        }
        if 0 < record_count || has_aborted {
            moved_start |= self.settle(search_from);
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

impl Acquisition<'_> {
    /// Acquires offsets from `first` to `last` at most, none of which is tracked; returns the new batches.
    ///
    /// What is tracked without being acquired is available, or archived below `start`.
    fn acquire_new(&mut self, start: i64, first: i64, last: i64) -> NewBatches {
        let remaining = self.max_records - self.record_count;
        let is_cut = remaining < last - first + 1;
        if self.mode == AcquireMode::RecordLimit {
            let last_acquired = if is_cut { first + remaining - 1 } else { last };
            let last_tracked =
                if is_cut { self.batch_end(last_acquired).clamp(last_acquired, last) } else { last };
            let mut batch = Batch::whole(first, last_tracked, Word::new(RecordState::Available, 0));
            if last_acquired < last_tracked {
                batch.words_mut(first, last_acquired).fill(self.word(1));
                if last_acquired + 1 < start {
                    let below = batch.words_mut(last_acquired + 1, last_tracked.min(start - 1));
                    below.fill(Word::new(RecordState::Archived, 0));
                }
            } else {
                batch.set_whole(self.word(1));
            }
            self.note(first, last_acquired, 1);
            return NewBatches::One(Some(batch));
        }
        let last = if is_cut { self.batch_end(first + remaining - 1).clamp(first, last) } else { last };
        if last - first < self.batch_size {
            self.note(first, last, 1);
            return NewBatches::One(Some(Batch::whole(first, last, self.word(1))));
        }
        self.acquire_shaped(first, last)
    }

    /// Acquires `first..=last` in ranges that end at the first record batch that makes them long enough.
    fn acquire_shaped(&mut self, first: i64, last: i64) -> NewBatches {
        let mut batches = Vec::new();
        let mut range_first = first;
        let from = self.fetched.partition_point(|batch| batch.range.first().get() <= first);
        for batch in &self.fetched[from..] {
            let batch_first = batch.range.first().get();
            if last < batch_first {
                break;
            }
            if self.batch_size <= batch_first - range_first {
                self.note(range_first, batch_first - 1, 1);
                batches.push(Batch::whole(range_first, batch_first - 1, self.word(1)));
                range_first = batch_first;
            }
        }
        self.note(range_first, last, 1);
        batches.push(Batch::whole(range_first, last, self.word(1)));
        NewBatches::Many(batches.into_iter())
    }

    /// Acquires what is available of `batch` from `first` to `last`.
    fn acquire_again(&mut self, batch: &mut Batch, first: i64, last: i64) -> Progress {
        let offset_count = batch.offset_count();
        let remaining = self.max_records - self.record_count;
        if let &Body::Whole(word) = batch.body() {
            if !word.is_available() {
                return Progress::GoesOn;
            }
            let count = word.delivery_count();
            let is_covered = first == batch.first() && last == batch.last();
            let fits = self.mode == AcquireMode::BatchOptimized || offset_count <= remaining;
            if is_covered && fits && self.throttle.limit(count, offset_count).is_none() {
                batch.set_whole(self.word(count.saturating_add(1)));
                self.note(first, last, count.saturating_add(1));
                return Progress::GoesOn;
            }
        }
        if batch.first_available(first).is_none_or(|available| last < available) {
            return Progress::GoesOn;
        }
        let limit = match self.mode {
            AcquireMode::BatchOptimized => i64::MAX,
            AcquireMode::RecordLimit => remaining,
        };
        self.acquire_words(batch.words_mut(first, last), first, offset_count, limit)
    }

    /// Acquires at most `limit` of the records `words`, the first of which is at offset `first`.
    fn acquire_words(&mut self, words: &mut [Word], first: i64, batch_len: i64, mut limit: i64) -> Progress {
        let mut progress = Progress::GoesOn;
        let mut run: Option<(i64, i64, i16)> = None;
        let mut taken = 0;
        for (offset, word) in (first..).zip(words) {
            if limit <= taken {
                break;
            }
            if !word.is_available() {
                continue;
            }
            let count = word.delivery_count();
            if let Some(throttled) = self.throttle.limit(count, batch_len) {
                let is_alone = self.throttle.is_last_attempt(count);
                if progress == Progress::GoesOn {
                    progress = Progress::Ends;
                    if 0 < self.record_count + taken {
                        break;
                    }
                    limit = limit.min(throttled);
                } else if is_alone {
                    break;
                }
            }
            let count = count.saturating_add(1);
            *word = self.word(count);
            taken += 1;
            match &mut run {
                Some((_, last, run_count)) if *last + 1 == offset && *run_count == count => *last = offset,
                _ => {
                    if let Some((low, high, count)) = run.replace((offset, offset, count)) {
                        self.list(low, high, count);
                    }
                }
            }
        }
        if let Some((low, high, count)) = run {
            self.list(low, high, count);
        }
        self.record_count += taken;
        progress
    }

    fn word(&self, delivery_count: i16) -> Word {
        Word::acquired(delivery_count, self.owner, self.deadline_ms)
    }

    fn note(&mut self, first: i64, last: i64, delivery_count: i16) {
        self.record_count += last - first + 1;
        self.list(first, last, delivery_count);
    }

    fn list(&mut self, first: i64, last: i64, delivery_count: i16) {
        self.acquired.push(AcquiredRange { range: range(first, last), delivery_count });
    }

    /// Returns the end of the last record batch that begins at or below `offset`.
    fn batch_end(&self, offset: i64) -> i64 {
        let after = self.fetched.partition_point(|batch| batch.range.first().get() <= offset);
        match after.checked_sub(1).and_then(|index| self.fetched.get(index)) {
            Some(batch) => batch.range.last().get(),
            None => offset,
        }
    }
}

/// New batches, in order.
enum NewBatches {
    One(Option<Batch>),
    Many(std::vec::IntoIter<Batch>),
}

impl Iterator for NewBatches {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        match self {
            Self::One(batch) => batch.take(),
            Self::Many(batches) => batches.next(),
        }
    }
}

/// How often failed records are held back, so that one bad record does not use up the deliveries of its
/// neighbours.
#[derive(Clone, Copy)]
struct Throttle {
    is_on: bool,
    from_count: i16,
    count_limit: i16,
}

impl Throttle {
    fn new(config: &SharePartitionConfig) -> Self {
        let count_limit = config.delivery_count_limit;
        let half = count_limit / 2 + count_limit % 2;
        Self { is_on: config.throttles_redelivery, from_count: half.max(2), count_limit }
    }

    /// Returns whether the next delivery of a record that was delivered `count` times is its last.
    fn is_last_attempt(&self, count: i16) -> bool {
        self.is_on && 2 < self.count_limit && self.count_limit <= count.saturating_add(1)
    }

    /// Returns how many records may be delivered together, or `None` if that is not limited.
    fn limit(&self, count: i16, batch_len: i64) -> Option<i64> {
        if self.is_last_attempt(count) {
            return Some(1);
        }
        if !self.is_on || count < self.from_count {
            return None;
        }
        let halvings = u32::from((count - self.from_count + 1).unsigned_abs());
        Some(batch_len.checked_shr(halvings).unwrap_or(0).max(1))
    }
}
