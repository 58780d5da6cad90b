//! The states of a share partition's offsets, as runs.

use std::collections::BTreeSet;

use sharemark_protocol::{Offset, OffsetRange, ProducerId};

use crate::{RecordState, StateBatch};

/// Runs of equal states: in order of offsets, disjoint, neighbours joined.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct StateBatches {
    runs: Vec<StateBatch>,
}

impl StateBatches {
    /// Returns the runs that `batches` come to when each is merged into those before it.
    pub(super) fn merged(batches: &[StateBatch]) -> Self {
        let mut merged = Self::default();
        if batches.is_sorted_by(|a, b| a.range.last() < b.range.first()) {
            merged.merge(batches);
        } else {
            for batch in batches {
                merged.merge(std::slice::from_ref(batch));
            }
        }
        merged
    }

    /// Returns the runs in order of offsets.
    pub(super) fn as_slice(&self) -> &[StateBatch] {
        &self.runs
    }

    /// Returns the runs in order of offsets.
    pub(super) fn into_vec(self) -> Vec<StateBatch> {
        self.runs
    }

    /// Merges `update`, whose batches are in order and disjoint.
    ///
    /// Where both say something, the higher delivery count wins and then the higher state id, as in Kafka. A
    /// pending entry stands outside that: its state has the highest id, so its outcome would lose to it.
    /// So a stage replaces whatever was there, and whatever comes later replaces it, but for a write of an earlier
    /// delivery that was late.
    pub(super) fn merge(&mut self, update: &[StateBatch]) {
        let (Some(first), Some(last)) = (update.first(), update.last()) else {
            return;
        };
        let (first, last) = (first.range.first(), last.range.last());
        if self.runs.last().is_none_or(|run| run.range.last() < first) {
            update.iter().for_each(|batch| push_joined(&mut self.runs, *batch));
            return;
        }
        // One run more at either side, since it may be joined.
        let from = self.runs.partition_point(|run| run.range.last() < first).saturating_sub(1);
        let to = self.runs.partition_point(|run| run.range.first() <= last);
        let to = self.runs.len().min(to + 1);
        let mut merged = Vec::with_capacity(to - from + 2 * update.len());
        merge_runs(&self.runs[from..to], update, &mut merged);
        self.runs.splice(from..to, merged);
    }

    /// Removes all offsets below `start_offset`.
    pub(super) fn cut_below(&mut self, start_offset: Offset) {
        let gone = self.runs.partition_point(|run| run.range.last() < start_offset);
        if 0 < gone {
            self.runs.drain(..gone);
        }
        if let Some(run) = self.runs.first_mut()
            && run.range.first() < start_offset
            && let Some(rest) = OffsetRange::new(start_offset, run.range.last())
        {
            run.range = rest;
        }
    }

    /// Replaces each pending run by what `resolve` makes of it, if anything.
    pub(super) fn resolve(&mut self, resolve: impl Fn(&StateBatch) -> Option<StateBatch>) {
        let runs = std::mem::take(&mut self.runs);
        self.runs.reserve(runs.len());
        for run in runs {
            let outcome = if run.staged.is_some() { resolve(&run) } else { None };
            push_joined(&mut self.runs, outcome.unwrap_or(run));
        }
    }

    /// Returns the runs that wait for the end of a transaction.
    pub(super) fn pending(&self) -> impl Iterator<Item = &StateBatch> {
        self.runs.iter().filter(|run| run.staged.is_some())
    }

    /// Returns the producers whose transactions the runs wait for.
    pub(super) fn owners(&self) -> BTreeSet<ProducerId> {
        self.runs.iter().filter_map(|run| run.staged).map(|staged| staged.producer.id).collect()
    }

    /// Returns how many offsets are final.
    pub(super) fn final_offset_count(&self) -> i64 {
        let finals = self.runs.iter().filter(|run| run.state.is_final());
        finals.fold(0, |count: i64, run| count.saturating_add(run.range.offset_count()))
    }

