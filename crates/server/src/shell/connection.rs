//! One connection: reads a request, hands it to the owner, writes its answer, reads the next.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use crossbeam_channel::Sender;
use sharemark_protocol::messages::request_header::RequestHeader;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{DecodeError, NodeId, encode_response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::debug;

use super::frames::{FrameError, FrameReader};
use super::meters::RequestMeters;
use super::owner::{Message, Reply};
use crate::broker::{ConnectionId, Frame, Input, ListenerId, Origin, Principal, Request};
use crate::config::ListenerApis;

/// The most pieces of an answer that are written at once.
const WRITE_PIECES_MAX: usize = 64;

/// What all connections of one listener have in common.
#[derive(Clone, Debug)]
pub(super) struct ListenerContext {
    pub(super) node: NodeId,
    pub(super) listener: ListenerId,
    pub(super) inbox: Sender<Message>,
    /// Counts requests.
    pub(super) meters: Arc<RequestMeters>,
    /// Turns true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
    /// Turns true when the node stops.
    pub(super) node_stopped: watch::Receiver<bool>,
    /// Holds `connections.max.idle.ms`.
    pub(super) idle_max: Duration,
    /// Holds `socket.request.max.bytes`.
    pub(super) frame_bytes_max: usize,
    /// The most bytes that the records of one batch may have once decompressed.
    pub(super) decompressed_bytes_max: usize,
    /// What the numbers of APIs mean here.
    pub(super) apis: Arc<ListenerApis>,
}

/// Why a connection is closed by us.
#[derive(Debug)]
enum ConnectionError {
    Frame(FrameError),
    Decode(DecodeError),
    Write(io::Error),
    /// Nothing came, or nothing could be sent, for too long.
    Idle,
    /// The core asked for it.
    Closed,
    /// The node stops.
    NodeStopped,
    /// The server stops.
    Stopping,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::Decode(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Idle => f.write_str("it was idle"),
            Self::Closed => f.write_str("its request closes it"),
            Self::NodeStopped => f.write_str("its node stops"),
            Self::Stopping => f.write_str("the server stops"),
        }
    }
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// Serves one connection until either side closes it.
pub(super) async fn serve(
    stream: TcpStream,
    client_host: Arc<str>,
    id: ConnectionId,
    context: ListenerContext,
) {
    let (replies, from_owner) = mpsc::channel(1);
    if context.inbox.send(Message::Connected(id, replies)).is_err() {
        return;
    }
    // From here on the owner hears of the end, even when this task panics.
    let end = End { id, inbox: context.inbox.clone() };
    let (socket, writer) = stream.into_split();
    let frames = FrameReader::new(socket, context.frame_bytes_max);
    let mut connection = Connection { id, client_host, context, frames, writer, from_owner };
    let mut node_stopped = connection.context.node_stopped.clone();
    let outcome = tokio::select! {
        outcome = connection.run() => outcome,
        Ok(_) = node_stopped.wait_for(|stopped| *stopped) => Err(ConnectionError::NodeStopped),
    };
    match outcome {
        Ok(()) | Err(ConnectionError::Stopping) => {}
        Err(error) => debug!(connection = id.0, peer = %connection.client_host, %error, "connection closed"),
    }
    drop(end);
}

/// Tells the owner that a connection has ended.
struct End {
    id: ConnectionId,
    inbox: Sender<Message>,
}

impl Drop for End {
    fn drop(&mut self) {
        // An error means that the owner is gone, and with it all it knew.
        drop(self.inbox.send(Message::Input(Input::Disconnected(self.id))));
    }
}

struct Connection {
    id: ConnectionId,
    client_host: Arc<str>,
    context: ListenerContext,
    frames: FrameReader,
    writer: OwnedWriteHalf,
    from_owner: mpsc::Receiver<Reply>,
}

impl Connection {
    async fn run(&mut self) -> Result<(), ConnectionError> {
        while let Some(frame) = self.next_frame().await? {
            let (header, message) =
                match Frame::read(&frame, &self.context.apis).map_err(ConnectionError::Decode)? {
                    Frame::Request { header, message } => (header, *message),
                    Frame::UnknownApiVersions { correlation_id, answer } => {
                        self.write(correlation_id, 0, &answer).await?;
                        continue;
                    }
                };
            let (correlation_id, version) = (header.correlation_id, header.request_api_version);
            let (key, handed_over) = (message.api_key(), Instant::now());
            self.context.meters.count(key, version);
            self.hand_over(header, message)?;
            let reply = self.reply().await?;
            self.context.meters.count_answer(key, handed_over.elapsed());
            match reply {
                Reply::Answer(answer) => self.write(correlation_id, version, &answer).await?,
                Reply::NoAnswer => {}
                Reply::Close => return Err(ConnectionError::Closed),
            }
        }
        Ok(())
    }

    async fn next_frame(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        let idle_max = self.context.idle_max;
        tokio::select! {
            biased;
            frame = timeout(idle_max, self.frames.next_frame()) => match frame {
                Ok(frame) => Ok(frame?),
                Err(_) => Err(ConnectionError::Idle),
            },
            _ = self.context.stopping.wait_for(|stopping| *stopping) => Err(ConnectionError::Stopping),
        }
    }

    /// Checks what needs no state, here rather than on the owner's thread, and hands the request over.
    fn hand_over(&self, header: RequestHeader, message: RequestMessage) -> Result<(), ConnectionError> {
        let origin = Origin {
            connection: self.id,
            node: self.context.node,
            listener: self.context.listener,
            principal: Principal::anonymous(),
            client_id: header.client_id,
            client_host: self.client_host.clone(),
            api_version: header.request_api_version,
        };
        let request = Request::prepare(origin, message, self.context.decompressed_bytes_max);
        let message = Message::Input(Input::Request(Box::new(request)));
        self.context.inbox.send(message).map_err(|_| ConnectionError::Stopping)
    }

    /// Waits for the owner's reply; tells it when the peer closes meanwhile.
    async fn reply(&mut self) -> Result<Reply, ConnectionError> {
        if !self.frames.is_at_end() {
            tokio::select! {
                biased;
                reply = self.from_owner.recv() => return reply.ok_or(ConnectionError::Stopping),
                end = self.frames.wait_for_end() => end?,
            }
        }
        // The peer may still read: what is parked is answered now.
        let closed = Message::Input(Input::PeerClosed(self.id));
        self.context.inbox.send(closed).map_err(|_| ConnectionError::Stopping)?;
        self.from_owner.recv().await.ok_or(ConnectionError::Stopping)
    }

    async fn write(
        &mut self,
        correlation_id: i32,
        version: i16,
        answer: &ResponseMessage,
    ) -> Result<(), ConnectionError> {
        let mut pieces = VecDeque::from(encode_response(correlation_id, version, answer));
        let idle_max = self.context.idle_max;
        while !pieces.is_empty() {
            let count = match timeout(idle_max, write_some(&mut self.writer, &pieces)).await {
                Ok(Ok(0)) => return Err(ConnectionError::Write(io::ErrorKind::WriteZero.into())),
                Ok(count) => count.map_err(ConnectionError::Write)?,
                Err(_) => return Err(ConnectionError::Idle),
            };
            advance(&mut pieces, count);
        }
        Ok(())
    }
}

async fn write_some(writer: &mut OwnedWriteHalf, pieces: &VecDeque<Bytes>) -> io::Result<usize> {
    let slices: Vec<IoSlice<'_>> =
        pieces.iter().take(WRITE_PIECES_MAX).map(|piece| IoSlice::new(piece)).collect();
    writer.write_vectored(&slices).await
}

fn advance(pieces: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(piece) = pieces.front_mut() {
        if count < piece.len() {
            piece.advance(count);
            return;
        }
        count -= piece.len();
        pieces.pop_front();
    }
}
