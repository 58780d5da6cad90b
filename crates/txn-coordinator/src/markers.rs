//! The markers that decided transactions owe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{LeaderEpoch, Offset, Producer, Timestamp, TopicPartition};

use crate::state::Outcome;
use crate::version::TransactionVersion;

/// Names one decided end of a transaction, so that a late answer is not taken for one to the next.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MarkerKey {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The offset of the PREPARE record in the shard's log.
    pub prepared_at: Offset,
    /// The epoch of the coordinator that sends.
    pub coordinator_epoch: LeaderEpoch,
}

/// Markers to write, all of one transaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Marker {
    /// Names this end of the transaction in the answer.
    pub key: MarkerKey,
    /// The producer, with the epoch that the markers carry.
    pub producer: Producer,
    /// How the transaction ends.
    pub outcome: Outcome,
    /// The version whose rules the markers follow: in version 2 their epoch is above that of the data.
    pub transaction_version: TransactionVersion,
    /// Where to write them; never empty.
    pub partitions: Vec<TopicPartition>,
}

/// What an answer about a marker meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MarkerProgress {
    /// Other partitions are still owed theirs.
    Owed,
    /// That was the last: the transaction can be completed.
    Complete,
    /// The answer belongs to no transaction that is owed this marker: a late or repeated one.
    Stale,
}

/// The decided transactions of a shard whose end is not recorded yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct MarkerQueue {
    /// By the offset of the PREPARE record.
    owed: BTreeMap<Offset, Owed>,
    /// Those with markers to hand out, and from when on.
    markers_due: BTreeSet<(Timestamp, Offset)>,
    /// Those with every marker confirmed, and from when on their end can be recorded.
    completions_due: BTreeSet<(Timestamp, Offset)>,
}

#[derive(Clone, Debug)]
struct Owed {
    transactional_id: Arc<str>,
    /// Partitions whose marker is to be handed out.
    waiting: BTreeSet<TopicPartition>,
    /// Partitions whose marker is on its way.
    out: BTreeSet<TopicPartition>,
    /// The date under which it stands in one of the two sets of dates, if it does.
    due_at: Option<Timestamp>,
}

/// A date at which everything is due.
const AT_ONCE: Timestamp = Timestamp::from_ms(i64::MIN);

impl MarkerQueue {
    /// Adds the transaction that the PREPARE record at `prepared_at` decided.
    pub(crate) fn add(
        &mut self,
        prepared_at: Offset,
        transactional_id: Arc<str>,
        partitions: &BTreeSet<TopicPartition>,
    ) {
        let waiting = partitions.clone();
        let owed = Owed { transactional_id, waiting, out: BTreeSet::new(), due_at: None };
        self.owed.insert(prepared_at, owed);
        self.schedule(prepared_at, AT_ONCE);
    }

    /// Removes a transaction whose end is recorded, if it is here.
    pub(crate) fn remove(&mut self, prepared_at: Offset) {
        let Some(owed) = self.owed.remove(&prepared_at) else { return };
        if let Some(due_at) = owed.due_at {
            self.markers_due.remove(&(due_at, prepared_at));
            self.completions_due.remove(&(due_at, prepared_at));
        }
    }

    /// Takes the markers that are due first and hands them out.
    pub(crate) fn poll_markers(&mut self, now: Timestamp) -> Option<(Offset, Arc<str>, Vec<TopicPartition>)> {
        let &(due_at, prepared_at) = self.markers_due.first().filter(|(due_at, _)| *due_at <= now)?;
        self.markers_due.remove(&(due_at, prepared_at));
        let owed = self.owed.get_mut(&prepared_at)?;
        owed.due_at = None;
        let partitions = owed.waiting.iter().cloned().collect();
        owed.out.append(&mut owed.waiting);
        Some((prepared_at, owed.transactional_id.clone(), partitions))
    }

    /// Takes the transaction whose end is to be recorded first.
    pub(crate) fn poll_completion(&mut self, now: Timestamp) -> Option<(Offset, Arc<str>)> {
        let &(due_at, prepared_at) = self.completions_due.first().filter(|(due_at, _)| *due_at <= now)?;
        self.completions_due.remove(&(due_at, prepared_at));
        let owed = self.owed.get_mut(&prepared_at)?;
        owed.due_at = None;
        Some((prepared_at, owed.transactional_id.clone()))
    }

