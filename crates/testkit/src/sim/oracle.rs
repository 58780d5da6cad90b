//! What clients may believe, from their answers alone.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::{Timestamp, TopicId};

/// The group that sees only what is committed.
pub(super) const READ_COMMITTED: &str = "h";

/// A record as one group sees it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Seen {
    pub(super) group: &'static str,
    pub(super) topic_id: TopicId,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

/// What has become of a record in a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// It may be delivered.
    Free,
    /// A member holds it until then.
    Held {
        /// The member.
        member: usize,
        /// When its lock ends.
        until: Timestamp,
    },
    /// It is part of a transaction.
    Staged {
        /// The transaction.
        txn: usize,
        /// Whether it was accepted; rejected otherwise.
        accepted: bool,
    },
    /// It was accepted.
    Accepted,
    /// It was rejected.
    Rejected,
}

/// What has become of a transaction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TxnState {
    /// It is open.
    Open,
    /// It is open longer than it may be, so that it can be aborted at any time.
    Overdue,
    /// It was committed.
    Committed,
    /// It was aborted.
    Aborted,
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Txn {
    pub(super) state: TxnState,
    pub(super) began: Timestamp,
    /// What it has written to the output topic.
    pub(super) outputs: BTreeSet<String>,
}

/// Everything that clients know together.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    records: BTreeMap<Seen, (Fate, i16)>,
    pub(super) txns: Vec<Txn>,
    /// Where logs start.
    log_starts: BTreeMap<(TopicId, i32), i64>,
    /// Records that were produced, each with its transaction if it is part of one.
    pub(super) produced: BTreeMap<(TopicId, i32, i64), Option<usize>>,
}

impl Oracle {
    pub(super) fn fate(&self, seen: &Seen) -> Fate {
        self.records.get(seen).map_or(Fate::Free, |(fate, _)| *fate)
    }

    /// Returns how often a record was delivered, as far as clients were told.
    pub(super) fn delivery_count(&self, seen: &Seen) -> i16 {
        self.records.get(seen).map_or(0, |(_, count)| *count)
    }

    pub(super) fn set(&mut self, seen: Seen, fate: Fate) {
        self.records.entry(seen).or_insert((Fate::Free, 0)).0 = fate;
    }

    /// Notes that a record was delivered.
    ///
    /// # Panics
    ///
    /// If it must not have been: it is done with, or somebody else's.
    pub(super) fn acquire(
        &mut self,
        now: Timestamp,
        seen: Seen,
        member: usize,
        until: Timestamp,
        count: i16,
    ) {
        if seen.offset < self.log_starts.get(&(seen.topic_id, seen.partition)).copied().unwrap_or(0) {
            return; // A batch that the log start cuts in two is delivered whole; this part of it does not matter.
        }
        let source = (seen.topic_id, seen.partition, seen.offset);
        if let Some(Some(txn)) = self.produced.get(&source)
            && seen.group == READ_COMMITTED
        {
            let txn = &self.txns[*txn];
            assert!(txn.state == TxnState::Committed, "{seen:?} was delivered before its commit: {txn:?}");
        }
        match self.fate(&seen) {
            Fate::Free => {}
            Fate::Held { until, .. } => {
                assert!(until <= now, "{seen:?} was still locked until {until:?}, at {now:?}")
            }
            Fate::Staged { txn, .. } => {
                let state = self.txns[txn].state;
                assert!(state == TxnState::Overdue, "{seen:?} was in an open transaction: {state:?}");
                self.end(txn, TxnState::Aborted);
            }
            fate @ (Fate::Accepted | Fate::Rejected) => panic!("{seen:?} was delivered again after {fate:?}"),
        }
        assert!(1 <= count, "a delivery counts");
        self.records.insert(seen, (Fate::Held { member, until }, count));
    }

    /// Returns what a member holds whose lock lasts, in order.
    pub(super) fn held_by(&self, now: Timestamp, member: usize) -> Vec<Seen> {
        let held = self.records.iter().filter(|(_, (fate, _))| {
            matches!(fate, Fate::Held { member: holder, until } if *holder == member && now < *until)
        });
        held.map(|(seen, _)| *seen).collect()
    }

    /// Frees what a member holds in some partitions, as its session has ended.
    pub(super) fn release(&mut self, member: usize, is_concerned: impl Fn(&Seen) -> bool) {
        for (seen, (fate, _)) in &mut self.records {
            if matches!(fate, Fate::Held { member: holder, .. } if *holder == member) && is_concerned(seen) {
                *fate = Fate::Free;
            }
        }
    }

    /// Notes how a transaction has ended.
    pub(super) fn end(&mut self, txn: usize, state: TxnState) {
        self.txns[txn].state = state;
        for (fate, _) in self.records.values_mut() {
            if let Fate::Staged { txn: owner, accepted } = *fate
                && owner == txn
            {
                *fate = match (state, accepted) {
                    (TxnState::Committed, true) => Fate::Accepted,
                    (TxnState::Committed, false) => Fate::Rejected,
                    (TxnState::Open | TxnState::Overdue | TxnState::Aborted, _) => Fate::Free,
                };
            }
        }
    }

    /// Forgets the records of a partition that are gone.
    pub(super) fn truncate(&mut self, topic_id: TopicId, partition: i32, log_start: i64) {
        let is_gone =
            |id: TopicId, index: i32, offset: i64| (id, index) == (topic_id, partition) && offset < log_start;
        self.log_starts.insert((topic_id, partition), log_start);
        self.records.retain(|seen, _| !is_gone(seen.topic_id, seen.partition, seen.offset));
        self.produced.retain(|(id, index, offset), _| !is_gone(*id, *index, *offset));
    }

    /// Forgets a topic that is gone.
    pub(super) fn forget(&mut self, topic_id: TopicId) {
        self.records.retain(|seen, _| seen.topic_id != topic_id);
        self.produced.retain(|(id, _, _), _| *id != topic_id);
    }

    /// Notes which transactions are open longer than they may be.
    pub(super) fn pass(&mut self, now: Timestamp, timeout_ms: i64) {
        for txn in &mut self.txns {
            if txn.state == TxnState::Open && txn.began.plus_ms(timeout_ms) <= now {
                txn.state = TxnState::Overdue;
            }
        }
    }
}