    /// Checks that the runs are in order, disjoint, joined, and storable, and none is below `start_offset`.
    pub(super) fn check_invariants(&self, start_offset: Option<Offset>) {
        for pair in self.runs.windows(2) {
            let [a, b] = pair else { continue };
            assert!(a.range.last() < b.range.first(), "runs are in order and disjoint");
            assert!(joined(a, b).is_none(), "neighbours are joined");
        }
        for run in &self.runs {
            assert!(start_offset <= Some(run.range.first()), "no run is below the start offset");
            assert!(is_storable(run), "a run is pending exactly if it has an owner, and never acquired");
        }
    }
}

/// Returns whether `batch` may stand in the log: owner and pending state go together, and locks are not stored.
pub(crate) fn is_storable(batch: &StateBatch) -> bool {
    use RecordState::{Acknowledged, Acquired, Archived, Archiving, Available, TxPending};
    let has_fitting_owner = match (batch.state, batch.staged) {
        (Available | Acknowledged | Archiving | Archived, staged) => staged.is_none(),
        (TxPending, Some(staged)) => matches!(staged.state, Acknowledged | Archiving | Archived),
        (TxPending, None) | (Acquired, _) => false,
    };
    has_fitting_owner && 0 <= batch.delivery_count
}

/// Merges two lists in order of offsets into `merged`.
fn merge_runs(old: &[StateBatch], new: &[StateBatch], merged: &mut Vec<StateBatch>) {
    let (mut olds, mut news) = (old.iter().copied(), new.iter().copied());
    let (mut old, mut new) = (olds.next(), news.next());
    loop {
        match (old, new) {
            (None, None) => return,
            (Some(run), None) => {
                push_joined(merged, run);
                old = olds.next();
            }
            (None, Some(batch)) => {
                push_joined(merged, batch);
                new = news.next();
            }
            (Some(run), Some(batch)) => {
                let piece = lowest_piece(run, batch);
                push_joined(merged, piece);
                let end = piece.range.last();
                old =
                    if end < run.range.first() { old } else { rest_above(run, end).or_else(|| olds.next()) };
                new = if end < batch.range.first() {
                    new
                } else {
                    rest_above(batch, end).or_else(|| news.next())
                };
            }
        }
    }
}

/// Returns the lowest offsets that `old`, `new` or both speak of, as long as it is the same of these.
fn lowest_piece(old: StateBatch, new: StateBatch) -> StateBatch {
    let (first, second) =
        (old.range.first().min(new.range.first()), old.range.first().max(new.range.first()));
    let (chosen, last) = if first == second {
        (winner(old, new), old.range.last().min(new.range.last()))
    } else {
        let alone = if old.range.first() == first { old } else { new };
        (alone, alone.range.last().min(second.previous().unwrap_or(first)))
    };
    match OffsetRange::new(first, last) {
        Some(range) => StateBatch { range, ..chosen },
        None => chosen,
    }
}

/// Returns which of two batches holds where both say something; `new` came later.
fn winner(old: StateBatch, new: StateBatch) -> StateBatch {
    // A write of an earlier delivery may be late.
    let is_late = new.staged.is_none() && new.delivery_count < old.delivery_count;
    if old.staged.is_some() || new.staged.is_some() {
        return if is_late { old } else { new };
    }
    let is_old = (new.delivery_count, new.state) <= (old.delivery_count, old.state);
    if is_old { old } else { new }
}

/// Returns the part of `batch` above `end`, if there is any.
fn rest_above(batch: StateBatch, end: Offset) -> Option<StateBatch> {
    if batch.range.last() <= end {
        return None;
    }
    OffsetRange::new(end.next(), batch.range.last()).map(|range| StateBatch { range, ..batch })
}

/// Returns both as one run, if they are neighbours and equal.
fn joined(a: &StateBatch, b: &StateBatch) -> Option<StateBatch> {
    let is_equal = a.state == b.state && a.delivery_count == b.delivery_count && a.staged == b.staged;
    if !is_equal || Some(a.range.last()) != b.range.first().previous() {
        return None;
    }
    OffsetRange::new(a.range.first(), b.range.last()).map(|range| StateBatch { range, ..*a })
}

/// Appends a run that lies above all others, joined to the last one where possible.
fn push_joined(runs: &mut Vec<StateBatch>, run: StateBatch) {
    if let Some(last) = runs.last_mut()
        && let Some(joined) = joined(last, &run)
    {
        *last = joined;
        return;
    }
    runs.push(run);
}

#[cfg(test)]
mod tests;
