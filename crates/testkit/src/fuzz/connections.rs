//! A broker and its connections without sockets: frames go in as they come off the wire, and come out encoded.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use sharemark::broker::{
    Broker, ConnectionId, Frame, Input, ListenerId, Now, Origin, Output, Principal, Request,
};
use sharemark::config::{BrokerConfig, ListenerApis};
use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::{ApiKey, NodeId, Timestamp, decode_response, encode_response};

use super::produced::repair;

/// What the records of one batch are decompressed to at most.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 10;
/// What all logs hold at most.
const MEMORY_LIMIT_BYTES: u64 = 4 << 20;
/// When every run starts.
pub(super) const START_MS: i64 = 1_900_000_000_000;
/// Longer than any request waits: its wait is 31 bits of milliseconds.
const WAIT_MS_MAX: i64 = 1 << 31;
/// An ApiVersions of version 0, without a client id.
const API_VERSIONS_FRAME: [u8; 10] = [0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff];
/// The settings of the broker; one partition for each internal topic keeps its start short. Its listener serves every
/// draft of transactional acknowledgements.
const PROPERTIES: [(&str, &str); 5] = [
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("group.share.partition.max.record.locks", "100"),
    ("share.txn.dialect", "k93,k94,k95,seed"),
];

/// A request that is out.
#[derive(Clone, Copy, Debug)]
struct Asked {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

#[derive(Clone, Debug, Default)]
struct Link {
    asked: Option<Asked>,
    /// Frames behind the request that is out: as on a socket, they wait.
    waiting: VecDeque<(Bytes, bool)>,
    answers: VecDeque<Bytes>,
}

/// A broker with its connections.
#[derive(Clone, Debug)]
pub struct Connections {
    broker: Broker,
    node: NodeId,
    apis: ListenerApis,
    now: Now,
    next_id: u64,
    /// The connection behind each name.
    ids: BTreeMap<u8, u64>,
    links: BTreeMap<u64, Link>,
}

impl Default for Connections {
    fn default() -> Self {
        Self::new()
    }
}

impl Connections {
    /// Starts a broker of one node. Equal inputs bring equal answers, ids included.
    ///
    /// # Panics
    ///
    /// If its settings are wrong.
    pub fn new() -> Self {
        let mut builder =
            BrokerConfig::builder().listen("127.0.0.1:9092").memory_limit_bytes(MEMORY_LIMIT_BYTES);
        for (name, value) in PROPERTIES {
            builder = builder.property(name, value);
        }
        let config = match builder.build(&mut Vec::new()) {
            Ok(config) => config,
            Err(error) => panic!("the settings are right: {error}"),
        };
        let start = Timestamp::from_ms(START_MS);
        let now = Now { clock: start, real: start };
        let node = config.nodes[0].id;
        let apis = config.listener_apis(&config.nodes[0].listeners[0].name);
        let broker = Broker::new(config, now);
        let mut connections =
            Self { broker, node, apis, now, next_id: 0, ids: BTreeMap::new(), links: BTreeMap::new() };
        connections.carry_out();
        connections
    }

    /// Opens a connection, unless it is open.
    pub fn open(&mut self, name: u8) {
        self.id(name);
    }

    /// Returns whether a connection is open.
    pub fn is_open(&self, name: u8) -> bool {
        self.ids.contains_key(&name)
    }

    /// Sends a frame, given without its length, on the connection called `name`, which is opened if need be.
    /// With `repairs` the checksums of produced records are made right first.
    pub fn send(&mut self, name: u8, frame: Bytes, repairs: bool) {
        let id = self.id(name);
        let link = self.links.entry(id).or_default();
        link.waiting.push_back((frame, repairs));
        if link.asked.is_none() {
            self.read_next(name, id);
        }
    }

    /// Returns the next answer on the connection called `name`, with its length.
    pub fn receive(&mut self, name: u8) -> Option<Bytes> {
        let id = self.id(name);
        self.links.get_mut(&id)?.answers.pop_front()
    }

    /// Tells the broker that the peer will send no more, if a request is out.
    pub fn close_half(&mut self, name: u8) {
        let id = self.id(name);
        if self.links.get(&id).is_some_and(|link| link.asked.is_some()) {
            self.handle(Input::PeerClosed(ConnectionId(id)));
            let asked = self.links.get(&id).and_then(|link| link.asked);
            assert!(asked.is_none(), "what is parked is answered when the peer closes: {asked:?}");
        }
    }

    /// Closes the connection called `name`.
    pub fn close(&mut self, name: u8) {
        if let Some(id) = self.ids.remove(&name) {
            self.links.remove(&id);
            self.handle(Input::Disconnected(ConnectionId(id)));
        }
    }

    /// Lets time go by on both clocks, and whatever is due then.
    pub fn advance(&mut self, ms: i64) {
        self.now = Now { clock: self.now.clock.plus_ms(ms), real: self.now.real.plus_ms(ms) };
        self.handle(Input::Tick);
    }

