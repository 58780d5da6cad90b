//! Judging acknowledgements.

use sharemark_protocol::ErrorCode;

use super::batches::{Batch, Body, Hint};
use super::plan::range;
use super::word::{NO_OWNER, Word};
use super::{SharePartition, SharePartitionConfig, StatePlan};
use crate::{AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, RecordState, check_acknowledgements};

/// Where in the batches the judgement of one range begins.
pub(super) struct Place<'a> {
    /// The lowest offset that is not below the start offset.
    pub(super) first: i64,
    /// The batch that holds it.
    pub(super) batch: &'a Batch,
    /// The index of that batch.
    pub(super) index: usize,
}

impl SharePartition {
    /// Judges all of one request's acknowledgements of this share partition; changes nothing.
    ///
    /// `plan` receives the change that they make together. On an error none of them counts, but the renewals that
    /// come before the one that failed: they are all that `plan` then holds, and to be applied as well, as in Kafka.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if [`check_acknowledgements`] refuses them, or a range reaches past what was acquired.
    /// - `InvalidRecordState` if a record is not locked for `member`, its change is still being stored, or it
    ///   is to be renewed while the group does not allow it.
    pub fn decide_acknowledge(
        &self,
        member: &str,
        batches: &[AcknowledgementBatch<'_>],
        rules: &AcknowledgeRules,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        self.begin_plan(plan);
        if let [batch] = batches
            && self.judge_simple(member, batch, rules, config, plan)
        {
            return Ok(());
        }
        let outcome = self.judge_all(member, batches, rules, config, plan);
        if outcome.is_err() {
            let renewals = std::mem::take(&mut plan.renewals);
            self.begin_plan(plan);
            plan.renewals = renewals;
        }
        outcome
    }

    /// Judges the commonest request on a short way: one range of one type other than a renewal, all of it in one
    /// state and held by `member`. Returns `false`, with nothing judged, for any other.
    #[inline]
    fn judge_simple(
        &self,
        member: &str,
        batch: &AcknowledgementBatch<'_>,
        rules: &AcknowledgeRules,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> bool {
        let (first, last) = (batch.first_offset, batch.last_offset);
        let &[id] = batch.types else { return false };
        if last < first || first < self.start || rules.type_max.id() < id {
            return false;
        }
        let tracked = self.batches.get(self.batches.find(first));
        let Some(tracked) = tracked.filter(|tracked| tracked.first() <= first && last <= tracked.last())
        else {
            return false;
        };
        let word = match tracked.body() {
            Body::Whole(word) => *word,
            Body::Split(words) if first == last => words[(first - tracked.first()) as usize],
            Body::Split(_) => return false,
        };
        let count = word.delivery_count();
        let Some(state) = AcknowledgeType::from_id(id).and_then(|known| next_state(known, count, config))
        else {
            return false;
        };
        if !self.members.find(member).is_some_and(|owner| word.is_held_by(owner)) {
            return false;
        }
        plan.push_first(first, last, state, count);
        true
    }

    fn judge_all(
        &self,
        member: &str,
        batches: &[AcknowledgementBatch<'_>],
        rules: &AcknowledgeRules,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        check_acknowledgements(batches, rules)?;
        let owner = self.members.find(member).unwrap_or(NO_OWNER);
        let mut judge = Judge { owner, config, plan };
        // The last offset that this request has changed already.
        let mut changed = None;
        let mut hint = Hint::default();
        for batch in batches {
            let Some(place) = self.locate(batch, &mut hint)? else { continue };
            if changed == Some(place.first) {
                return Err(ErrorCode::InvalidRecordState);
            }
            self.judge_range(batch, &place, &mut judge)?;
            let is_renewed = batch.types.last() == Some(&AcknowledgeType::Renew.id());
            changed = if is_renewed { None } else { Some(batch.last_offset) };
        }
        Ok(())
    }

    /// Finds where a range lies, or `None` if it lies wholly below the start offset.
    ///
    /// `hint` is as for [`Batches::find_near`].
    ///
    /// [`Batches::find_near`]: super::batches::Batches::find_near
    #[inline(always)]
    pub(super) fn locate(
        &self,
        batch: &AcknowledgementBatch<'_>,
        hint: &mut Hint,
    ) -> Result<Option<Place<'_>>, ErrorCode> {
        let last = batch.last_offset;
        if last < self.start {
            return Ok(None);
        }
        let first = batch.first_offset.max(self.start);
        let (Some(front), Some(back)) = (self.batches.front(), self.batches.back()) else {
            return Err(ErrorCode::InvalidRecordState);
        };
        if first < front.first() {
            return Err(ErrorCode::InvalidRecordState);
        }
        if back.last() < last {
            return Err(ErrorCode::InvalidRequest);
        }
        let index = self.batches.find_near(hint, first);
        let Some(batch) = self.batches.get(index) else { return Err(ErrorCode::InvalidRequest) };
        if batch.last() < last && !self.is_tracked(last) {
            return Err(ErrorCode::InvalidRequest); // It ends in a hole.
        }
        if first < batch.first() {
            // It begins in a hole, which nobody holds.
            let ends_there = last < batch.first();
            return Err(if ends_there { ErrorCode::InvalidRequest } else { ErrorCode::InvalidRecordState });
        }
        Ok(Some(Place { first, batch, index }))
    }

    fn is_tracked(&self, offset: i64) -> bool {
        self.batches.get(self.batches.find(offset)).is_some_and(|batch| batch.first() <= offset)
    }

    #[inline]
    fn judge_range(
        &self,
        range: &AcknowledgementBatch<'_>,
        place: &Place<'_>,
        judge: &mut Judge<'_>,
    ) -> Result<(), ErrorCode> {
        let last = range.last_offset.min(place.batch.last());
        judge.judge_part(range, place.batch, place.first, last)?;
        if last == range.last_offset {
            Ok(())
        } else {
            self.judge_rest(range, place.index + 1, last + 1, judge)
        }
    }

    /// Judges what of a range lies in further batches.
    fn judge_rest(
        &self,
        range: &AcknowledgementBatch<'_>,
        mut index: usize,
        mut cursor: i64,
        judge: &mut Judge<'_>,
    ) -> Result<(), ErrorCode> {
        while cursor <= range.last_offset {
            let Some(batch) = self.batches.get(index).filter(|batch| batch.first() <= cursor) else {
                return Err(ErrorCode::InvalidRecordState); // Nobody holds what is in a hole.
            };
            let last = range.last_offset.min(batch.last());
            judge.judge_part(range, batch, cursor, last)?;
            cursor = last + 1;
            index += 1;
        }
        Ok(())
    }
}

/// Returns what an acknowledgement makes of a record that was delivered `delivery_count` times, or `None` if it
/// stays locked.
#[inline]
fn next_state(
    acknowledge_type: AcknowledgeType,
    delivery_count: i16,
    config: &SharePartitionConfig,
) -> Option<RecordState> {
    match acknowledge_type {
        AcknowledgeType::Gap => Some(RecordState::Archived),
        AcknowledgeType::Accept => Some(RecordState::Acknowledged),
        AcknowledgeType::Release => Some(config.released_state(delivery_count)),
        AcknowledgeType::Reject => Some(config.rejected_state()),
        AcknowledgeType::Renew => None,
    }
}

/// Judges the runs of one request.
struct Judge<'a> {
    owner: u16,
    config: &'a SharePartitionConfig,
    plan: &'a mut StatePlan,
}

impl Judge<'_> {
    /// Judges `first..=last` of `range`, which lies in `batch`.
    #[inline(always)]
    fn judge_part(
        &mut self,
        range: &AcknowledgementBatch<'_>,
        batch: &Batch,
        first: i64,
        last: i64,
    ) -> Result<(), ErrorCode> {
        if let &[id] = range.types {
            return self.judge_uniform(batch, first, last, id);
        }
        let from = (first - range.first_offset) as usize;
        let to = (last - range.first_offset + 1) as usize;
        self.judge_each(batch, first, last, &range.types[from..to])
    }

