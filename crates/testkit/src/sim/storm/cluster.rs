//! The cluster as the storm sees it: the broker, its clock, its disk, and the requests that are inside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use sharemark::broker::{
    Broker, Command, ConnectionId, Input, ListenerId, NodeState, Now, ObservedPartition, Origin, Output,
    Principal, Request,
};
use sharemark::config::BrokerConfig;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Timestamp};

use super::disk::Disk;

const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;
const START_MS: i64 = 1_900_000_000_000;
/// Connections of [`Cluster::ask`] are told from those of actors by their numbers.
const FIRST_OWN_CONNECTION: u64 = 1 << 40;

/// A connection to one node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Connection {
    pub(super) node: NodeId,
    pub(super) id: u64,
}

/// What comes out of the cluster.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// A request is answered.
    Answered { connection: Connection, request: Box<RequestMessage>, answer: Box<ResponseMessage> },
    /// A connection is cut.
    Cut { connection: Connection },
}

/// A broker whose two clocks are one, on a disk of its own.
pub(super) struct Cluster {
    pub(super) broker: Broker,
    pub(super) now: Timestamp,
    pub(super) disk: Disk,
    /// Requests that are not answered, by connection.
    asked: BTreeMap<u64, (Connection, Box<RequestMessage>)>,
    /// Connections that are gone.
    dead: BTreeSet<u64>,
    /// Connections that a request came on, by number, unless they are gone.
    open: BTreeMap<u64, Connection>,
    outcomes: VecDeque<Outcome>,
    next_own_connection: u64,
    trace: TraceHash,
}

impl Cluster {
    pub(super) fn new(config: BrokerConfig, disk: Disk) -> Self {
        let now = Timestamp::from_ms(START_MS);
        let mut cluster = Self {
            broker: Broker::new(config, Now { clock: now, real: now }),
            now,
            disk,
            asked: BTreeMap::new(),
            dead: BTreeSet::new(),
            open: BTreeMap::new(),
            outcomes: VecDeque::new(),
            next_own_connection: FIRST_OWN_CONNECTION,
            trace: TraceHash::new(),
        };
        cluster.carry_out();
        cluster.sync();
        cluster
    }

    pub(super) fn clocks(&self) -> Now {
        Now { clock: self.now, real: self.now }
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.trace.hash
    }

    /// Returns the nodes that are in a state.
    pub(super) fn nodes_that_are(&self, wanted: NodeState) -> Vec<NodeId> {
        let nodes = self.broker.inspect_nodes().into_iter();
        nodes.filter(|(_, state)| *state == wanted).map(|(id, _)| id).collect()
    }

    /// Returns the nodes that run, cut off or not.
    pub(super) fn running(&self) -> Vec<NodeId> {
        let nodes = self.broker.inspect_nodes().into_iter();
        nodes.filter(|(_, state)| *state != NodeState::Stopped).map(|(id, _)| id).collect()
    }

    /// Returns whether a connection is not known to be gone.
    pub(super) fn is_open(&self, connection: Connection) -> bool {
        !self.dead.contains(&connection.id) && self.running().contains(&connection.node)
    }

    /// Hands a request to its node, unless its connection is gone; returns whether it has got there.
    pub(super) fn deliver(&mut self, connection: Connection, version: i16, message: RequestMessage) -> bool {
        if self.dead.contains(&connection.id) || self.asked.contains_key(&connection.id) {
            return false;
        }
        if !self.running().contains(&connection.node) {
            self.outcomes.push_back(Outcome::Cut { connection });
            return false;
        }
        self.asked.insert(connection.id, (connection, Box::new(message.clone())));
        self.open.insert(connection.id, connection);
        let origin = Origin {
            connection: ConnectionId(connection.id),
            node: connection.node,
            listener: ListenerId::default(),
            principal: Principal::anonymous(),
            client_id: Some("storm".into()),
            client_host: "/127.0.0.1".into(),
            api_version: version,
        };
        let request = Request::prepare(origin, message, DECOMPRESSED_BYTES_MAX);
        self.handle(Input::Request(Box::new(request)));
        true
    }

    /// Tells the cluster that a connection is gone.
    pub(super) fn disconnect(&mut self, connection: Connection) {
        self.open.remove(&connection.id);
        if self.dead.insert(connection.id) {
            self.asked.remove(&connection.id);
            self.handle(Input::Disconnected(ConnectionId(connection.id)));
        }
    }

    /// Ends all connections.
    pub(super) fn disconnect_all(&mut self) {
        while let Some((_, connection)) = self.open.pop_first() {
            self.disconnect(connection);
        }
    }

    /// Asks a running node something that it answers at once, past the network.
    pub(super) fn ask(&mut self, version: i16, message: RequestMessage) -> Option<ResponseMessage> {
        let node = *self.nodes_that_are(NodeState::Running).first()?;
        self.ask_node(node, version, message)
    }

