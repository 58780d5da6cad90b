//! Who takes part: producers, share consumers, sink tasks and transactional processors, as far as they remember.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::{NodeId, Producer, Timestamp, TopicId};

use super::super::requests::Place;
use super::cluster::Connection;

/// A record, wherever it is read.
pub(super) type Spot = (TopicId, i32, i64);

/// What an actor is there for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// It produces records.
    Producer,
    /// It fetches and acknowledges as it likes.
    Consumer,
    /// It loops as a sink task (KIP-1302): fetch, put, acknowledge all, and only then fetch again.
    Sink,
    /// It copies: outputs and acknowledgements of a transaction belong together (KIP-1289).
    Processor,
}

/// One who sends requests, one at a time.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) kind: Kind,
    /// The partitions of inputs and outputs, as it knows them; empty to look them up.
    pub(super) view: Vec<Place>,
    pub(super) member: Member,
    pub(super) writer: Writer,
    pub(super) connections: BTreeMap<NodeId, Connection>,
    pub(super) waiting: Option<Waiting>,
}

/// The part of a member of a share group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: &'static str,
    pub(super) name: String,
    /// The epoch that its last heartbeat gave it; 0 if it has not joined.
    pub(super) epoch: i32,
    pub(super) heard_at: Timestamp,
    pub(super) coordinator: Option<NodeId>,
    pub(super) sessions: BTreeMap<NodeId, Session>,
    /// What it believes it holds, until when, and how often that was delivered.
    pub(super) held: BTreeMap<Spot, (Timestamp, i16)>,
}

/// A share session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    /// The epoch of its next request; 0 opens it.
    pub(super) epoch: i32,
}

/// The part of a transactional producer.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) transactional_id: &'static str,
    pub(super) producer: Option<Producer>,
    pub(super) coordinator: Option<NodeId>,
    pub(super) sequences: BTreeMap<(TopicId, i32), i32>,
    pub(super) txn: Option<OpenTxn>,
}

/// A transaction of a processor.
#[derive(Debug)]
pub(super) struct OpenTxn {
    /// The records it is about, with what is said of each.
    pub(super) chosen: Vec<(Spot, i8)>,
    pub(super) is_produced: bool,
    pub(super) is_staged: bool,
    /// Whether something failed, so that it has to be aborted.
    pub(super) is_broken: bool,
    /// How it was asked to end: who asks again asks for the same.
    pub(super) asked_end: Option<bool>,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) connection: Connection,
    pub(super) call: Call,
    pub(super) until: Timestamp,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// To stay a member, or to leave.
    Heartbeat { leaves: bool },
    /// For records; what is acknowledged with it.
    Fetch { acknowledged: Vec<Spot> },
    /// To acknowledge; whether it ends the session.
    Acknowledge { spots: Vec<Spot>, closes: bool },
    /// To append, in a transaction or not.
    Produce { in_txn: bool },
    /// For a producer.
    Init,
    /// To stage the records of the transaction.
    Stage,
    /// To end the transaction.
    End,
}

impl Actor {
    pub(super) fn new(
        kind: Kind,
        group: &'static str,
        name: impl Into<String>,
        transactional_id: &'static str,
    ) -> Self {
        Self {
            kind,
            view: Vec::new(),
            member: Member {
                group,
                name: name.into(),
                epoch: 0,
                heard_at: Timestamp::from_ms(0),
                coordinator: None,
                sessions: BTreeMap::new(),
                held: BTreeMap::new(),
            },
            writer: Writer {
                transactional_id,
                producer: None,
                coordinator: None,
                sequences: BTreeMap::new(),
                txn: None,
            },
            connections: BTreeMap::new(),
            waiting: None,
        }
    }

    /// Returns whether a connection is one of its own.
    pub(super) fn has(&self, connection: Connection) -> bool {
        let mut sessions = self.member.sessions.values();
        sessions.any(|session| session.connection == connection)
            || self.connections.values().any(|known| *known == connection)
    }

    /// Forgets a connection that is gone; returns whether it was one of a session.
    pub(super) fn forget(&mut self, connection: Connection) -> bool {
        self.connections.retain(|_, known| *known != connection);
        let before = self.member.sessions.len();
        self.member.sessions.retain(|_, session| session.connection != connection);
        self.member.sessions.len() < before
    }

    /// Returns the place of a record, as the actor knows it.
    pub(super) fn place_of(&self, spot: Spot) -> Option<Place> {
        self.view.iter().find(|place| (place.topic_id, place.partition) == (spot.0, spot.1)).copied()
    }

    /// Returns what it holds that is led by `node`.
    pub(super) fn held_at(&self, node: NodeId, now: Timestamp) -> Vec<Spot> {
        let led: BTreeSet<(TopicId, i32)> = self
            .view
            .iter()
            .filter(|place| place.leader == node)
            .map(|place| (place.topic_id, place.partition))
            .collect();
        let held = self.member.held.iter();
        let held = held.filter(|(spot, (until, _))| now < *until && led.contains(&(spot.0, spot.1)));
        held.map(|(spot, _)| *spot).collect()
    }

    /// Gives up what it holds of some records.
    pub(super) fn let_go(&mut self, spots: &[Spot]) {
        self.member.held.retain(|spot, _| !spots.contains(spot));
    }

    /// Ends its transaction, and gives up what that was about.
    pub(super) fn end_txn(&mut self) {
        if let Some(txn) = self.writer.txn.take() {
            for (spot, _) in txn.chosen {
                self.member.held.remove(&spot);
            }
        }
    }

    pub(super) fn become_producer(&mut self, producer: Option<Producer>) {
        if self.writer.producer != producer {
            self.writer.sequences.clear();
        }
        self.writer.producer = producer;
    }
}
