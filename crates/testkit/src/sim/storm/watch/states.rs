//! A naive copy of the states in `__share_group_state`, record by record.

use std::collections::BTreeMap;

use sharemark::broker::ObservedRecord;
use sharemark_protocol::{Offset, Producer, SharePartitionKey, StateEpoch};
use sharemark_share_coordinator::{
    RecordState, Staged, StateBatch, StateChange, StateRecord, StateSnapshot, StateUpdate,
};

use super::super::coverage::{Coverage, Event};
use super::Judge;

/// What is stored of one record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) struct Entry {
    pub(in super::super) state: RecordState,
    pub(in super::super) staged: Option<Staged>,
    delivery_count: i16,
    /// Whether it came back from a transaction with the marker that was read last.
    came_back: bool,
    /// Whether a transaction made it final.
    by_transaction: bool,
    /// Where it was staged.
    staged_at: Offset,
}

/// What is stored of one share partition.
#[derive(Clone, Debug)]
pub(in super::super) struct Shadow {
    pub(in super::super) state_partition: i32,
    pub(in super::super) state_epoch: StateEpoch,
    pub(in super::super) start: Option<Offset>,
    pub(in super::super) entries: BTreeMap<i64, Entry>,
    /// How many records at or above the start are said to be final.
    complete_count: Option<i64>,
    /// The least that the next update has to say of that, after a marker.
    owed_count: Option<i64>,
}

/// What is stored of all.
#[derive(Debug, Default)]
pub(in super::super) struct Shadows {
    pub(in super::super) by_key: BTreeMap<SharePartitionKey, Shadow>,
    log_starts: BTreeMap<i32, Offset>,
    /// Whether a log is read again, which was judged before.
    is_loading: bool,
    /// Records that were acknowledged since somebody asked.
    pub(in super::super) acknowledged: Vec<(SharePartitionKey, i64)>,
    /// Offsets that the start has passed, but which were never final.
    pub(in super::super) passed: Vec<(SharePartitionKey, i64)>,
}

impl Entry {
    fn of(batch: &StateBatch, at: Offset) -> Self {
        let StateBatch { range: _, state, delivery_count, staged } = *batch;
        let is_pending = state == RecordState::TxPending;
        assert!(is_pending == staged.is_some(), "a record has an owner while it is pending: {batch:?}");
        Self { state, staged, delivery_count, came_back: false, by_transaction: false, staged_at: at }
    }

    /// Keeps what is not written down where the same is told again.
    fn inherit(&mut self, old: &Self) {
        self.by_transaction = old.by_transaction && self.state == old.state;
    }

    /// Returns whether a change comes too late, as writes may: the higher delivery count wins, and then the state that
    /// has the higher number, which does not count where a transaction has a part in it.
    fn outdoes(&self, late: &Self) -> bool {
        if self.staged.is_some() || late.staged.is_some() {
            return late.staged.is_none() && late.delivery_count < self.delivery_count;
        }
        (late.delivery_count, late.state.id()) < (self.delivery_count, self.state.id())
    }
}

impl Shadow {
    pub(in super::super) fn pending(&self) -> impl Iterator<Item = (i64, Staged)> {
        self.entries.iter().filter_map(|(offset, entry)| entry.staged.map(|staged| (*offset, staged)))
    }

    /// Returns the stored state of a record; `None` if nothing is stored or it is below the start.
    fn state(&self, offset: i64) -> Option<RecordState> {
        self.entries.get(&offset).map(|entry| entry.state)
    }

    /// Returns whether what is stored of a record lets it have been delivered for the `count`-th time: it was free then,
    /// unless what is stored came of that delivery.
    pub(in super::super) fn allows_delivery(&self, offset: i64, count: i16) -> bool {
        self.entries
            .get(&offset)
            .is_none_or(|entry| entry.state == RecordState::Available || count <= entry.delivery_count)
    }

    pub(in super::super) fn is_done(&self, offset: i64) -> bool {
        let is_below = self.start.is_some_and(|start| offset < start.get());
        is_below || self.state(offset).is_some_and(RecordState::is_final)
    }

    fn final_count(&self) -> i64 {
        let finals = self.entries.values().filter(|entry| entry.state.is_final());
        i64::try_from(finals.count()).unwrap_or(i64::MAX)
    }
}

impl Shadows {
    /// Returns all that waits for the end of a transaction.
    pub(in super::super) fn pending(
        &self,
    ) -> impl Iterator<Item = (&SharePartitionKey, &Shadow, i64, Staged)> {
        self.by_key.iter().flat_map(|(key, shadow)| {
            shadow.pending().map(move |(offset, staged)| (key, shadow, offset, staged))
        })
    }

    pub(super) fn begin_anew(&mut self) {
        self.by_key.clear();
        self.log_starts.clear();
        self.is_loading = true;
    }