    /// Asks one node, past the network; `None` if it does not answer at once.
    pub(super) fn ask_node(
        &mut self,
        node: NodeId,
        version: i16,
        message: RequestMessage,
    ) -> Option<ResponseMessage> {
        self.next_own_connection += 1;
        let connection = Connection { node, id: self.next_own_connection };
        let _delivered = self.deliver(connection, version, message);
        self.sync();
        let is_own = |outcome: &Outcome| match outcome {
            Outcome::Answered { connection: found, .. } | Outcome::Cut { connection: found } => {
                *found == connection
            }
        };
        let found = self.outcomes.iter().position(is_own).and_then(|index| self.outcomes.remove(index));
        self.disconnect(connection);
        match found {
            Some(Outcome::Answered { answer, .. }) => Some(*answer),
            Some(Outcome::Cut { .. }) | None => None,
        }
    }

    pub(super) fn pop_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Does something that succeeds, and takes what comes of it; returns the number of a fault that it installed.
    pub(super) fn command(&mut self, command: Command) -> Option<u64> {
        self.trace.note(self.now, &command);
        let stopped = if let Command::StopNode(node) = command { Some(node) } else { None };
        let outcome = self.broker.handle_command(self.clocks(), command);
        assert!(outcome.is_ok(), "what the weather does can be done: {outcome:?}");
        if let Some(node) = stopped {
            self.cut_connections_of(node);
        }
        self.carry_out();
        outcome.ok().flatten()
    }

    /// Ends the process and starts it again on what is durable; so many flushes more are so than it was told.
    /// Returns what was left of the logs, if anything was durable at all.
    pub(super) fn crash(&mut self, kept: usize) -> Option<Vec<ObservedPartition>> {
        let (number, broker) = self.disk.crash(kept)?;
        let left = broker.observe_partitions();
        self.trace.note(self.now, &("crash", number));
        self.asked.clear();
        for connection in std::mem::take(&mut self.open).into_values() {
            self.dead.insert(connection.id);
            self.outcomes.push_back(Outcome::Cut { connection });
        }
        self.broker = broker;
        self.handle(Input::Flushed(number));
        for node in self.running() {
            self.command(Command::StopNode(node));
        }
        self.broker.delete_faults(self.clocks());
        while self.broker.poll_output().is_some() {} // What was on its way to the clients of before.
        for (node, _) in self.broker.inspect_nodes() {
            self.command(Command::StartNode(node));
        }
        self.sync();
        Some(left)
    }

    fn cut_connections_of(&mut self, node: NodeId) {
        let cut: Vec<Connection> = self.open.values().copied().filter(|it| it.node == node).collect();
        for connection in cut {
            self.cut(connection);
        }
    }

    fn cut(&mut self, connection: Connection) {
        self.asked.remove(&connection.id);
        self.open.remove(&connection.id);
        if self.dead.insert(connection.id) {
            self.broker.handle(self.clocks(), Input::Disconnected(ConnectionId(connection.id)));
            self.outcomes.push_back(Outcome::Cut { connection });
        }
    }

    /// Lets time go by until the next deadline, as a shell does, or until `until`; returns whether that is reached.
    pub(super) fn advance_towards(&mut self, until: Timestamp) -> bool {
        let Some(next) = self.next_deadline().filter(|next| *next <= until) else {
            self.now = self.now.max(until);
            return true;
        };
        let was_due = next <= self.now;
        self.now = self.now.max(next);
        self.handle(Input::Tick);
        assert!(!was_due || self.next_deadline() > Some(next), "a deadline that has passed is dealt with");
        false
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = self.broker.poll_timeout();
        deadlines.clock.into_iter().chain(deadlines.real).min()
    }

    /// Makes all that was written durable.
    pub(super) fn sync(&mut self) {
        if let Some(number) = self.disk.sync() {
            self.handle(Input::Flushed(number));
        }
    }

    fn handle(&mut self, input: Input) {
        self.trace.note(self.now, &input);
        self.broker.handle(self.clocks(), input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(flush) = self.broker.poll_flush() {
            if let Some(number) = self.disk.take(flush.number, &self.broker) {
                self.broker.handle(self.clocks(), Input::Flushed(number));
            }
        }
        while let Some(output) = self.broker.poll_output() {
            self.trace.note(self.now, &output);
            match output {
                Output::Answer { connection, message, .. } => {
                    // A request that a fault repeats is answered to nobody.
                    if let Some((connection, request)) = self.asked.remove(&connection.0) {
                        self.outcomes.push_back(Outcome::Answered { connection, request, answer: message });
                    }
                }
                Output::Close { connection } => {
                    let asked = self.asked.get(&connection.0).map(|(connection, _)| *connection);
                    if let Some(connection) = asked {
                        self.cut(connection);
                    }
                }
                Output::NoAnswer { connection } => panic!("nobody asks for no answer: {connection:?}"),
            }
        }
    }
}

/// A hash over everything that went into the broker and came out of it.
#[derive(Debug)]
struct TraceHash {
    hash: u64,
    prints: bool,
}

impl TraceHash {
    fn new() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, prints: std::env::var("SIM_TRACE").is_ok() }
    }

    fn note(&mut self, now: Timestamp, what: &impl std::fmt::Debug) {
        if self.prints {
            println!("{} {what:?}", now.ms() - START_MS);
        }
        // Writing to a hash cannot fail.
        let _written = write!(self, "{} {what:?}", now.ms());
    }
}

impl std::fmt::Write for TraceHash {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3); // FNV-1a.
        }
        Ok(())
    }
}