    /// Notes that a marker is written. A second answer for it changes nothing.
    pub(crate) fn confirm(&mut self, prepared_at: Offset, partition: &TopicPartition) -> MarkerProgress {
        let Some(owed) = self.owed.get_mut(&prepared_at) else { return MarkerProgress::Stale };
        // A confirmation may overtake the failure that an earlier try was given up with.
        if !owed.out.remove(partition) && !owed.waiting.remove(partition) {
            return MarkerProgress::Stale;
        }
        if !owed.waiting.is_empty() {
            return MarkerProgress::Owed;
        }
        if let Some(due_at) = owed.due_at.take() {
            self.markers_due.remove(&(due_at, prepared_at));
        }
        if !owed.out.is_empty() {
            return MarkerProgress::Owed;
        }
        self.schedule(prepared_at, AT_ONCE);
        MarkerProgress::Complete
    }

    /// Notes that a marker was not written, or that nobody knows: it is handed out again at `retry_at`.
    pub(crate) fn fail(
        &mut self,
        prepared_at: Offset,
        partition: &TopicPartition,
        retry_at: Timestamp,
    ) -> MarkerProgress {
        let Some(owed) = self.owed.get_mut(&prepared_at) else { return MarkerProgress::Stale };
        let Some(partition) = owed.out.take(partition) else { return MarkerProgress::Stale };
        owed.waiting.insert(partition);
        if owed.due_at.is_none() {
            self.schedule(prepared_at, retry_at);
        }
        MarkerProgress::Owed
    }

    /// Notes that the end of a transaction could not be recorded: it is handed out again at `retry_at`.
    pub(crate) fn fail_completion(&mut self, prepared_at: Offset, retry_at: Timestamp) {
        let idle = |owed: &Owed| owed.due_at.is_none() && owed.waiting.is_empty() && owed.out.is_empty();
        if self.owed.get(&prepared_at).is_some_and(idle) {
            self.schedule(prepared_at, retry_at);
        }
    }

    /// Returns whether every marker of the transaction is confirmed.
    pub(crate) fn is_complete(&self, prepared_at: Offset) -> bool {
        self.owed.get(&prepared_at).is_some_and(|owed| owed.waiting.is_empty() && owed.out.is_empty())
    }

    /// Returns the partitions whose marker is not confirmed, in order.
    pub(crate) fn unconfirmed(&self, prepared_at: Offset) -> BTreeSet<TopicPartition> {
        self.owed
            .get(&prepared_at)
            .map(|owed| owed.waiting.union(&owed.out).cloned().collect())
            .unwrap_or_default()
    }

    /// Returns how many transactions are here.
    pub(crate) fn len(&self) -> usize {
        self.owed.len()
    }

    /// Returns when the next of them is due.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let markers = self.markers_due.first();
        let completions = self.completions_due.first();
        markers.into_iter().chain(completions).map(|&(due_at, _)| due_at).min()
    }

    fn schedule(&mut self, prepared_at: Offset, due_at: Timestamp) {
        let Some(owed) = self.owed.get_mut(&prepared_at) else { return };
        assert!(owed.due_at.is_none(), "a transaction is due once");
        owed.due_at = Some(due_at);
        if owed.waiting.is_empty() {
            self.completions_due.insert((due_at, prepared_at));
        } else {
            self.markers_due.insert((due_at, prepared_at));
        }
    }

    /// Checks what must hold between any two calls.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub(crate) fn check_invariants(&self) {
        let due_count = self.owed.values().filter(|owed| owed.due_at.is_some()).count();
        assert!(due_count == self.markers_due.len() + self.completions_due.len(), "each is due once");
        for (prepared_at, owed) in &self.owed {
            assert!(owed.waiting.is_disjoint(&owed.out), "a marker is waiting or out, not both");
            let Some(due_at) = owed.due_at else {
                assert!(owed.waiting.is_empty(), "waiting markers have a date");
                continue;
            };
            let set = if owed.waiting.is_empty() { &self.completions_due } else { &self.markers_due };
            assert!(set.contains(&(due_at, *prepared_at)), "a date is kept in its set");
            assert!(!owed.waiting.is_empty() || owed.out.is_empty(), "an end waits for every marker");
        }
    }
}

#[cfg(test)]
mod tests;
