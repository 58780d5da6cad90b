//! A small client of the wire: one connection, one request at a time, each in the newest version served.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use sharemark_protocol::messages::create_topics_request::CreateTopicsRequest;
use sharemark_protocol::messages::create_topics_response::CreateTopicsResponse;
use sharemark_protocol::messages::end_txn_request::EndTxnRequest;
use sharemark_protocol::messages::end_txn_response::EndTxnResponse;
use sharemark_protocol::messages::fetch_request::FetchRequest;
use sharemark_protocol::messages::fetch_response::FetchResponse;
use sharemark_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use sharemark_protocol::messages::find_coordinator_response::FindCoordinatorResponse;
use sharemark_protocol::messages::incremental_alter_configs_request::IncrementalAlterConfigsRequest;
use sharemark_protocol::messages::incremental_alter_configs_response::IncrementalAlterConfigsResponse;
use sharemark_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use sharemark_protocol::messages::init_producer_id_response::InitProducerIdResponse;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::messages::metadata_response::MetadataResponse;
use sharemark_protocol::messages::produce_request::ProduceRequest;
use sharemark_protocol::messages::produce_response::ProduceResponse;
use sharemark_protocol::messages::share_fetch_request::ShareFetchRequest;
use sharemark_protocol::messages::share_fetch_response::ShareFetchResponse;
use sharemark_protocol::messages::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use sharemark_protocol::messages::share_group_heartbeat_response::ShareGroupHeartbeatResponse;
use sharemark_protocol::messages::txn_share_acknowledge_request::TxnShareAcknowledgeRequest;
use sharemark_protocol::messages::txn_share_acknowledge_response::TxnShareAcknowledgeResponse;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ApiKey, DecodeError, ErrorCode, decode_response, encode_request};

use crate::shell::server::ServerError;

/// How long an answer may take, waits of the broker included.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// The longest answer that is read: the demo's topics are small.
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why the demo cannot go on.
#[derive(Debug)]
pub(in crate::shell) enum DemoError {
    /// The broker did not start, or ended by itself.
    Server(ServerError),
    /// A socket failed, or standard output.
    Io(io::Error),
    /// An answer is not what its API says.
    Answer(DecodeError),
    /// The broker refused what it should have done.
    Refused {
        /// What was asked for.
        call: &'static str,
        /// Why not.
        error: ErrorCode,
    },
    /// The broker answered something that makes no sense.
    Nonsense(&'static str),
    /// Nothing has moved on for too long.
    Stuck,
}

impl fmt::Display for DemoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Answer(error) => write!(f, "an answer cannot be read: {error}"),
            Self::Refused { call, error } => write!(f, "{call} was refused: {error}"),
            Self::Nonsense(what) => f.write_str(what),
            Self::Stuck => f.write_str("nothing moves on"),
        }
    }
}

impl From<io::Error> for DemoError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ServerError> for DemoError {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

/// Returns what a code on the wire says of `call`.
pub(super) fn check(call: &'static str, code: i16) -> Result<(), DemoError> {
    match ErrorCode::from_code(code) {
        Some(ErrorCode::None) => Ok(()),
        error => Err(DemoError::Refused { call, error: error.unwrap_or(ErrorCode::UnknownServerError) }),
    }
}

/// A request, and what answers it.
pub(super) trait Request {
    /// The answer.
    type Answer;
    /// The API.
    const KEY: ApiKey;

    fn into_message(self) -> RequestMessage;

    /// Returns the answer in `message`, or `None` if that answers something else.
    fn answer(message: ResponseMessage) -> Option<Self::Answer>;
}

macro_rules! requests {
    ($($api:ident $request:ident -> $answer:ident,)*) => {
        $(impl Request for $request {
            type Answer = $answer;
            const KEY: ApiKey = ApiKey::$api;

            fn into_message(self) -> RequestMessage {
                RequestMessage::$api(self)
            }

            fn answer(message: ResponseMessage) -> Option<$answer> {
                if let ResponseMessage::$api(answer) = message { Some(answer) } else { None }
            }
        })*
    };
}

requests! {
    CreateTopics CreateTopicsRequest -> CreateTopicsResponse,
    EndTxn EndTxnRequest -> EndTxnResponse,
    Fetch FetchRequest -> FetchResponse,
    FindCoordinator FindCoordinatorRequest -> FindCoordinatorResponse,
    IncrementalAlterConfigs IncrementalAlterConfigsRequest -> IncrementalAlterConfigsResponse,
    InitProducerId InitProducerIdRequest -> InitProducerIdResponse,
    Metadata MetadataRequest -> MetadataResponse,
    Produce ProduceRequest -> ProduceResponse,
    ShareFetch ShareFetchRequest -> ShareFetchResponse,
    ShareGroupHeartbeat ShareGroupHeartbeatRequest -> ShareGroupHeartbeatResponse,
    TxnShareAcknowledge TxnShareAcknowledgeRequest -> TxnShareAcknowledgeResponse,
}

/// One connection to the broker.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    name: &'static str,
    correlation_id: i32,
}

impl Client {
    /// Connects; `name` is the client id.
    pub(super) fn connect(address: SocketAddr, name: &'static str) -> Result<Self, DemoError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        Ok(Self { stream, name, correlation_id: 0 })
    }

    /// Sends a request and returns its answer.
    pub(super) fn call<R: Request>(&mut self, request: R) -> Result<R::Answer, DemoError> {
        let version = R::KEY.api().announced_max;
        self.correlation_id += 1;
        let frame = encode_request(self.correlation_id, Some(self.name), version, &request.into_message());
        self.stream.write_all(&frame)?;
        let frame = self.read_frame()?;
        let (correlation_id, message) =
            decode_response(R::KEY, version, &frame).map_err(DemoError::Answer)?;
        if correlation_id != self.correlation_id {
            return Err(DemoError::Nonsense("an answer belongs to another request"));
        }
        R::answer(message).ok_or(DemoError::Nonsense("an answer is that of another API"))
    }

    fn read_frame(&mut self) -> Result<Bytes, DemoError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if FRAME_BYTES_MAX < length {
            return Err(DemoError::Nonsense("an answer is too long"));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}
