//! Comparing the model with the lock table.

use sharemark_protocol::Timestamp;
use sharemark_share_coordinator::{RecordRun, RecordState, SharePartition, StateBatch};

use super::{Held, NaiveSharePartition, Record, push_offset};

/// How long a lock has ended is exact up to here.
const LONG_AGO_MS: i64 = -(1 << 26);

/// The names of the members of the model.
const MEMBER_NAMES: [&str; 5] = ["member-0", "member-1", "member-2", "member-3", "member-4"];

/// Returns the name of a member of the model.
pub(super) fn member_name(member: usize) -> &'static str {
    MEMBER_NAMES[member]
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
        // What is done with below the start may be forgotten at any time.
        let is_kept = |offset: i64, state: RecordState, in_transition: bool| {
            self.start <= offset || !state.is_final() || in_transition
        };
        let mut expected = self
            .records
            .iter()
            .filter(|&(&offset, record)| is_kept(offset, record.state, record.transition.is_some()));
        for run in &runs {
            for offset in run.range.first().get()..=run.range.last().get() {
                if is_kept(offset, run.state, run.in_transition) {
                    let next = expected.next();
                    let is_same =
                        next.is_some_and(|(&next, record)| next == offset && is_seen(record, run, now));
                    assert!(is_same, "the record at {offset} is {run:?}, expected was {next:?}");
                }
            }
        }
        let missing = expected.next();
        assert!(missing.is_none(), "the record {missing:?} is not tracked");
        self.assert_next_deadline(real, now);
    }

    /// The next deadline may be early, never late; one that has passed may be any time that has passed.
    fn assert_next_deadline(&self, real: &SharePartition, now: Timestamp) {
        let is_locked = |record: &&Record| record.state == RecordState::Acquired && !record.is_lapsed;
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

/// Returns whether `run` tells of `record` what it is.
fn is_seen(record: &Record, run: &RecordRun<'_>, now: Timestamp) -> bool {
    let lock_ms_left = (record.state == RecordState::Acquired)
        .then(|| if record.is_lapsed { 0 } else { (record.deadline_ms - now.ms()).max(LONG_AGO_MS) });
    run.state == record.state
        && run.delivery_count == record.delivery_count
        && run.member == record.member.map(member_name)
        && run.lock_ms_left.map(|left| left.max(LONG_AGO_MS)) == lock_ms_left
        && run.staged == record.staged.map(|(staged, ..)| staged)
        && run.in_transition == record.transition.is_some()
}
