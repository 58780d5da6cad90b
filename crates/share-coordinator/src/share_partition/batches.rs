//! The tracked batches of a share partition.

use std::collections::VecDeque;
use std::slice;

use super::word::{Precondition, Word};
use crate::RecordState;

/// A run of offsets that were acquired or loaded together.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    first: i64,
    last: i64,
    body: Body,
}

/// The states of a batch's records: one for all, or, once a part was treated apart, one for each.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Every record is in this state.
    Whole(Word),
    /// Record `i` of the batch is in state `i`; a split batch stays split.
    Split(Box<[Word]>),
}

impl Batch {
    /// Returns a batch in one state.
    pub(super) fn whole(first: i64, last: i64, word: Word) -> Self {
        assert!(first <= last, "a batch holds an offset");
        Self { first, last, body: Body::Whole(word) }
    }

    /// Returns the lowest offset.
    pub(super) fn first(&self) -> i64 {
        self.first
    }

    /// Returns the highest offset.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// Returns how many offsets the batch holds.
    pub(super) fn offset_count(&self) -> i64 {
        self.last - self.first + 1
    }

    /// Returns the states.
    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Puts every record into one state.
    pub(super) fn set_whole(&mut self, word: Word) {
        self.body = Body::Whole(word);
    }

    /// Returns the states of the offsets `first..=last`, splitting the batch if it is whole.
    pub(super) fn words_mut(&mut self, first: i64, last: i64) -> &mut [Word] {
        let range = (first - self.first) as usize..(last - self.first + 1) as usize;
        self.split();
        match &mut self.body {
            Body::Split(words) => &mut words[range],
            Body::Whole(_) => unreachable!("a whole batch was split just above"),
        }
    }

    /// Gives each offset a state of its own.
    pub(super) fn split(&mut self) {
        if let Body::Whole(word) = self.body {
            self.body = Body::Split(vec![word; self.offset_count() as usize].into_boxed_slice());
        }
    }

    /// Calls `f` with the runs of `first..=last`, which lie in this batch, and stops at its first error.
    #[inline]
    pub(super) fn try_each_run<E>(
        &self,
        first: i64,
        last: i64,
        mut f: impl FnMut(i64, i64, Word) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.body {
            Body::Whole(word) => f(first, last, *word),
            Body::Split(words) => {
                let range = (first - self.first) as usize..(last - self.first + 1) as usize;
                let mut low = first;
                let mut rest = &words[range];
                while let Some(&word) = rest.first() {
                    let len = run_len(rest, word);
                    f(low, low + len as i64 - 1, word)?;
                    low += len as i64;
                    rest = &rest[len..];
                }
                Ok(())
            }
        }
    }

    /// Replaces the runs of `first..=last`, which lie in this batch, by what `f` makes of them.
    ///
    /// A whole batch is split only if a part of it changes.
    #[inline]
    pub(super) fn update_runs(&mut self, first: i64, last: i64, mut f: impl FnMut(i64, i64, Word) -> Word) {
        let range = (first - self.first) as usize..(last - self.first + 1) as usize;
        let is_partial = range.len() as i64 != self.offset_count();
        let mut part = Word::new(RecordState::Available, 0);
        let (words, offsets_per_word) = match &mut self.body {
            Body::Whole(word) if is_partial => {
                part = *word;
                (slice::from_mut(&mut part), last - first + 1)
            }
            Body::Whole(word) => (slice::from_mut(word), last - first + 1),
            Body::Split(words) => (&mut words[range], 1),
        };
        // One loop for all forms, so that `f` is compiled into it.
        let mut low = first;
        let mut index = 0;
        while let Some(&word) = words.get(index) {
            let len = run_len(&words[index..], word);
            let next = low + len as i64 * offsets_per_word;
            let updated = f(low, next - 1, word);
            words[index] = updated;
            if 1 < len {
                words[index + 1..index + len].fill(updated);
            }
            index += len;
            low = next;
        }
        if is_partial
            && let Body::Whole(word) = self.body
            && part != word
        {
            self.words_mut(first, last).fill(part);
        }
    }

