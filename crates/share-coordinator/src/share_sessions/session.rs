//! One share session.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::TopicIdPartition;

use super::ConnectionId;

/// What a fetch has to say about one partition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PartitionOutcome {
    /// Whether records are in the answer.
    pub has_records: bool,
    /// Whether the partition has an error.
    pub has_error: bool,
    /// Whether the request carried acknowledgements for the partition.
    pub has_acknowledgements: bool,
}

impl PartitionOutcome {
    /// Returns whether the answer lists the partition, whatever the session knows of it.
    pub fn is_listed(self) -> bool {
        self.has_records || self.has_error || self.has_acknowledgements
    }
}

/// One share session.
#[derive(Clone, Debug)]
pub(super) struct ShareSession {
    /// The epoch of the next request.
    epoch: i32,
    connection: ConnectionId,
    /// In the order in which they joined.
    partitions: Vec<SessionPartition>,
    places: BTreeMap<TopicIdPartition, usize>,
}

#[derive(Clone, Debug)]
struct SessionPartition {
    partition: TopicIdPartition,
    /// Whether the next answer lists it even if there is nothing to tell.
    is_due: bool,
}

impl ShareSession {
    /// Makes the session that a request of epoch 0 opens.
    pub(super) fn new(partitions: &[TopicIdPartition], connection: ConnectionId) -> Self {
        let mut session = Self { epoch: 1, connection, partitions: Vec::new(), places: BTreeMap::new() };
        session.add(partitions);
        session
    }

    /// Returns the epoch that the next request must have.
    pub(super) fn next_epoch(&self) -> i32 {
        self.epoch
    }

    /// Makes `epoch` the one of the next request, to test what comes after long use.
    #[cfg(test)]
    pub(super) fn set_next_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
    }

    /// Returns the connection that opened the session.
    pub(super) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Returns how many partitions there are once `partitions` have joined.
    pub(super) fn partition_count_with(&self, partitions: &[TopicIdPartition]) -> usize {
        self.partitions.len() + partitions.iter().filter(|name| !self.places.contains_key(name)).count()
    }

    /// Uses up the epoch and changes the partitions. What joins and leaves in one request has left.
    pub(super) fn advance(&mut self, partitions: &[TopicIdPartition], forgotten: &[TopicIdPartition]) {
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        self.add(partitions);
        self.forget(forgotten);
    }

    fn add(&mut self, partitions: &[TopicIdPartition]) {
        for partition in partitions {
            let place = self.partitions.len();
            if *self.places.entry(*partition).or_insert(place) == place {
                self.partitions.push(SessionPartition { partition: *partition, is_due: true });
            }
        }
    }

    fn forget(&mut self, forgotten: &[TopicIdPartition]) {
        let gone: BTreeSet<_> = forgotten.iter().filter(|name| self.places.contains_key(name)).collect();
        if gone.is_empty() {
            return;
        }
        self.partitions.retain(|entry| !gone.contains(&entry.partition));
        self.places = self.partitions.iter().enumerate().map(|(at, entry)| (entry.partition, at)).collect();
    }

    /// Returns the partitions, starting with the one whose turn `epoch` is.
    pub(super) fn rotated(&self, epoch: i32) -> impl Iterator<Item = TopicIdPartition> {
        let count = self.partitions.len().max(1);
        let start = usize::try_from(epoch).unwrap_or(0) % count;
        let (after, first) = self.partitions.split_at(start);
        first.iter().chain(after).map(|entry| entry.partition)
    }

    /// Returns whether the answer lists `partition`, and remembers that.
    pub(super) fn answer(&mut self, partition: TopicIdPartition, outcome: PartitionOutcome) -> bool {
        let Some(entry) = self.places.get(&partition).and_then(|at| self.partitions.get_mut(*at)) else {
            return outcome.is_listed();
        };
        let is_listed = entry.is_due || outcome.is_listed();
        // After an error the next answer tells how things are, even if there is nothing else to tell.
        entry.is_due = outcome.has_error;
        is_listed
    }

    /// Returns the partitions in the order in which they joined.
    pub(super) fn into_partitions(self) -> Vec<TopicIdPartition> {
        self.partitions.into_iter().map(|entry| entry.partition).collect()
    }

    /// Checks that each partition is found at its place.
    pub(super) fn check_invariants(&self) {
        assert!(1 <= self.epoch, "the epoch of the next request is positive");
        assert!(self.places.len() == self.partitions.len(), "each partition has one place");
        for (at, entry) in self.partitions.iter().enumerate() {
            assert!(self.places.get(&entry.partition) == Some(&at), "a partition is found at its place");
        }
    }
}
