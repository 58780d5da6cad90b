//! The end of a transaction, for the acknowledgements that wait for it.

use std::collections::BTreeSet;

use sharemark_protocol::{Offset, OffsetRange, Producer, SharePartitionKey, StateEpoch, Timestamp};

use super::ShareCoordinatorShard;
use super::state::ShareState;
use super::state_batches::StateBatches;
use crate::{RecordState, ResolvedRange, StateBatch, StateRecord};

/// How a transaction ends.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TransactionOutcome {
    /// Nothing of it has happened.
    Abort,
    /// All of it has happened.
    Commit,
}

/// An end-transaction marker, as its control batch tells it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EndTransactionMarker {
    /// Whose transaction ends, and the epoch of the marker: above that of the transaction from transaction
    /// version 2 on.
    pub producer: Producer,
    /// How it ends.
    pub outcome: TransactionOutcome,
}

/// What the outcome of a transaction depends on besides the stored state, for one share partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResolutionPolicy {
    /// The delivery count from which on an aborted record is not delivered again; `None` is no limit.
    pub delivery_count_limit: Option<i16>,
    /// Whether records that are given up are copied to a dead-letter queue first.
    pub has_dead_letter_queue: bool,
    /// Where the log of the source partition starts.
    pub log_start_offset: Offset,
}

/// What the end of a transaction changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Resolution {
    /// What is appended after the control batch, as a plain batch.
    pub records: Vec<StateRecord>,
    /// What each share partition is to be told, once that is appended.
    pub partitions: Vec<ResolvedPartition>,
}

/// The entries of one share partition whose transaction has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolvedPartition {
    /// The share partition.
    pub key: SharePartitionKey,
    /// The generation of the stored state; the leader's copy must be of the same.
    pub state_epoch: StateEpoch,
    /// The entries, in order of offsets.
    pub ranges: Vec<ResolvedRange>,
}

impl ShareCoordinatorShard {
    /// Decides what follows an end-transaction marker; nothing if its transaction has staged nothing.
    ///
    /// A marker of transaction version 2 or later bears an epoch above that of its transaction. So it ends
    /// what was staged at a lower epoch, and a late duplicate leaves the producer's next transaction alone.
    /// Before, a producer keeps its epoch from one transaction to the next.
    ///
    /// The fences of the marker itself (its epoch and its coordinator's) are those of the log. What `policy`
    /// says of a share partition shapes its outcome.
    pub fn decide_end_transaction_marker(
        &self,
        marker: EndTransactionMarker,
        transaction_version: i16,
        policy: impl Fn(&SharePartitionKey) -> ResolutionPolicy,
        now: Timestamp,
    ) -> Resolution {
        let epoch = marker.producer.epoch;
        let ends = |owner: Producer| owner.epoch < epoch || (transaction_version < 2 && owner.epoch == epoch);
        self.resolve(marker.producer, ends, marker.outcome, policy, now)
    }

    /// Decides the outcome of a transaction of `producer` that no marker will end, after a load.
    ///
    /// Only entries of that very incarnation are resolved.
    pub fn decide_reconcile(
        &self,
        producer: Producer,
        outcome: TransactionOutcome,
        policy: impl Fn(&SharePartitionKey) -> ResolutionPolicy,
        now: Timestamp,
    ) -> Resolution {
        self.resolve(producer, |owner| owner == producer, outcome, policy, now)
    }

    /// Applies the control batch of an end-transaction marker, live or at recovery.
    ///
    /// The control batch does not tell the transaction version, so this resolves what every version agrees
    /// on: entries staged at a lower epoch. The updates that follow it in the same append do the rest, and
    /// carry what cannot be known here.
    ///
    /// # Panics
    ///
    /// If records do not come in the order of the log.
    pub fn replay_end_transaction_marker(&mut self, offset: Offset, marker: EndTransactionMarker) {
        self.replay_other(offset);
        let keys = self.pending.get(&marker.producer.id).cloned().unwrap_or_default();
        for key in keys {
            let Some(state) = self.states.get_mut(&key) else { continue };
            let owners_before = state.owners.clone();
            state.end_transactions_below(marker);
            self.reindex_owners(&key, owners_before);
        }
    }