    /// Puts the records of `first..=last`, which lie in this batch, into the state `word`.
    #[inline]
    fn replace(&mut self, first: i64, last: i64, condition: Precondition, word: Word) {
        let from = (first - self.first) as usize;
        match &mut self.body {
            Body::Split(words) => {
                let mut is_allowed = true;
                for old in &mut words[from..=(last - self.first) as usize] {
                    is_allowed &= condition.allows(*old);
                    *old = word;
                }
                assert!(is_allowed, "records move along the table of transitions, one change at a time");
            }
            Body::Whole(_) => self.replace_whole(first, last, condition, word),
        }
    }

    /// Does what [`Self::replace`] does for a batch in one state.
    #[inline(never)]
    fn replace_whole(&mut self, first: i64, last: i64, condition: Precondition, word: Word) {
        if let Body::Whole(old) = &mut self.body {
            assert!(
                condition.allows(*old),
                "records move along the table of transitions, one change at a time"
            );
            if first == self.first && last == self.last {
                *old = word;
            } else {
                self.words_mut(first, last).fill(word);
            }
        }
    }

    /// Returns the first offset at or above `from` that may be acquired.
    pub(super) fn first_available(&self, from: i64) -> Option<i64> {
        let from = from.max(self.first);
        match &self.body {
            Body::Whole(word) => word.is_available().then_some(from),
            Body::Split(words) => words[(from - self.first) as usize..]
                .iter()
                .position(|word| word.is_available())
                .map(|skipped| from + skipped as i64),
        }
    }

    /// Returns the first offset at or above `from` that is not final, or the one after the batch.
    pub(super) fn final_until(&self, from: i64) -> i64 {
        match &self.body {
            Body::Whole(word) => {
                if word.is_final() {
                    self.last + 1
                } else {
                    from
                }
            }
            Body::Split(words) => {
                let from_index = (from - self.first) as usize;
                if words.get(from_index).is_some_and(|word| !word.is_final()) {
                    return from;
                }
                words[from_index..]
                    .iter()
                    .position(|word| !word.is_final())
                    .map_or(self.last + 1, |skipped| from + skipped as i64)
            }
        }
    }
}

/// Returns how many of `words`, from the first on, are `word`.
#[inline]
fn run_len(words: &[Word], word: Word) -> usize {
    if words.get(1).is_none_or(|other| *other != word) {
        return 1;
    }
    words.iter().position(|other| *other != word).unwrap_or(words.len())
}

/// Where the next of several ranges probably lies: in the batch of the last one, or as far behind it as that was
/// behind the one before. It may be wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hint {
    index: usize,
    stride: usize,
}

/// All tracked batches, in order and disjoint. Offsets between two batches were never acquired.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    queue: VecDeque<Batch>,
}

impl Batches {
    /// Returns how many batches there are.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the batch at `index`.
    pub(super) fn get(&self, index: usize) -> Option<&Batch> {
        self.queue.get(index)
    }

