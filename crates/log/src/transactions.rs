//! The transactions of a log: those that are open, and those that were aborted.

use std::collections::{BTreeMap, VecDeque};

use sharemark_protocol::{Offset, OffsetRange, ProducerId};

/// An aborted transaction that still has records in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: ProducerId,
    /// Where it began.
    pub first_offset: Offset,
    /// The offset of its marker.
    pub last_offset: Offset,
}

/// A transaction that a marker has just ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompletedTransaction {
    /// Whose it was.
    pub producer_id: ProducerId,
    /// Where it began.
    pub first_offset: Offset,
    /// The offset of its marker.
    pub last_offset: Offset,
    /// Whether it was committed; it was aborted otherwise.
    pub committed: bool,
}

/// The transactions of one log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Transactions {
    /// Open ones by their first offset.
    open: BTreeMap<Offset, ProducerId>,
    /// Aborted ones in the order of their markers.
    aborted: VecDeque<AbortedTransaction>,
}

impl Transactions {
    /// Returns the lowest offset of an open transaction.
    pub(crate) fn first_open(&self) -> Option<Offset> {
        self.open.first_key_value().map(|(&first, _)| first)
    }

    pub(crate) fn begin(&mut self, producer_id: ProducerId, first: Offset) {
        let before = self.open.insert(first, producer_id);
        assert!(before.is_none(), "one batch opens one transaction");
    }

    pub(crate) fn complete(&mut self, completed: &CompletedTransaction) {
        let CompletedTransaction { producer_id, first_offset, last_offset, committed } = *completed;
        let open = self.open.remove(&first_offset);
        assert!(open == Some(producer_id), "an open transaction is listed under its first offset");
        if !committed {
            self.aborted.push_back(AbortedTransaction { producer_id, first_offset, last_offset });
        }
    }

    /// Appends the aborted transactions that reach into `range`, in the order of their markers.
    pub(crate) fn aborted_within(&self, range: OffsetRange, out: &mut Vec<AbortedTransaction>) {
        let from = self.aborted.partition_point(|aborted| aborted.last_offset < range.first());
        // Later ones cannot be left out by their marker: a transaction may be longer than the range.
        out.extend(self.aborted.range(from..).filter(|aborted| aborted.first_offset <= range.last()));
    }

    /// Returns whether the data of `producer_id` at `offset` was aborted.
    pub(crate) fn is_aborted(&self, producer_id: ProducerId, offset: Offset) -> bool {
        let from = self.aborted.partition_point(|aborted| aborted.last_offset < offset);
        let mut later = self.aborted.range(from..);
        later.any(|aborted| aborted.producer_id == producer_id && aborted.first_offset <= offset)
    }

    /// Forgets aborted transactions whose marker lies below `start`.
    pub(crate) fn truncate_below(&mut self, start: Offset) {
        while self.aborted.front().is_some_and(|aborted| aborted.last_offset < start) {
            self.aborted.pop_front();
        }
    }

    pub(crate) fn check_invariants(&self, log_end: Offset, open_since: &BTreeMap<Offset, ProducerId>) {
        assert!(self.open == *open_since, "producers and transactions agree about what is open");
        let mut previous = None;
        for aborted in &self.aborted {
            assert!(
                previous < Some(aborted.last_offset),
                "aborted transactions are in order of their markers"
            );
            assert!(aborted.first_offset < aborted.last_offset, "a marker comes after its data");
            assert!(aborted.last_offset < log_end, "a marker lies in the log");
            previous = Some(aborted.last_offset);
        }
    }
}