    fn resolve(
        &self,
        producer: Producer,
        ends: impl Fn(Producer) -> bool,
        outcome: TransactionOutcome,
        policy: impl Fn(&SharePartitionKey) -> ResolutionPolicy,
        now: Timestamp,
    ) -> Resolution {
        let none = BTreeSet::new();
        let mut resolution = Resolution::default();
        for key in self.pending.get(&producer.id).unwrap_or(&none) {
            let Some(state) = self.states.get(key) else { continue };
            let policy = policy(key);
            let (mut outcomes, mut ranges) = (Vec::new(), Vec::new());
            for batch in state.batches.pending() {
                let Some(owner) = batch.staged.map(|staged| staged.producer) else { continue };
                if owner.id == producer.id && ends(owner) {
                    let from = outcomes.len();
                    resolve_batch(batch, outcome, &policy, &mut outcomes);
                    ranges.extend(outcomes[from..].iter().map(|resolved| ResolvedRange {
                        range: resolved.range,
                        producer: owner,
                        state: resolved.state,
                    }));
                }
            }
            if outcomes.is_empty() {
                continue;
            }
            let complete_count = state.complete_count_with(final_offset_count(&outcomes));
            let batches = StateBatches::merged(&outcomes).into_vec();
            let change = self.change(state, state.start_offset, Some(complete_count), batches, now);
            resolution.records.push(StateRecord { key: key.clone(), change });
            let state_epoch = state.state_epoch;
            resolution.partitions.push(ResolvedPartition { key: key.clone(), state_epoch, ranges });
        }
        resolution
    }
}

impl ShareState {
    fn end_transactions_below(&mut self, marker: EndTransactionMarker) {
        let ended = |batch: &StateBatch| {
            let staged = batch.staged?;
            let owner = staged.producer;
            if owner.id != marker.producer.id || marker.producer.epoch <= owner.epoch {
                return None;
            }
            let state = match marker.outcome {
                TransactionOutcome::Abort => RecordState::Available,
                TransactionOutcome::Commit => staged.state,
            };
            Some(StateBatch { state, staged: None, ..*batch })
        };
        let outcomes = self.batches.pending().filter_map(ended).collect::<Vec<_>>();
        if outcomes.is_empty() {
            return;
        }
        self.delivery_complete_count = Some(self.complete_count_with(final_offset_count(&outcomes)));
        self.batches.resolve(ended);
        self.owners = self.batches.owners();
    }
}

/// Appends to `outcomes` what becomes of a pending run.
fn resolve_batch(
    pending: &StateBatch,
    outcome: TransactionOutcome,
    policy: &ResolutionPolicy,
    outcomes: &mut Vec<StateBatch>,
) {
    let Some(staged) = pending.staged else { return };
    let mut push = |range: Option<OffsetRange>, state: RecordState| {
        let Some(range) = range else { return };
        assert!(pending.state.can_become(state), "a transaction ends in a state that a record may have");
        outcomes.push(StateBatch { range, state, staged: None, ..*pending });
    };
    match outcome {
        TransactionOutcome::Commit => push(Some(pending.range), staged.state),
        TransactionOutcome::Abort => {
            let (first, last, log_start) =
                (pending.range.first(), pending.range.last(), policy.log_start_offset);
            // What is below the start of the log cannot be delivered again.
            let below = log_start.previous().and_then(|end| OffsetRange::new(first, last.min(end)));
            push(below, RecordState::Archived);
            let is_given_up =
                policy.delivery_count_limit.is_some_and(|limit| limit <= pending.delivery_count);
            let state = match (is_given_up, policy.has_dead_letter_queue) {
                (false, _) => RecordState::Available,
                (true, true) => RecordState::Archiving,
                (true, false) => RecordState::Archived,
            };
            push(OffsetRange::new(first.max(log_start), last), state);
        }
    }
}

fn final_offset_count(batches: &[StateBatch]) -> i64 {
    let finals = batches.iter().filter(|batch| batch.state.is_final());
    finals.fold(0, |count: i64, batch| count.saturating_add(batch.range.offset_count()))
}
