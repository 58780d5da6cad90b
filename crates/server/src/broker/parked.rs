//! Requests that wait: for records, for a freed record, or for their time.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{Timestamp, TopicIdPartition};

use super::fetch::FetchWait;
use super::input::{ConnectionId, Origin};
use super::share_fetch::ShareFetchWait;

/// Names a parked request of one node; never used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct ParkedId(u64);

/// A request that waits.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    /// Where its answer goes.
    pub(super) origin: Origin,
    /// When it is answered whatever has happened, in real time; `Timestamp::MAX` for never.
    pub(super) deadline: Timestamp,
    /// What it waits for.
    pub(super) wait: Wait,
}

/// What a parked request waits for.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    /// Records of a Fetch.
    Fetch(Box<FetchWait>),
    /// Records of a ShareFetch.
    ShareFetch(Box<ShareFetchWait>),
    /// The rest of its classic group, which answers it.
    ClassicGroup,
    /// Only its deadline: the answer is known and held back, so that a refused client does not spin.
    Time(Box<ResponseMessage>),
}

/// Why a parked request is looked at again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wake {
    /// Something changed in one of its partitions.
    Changed,
    /// Its deadline has passed.
    Deadline,
    /// Its peer half-closed the connection: it is answered with what needs no change of state.
    PeerClosed,
}

/// The parked requests of one node, found by partition, deadline or connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ParkedRequests {
    next_id: u64,
    entries: BTreeMap<ParkedId, (Parked, Vec<TopicIdPartition>)>,
    by_partition: BTreeMap<TopicIdPartition, BTreeSet<ParkedId>>,
    by_deadline: BTreeSet<(Timestamp, ParkedId)>,
    by_connection: BTreeMap<ConnectionId, ParkedId>,
}

impl ParkedRequests {
    /// Parks a request until one of `partitions` changes or its deadline passes.
    pub(super) fn park(&mut self, parked: Parked, partitions: Vec<TopicIdPartition>) {
        let connection = parked.origin.connection;
        assert!(!self.by_connection.contains_key(&connection), "a connection has one request in the broker");
        let id = ParkedId(self.next_id);
        self.next_id += 1;
        for partition in &partitions {
            self.by_partition.entry(*partition).or_default().insert(id);
        }
        self.by_deadline.insert((parked.deadline, id));
        self.by_connection.insert(connection, id);
        self.entries.insert(id, (parked, partitions));
    }

    /// Takes one request out, so that it is answered, dropped or parked again.
    pub(super) fn take(&mut self, id: ParkedId) -> Option<Parked> {
        let (parked, partitions) = self.entries.remove(&id)?;
        for partition in &partitions {
            if let Some(waiting) = self.by_partition.get_mut(partition) {
                waiting.remove(&id);
                if waiting.is_empty() {
                    self.by_partition.remove(partition);
                }
            }
        }
        self.by_deadline.remove(&(parked.deadline, id));
        self.by_connection.remove(&parked.origin.connection);
        Some(parked)
    }

    /// Returns the requests that wait for `partition`, oldest first.
    pub(super) fn waiting_for(&self, partition: &TopicIdPartition) -> impl Iterator<Item = ParkedId> + '_ {
        self.by_partition.get(partition).into_iter().flatten().copied()
    }

    /// Returns the parked request of `connection`.
    pub(super) fn of_connection(&self, connection: ConnectionId) -> Option<ParkedId> {
        self.by_connection.get(&connection).copied()
    }

    /// Returns the requests that wait, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Parked> + '_ {
        self.entries.values().map(|(parked, _)| parked)
    }

    /// Returns the connections whose request waits.
    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.by_connection.keys().copied()
    }

    /// Checks that every request is found by each of its partitions, its deadline and its connection.
    pub(super) fn check_invariants(&self) {
        let mut place_count = 0;
        for (id, (parked, partitions)) in &self.entries {
            assert!(self.by_deadline.contains(&(parked.deadline, *id)), "a parked request has its deadline");
            let by_connection = self.by_connection.get(&parked.origin.connection);
            assert!(by_connection == Some(id), "a parked request is found by its connection");
            let distinct: BTreeSet<&TopicIdPartition> = partitions.iter().collect();
            for partition in &distinct {
                let waiting = self.by_partition.get(partition);
                assert!(
                    waiting.is_some_and(|ids| ids.contains(id)),
                    "a request is parked under its partitions"
                );
            }
            place_count += distinct.len();
        }
        assert!(self.by_deadline.len() == self.entries.len(), "each deadline is that of a request");
        assert!(self.by_connection.len() == self.entries.len(), "a connection has one request in the broker");
        let places: usize = self.by_partition.values().map(BTreeSet::len).sum();
        assert!(places == place_count, "under a partition are only requests that wait");
    }

    /// Returns the earliest deadline, in real time.
    pub(super) fn first_deadline(&self) -> Option<Timestamp> {
        // A request that waits for its group has none.
        self.by_deadline.first().map(|(deadline, _)| *deadline).filter(|deadline| *deadline < Timestamp::MAX)
    }

    /// Takes one request out whose deadline has passed. Call until it returns `None`.
    pub(super) fn pop_due(&mut self, real: Timestamp) -> Option<Parked> {
        let &(deadline, id) = self.by_deadline.first()?;
        if real < deadline {
            return None;
        }
        self.take(id)
    }
}
