use std::collections::BTreeMap;

use proptest::prelude::*;
use sharemark_protocol::Producer;

use super::*;
use crate::{AcknowledgeType, Staged};

const OFFSET_COUNT: i64 = 24;

/// What each offset has: the naive twin of [`StateBatches`].
type Model = BTreeMap<i64, (RecordState, i16, Option<Staged>)>;

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn batch(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    let range = OffsetRange::new(offset(first), offset(last)).unwrap();
    StateBatch { range, state, delivery_count, staged: None }
}

fn pending(first: i64, last: i64, delivery_count: i16, producer_id: i64) -> StateBatch {
    let staged = Staged {
        producer: Producer::from_wire(producer_id, 0).unwrap(),
        acknowledge_type: AcknowledgeType::Accept,
        state: RecordState::Acknowledged,
    };
    StateBatch { staged: Some(staged), ..batch(first, last, RecordState::TxPending, delivery_count) }
}

fn model_of(batches: &[StateBatch]) -> Model {
    let mut model = Model::new();
    for batch in batches {
        for offset in batch.range.offsets() {
            let before = model.insert(offset.get(), (batch.state, batch.delivery_count, batch.staged));
            assert_eq!(before, None, "batches are disjoint");
        }
    }
    model
}

fn merge_into(model: &mut Model, update: &StateBatch) {
    for offset in update.range.offsets() {
        let new = (update.state, update.delivery_count, update.staged);
        let is_kept = model.get(&offset.get()).is_some_and(|&(state, count, staged)| {
            let no_owner = staged.is_none() && update.staged.is_none();
            let is_late = update.staged.is_none() && count > new.1;
            is_late || (no_owner && count == new.1 && state.id() >= new.0.id())
        });
        if !is_kept {
            model.insert(offset.get(), new);
        }
    }
}

fn any_batch() -> impl Strategy<Value = StateBatch> {
    use RecordState::{Acknowledged, Archived, Archiving, Available};
    (0..OFFSET_COUNT, 0..8_i64, 0..5_usize, 1..4_i16, 1..3_i64).prop_map(
        |(first, more, state, count, producer_id)| {
            let last = first + more;
            match [Available, Acknowledged, Archiving, Archived].get(state) {
                Some(state) => batch(first, last, *state, count),
                None => pending(first, last, count, producer_id),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_equals_the_naive_model(
        updates in prop::collection::vec((prop::collection::vec(any_batch(), 0..5), 0..3_i64), 1..30),
    ) {
        let (mut batches, mut model, mut start) = (StateBatches::default(), Model::new(), 0);
        for (update, steps) in &updates {
            // What a write does: its own batches come together first.
            let update_merged = StateBatches::merged(update);
            update_merged.check_invariants(None);
            let mut update_model = Model::new();
            update.iter().for_each(|batch| merge_into(&mut update_model, batch));
            prop_assert_eq!(model_of(update_merged.as_slice()), update_model);

            for batch in update_merged.as_slice() {
                merge_into(&mut model, batch);
            }
            batches.merge(update_merged.as_slice());
            start += steps;
            batches.cut_below(offset(start));
            model.retain(|offset, _| start <= *offset);
            batches.check_invariants(Some(offset(start)));
            prop_assert_eq!(model_of(batches.as_slice()), model.clone());
            let final_count = model.values().filter(|(state, ..)| state.is_final()).count();
            prop_assert_eq!(batches.final_offset_count(), i64::try_from(final_count).unwrap());
        }
    }
}

#[test]
fn an_acknowledged_offset_within_a_released_run_splits_it() {
    use RecordState::{Acknowledged, Available};
    let mut batches = StateBatches::merged(&[batch(100, 109, Available, 1)]);
    batches.merge(&[batch(105, 105, Acknowledged, 1)]);
    let expected =
        [batch(100, 104, Available, 1), batch(105, 105, Acknowledged, 1), batch(106, 109, Available, 1)];
    assert_eq!(batches.as_slice(), expected);
}

#[test]
fn the_higher_count_wins_and_then_the_higher_state() {
    use RecordState::{Acknowledged, Archived, Available};
    let table = [
        (batch(0, 0, Acknowledged, 1), batch(0, 0, Available, 2), batch(0, 0, Available, 2)),
        (batch(0, 0, Acknowledged, 2), batch(0, 0, Archived, 1), batch(0, 0, Acknowledged, 2)),
        (batch(0, 0, Acknowledged, 2), batch(0, 0, Available, 2), batch(0, 0, Acknowledged, 2)),
        (batch(0, 0, Available, 2), batch(0, 0, Archived, 2), batch(0, 0, Archived, 2)),
        // A stage replaces what was there, and all but a late write replaces a pending entry.
        (batch(0, 0, Available, 3), pending(0, 0, 2, 1), pending(0, 0, 2, 1)),
        (pending(0, 0, 3, 1), batch(0, 0, Available, 3), batch(0, 0, Available, 3)),
        (pending(0, 0, 3, 1), batch(0, 0, Available, 2), pending(0, 0, 3, 1)),
        (pending(0, 0, 3, 1), pending(0, 0, 3, 2), pending(0, 0, 3, 2)),
    ];
    for (old, new, expected) in table {
        let mut batches = StateBatches::merged(&[old]);
        batches.merge(&[new]);
        assert_eq!(batches.as_slice(), [expected], "{old:?} then {new:?}");
    }
}

#[test]
fn neighbours_are_joined_only_when_equal() {
    use RecordState::{Acknowledged, Archived};
    let mut batches = StateBatches::merged(&[batch(0, 1, Acknowledged, 1), batch(4, 5, Acknowledged, 1)]);
    batches.merge(&[batch(2, 3, Acknowledged, 1)]);
    assert_eq!(batches.as_slice(), [batch(0, 5, Acknowledged, 1)]);
    batches.merge(&[batch(6, 6, Acknowledged, 2), batch(7, 7, Archived, 2), pending(8, 8, 1, 1)]);
    batches.merge(&[pending(9, 9, 1, 2), pending(10, 10, 1, 2)]);
    assert_eq!(batches.as_slice().len(), 5);
    batches.check_invariants(None);
}

#[test]
fn offsets_at_the_very_end_do_no_harm() {
    use RecordState::{Acknowledged, Available};
    let mut batches = StateBatches::merged(&[batch(0, i64::MAX, Available, 1)]);
    batches.merge(&[batch(i64::MAX, i64::MAX, Acknowledged, 1)]);
    assert_eq!(batches.as_slice().len(), 2);
    batches.merge(&[batch(0, i64::MAX, Acknowledged, 1)]);
    batches.cut_below(Offset::MAX);
    assert_eq!(batches.as_slice(), [batch(i64::MAX, i64::MAX, Acknowledged, 1)]);
    assert_eq!(batches.final_offset_count(), 1);
}
