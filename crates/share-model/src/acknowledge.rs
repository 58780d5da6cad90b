//! How the model judges acknowledgements.

use sharemark_protocol::{ErrorCode, OffsetRange, Producer};
use sharemark_share_coordinator::{
    AcknowledgeRules, AcknowledgeType, AcknowledgementBatch, RecordState, Staged,
};

use super::{Held, NaiveSharePartition, Record};

/// What the model decided: the new states, and which offsets are renewed.
#[derive(Clone, Debug, Default)]
pub(super) struct NaivePlan {
    pub(super) changes: Held,
    pub(super) renewals: Vec<i64>,
}

impl NaiveSharePartition {
    /// On an error only the renewals that come before what failed count.
    pub(super) fn decide_acknowledge(
        &self,
        member: usize,
        batches: &[AcknowledgementBatch<'_>],
        rules: &AcknowledgeRules,
    ) -> (Result<(), ErrorCode>, NaivePlan) {
        let mut plan = NaivePlan::default();
        let outcome = self.judge_acknowledgements(member, batches, rules, &mut plan);
        if outcome.is_err() {
            plan.changes.clear();
        }
        (outcome, plan)
    }

    fn judge_acknowledgements(
        &self,
        member: usize,
        batches: &[AcknowledgementBatch<'_>],
        rules: &AcknowledgeRules,
        plan: &mut NaivePlan,
    ) -> Result<(), ErrorCode> {
        check_shape(batches, rules)?;
        for batch in batches {
            let Some(first) = self.first_judged(batch)? else { continue };
            for offset in first..=batch.last_offset {
                let kind = type_at(batch, offset).ok_or(ErrorCode::InvalidRequest)?;
                let record = self.held_by(Some(member), offset)?;
                if plan.changes.contains_key(&offset) {
                    return Err(ErrorCode::InvalidRecordState);
                }
                let rejected = if self.config.dead_letter_queue {
                    RecordState::Archiving
                } else {
                    RecordState::Archived
                };
                let state = match kind {
                    AcknowledgeType::Gap => RecordState::Archived,
                    AcknowledgeType::Accept => RecordState::Acknowledged,
                    AcknowledgeType::Release => self.released_state(record.delivery_count),
                    AcknowledgeType::Reject => rejected,
                    AcknowledgeType::Renew if self.config.renew_enabled => {
                        plan.renewals.push(offset);
                        continue;
                    }
                    AcknowledgeType::Renew => return Err(ErrorCode::InvalidRecordState),
                };
                plan.changes.insert(offset, (state, None));
            }
        }
        Ok(())
    }

    pub(super) fn decide_stage(
        &self,
        member: Option<usize>,
        producer: Producer,
        batches: &[AcknowledgementBatch<'_>],
    ) -> Result<NaivePlan, ErrorCode> {
        let rules = AcknowledgeRules { type_max: AcknowledgeType::Reject, is_renew_ack: false };
        check_shape(batches, &rules)?;
        for (one, next) in batches.iter().zip(batches.iter().skip(1)) {
            if next.first_offset <= one.last_offset {
                return Err(ErrorCode::InvalidRequest);
            }
        }
        if batches.iter().any(|batch| batch.types.contains(&AcknowledgeType::Release.id())) {
            return Err(ErrorCode::InvalidRequest);
        }
        let mut plan = NaivePlan::default();
        for batch in batches {
            // What lies below the start offset may be done by another transaction.
            let first = self.first_judged(batch)?.filter(|_| self.start <= batch.first_offset);
            let Some(first) = first else { return Err(ErrorCode::InvalidRecordState) };
            for offset in first..=batch.last_offset {
                let acknowledge_type = type_at(batch, offset).ok_or(ErrorCode::InvalidRequest)?;
                let pending = self.records.get(&offset).and_then(|record| record.staged);
                if pending.is_some_and(|(staged, ..)| {
                    staged.producer == producer && staged.acknowledge_type == acknowledge_type
                }) {
                    continue;
                }
                self.held_by(member, offset)?;
                let state = match acknowledge_type {
                    AcknowledgeType::Accept => RecordState::Acknowledged,
                    AcknowledgeType::Reject if self.config.dead_letter_queue => RecordState::Archiving,
                    AcknowledgeType::Reject | AcknowledgeType::Gap => RecordState::Archived,
                    AcknowledgeType::Release | AcknowledgeType::Renew => {
                        return Err(ErrorCode::InvalidRequest);
                    }
                };
                let staged = Staged { producer, acknowledge_type, state };
                plan.changes.insert(offset, (RecordState::TxPending, Some(staged)));
            }
        }
        Ok(plan)
    }

    pub(super) fn decide_release(&self, member: usize) -> NaivePlan {
        let mut plan = NaivePlan::default();
        for (&offset, record) in self.records.range(self.start..) {
            if self.held_by(Some(member), offset).is_ok() {
                plan.changes.insert(offset, (self.released_state(record.delivery_count), None));
            }
        }
        plan
    }

    pub(super) fn decide_archive(&self, range: OffsetRange) -> Result<NaivePlan, ErrorCode> {
        let mut plan = NaivePlan::default();
        for offset in range.first().get()..=range.last().get() {
            let record = self.records.get(&offset).ok_or(ErrorCode::InvalidRecordState)?;
            if record.state != RecordState::Archiving || record.transition.is_some() {
                return Err(ErrorCode::InvalidRecordState);
            }
            plan.changes.insert(offset, (RecordState::Archived, None));
        }
        Ok(plan)
    }

    pub(super) fn renew(&mut self, now_ms: i64, plan: &NaivePlan) {
        for offset in &plan.renewals {
            if let Some(record) = self.records.get_mut(offset) {
                record.deadline_ms = now_ms + self.config.lock_duration_ms;
            }
        }
    }

    /// Returns the first offset of a range that is not below the start, once its ends were looked at.
    fn first_judged(&self, batch: &AcknowledgementBatch<'_>) -> Result<Option<i64>, ErrorCode> {
        if batch.last_offset < self.start {
            return Ok(None);
        }
        let first = batch.first_offset.max(self.start);
        let is_tracked = |offset: i64| {
            self.tracks_anything()
                && self.records.range(..=offset).any(|(&low, record)| self.is_kept(low, record))
        };
        if !is_tracked(first) {
            return Err(ErrorCode::InvalidRecordState);
        }
        if !self.records.contains_key(&batch.last_offset) {
            return Err(ErrorCode::InvalidRequest);
        }
        Ok(Some(first))
    }

    /// Returns whether a record is in the table of a leader: some of its batch is not done with.
    fn is_kept(&self, offset: i64, record: &Record) -> bool {
        let (first, last) = record.batch;
        self.start <= offset
            || self
                .records
                .range(first..=last)
                .any(|(&other, record)| self.start <= other || !record.is_final())
    }

    fn held_by(&self, member: Option<usize>, offset: i64) -> Result<&Record, ErrorCode> {
        let record = self.records.get(&offset).ok_or(ErrorCode::InvalidRecordState)?;
        let is_held = record.state == RecordState::Acquired && record.transition.is_none();
        let is_owner = member.is_none() || record.member == member;
        if is_held && is_owner { Ok(record) } else { Err(ErrorCode::InvalidRecordState) }
    }
}

fn type_at(batch: &AcknowledgementBatch<'_>, offset: i64) -> Option<AcknowledgeType> {
    let index = if batch.types.len() == 1 { 0 } else { usize::try_from(offset - batch.first_offset).ok()? };
    AcknowledgeType::from_id(*batch.types.get(index)?)
}

fn check_shape(batches: &[AcknowledgementBatch<'_>], rules: &AcknowledgeRules) -> Result<(), ErrorCode> {
    let mut lasts = Vec::new();
    for batch in batches {
        let len = batch.types.len() as i64;
        let has_wrong_len = len != 1 && len != batch.last_offset - batch.first_offset + 1;
        let is_out_of_order = lasts.last().is_some_and(|&last| batch.first_offset < last);
        let has_bad_type = batch.types.iter().any(|&id| {
            !(0..=rules.type_max.id()).contains(&id)
                || (!rules.is_renew_ack && id == AcknowledgeType::Renew.id())
        });
        let is_backwards = batch.first_offset < 0 || batch.last_offset < batch.first_offset;
        if is_backwards || has_wrong_len || len == 0 || is_out_of_order || has_bad_type {
            return Err(ErrorCode::InvalidRequest);
        }
        lasts.push(batch.last_offset);
    }
    Ok(())
}
