//! The broker with its clock and its connections.

use std::collections::{BTreeMap, BTreeSet};

use sharemark::broker::{Broker, ConnectionId, Input, ListenerId, Now, Origin, Output, Principal, Request};
use sharemark::config::BrokerConfig;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Timestamp};

const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;
const START_MS: i64 = 1_900_000_000_000;

/// A connection to one node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Connection {
    pub(super) node: NodeId,
    id: u64,
}

/// An answer, with its place among all and when it came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) message: ResponseMessage,
}

/// A broker whose two clocks are one, and the connections of its clients.
pub(super) struct World {
    pub(super) broker: Broker,
    pub(super) now: Timestamp,
    nodes: Vec<NodeId>,
    next_connection: u64,
    /// Connections whose request is not answered.
    asked: BTreeSet<u64>,
    answers: BTreeMap<u64, Answer>,
    answer_count: u64,
    /// Whether inputs and answers are printed.
    traces: bool,
}

impl World {
    pub(super) fn new(config: BrokerConfig) -> Self {
        let nodes = config.nodes.iter().map(|node| node.id).collect();
        let now = Timestamp::from_ms(START_MS);
        let broker = Broker::new(config, Now { clock: now, real: now });
        let mut world = Self {
            broker,
            now,
            nodes,
            next_connection: 0,
            asked: BTreeSet::new(),
            answers: BTreeMap::new(),
            answer_count: 0,
            traces: std::env::var("SIM_TRACE").is_ok(),
        };
        world.carry_out();
        world
    }

    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(super) fn open(&mut self, node: NodeId) -> Connection {
        self.next_connection += 1;
        Connection { node, id: self.next_connection }
    }

    /// Sends a request; its answer is for a later [`Self::take`].
    pub(super) fn send(&mut self, connection: Connection, api_version: i16, message: RequestMessage) {
        assert!(self.asked.insert(connection.id), "a connection has one request out");
        let origin = Origin {
            connection: ConnectionId(connection.id),
            node: connection.node,
            listener: ListenerId::default(),
            principal: Principal::anonymous(),
            client_id: Some("sim".into()),
            client_host: "/127.0.0.1".into(),
            api_version,
        };
        let request = Request::prepare(origin, message, DECOMPRESSED_BYTES_MAX);
        self.handle(Input::Request(Box::new(request)));
    }

    /// Returns the answer that came on a connection.
    pub(super) fn take(&mut self, connection: Connection) -> Option<Answer> {
        self.answers.remove(&connection.id)
    }

    /// Sends a request that is answered at once.
    pub(super) fn call(
        &mut self,
        connection: Connection,
        api_version: i16,
        message: RequestMessage,
    ) -> ResponseMessage {
        let kind = format!("{message:?}");
        self.send(connection, api_version, message);
        let answer = self.take(connection);
        answer.map(|answer| answer.message).unwrap_or_else(|| panic!("it is answered at once: {kind}"))
    }

    /// Sends a request on a connection of its own to `node`.
    pub(super) fn ask(&mut self, node: NodeId, api_version: i16, message: RequestMessage) -> ResponseMessage {
        let connection = self.open(node);
        self.call(connection, api_version, message)
    }

    /// Ends a connection; an answer that is under way is lost.
    pub(super) fn disconnect(&mut self, connection: Connection) {
        self.asked.remove(&connection.id);
        self.answers.remove(&connection.id);
        self.handle(Input::Disconnected(ConnectionId(connection.id)));
    }

    /// Tells the broker that a peer will send no more, which answers what waits.
    pub(super) fn close_half(&mut self, connection: Connection) {
        self.handle(Input::PeerClosed(ConnectionId(connection.id)));
        assert!(!self.asked.contains(&connection.id), "what waits is answered when the peer closes");
    }

    /// Lets time go by, deadline by deadline, as a shell does.
    pub(super) fn advance(&mut self, ms: i64) {
        let until = self.now.plus_ms(ms);
        loop {
            let deadlines = self.broker.poll_timeout();
            let next = deadlines.clock.into_iter().chain(deadlines.real).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            let was_due = next <= self.now;
            self.now = self.now.max(next);
            self.handle(Input::Tick);
            let deadlines = self.broker.poll_timeout();
            let left = deadlines.clock.into_iter().chain(deadlines.real).min();
            assert!(!was_due || left > Some(next), "a deadline that has passed is dealt with");
        }
        self.now = until;
    }

    /// Checks what must hold between two steps.
    pub(super) fn check(&self) {
        self.broker.check_invariants();
        let waiting: BTreeSet<u64> = self.broker.waiting_connections().into_iter().map(|id| id.0).collect();
        assert_eq!(waiting, self.asked, "every request is answered or waits for its deadline");
        assert!(waiting.is_empty() || self.broker.poll_timeout().real.is_some(), "who waits has a deadline");
    }

    /// Checks that the logs say what the coordinators know.
    pub(super) fn check_replay(&self) {
        self.broker.check_replay_equals_live(Now { clock: self.now, real: self.now });
    }

    fn handle(&mut self, input: Input) {
        if self.traces {
            println!("{} {input:?}", self.now.ms() - START_MS);
        }
        self.broker.handle(Now { clock: self.now, real: self.now }, input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(flush) = self.broker.poll_flush() {
            self.broker.handle(Now { clock: self.now, real: self.now }, Input::Flushed(flush.number));
        }
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Answer { connection, message, .. } => {
                    if self.traces {
                        println!("  -> {} {message:?}", connection.0);
                    }
                    assert!(self.asked.remove(&connection.0), "an answer answers a request: {message:?}");
                    self.answer_count += 1;
                    let answer = Answer { number: self.answer_count, at: self.now, message: *message };
                    self.answers.insert(connection.0, answer);
                }
                Output::NoAnswer { connection } | Output::Close { connection } => {
                    panic!("nobody here asks for no answer: {connection:?}");
                }
            }
        }
    }
}