    /// Judges `first..=last` of `batch`, which all get the acknowledge type `id`.
    #[inline(always)]
    fn judge_uniform(&mut self, batch: &Batch, first: i64, last: i64, id: i8) -> Result<(), ErrorCode> {
        match batch.body() {
            Body::Whole(word) => self.judge(first, last, *word, id),
            Body::Split(words) => {
                let from = (first - batch.first()) as usize;
                if first == last {
                    return self.judge(first, first, words[from], id);
                }
                let words = &words[from..from + (last - first + 1) as usize];
                self.judge_words(first, words, id)
            }
        }
    }

    /// Judges split records in runs of equal delivery count.
    fn judge_words(&mut self, first: i64, words: &[Word], id: i8) -> Result<(), ErrorCode> {
        let mut run_start = 0;
        while let Some(&word) = words.get(run_start) {
            let count = word.delivery_count();
            let rest = &words[run_start..];
            let is_like = |word: &Word| word.is_held_by(self.owner) && word.delivery_count() == count;
            let len = rest.iter().position(|word| !is_like(word)).unwrap_or(rest.len());
            if len == 0 {
                return Err(ErrorCode::InvalidRecordState);
            }
            let low = first + run_start as i64;
            self.judge(low, low + len as i64 - 1, word, id)?;
            run_start += len;
        }
        Ok(())
    }