    pub(super) fn end_loading(&mut self) {
        self.is_loading = false;
    }

    /// Notes where a log starts; returns whether a staged batch was cut off whose acknowledgements are pending.
    pub(super) fn note_start(&mut self, state_partition: i32, start: Offset) -> bool {
        let before = self.log_starts.insert(state_partition, start).unwrap_or(Offset::ZERO);
        let of_partition = self.by_key.values().filter(|shadow| shadow.state_partition == state_partition);
        let mut pending = of_partition.flat_map(|shadow| shadow.entries.values());
        before < start
            && !self.is_loading
            && pending
                .any(|entry| entry.staged.is_some() && before <= entry.staged_at && entry.staged_at < start)
    }

    /// Reads one record of a state partition.
    pub(super) fn note(
        &mut self,
        state_partition: i32,
        record: &ObservedRecord,
        judge: &Judge<'_>,
        coverage: &mut Coverage,
    ) {
        if let (Some(producer), Some(committed)) = (record.producer, record.marker) {
            self.note_marker(state_partition, producer, committed, judge);
            return;
        }
        let decoded = StateRecord::decode(&record.key, record.value.as_ref());
        let StateRecord { key, change } =
            decoded.unwrap_or_else(|error| panic!("a share state can be read: {error}"));
        match change {
            StateChange::Snapshot(snapshot) => {
                self.note_snapshot(state_partition, key, &snapshot, record, judge, coverage);
            }
            StateChange::Update(update) => {
                let is_loading = self.is_loading;
                let Some(shadow) = self.by_key.get_mut(&key) else { return };
                for batch in &update.batches {
                    shadow.note_batch(&key, batch, record, judge, (is_loading, coverage));
                    if batch.state == RecordState::Acknowledged && !is_loading {
                        self.acknowledged.extend(batch.range.offsets().map(|it| (key.clone(), it.get())));
                    }
                }
                let mut passed = Vec::new();
                shadow.end_update(&key, &update, &mut passed);
                if !is_loading {
                    self.passed.extend(passed.into_iter().map(|offset| (key.clone(), offset)));
                }
            }
            StateChange::Tombstone => drop(self.by_key.remove(&key)),
        }
    }

    /// A marker ends what was staged at a lower epoch, as its coordinator has decided.
    fn note_marker(&mut self, state_partition: i32, producer: Producer, committed: bool, judge: &Judge<'_>) {
        let is_loading = self.is_loading;
        for shadow in self.by_key.values_mut().filter(|it| it.state_partition == state_partition) {
            let counted = shadow.complete_count.unwrap_or_else(|| shadow.final_count());
            let mut newly_final = 0;
            for entry in shadow.entries.values_mut() {
                entry.came_back = false;
                let Some(staged) = entry.staged else { continue };
                let owner = staged.producer;
                if owner.id != producer.id || producer.epoch <= owner.epoch {
                    continue;
                }
                let decided = judge.outcome_of(owner);
                assert!(
                    is_loading || decided == Some(committed),
                    "a marker says what was decided: {owner:?}"
                );
                entry.state = if committed { staged.state } else { RecordState::Available };
                entry.staged = None;
                entry.came_back = !committed;
                entry.by_transaction = committed;
                newly_final += i64::from(entry.state.is_final());
            }
            if 0 < newly_final {
                shadow.owed_count = Some(counted + newly_final);
            }
        }
    }

    fn note_snapshot(
        &mut self,
        state_partition: i32,
        key: SharePartitionKey,
        snapshot: &StateSnapshot,
        record: &ObservedRecord,
        judge: &Judge<'_>,
        coverage: &mut Coverage,
    ) {
        let mut entries = BTreeMap::new();
        for batch in &snapshot.batches {
            for offset in batch.range.offsets() {
                entries.insert(offset.get(), Entry::of(batch, record.offset));
            }
        }
        match self.by_key.get(&key) {
            Some(before) if before.state_epoch == snapshot.state_epoch => {
                if !self.is_loading && before.pending().next().is_some() {
                    coverage.note(Event::SnapshotWhilePending);
                }
                for (offset, old) in before.entries.range(snapshot.start_offset.map_or(0, Offset::get)..) {
                    let new = entries.get_mut(offset);
                    assert!(new.is_some(), "a snapshot tells all: {offset} of {key:?} {old:?}");
                    let Some(new) = new else { continue };
                    new.staged_at = old.staged_at;
                    new.inherit(old);
                    if !self.is_loading {
                        check_follows(&key, *offset, old, (new.state, new.staged), judge);
                    }
                }
            }
            Some(before) if !self.is_loading && before.pending().next().is_some() => {
                coverage.note(Event::OffsetResetWhilePending);
            }
            Some(_) | None => {}
        }
        let state_epoch = snapshot.state_epoch;
        let shadow = Shadow {
            state_partition,
            state_epoch,
            start: snapshot.start_offset,
            entries,
            complete_count: snapshot.delivery_complete_count.map(i64::from),
            owed_count: None,
        };
        self.by_key.insert(key, shadow);
    }
}

