//! One call of `acquire`, batch by batch.

use super::throttle::Throttle;
use super::{AcquireMode, AcquiredRange, FetchedBatch};
use crate::RecordState;
use crate::share_partition::batches::{Batch, Body};
use crate::share_partition::plan::range;
use crate::share_partition::word::Word;

/// Whether a fetch may go on to further records.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Progress {
    GoesOn,
    /// Records that failed often are delivered without others behind them.
    Ends,
}

/// One call of `SharePartition::acquire` under way.
pub(super) struct Acquisition<'a> {
    pub(super) owner: u16,
    pub(super) deadline_ms: i64,
    pub(super) mode: AcquireMode,
    pub(super) batch_size: i64,
    pub(super) max_records: i64,
    pub(super) fetched: &'a [FetchedBatch],
    pub(super) throttle: Throttle,
    pub(super) record_count: i64,
    pub(super) acquired: &'a mut Vec<AcquiredRange>,
}

impl Acquisition<'_> {
    /// Acquires offsets from `first` to `last` at most, none of which is tracked; returns the new batches.
    ///
    /// What is tracked without being acquired is available, or archived below `start`.
    pub(super) fn acquire_new(&mut self, start: i64, first: i64, last: i64) -> NewBatches {
        let remaining = self.max_records - self.record_count;
        let is_cut = remaining < last - first + 1;
        if self.mode == AcquireMode::RecordLimit {
            let wanted = if is_cut { first + remaining - 1 } else { last };
            let last_tracked = if is_cut { self.batch_end(wanted).clamp(first, last) } else { last };
            let last_acquired = wanted.min(last_tracked);
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
    pub(super) fn acquire_again(&mut self, batch: &mut Batch, first: i64, last: i64) -> Progress {
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
        let words = batch.words_mut(first, last);
        if 0 < self.record_count && words.iter().any(|word| self.throttle.holds_back(*word)) {
            return Progress::Ends;
        }
        self.acquire_words(words, first, offset_count, limit)
    }

    /// Acquires at most `limit` of the records `words`, the first of which is at offset `first`.
    ///
    /// As in Kafka, what failed often may follow others of its own tracked batch, but no more is acquired
    /// than may be together with it, and nothing of a further batch.
    fn acquire_words(&mut self, words: &mut [Word], first: i64, batch_len: i64, limit: i64) -> Progress {
        let mut throttled_limit = None;
        let mut run: Option<(i64, i64, i16)> = None;
        let mut taken = 0;
        for (offset, word) in (first..).zip(words) {
            if !word.is_available() {
                continue;
            }
            let count = word.delivery_count();
            let is_last_attempt = self.throttle.is_last_attempt(count);
            if throttled_limit.is_none() {
                throttled_limit = self.throttle.limit(count, batch_len);
            }
            if is_last_attempt && 0 < taken {
                break;
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
            if is_last_attempt || taken == limit || Some(taken) == throttled_limit {
                break;
            }
        }
        if let Some((low, high, count)) = run {
            self.list(low, high, count);
        }
        self.record_count += taken;
        if throttled_limit.is_some() { Progress::Ends } else { Progress::GoesOn }
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
pub(super) enum NewBatches {
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