    /// Returns the batch at `index`, to change it.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Batch> {
        self.queue.get_mut(index)
    }

    /// Returns the lowest batch.
    pub(super) fn front(&self) -> Option<&Batch> {
        self.queue.front()
    }

    /// Returns the highest batch.
    pub(super) fn back(&self) -> Option<&Batch> {
        self.queue.back()
    }

    /// Removes the lowest batch.
    pub(super) fn pop_front(&mut self) {
        self.queue.pop_front();
    }

    /// Puts a batch at `index`, between its neighbours.
    pub(super) fn insert(&mut self, index: usize, batch: Batch) {
        if index == self.queue.len() {
            self.queue.push_back(batch);
        } else {
            self.queue.insert(index, batch);
        }
    }

    /// Returns all batches in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Batch> {
        self.queue.iter()
    }

    /// Returns the index of the first batch that ends at or above `offset`.
    #[inline]
    pub(super) fn find(&self, offset: i64) -> usize {
        let (Some(front), Some(back)) = (self.queue.front(), self.queue.back()) else { return 0 };
        if offset <= front.last {
            return 0;
        }
        if back.first <= offset {
            return self.queue.len() - usize::from(offset <= back.last);
        }
        self.find_between(offset, front.first, back.last)
    }

    /// Guesses where `offset` lies, since batches tend to be of one size, before it searches.
    fn find_between(&self, offset: i64, first: i64, last: i64) -> usize {
        let fraction = ((offset - first) as f64 + 0.5) / (last - first + 1) as f64;
        let guess = (fraction * self.queue.len() as f64) as usize;
        if let Some(batch) = self.queue.get(guess)
            && batch.first <= offset
            && offset <= batch.last
        {
            return guess;
        }
        self.queue.partition_point(|batch| batch.last < offset)
    }

    /// Returns what [`Self::find`] does, faster if `hint` is right, and moves `hint` there.
    #[inline]
    pub(super) fn find_near(&self, hint: &mut Hint, offset: i64) -> usize {
        let holds = |index: usize| {
            self.queue.get(index).is_some_and(|batch| batch.first <= offset && offset <= batch.last)
        };
        if holds(hint.index) {
            return hint.index;
        }
        if holds(hint.index + hint.stride) {
            hint.index += hint.stride;
            return hint.index;
        }
        let index = self.find(offset);
        hint.stride = index.saturating_sub(hint.index);
        hint.index = index;
        index
    }

    /// Calls `f` with all tracked runs of `first..=last`, in order.
    pub(super) fn each_run(&self, first: i64, last: i64, mut f: impl FnMut(i64, i64, Word)) {
        for batch in self.queue.range(self.find(first)..) {
            if last < batch.first {
                break;
            }
            let (low, high) = (first.max(batch.first), last.min(batch.last));
            let done: Result<(), std::convert::Infallible> =
                batch.try_each_run(low, high, |low, high, word| {
                    f(low, high, word);
                    Ok(())
                });
            let Ok(()) = done;
        }
    }

    /// Replaces all tracked runs of `first..=last` by what `f` makes of them, in order.
    pub(super) fn update_runs(&mut self, first: i64, last: i64, f: impl FnMut(i64, i64, Word) -> Word) {
        self.update_runs_near(&mut Hint::default(), first, last, f);
    }

    /// Does what [`Self::update_runs`] does with runs that begin at `border` if they reach it from below, faster if `hint`
    /// is right.
    #[inline]
    pub(super) fn update_around(
        &mut self,
        hint: &mut Hint,
        border: i64,
        first: i64,
        last: i64,
        mut f: impl FnMut(i64, i64, Word) -> Word,
    ) {
        for (low, high) in [(first, last.min(border - 1)), (first.max(border), last)] {
            if low <= high {
                self.update_runs_near(hint, low, high, &mut f);
            }
        }
    }

    #[inline]
    fn update_runs_near(
        &mut self,
        hint: &mut Hint,
        first: i64,
        last: i64,
        mut f: impl FnMut(i64, i64, Word) -> Word,
    ) {
        let mut index = self.find_near(hint, first);
        while let Some(batch) = self.queue.get_mut(index).filter(|batch| batch.first <= last) {
            batch.update_runs(first.max(batch.first), last.min(batch.last), &mut f);
            index += 1;
        }
    }

    /// Returns the states of the batch of `hint` and its lowest offset, if it is split and holds `offset`.
    #[inline(always)]
    pub(super) fn split_words_at(&mut self, hint: &Hint, offset: i64) -> Option<(i64, &mut [Word])> {
        match self.queue.get_mut(hint.index) {
            Some(Batch { first, last, body: Body::Split(words) }) if *first <= offset && offset <= *last => {
                Some((*first, words))
            }
            _ => None,
        }
    }

    /// Puts the records of `first..=last`, all of which are tracked and allowed by `condition`, into the state
    /// `word`. `hint` is as for [`Self::find_near`].
    #[inline(always)]
    pub(super) fn replace(
        &mut self,
        hint: &mut Hint,
        first: i64,
        last: i64,
        condition: Precondition,
        word: Word,
    ) {
        if first == last
            && let Some(batch) = self.queue.get_mut(hint.index)
            && batch.first <= first
            && last <= batch.last
            && let Body::Split(words) = &mut batch.body
        {
            let old = std::mem::replace(&mut words[(first - batch.first) as usize], word);
            assert!(
                condition.allows(old),
                "records move along the table of transitions, one change at a time"
            );
            return;
        }
        self.replace_run(hint, first, last, condition, word);
    }

    fn replace_run(&mut self, hint: &mut Hint, first: i64, last: i64, condition: Precondition, word: Word) {
        let mut index = self.find_near(hint, first);
        let mut cursor = first;
        while let Some(batch) = self.queue.get_mut(index) {
            assert!(batch.first <= cursor, "what changes its state is tracked");
            let high = last.min(batch.last);
            batch.replace(cursor, high, condition, word);
            if high == last {
                return;
            }
            cursor = high + 1;
            index += 1;
        }
        assert!(last < cursor, "what changes its state is tracked");
    }
}