impl Shadow {
    fn note_batch(
        &mut self,
        key: &SharePartitionKey,
        batch: &StateBatch,
        record: &ObservedRecord,
        judge: &Judge<'_>,
        (is_loading, coverage): (bool, &mut Coverage),
    ) {
        if let Some(owner) = batch.staged.map(|staged| staged.producer).filter(|_| !is_loading) {
            let is_known = judge.is_registered(owner, self.state_partition);
            assert!(is_known, "what is staged is known to its transaction: {owner:?} {key:?}");
            let was_decided = judge.was_decided(owner);
            assert!(!was_decided, "nothing is staged after the end: {owner:?} {key:?}");
        }
        let start = self.start.map_or(0, Offset::get);
        for offset in batch.range.offsets().map(Offset::get).filter(|offset| start <= *offset) {
            let mut new = Entry::of(batch, record.offset);
            if let Some(old) = self.entries.get(&offset) {
                if old.outdoes(&new) {
                    continue;
                }
                if !is_loading {
                    check_follows(key, offset, old, (new.state, new.staged), judge);
                }
                // What came back has to be delivered once more before anybody can accept it.
                let is_stale = old.came_back && new.delivery_count <= old.delivery_count;
                assert!(
                    is_loading || !is_stale || new.state != RecordState::Acknowledged,
                    "an abort acknowledges nothing: {offset} of {key:?}: {old:?} {new:?}"
                );
                if !is_loading && old.came_back && new.state == RecordState::Archived {
                    coverage.note(Event::DeliveryLimitAtAbort);
                }
                new.inherit(old);
            }
            self.entries.insert(offset, new);
        }
    }

    fn end_update(&mut self, key: &SharePartitionKey, update: &StateUpdate, passed: &mut Vec<i64>) {
        if let Some(start) = update.start_offset.filter(|start| self.start < Some(*start)) {
            let before = self.start.map_or(start.get(), Offset::get);
            for offset in before..start.get() {
                let entry = self.entries.get(&offset);
                let is_pending = entry.is_some_and(|entry| entry.staged.is_some());
                assert!(!is_pending, "the start does not pass what is pending: {offset} {key:?}");
                if !entry.is_some_and(|entry| entry.state.is_final()) {
                    passed.push(offset);
                }
            }
            self.entries = self.entries.split_off(&start.get());
            self.start = Some(start);
        }
        self.complete_count = update.delivery_complete_count.map(i64::from);
        // Writes that are under way together do not know of each other; but the end of a transaction counts all.
        if let (Some(owed), Some(count)) = (self.owed_count.take(), self.complete_count) {
            assert!(owed <= count, "what a transaction makes final is counted: {owed} {count} {key:?}");
        }
    }
}

/// Checks that a record may go from what is stored of it to what comes.
fn check_follows(
    key: &SharePartitionKey,
    offset: i64,
    old: &Entry,
    (new, new_staged): (RecordState, Option<Staged>),
    judge: &Judge<'_>,
) {
    let told = || format!("{offset} of {key:?}: {old:?} {new:?} {new_staged:?}");
    match (old.state, old.staged) {
        (RecordState::TxPending, Some(staged)) if new_staged.is_some() => {
            assert!(new_staged == Some(staged), "a record has one owner: {}", told());
        }
        (RecordState::TxPending, Some(staged)) => match judge.outcome_of(staged.producer) {
            Some(true) => assert!(new == staged.state, "a commit keeps its word: {}", told()),
            Some(false) => {
                assert!(new != RecordState::Acknowledged, "an abort acknowledges nothing: {}", told());
            }
            None => {
                // Its leader gave up a stage without knowing whether it was stored, and has refused it.
                let was_told = judge.was_told(staged.producer, key, offset);
                assert!(!was_told, "what is pending waits for a decision: {}", told());
            }
        },
        (RecordState::Archiving, _) => {
            let is_done = matches!(new, RecordState::Archiving | RecordState::Archived);
            assert!(is_done, "what is given up stays so: {}", told());
        }
        (RecordState::Acknowledged | RecordState::Archived, _) => {
            // A leader that never learned that its write was stored may give the record up in the end.
            let is_given_up = new == RecordState::Archived && !old.by_transaction;
            assert!(new == old.state || is_given_up, "what is final stays so: {}", told());
        }
        (RecordState::Available | RecordState::Acquired | RecordState::TxPending, _) => {}
    }
}
