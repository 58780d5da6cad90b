//! Judging acknowledgements that are part of a transaction.

use sharemark_protocol::{ErrorCode, Producer};

use super::batches::Hint;
use super::plan::range;
use super::word::{NO_OWNER, Word};
use super::{SharePartition, SharePartitionConfig, StatePlan};
use crate::acknowledgement::has_right_len;
use crate::{AcknowledgeType, AcknowledgementBatch, RecordState, Staged, StateBatch};

/// What a request may stage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StageRules {
    /// Whether the dialect knows the gap type.
    pub allows_gap: bool,
}

/// So many owners, at most, are known to one share partition at a time.
const OWNER_COUNT_MAX: usize = 65_000;

impl SharePartition {
    /// Judges all of one request's transactional acknowledgements of this share partition; changes nothing.
    ///
    /// `member` is `None` in the early dialect, whose request names no member: then whoever holds a record
    /// will do. What is already pending for the same producer and epoch with the same type counts as staged
    /// and is not stored again, so that a retry succeeds. On an error nothing is staged.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if a range is malformed, out of order or overlaps another, has a type other than
    ///   accept, reject or (where allowed) gap, or reaches past what was acquired.
    /// - `InvalidRecordState` if a record is not locked for `member`, its change is still being stored, it is
    ///   pending otherwise than said, or it lies below the start offset.
    /// - `UnknownServerError` if too many transactions wait for records of this share partition.
    pub fn decide_stage(
        &self,
        member: Option<&str>,
        producer: Producer,
        batches: &[AcknowledgementBatch<'_>],
        rules: &StageRules,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        self.begin_plan(plan);
        let outcome = check_staged(batches, rules)
            .and_then(|()| self.stage_all(member, producer, batches, config, plan))
            .and_then(|()| self.check_owner_room(plan));
        if outcome.is_err() {
            plan.clear();
        }
        outcome
    }

    fn stage_all(
        &self,
        member: Option<&str>,
        producer: Producer,
        batches: &[AcknowledgementBatch<'_>],
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        let owner = member.map(|member| self.members.find(member).unwrap_or(NO_OWNER));
        let mut hint = Hint::default();
        for batch in batches {
            // An ordinary acknowledgement passes over what is done below the start offset. A staged one must not: the
            // record may be done by somebody else's transaction, and then this one's output would be a second.
            let place = self.locate(batch, &mut hint)?.filter(|_| self.start <= batch.first_offset);
            let Some(place) = place else { return Err(ErrorCode::InvalidRecordState) };
            let mut cursor = place.first;
            let mut index = place.index;
            while cursor <= batch.last_offset {
                let tracked = self.batches.get(index).filter(|tracked| tracked.first() <= cursor);
                let Some(tracked) = tracked else { return Err(ErrorCode::InvalidRecordState) };
                let last = batch.last_offset.min(tracked.last());
                tracked.try_each_run(cursor, last, |low, high, word| {
                    self.stage_run(owner, producer, batch, (low, high), word, config, plan)
                })?;
                cursor = last + 1;
                index += 1;
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one loop")]
    fn stage_run(
        &self,
        owner: Option<u16>,
        producer: Producer,
        batch: &AcknowledgementBatch<'_>,
        (low, high): (i64, i64),
        word: Word,
        config: &SharePartitionConfig,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        if let &[id] = batch.types {
            return self.stage_uniform(owner, staged(producer, id, config)?, (low, high), word, plan);
        }
        for offset in low..=high {
            let id = batch.types[(offset - batch.first_offset) as usize];
            self.stage_uniform(owner, staged(producer, id, config)?, (offset, offset), word, plan)?;
        }
        Ok(())
    }

    fn stage_uniform(
        &self,
        owner: Option<u16>,
        staged: Staged,
        (low, high): (i64, i64),
        word: Word,
        plan: &mut StatePlan,
    ) -> Result<(), ErrorCode> {
        if word.is_pending() {
            let pending = self.owners.get(word.owner());
            let is_repeat = pending.is_some_and(|pending| {
                pending.staged.producer == staged.producer
                    && pending.staged.acknowledge_type == staged.acknowledge_type
            });
            return if is_repeat { Ok(()) } else { Err(ErrorCode::InvalidRecordState) };
        }
        let is_held = owner.map_or(word.is_held(), |owner| word.is_held_by(owner));
        if !is_held {
            return Err(ErrorCode::InvalidRecordState);
        }
        plan.push_batch(StateBatch {
            range: range(low, high),
            state: RecordState::TxPending,
            delivery_count: word.delivery_count(),
            staged: Some(staged),
        });
        Ok(())
    }

    /// Checks that applying `plan` finds a number for each new owner, since applying cannot fail.
    fn check_owner_room(&self, plan: &StatePlan) -> Result<(), ErrorCode> {
        let members = self.members.number_bound() + 1;
        let upper_bound = |batches: &[StateBatch]| -> usize {
            let offsets: i64 = batches.iter().map(|batch| batch.range.offset_count()).sum();
            usize::try_from(offsets).unwrap_or(usize::MAX).min(members.saturating_mul(3))
        };
        let held: usize = self.transitions.values().map(|batches| upper_bound(batches)).sum();
        let wanted =
            upper_bound(&plan.batches).saturating_add(held).saturating_add(self.owners.number_bound());
        if OWNER_COUNT_MAX < wanted { Err(ErrorCode::UnknownServerError) } else { Ok(()) }
    }
}

fn staged(producer: Producer, id: i8, config: &SharePartitionConfig) -> Result<Staged, ErrorCode> {
    let acknowledge_type = AcknowledgeType::from_id(id).ok_or(ErrorCode::InvalidRequest)?;
    let state = match acknowledge_type {
        AcknowledgeType::Gap => RecordState::Archived,
        AcknowledgeType::Accept => RecordState::Acknowledged,
        AcknowledgeType::Reject => config.rejected_state(),
        AcknowledgeType::Release | AcknowledgeType::Renew => return Err(ErrorCode::InvalidRequest),
    };
    Ok(Staged { producer, acknowledge_type, state })
}

/// Checks the shape of transactional acknowledgements.
fn check_staged(batches: &[AcknowledgementBatch<'_>], rules: &StageRules) -> Result<(), ErrorCode> {
    let mut previous_last = -1;
    for batch in batches {
        let is_in_order = previous_last < batch.first_offset && batch.first_offset <= batch.last_offset;
        if !is_in_order || !has_right_len(batch) {
            return Err(ErrorCode::InvalidRequest);
        }
        for &id in batch.types {
            let is_allowed = match AcknowledgeType::from_id(id) {
                Some(AcknowledgeType::Accept | AcknowledgeType::Reject) => true,
                Some(AcknowledgeType::Gap) => rules.allows_gap,
                Some(AcknowledgeType::Release | AcknowledgeType::Renew) | None => false,
            };
            if !is_allowed {
                return Err(ErrorCode::InvalidRequest);
            }
        }
        previous_last = batch.last_offset;
    }
    Ok(())
}
