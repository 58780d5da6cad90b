//! Which leader wrote which offsets.

use std::collections::BTreeMap;

use sharemark_protocol::{LeaderEpoch, Offset};

/// Where each leader epoch began, for those that still have offsets in the log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LeaderEpochs {
    starts: BTreeMap<LeaderEpoch, Offset>,
}

impl LeaderEpochs {
    /// Returns the newest epoch.
    pub(crate) fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last_key_value().map(|(&epoch, _)| epoch)
    }

    /// Returns the epoch that `offset` was or would be written in.
    pub(crate) fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.starts.iter().rev().find(|&(_, &start)| start <= offset).map(|(&epoch, _)| epoch)
    }

    /// Notes that `epoch` begins at `start`, unless it has begun already.
    pub(crate) fn begin(&mut self, epoch: LeaderEpoch, start: Offset) {
        if self.latest() < Some(epoch) {
            self.starts.retain(|_, other| *other < start); // Epochs that wrote nothing.
            self.starts.insert(epoch, start);
        }
    }

    /// Returns the newest epoch that is not above `epoch`, and where the one after it begins.
    ///
    /// `log_end` is where the newest epoch ends. An epoch older than all that are known ends where they
    /// begin, under its own number.
    pub(crate) fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if latest < epoch {
            return None;
        }
        let floor = self.starts.range(..=epoch).next_back().map_or(epoch, |(&floor, _)| floor);
        let end = self
            .starts
            .range(epoch..)
            .find(|&(&other, _)| epoch < other)
            .map_or(log_end, |(_, &start)| start);
        Some((floor, end))
    }

    /// Forgets what lies below `start`.
    pub(crate) fn truncate_below(&mut self, start: Offset) {
        let Some(epoch) = self.epoch_of(start) else { return };
        self.starts.retain(|&other, _| epoch <= other);
        self.starts.insert(epoch, start);
    }

    pub(crate) fn check_invariants(&self, log_end: Offset) {
        let mut previous = None;
        for &start in self.starts.values() {
            assert!(previous < Some(start), "later epochs begin later");
            assert!(start <= log_end, "no epoch begins beyond the end");
            previous = Some(start);
        }
    }
}