    /// Checks at the end that nothing waits for ever and that others are still served.
    ///
    /// # Panics
    ///
    /// If a request is never answered, or a new connection is not served.
    pub fn assert_serves(&mut self) {
        let deadlines = self.broker.poll_timeout();
        let waits = self.links.values().any(|link| link.asked.is_some());
        assert!(!waits || deadlines.real.is_some(), "a request that waits has a deadline");
        // Frames behind an answered request are read, and may wait in their turn.
        while self.links.values().any(|link| link.asked.is_some()) {
            let before = self.waiting_count();
            self.advance(WAIT_MS_MAX);
            assert!(self.waiting_count() < before, "every request is answered in the end: {:?}", self.links);
        }
        let fresh = u8::MAX;
        self.close(fresh);
        self.send(fresh, Bytes::from_static(&API_VERSIONS_FRAME), false);
        let answer = self.receive(fresh);
        assert!(answer.is_some(), "a new connection is served");
    }

    fn waiting_count(&self) -> usize {
        let links = self.links.values();
        links.map(|link| link.waiting.len() + usize::from(link.asked.is_some())).sum()
    }

    fn id(&mut self, name: u8) -> u64 {
        let next = &mut self.next_id;
        *self.ids.entry(name).or_insert_with(|| {
            *next += 1;
            *next
        })
    }

    /// Reads frames until a request is out or none is left.
    fn read_next(&mut self, name: u8, id: u64) {
        while let Some(link) = self.links.get_mut(&id) {
            if link.asked.is_some() {
                return;
            }
            let Some((frame, repairs)) = link.waiting.pop_front() else { return };
            match Frame::read(&frame, &self.apis) {
                Ok(Frame::Request { header, mut message }) => {
                    if repairs && let RequestMessage::Produce(produce) = &mut *message {
                        repair(produce);
                    }
                    let asked = Asked {
                        api: message.api_key(),
                        version: header.request_api_version,
                        correlation_id: header.correlation_id,
                    };
                    link.asked = Some(asked);
                    let origin = self.origin(id, header.client_id, asked.version);
                    let request = Request::prepare(origin, *message, DECOMPRESSED_BYTES_MAX);
                    self.handle(Input::Request(Box::new(request)));
                }
                Ok(Frame::UnknownApiVersions { correlation_id, answer }) => {
                    link.answers.push_back(encode_response(correlation_id, 0, &answer).concat().into());
                }
                Err(_) => self.close(name),
            }
        }
    }

    fn origin(&self, id: u64, client_id: Option<sharemark_protocol::StrBytes>, version: i16) -> Origin {
        Origin {
            connection: ConnectionId(id),
            node: self.node,
            listener: ListenerId::default(),
            principal: Principal::anonymous(),
            client_id,
            client_host: "/127.0.0.1".into(),
            api_version: version,
        }
    }

    /// Handles an input, and reads on where it answered.
    fn handle(&mut self, input: Input) {
        self.broker.handle(self.now, input);
        self.carry_out();
    }

    /// Makes flushes durable at once and writes what comes out.
    fn carry_out(&mut self) {
        while let Some(flush) = self.broker.poll_flush() {
            self.broker.handle(self.now, Input::Flushed(flush.number));
        }
        let mut answered = Vec::new();
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Answer { connection, message, api_version } => {
                    let Some(link) = self.links.get_mut(&connection.0) else { continue };
                    let asked = link.asked.take();
                    let Some(asked) = asked else { panic!("an answer answers a request: {message:?}") };
                    assert_eq!(asked.version, api_version, "an answer has the version of its request");
                    let frame: Bytes =
                        encode_response(asked.correlation_id, api_version, &message).concat().into();
                    assert_readable(asked, &frame);
                    link.answers.push_back(frame);
                    answered.push(connection.0);
                }
                Output::NoAnswer { connection } => {
                    if let Some(link) = self.links.get_mut(&connection.0) {
                        link.asked = None;
                        answered.push(connection.0);
                    }
                }
                Output::Close { connection } => {
                    if let Some((&name, _)) = self.ids.iter().find(|(_, id)| **id == connection.0) {
                        self.close(name);
                    }
                }
            }
        }
        for id in answered {
            if let Some((&name, _)) = self.ids.iter().find(|(_, other)| **other == id) {
                self.read_next(name, id);
            }
        }
    }
}

/// Checks that a client can read an answer.
fn assert_readable(asked: Asked, frame: &Bytes) {
    let read = decode_response(asked.api, asked.version, &frame.slice(4..));
    let Ok((correlation_id, _)) = read else {
        panic!("an answer can be read: {asked:?}: {read:?}");
    };
    assert_eq!(correlation_id, asked.correlation_id, "an answer carries its request's correlation id");
}
