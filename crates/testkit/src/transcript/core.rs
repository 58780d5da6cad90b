//! The core in this process as a target: no socket, no thread, and a clock that moves when a transcript says so.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use sharemark::broker::{
    Broker, ConnectionId, Deadlines, Frame, Input, ListenerId, Now, Origin, Output, Principal, Request,
};
use sharemark::config::{BrokerConfig, ListenerApis};
use sharemark_protocol::{NodeId, Timestamp, encode_response};

use super::arguments::CommandError;
use super::target::{Kind, Received, Target};

const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
const FIRST_PORT: u16 = 9092;

#[derive(Debug)]
struct Link {
    node: NodeId,
    /// The correlation id and the version of the request that is out.
    asked: Option<(i32, i16)>,
    answers: VecDeque<Bytes>,
    closed: bool,
}

/// A broker without a shell. Both of its clocks are one, which starts where it is told to.
#[derive(Debug)]
pub struct CoreTarget {
    broker: Broker,
    /// The nodes with their ports, the first one first.
    nodes: Vec<(NodeId, u16)>,
    /// The APIs of the listener that stands for all, the first one.
    apis: ListenerApis,
    start: Timestamp,
    now: Timestamp,
    links: BTreeMap<u64, Link>,
}

impl CoreTarget {
    /// Starts a cluster at this time.
    pub fn new(mut config: BrokerConfig, start_ms: i64) -> Self {
        // Nobody listens, so each node is told a port of its own.
        let listeners = config.nodes.iter_mut().filter_map(|node| node.listeners.first_mut());
        for (listener, port) in listeners.zip(FIRST_PORT..) {
            listener.advertised.port = port;
        }
        let nodes = config
            .nodes
            .iter()
            .map(|node| (node.id, node.listeners.first().map_or(0, |listener| listener.advertised.port)))
            .collect();
        let first = config.nodes.first().and_then(|node| node.listeners.first());
        let apis = config.listener_apis(first.map_or("", |listener| &listener.name));
        let start = Timestamp::from_ms(start_ms);
        let broker = Broker::new(config, Now { clock: start, real: start });
        let mut core = Self { broker, nodes, apis, start, now: start, links: BTreeMap::new() };
        core.carry_out();
        core
    }

    fn open_on(&mut self, node: NodeId) -> usize {
        let id = self.links.len();
        self.links.insert(id as u64, Link { node, asked: None, answers: VecDeque::new(), closed: false });
        id
    }

    fn handle(&mut self, input: Input) {
        self.broker.handle(Now { clock: self.now, real: self.now }, input);
        self.carry_out();
    }

    /// Makes flushes durable at once, and sorts answers by connection.
    fn carry_out(&mut self) {
        while let Some(flush) = self.broker.poll_flush() {
            self.broker.handle(Now { clock: self.now, real: self.now }, Input::Flushed(flush.number));
        }
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Answer { connection, message, .. } => {
                    let Some(link) = self.links.get_mut(&connection.0) else { continue };
                    let Some((correlation_id, version)) = link.asked.take() else { continue };
                    let frame = encode_response(correlation_id, version, &message).concat();
                    link.answers.push_back(Bytes::from(frame).slice(4..));
                }
                Output::NoAnswer { connection } => {
                    if let Some(link) = self.links.get_mut(&connection.0) {
                        link.asked = None;
                    }
                }
                Output::Close { connection } => {
                    if let Some(link) = self.links.get_mut(&connection.0) {
                        link.closed = true;
                    }
                }
            }
        }
    }

    /// Lets the next deadline pass, if it comes by `until`; returns whether it did.
    fn pass_deadline(&mut self, until: Timestamp) -> bool {
        let Deadlines { clock, real } = self.broker.poll_timeout();
        let Some(deadline) = clock.into_iter().chain(real).min().filter(|deadline| *deadline <= until) else {
            return false;
        };
        self.now = self.now.max(deadline);
        self.handle(Input::Tick);
        true
    }
}

impl Target for CoreTarget {
    fn kind(&self) -> Kind {
        Kind::Sharemark
    }

    fn open(&mut self) -> Result<usize, CommandError> {
        let (node, _) = *self.nodes.first().ok_or("there is no node")?;
        Ok(self.open_on(node))
    }

    fn open_at(&mut self, host: &str, port: u16) -> Result<usize, CommandError> {
        let found = self.nodes.iter().find(|(_, known)| *known == port);
        let (node, _) = *found.ok_or_else(|| format!("no node listens at {host}:{port}"))?;
        Ok(self.open_on(node))
    }

    fn close(&mut self, connection: usize) {
        self.handle(Input::Disconnected(ConnectionId(connection as u64)));
    }

    fn send(&mut self, connection: usize, frame: &[u8]) -> Result<(), CommandError> {
        let connection = connection as u64;
        self.now = self.now.plus_ms(1); // Nothing happens twice at the same time.
        let link = self.links.get_mut(&connection).ok_or("no such connection")?;
        let (header, message) = match Frame::read(&Bytes::copy_from_slice(frame), &self.apis) {
            Ok(Frame::Request { header, message }) => (header, *message),
            Ok(Frame::UnknownApiVersions { correlation_id, answer }) => {
                let frame = encode_response(correlation_id, 0, &answer).concat();
                link.answers.push_back(Bytes::from(frame).slice(4..));
                return Ok(());
            }
            Err(_) => {
                link.closed = true;
                self.handle(Input::Disconnected(ConnectionId(connection)));
                return Ok(());
            }
        };
        link.asked = Some((header.correlation_id, header.request_api_version));
        let origin = Origin {
            connection: ConnectionId(connection),
            node: link.node,
            listener: ListenerId::default(),
            principal: Principal::anonymous(),
            client_id: header.client_id,
            client_host: "/127.0.0.1".into(),
            api_version: header.request_api_version,
        };
        let request = Request::prepare(origin, message, DECOMPRESSED_BYTES_MAX);
        self.handle(Input::Request(Box::new(request)));
        Ok(())
    }

    fn receive(&mut self, connection: usize, wait: Duration) -> Result<Received, CommandError> {
        let until = self.now.plus_ms(i64::try_from(wait.as_millis()).map_err(|error| error.to_string())?);
        loop {
            let link = self.links.get_mut(&(connection as u64)).ok_or("no such connection")?;
            if let Some(frame) = link.answers.pop_front() {
                return Ok(Received::Frame(frame));
            }
            if link.closed {
                return Ok(Received::Closed);
            }
            if !self.pass_deadline(until) {
                return Ok(Received::Nothing);
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        let until = self.now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX));
        while self.pass_deadline(until) {}
        self.now = self.now.max(until);
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.now.ms_since(self.start)).unwrap_or(0)
    }
}
