//! What goes into the broker and what comes out.

use std::sync::Arc;

use sharemark_log::batch::CheckedBatch;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId, Producer, StrBytes, Timestamp};

/// The time of a step, on both clocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Now {
    /// The broker's clock: locks, sessions, timeouts, retention and the timestamps of records follow it. It may
    /// be held and advanced.
    pub clock: Timestamp,
    /// Real time: the waits of requests follow it, whatever the clock does.
    pub real: Timestamp,
}

/// When the broker next wants a [`Input::Tick`], on each clock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Deadlines {
    /// The earliest deadline on the broker's clock.
    pub clock: Option<Timestamp>,
    /// The earliest deadline in real time.
    pub real: Option<Timestamp>,
}

/// Names a connection for as long as the server runs; never used twice.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub u64);

/// Names a listener: its place in the configured list.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ListenerId(pub u16);

/// Who sends a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Principal(pub Arc<str>);

impl Principal {
    /// Returns who sends on a connection without authentication.
    pub fn anonymous() -> Self {
        Self("User:ANONYMOUS".into())
    }
}

/// Where a request came from, and so where its answer goes.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The connection it came on. One request of a connection is in the broker at a time.
    pub connection: ConnectionId,
    /// The node whose listener accepted the connection.
    pub node: NodeId,
    /// The listener that accepted the connection.
    pub listener: ListenerId,
    /// Who sends it.
    pub principal: Principal,
    /// The client's name for itself, from the header.
    pub client_id: Option<StrBytes>,
    /// The client's address as Kafka prints it, such as `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// The version of the request, and so of its answer.
    pub api_version: i16,
}

/// A request with what its connection task has already found out.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where it came from.
    pub origin: Origin,
    /// The decoded body.
    pub message: RequestMessage,
    /// For a Produce request: the outcome of checking each partition's records, in the request's order.
    pub checked: Vec<Result<CheckedBatch, RefusedBatch>>,
}

/// Records of a Produce request that will not be appended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefusedBatch {
    /// Why.
    pub error: ErrorCode,
    /// The producer if they are one transactional batch all the same: its partition joins the transaction before
    /// anybody looks closer (KIP-890).
    pub transaction: Option<Producer>,
}

/// Something that happened outside.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request arrived.
    Request(Box<Request>),
    /// The peer will send no more on this connection, on which a request is out: what is parked is answered now.
    PeerClosed(ConnectionId),
    /// A connection is gone.
    Disconnected(ConnectionId),
    /// This flush and all before it are durable.
    Flushed(FlushNumber),
    /// A deadline may have passed.
    Tick,
}

/// Something to be done outside.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this answer.
    Answer {
        /// The connection that asked.
        connection: ConnectionId,
        /// The version of the request.
        api_version: i16,
        /// The answer.
        message: Box<ResponseMessage>,
    },
    /// The request wants no answer (Produce with acks 0): go on with the connection's next request.
    NoAnswer {
        /// The connection that asked.
        connection: ConnectionId,
    },
    /// Close the connection.
    Close {
        /// The connection to close.
        connection: ConnectionId,
    },
}

impl Output {
    /// Returns the connection that it is for.
    pub const fn connection(&self) -> ConnectionId {
        match self {
            Self::Answer { connection, .. } | Self::NoAnswer { connection } | Self::Close { connection } => {
                *connection
            }
        }
    }
}

/// Counts flushes; that of the first is 1.
pub type FlushNumber = u64;
