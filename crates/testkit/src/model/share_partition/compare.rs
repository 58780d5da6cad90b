//! Comparing the model with the lock table.

use std::collections::BTreeMap;

use sharemark_protocol::Timestamp;
use sharemark_share_coordinator::{RecordState, SharePartition, Staged, StateBatch};

use super::{Held, NaiveSharePartition, push_offset};

/// What can be seen of one offset.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    state: RecordState,
    delivery_count: i16,
    member: Option<String>,
    lock_ms_left: Option<i64>,
    staged: Option<Staged>,
    in_transition: bool,
}

/// How long a lock has ended is exact up to here.
const LONG_AGO_MS: i64 = -(1 << 26);

fn seen_lock_ms_left(record: &super::Record, now: Timestamp) -> i64 {
    if record.is_lapsed { 0 } else { (record.deadline_ms - now.ms()).max(LONG_AGO_MS) }
}

/// Returns the name of a member of the model.
pub(super) fn member_name(member: usize) -> String {
    format!("member-{member}")
}

impl NaiveSharePartition {
    /// Checks that the lock table is in the model's state.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub(super) fn assert_equals(&self, real: &SharePartition, now: Timestamp) {
        real.check_invariants();
        assert_eq!(real.start_offset().get(), self.start, "start offset");
        assert_eq!(real.next_offset().get(), self.next, "next offset");
        assert_eq!(real.fetch_offset().get(), self.fetch_offset(), "fetch offset");
        assert_eq!(real.delivery_complete_count(), self.final_count(), "finished deliveries");
        let mut runs = Vec::new();
        real.records(now, &mut runs);
        let mut seen = BTreeMap::new();
        for run in runs {
            for offset in run.range.offsets() {
                let one = Seen {
                    state: run.state,
                    delivery_count: run.delivery_count,
                    member: run.member.map(str::to_owned),
                    lock_ms_left: run.lock_ms_left.map(|left| left.max(LONG_AGO_MS)),
                    staged: run.staged,
                    in_transition: run.in_transition,
                };
                self.keep(&mut seen, offset.get(), one);
            }
        }
        assert_eq!(seen, self.view(now), "records");
        self.assert_next_deadline(real, now);
    }

    /// What is done with below the start may be forgotten at any time.
    fn keep(&self, seen: &mut BTreeMap<i64, Seen>, offset: i64, one: Seen) {
        if self.start <= offset || !one.state.is_final() || one.in_transition {
            seen.insert(offset, one);
        }
    }

    fn view(&self, now: Timestamp) -> BTreeMap<i64, Seen> {
        let mut seen = BTreeMap::new();
        for (&offset, record) in &self.records {
            let is_acquired = record.state == RecordState::Acquired;
            let one = Seen {
                state: record.state,
                delivery_count: record.delivery_count,
                member: record.member.map(member_name),
                lock_ms_left: is_acquired.then(|| seen_lock_ms_left(record, now)),
                staged: record.staged.map(|(staged, ..)| staged),
                in_transition: record.transition.is_some(),
            };
            self.keep(&mut seen, offset, one);
        }
        seen
    }

    /// The next deadline may be early, never late; one that has passed may be any time that has passed.
    fn assert_next_deadline(&self, real: &SharePartition, now: Timestamp) {
        let is_locked = |record: &&super::Record| record.state == RecordState::Acquired && !record.is_lapsed;
        let locked = self.records.values().filter(is_locked);
        if let Some(deadline_ms) = locked.map(|record| record.deadline_ms).min() {
            let next = real.poll_timeout().map(Timestamp::ms);
            assert!(next.is_some_and(|next| next <= deadline_ms.max(now.ms())), "no lock is forgotten");
        }
    }

    /// Returns `changes` as they are stored.
    pub(super) fn stored(&self, changes: &Held) -> Vec<StateBatch> {
        let mut batches = Vec::new();
        for (&offset, &(state, staged)) in changes {
            push_offset(&mut batches, offset, state, self.records[&offset].delivery_count, staged);
        }
        batches
    }

    /// Returns the number of finished deliveries that is stored with `changes`.
    pub(super) fn stored_final_count(&self, changes: &Held) -> i64 {
        let held = self.held.values().flatten().chain(changes);
        let becoming = held.filter(|&(&offset, (state, _))| self.start <= offset && state.is_final());
        self.final_count() + (self.start - self.told_start) + becoming.count() as i64
    }
}
