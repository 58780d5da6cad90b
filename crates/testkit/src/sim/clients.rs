//! Members of share groups and producers, as far as they remember.

use std::collections::BTreeMap;

use sharemark_protocol::{NodeId, Producer, Timestamp, TopicId};

use super::requests::Place;
use super::world::Connection;

/// A member of a share group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: &'static str,
    pub(super) name: String,
    /// The epoch that its last heartbeat gave it; 0 if it has not joined.
    pub(super) epoch: i32,
    pub(super) heard_at: Timestamp,
    pub(super) links: BTreeMap<NodeId, Link>,
}

/// A member's connection to one node.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// The epoch of the session's next request; 0 opens one.
    pub(super) session_epoch: i32,
    /// What is asked for in a fetch that is not answered: its acknowledgements, which are applied.
    pub(super) fetching: Option<Vec<Place>>,
}

/// A transactional producer.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) transactional_id: &'static str,
    /// Whether it is a client of before transaction version 2, which keeps its epoch and adds partitions itself. It
    /// stages in the early dialect.
    pub(super) is_old: bool,
    pub(super) producer: Option<Producer>,
    /// The producer before the last change, which must not get through any more.
    pub(super) fenced: Option<Producer>,
    /// The next sequence of each partition, in this epoch.
    pub(super) sequences: BTreeMap<(TopicId, i32), i32>,
    /// The transaction that is open.
    pub(super) txn: Option<usize>,
}

impl Writer {
    pub(super) const fn new(transactional_id: &'static str, is_old: bool) -> Self {
        Self { transactional_id, is_old, producer: None, fenced: None, sequences: BTreeMap::new(), txn: None }
    }

    /// Goes on as another incarnation.
    pub(super) fn become_producer(&mut self, producer: Option<Producer>) {
        if self.producer != producer {
            self.fenced = self.producer.or(self.fenced);
            self.producer = producer;
            self.sequences.clear();
        }
        self.txn = None;
    }
}
