//! What a transcript runs on.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::arguments::CommandError;
use crate::client::is_closed;

/// What kind of broker answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A real Kafka: answers arrive before what they promise can be seen everywhere, and others share the broker.
    Kafka,
    /// Sharemark, alone on its server or in this process.
    Sharemark,
}

/// What came on a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Received {
    /// One answer, without its length.
    Frame(Bytes),
    /// Nothing, for as long as was waited.
    Nothing,
    /// The end: the broker has closed the connection.
    Closed,
}

/// A broker that takes frames and gives frames.
pub trait Target {
    /// Returns what kind it is.
    fn kind(&self) -> Kind;

    /// Opens a connection and returns its number.
    ///
    /// # Errors
    ///
    /// If the broker takes no connection.
    fn open(&mut self) -> Result<usize, CommandError>;

    /// Opens a connection to another node of the broker, by its advertised address, and returns its number.
    ///
    /// # Errors
    ///
    /// If that node takes no connection.
    fn open_at(&mut self, host: &str, port: u16) -> Result<usize, CommandError>;

    /// Closes a connection.
    fn close(&mut self, connection: usize);

    /// Sends one frame, given without its length.
    ///
    /// # Errors
    ///
    /// If the connection cannot take it.
    fn send(&mut self, connection: usize, frame: &[u8]) -> Result<(), CommandError>;

    /// Waits for a frame.
    ///
    /// # Errors
    ///
    /// If the connection breaks in a way that is not an end.
    fn receive(&mut self, connection: usize, wait: Duration) -> Result<Received, CommandError>;

    /// Lets time go by: real time, or a clock moved forward.
    fn advance(&mut self, ms: u64);

    /// Returns the milliseconds that have gone by since some start.
    fn elapsed_ms(&self) -> u64;
}

/// A broker behind a socket.
#[derive(Debug)]
pub struct TcpTarget {
    kind: Kind,
    address: SocketAddr,
    connections: Vec<Option<(TcpStream, BytesMut)>>,
    started: Instant,
}

impl TcpTarget {
    /// Returns the broker at this address.
    pub fn new(kind: Kind, address: SocketAddr) -> Self {
        Self { kind, address, connections: Vec::new(), started: Instant::now() }
    }

    fn keep(&mut self, stream: io::Result<TcpStream>) -> Result<usize, CommandError> {
        let stream = stream.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        self.connections.push(Some((stream, BytesMut::new())));
        Ok(self.connections.len() - 1)
    }

    fn connection(&mut self, index: usize) -> Result<&mut (TcpStream, BytesMut), CommandError> {
        self.connections
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or_else(|| "that connection is closed".into())
    }
}

impl Target for TcpTarget {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn open(&mut self) -> Result<usize, CommandError> {
        self.keep(TcpStream::connect(self.address))
    }

    fn open_at(&mut self, host: &str, port: u16) -> Result<usize, CommandError> {
        self.keep(TcpStream::connect((host, port)))
    }

    fn close(&mut self, connection: usize) {
        self.connections[connection] = None;
        if self.kind == Kind::Kafka {
            self.advance(SETTLE_MS); // The broker notices on another thread, some time later.
        }
    }

    fn send(&mut self, connection: usize, frame: &[u8]) -> Result<(), CommandError> {
        let (stream, _) = self.connection(connection)?;
        let mut bytes = BytesMut::with_capacity(frame.len() + 4);
        bytes.put_i32(i32::try_from(frame.len()).map_err(|error| error.to_string())?);
        bytes.put_slice(frame);
        stream.write_all(&bytes).map_err(|error| error.to_string())
    }

    fn receive(&mut self, connection: usize, wait: Duration) -> Result<Received, CommandError> {
        let (stream, buffer) = self.connection(connection)?;
        let started = Instant::now();
        loop {
            if let Some(frame) = take_frame(buffer) {
                return Ok(Received::Frame(frame));
            }
            let left = wait.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
            stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            let mut chunk = [0; 65_536];
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(Received::Closed),
                Ok(size) => buffer.put_slice(&chunk[..size]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if wait <= started.elapsed() {
                        return Ok(Received::Nothing);
                    }
                }
                Err(error) if is_closed(&error) => return Ok(Received::Closed),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn advance(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// How long Kafka gets to do what it does after its answer.
pub(super) const SETTLE_MS: u64 = 300;

fn take_frame(buffer: &mut BytesMut) -> Option<Bytes> {
    let length = buffer.get(..4)?;
    let length = usize::try_from(i32::from_be_bytes([length[0], length[1], length[2], length[3]])).ok()?;
    if buffer.len() < 4 + length {
        return None;
    }
    buffer.advance(4);
    Some(buffer.split_to(length).freeze())
}