    /// Judges `first..=last` of `batch` with one acknowledge type for each offset.
    fn judge_each(&mut self, batch: &Batch, first: i64, last: i64, types: &[i8]) -> Result<(), ErrorCode> {
        match batch.body() {
            Body::Whole(word) => self.judge_alike(first, *word, types),
            Body::Split(words) => {
                let from = (first - batch.first()) as usize;
                for ((offset, &word), &id) in (first..=last).zip(&words[from..]).zip(types) {
                    self.judge(offset, offset, word, id)?;
                }
                Ok(())
            }
        }
    }

    /// Judges records in one state, from `first` on, in runs that come to the same.
    fn judge_alike(&mut self, first: i64, word: Word, types: &[i8]) -> Result<(), ErrorCode> {
        if !word.is_held_by(self.owner) {
            return Err(ErrorCode::InvalidRecordState);
        }
        let count = word.delivery_count();
        let next = AcknowledgeType::ALL.map(|known| next_state(known, count, self.config));
        let mut low = first;
        let mut rest = types;
        while let Some((&id, tail)) = rest.split_first() {
            let Some(&state) = next.get(usize::from(id.cast_unsigned())) else {
                return Err(ErrorCode::InvalidRequest);
            };
            let is_like = |id: i8| next.get(usize::from(id.cast_unsigned())) == Some(&state);
            let more = tail.iter().position(|&id| !is_like(id)).unwrap_or(tail.len());
            let last = low + more as i64;
            match state {
                Some(state) => self.plan.push(low, last, state, count),
                None => self.renew(low, last)?,
            }
            low = last + 1;
            rest = &tail[more..];
        }
        Ok(())
    }

    /// Judges one run in one state.
    #[inline(always)]
    fn judge(&mut self, first: i64, last: i64, word: Word, id: i8) -> Result<(), ErrorCode> {
        if !word.is_held_by(self.owner) {
            return Err(ErrorCode::InvalidRecordState);
        }
        let count = word.delivery_count();
        let Some(acknowledge_type) = AcknowledgeType::from_id(id) else {
            return Err(ErrorCode::InvalidRequest);
        };
        match next_state(acknowledge_type, count, self.config) {
            Some(state) => {
                self.plan.push(first, last, state, count);
                Ok(())
            }
            None => self.renew(first, last),
        }
    }

    fn renew(&mut self, first: i64, last: i64) -> Result<(), ErrorCode> {
        if !self.config.renew_enabled {
            return Err(ErrorCode::InvalidRecordState);
        }
        if let Some(back) = self.plan.renewals.last_mut()
            && back.last().get() + 1 == first
        {
            *back = range(back.first().get(), last);
            return Ok(());
        }
        self.plan.renewals.push(range(first, last));
        Ok(())
    }
}
