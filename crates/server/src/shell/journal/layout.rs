//! How each entry is laid out: what is told to the core, what the core says, the start and the end.

use std::sync::Arc;

use bytes::Bytes;
use sharemark_log::{Flush, StorageChange};
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ApiKey, DecodeError, NodeId, Reader, StrBytes, Timestamp, Writer};

use super::fault;
use crate::broker::{Command, CommandProblem, ConnectionId, Input, ListenerId, Now, Origin, Output};
use crate::broker::{Principal, Request};

/// What an entry is: its first byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The core begins.
    Start = 1,
    Request = 2,
    PeerClosed = 3,
    Disconnected = 4,
    Tick = 5,
    /// A flush is durable.
    Durable = 6,
    /// Something that a test does.
    Command = 7,
    /// What came of the command before.
    Outcome = 8,
    /// The core hands out a flush.
    Flush = 9,
    Answer = 10,
    NoAnswer = 11,
    Close = 12,
    /// The core ends.
    End = 13,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Start,
        Self::Request,
        Self::PeerClosed,
        Self::Disconnected,
        Self::Tick,
        Self::Durable,
        Self::Command,
        Self::Outcome,
        Self::Flush,
        Self::Answer,
        Self::NoAnswer,
        Self::Close,
        Self::End,
    ];

    pub(super) fn from_wire(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// How the core ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::shell) enum End {
    /// It was told to.
    Stopped,
    /// It found itself in the wrong, and said this.
    Core(String),
    /// The storage failed, and said this.
    Storage(String),
}

pub(super) fn start(now: Now, program: &str, config: &str) -> Writer {
    let mut out = timed(Kind::Start, now);
    write_text(program, &mut out);
    write_text(config, &mut out);
    out
}

/// Reads a start: the time, the version of the program, the configuration.
pub(super) fn read_start(payload: &Bytes) -> Result<(Now, String, String), DecodeError> {
    let mut reader = Reader::new(payload);
    let start = (read_now(&mut reader)?, read_text(&mut reader)?, read_text(&mut reader)?);
    reader.finish()?;
    Ok(start)
}

pub(super) fn input(now: Now, input: &Input) -> Writer {
    match input {
        Input::Request(request) => self::request(now, request),
        Input::PeerClosed(connection) => timed_number(Kind::PeerClosed, now, connection.0),
        Input::Disconnected(connection) => timed_number(Kind::Disconnected, now, connection.0),
        Input::Tick => timed(Kind::Tick, now),
        Input::Flushed(number) => timed_number(Kind::Durable, now, *number),
    }
}

fn request(now: Now, request: &Request) -> Writer {
    let Request { origin, message, checked: _ } = request; // What was checked is worked out again.
    let mut out = timed(Kind::Request, now);
    write_number(origin.connection.0, &mut out);
    out.write_i32(origin.node.get());
    out.write_u16(origin.listener.0);
    write_text(&origin.principal.0, &mut out);
    out.write_nullable_string(false, true, origin.client_id.as_ref());
    write_text(&origin.client_host, &mut out);
    out.write_i16(message.api_key().to_wire());
    out.write_i16(origin.api_version);
    message.encode(origin.api_version, &mut out);
    out
}

/// Reads an input with its time; records of a Produce are checked as a connection checks them.
pub(super) fn read_input(
    kind: Kind,
    payload: &Bytes,
    decompressed_bytes_max: usize,
) -> Result<(Now, Input), DecodeError> {
    let mut reader = Reader::new(payload);
    let now = read_now(&mut reader)?;
    let input = match kind {
        Kind::PeerClosed => Input::PeerClosed(read_connection(&mut reader)?),
        Kind::Disconnected => Input::Disconnected(read_connection(&mut reader)?),
        Kind::Durable => Input::Flushed(read_number(&mut reader)?),
        Kind::Request => {
            let (origin, message) = read_request(&mut reader)?;
            Input::Request(Box::new(Request::prepare(origin, message, decompressed_bytes_max)))
        }
        Kind::Tick => Input::Tick,
        Kind::Start
        | Kind::Command
        | Kind::Outcome
        | Kind::Flush
        | Kind::Answer
        | Kind::NoAnswer
        | Kind::Close
        | Kind::End => return Err(DecodeError::UnexpectedRecordType),
    };
    reader.finish()?;
    Ok((now, input))
}

fn read_request(reader: &mut Reader<'_>) -> Result<(Origin, RequestMessage), DecodeError> {
    let connection = read_connection(reader)?;
    let node = read_node(reader)?;
    let listener = ListenerId(reader.read_u16()?);
    let principal = Principal(Arc::from(read_text(reader)?));
    let client_id = reader.read_nullable_string(false, true)?;
    let client_host = Arc::from(read_text(reader)?);
    let (key, api_version) = read_api(reader)?;
    let message = RequestMessage::decode(key, api_version, reader)?;
    let origin = Origin { connection, node, listener, principal, client_id, client_host, api_version };
    Ok((origin, message))
}

pub(super) fn command(now: Now, command: &Command) -> Writer {
    let mut out = timed(Kind::Command, now);
    match command {
        Command::InstallFault(installed) => {
            out.write_i8(1);
            fault::write(installed, &mut out);
        }
        Command::DeleteFault(id) => {
            out.write_i8(2);
            write_number(*id, &mut out);
        }
        Command::DeleteFaults => out.write_i8(3),
        Command::StopNode(node) => write_node(4, *node, &mut out),
        Command::StartNode(node) => write_node(5, *node, &mut out),
        Command::IsolateNode(node) => write_node(6, *node, &mut out),
        Command::RejoinNode(node) => write_node(7, *node, &mut out),
    }
    out
}

fn write_node(command: i8, node: NodeId, out: &mut Writer) {
    out.write_i8(command);
    out.write_i32(node.get());
}

pub(super) fn read_command(payload: &Bytes) -> Result<(Now, Command), DecodeError> {
    let mut reader = Reader::new(payload);
    let now = read_now(&mut reader)?;
    let command = match reader.read_i8()? {
        1 => Command::InstallFault(Box::new(fault::read(&mut reader)?)),
        2 => Command::DeleteFault(read_number(&mut reader)?),
        3 => Command::DeleteFaults,
        4 => Command::StopNode(read_node(&mut reader)?),
        5 => Command::StartNode(read_node(&mut reader)?),
        6 => Command::IsolateNode(read_node(&mut reader)?),
        7 => Command::RejoinNode(read_node(&mut reader)?),
        _ => return Err(DecodeError::UnexpectedRecordType),
    };
    reader.finish()?;
    Ok((now, command))
}

/// What came of a command is kept as text: nothing but a comparison is made of it.
pub(super) fn outcome(outcome: Result<Option<u64>, CommandProblem>) -> Writer {
    let mut out = begun(Kind::Outcome);
    write_text(&format!("{outcome:?}"), &mut out);
    out
}

/// Of a flush its number, the count of its writes and a checksum over them are kept, which tell it from any other.
pub(super) fn flush(flush: &Flush) -> Writer {
    let mut out = begun(Kind::Flush);
    write_number(flush.number, &mut out);
    write_number(flush.writes.len() as u64, &mut out);
    let mut checksum = 0;
    let mut add = |bytes: &[u8]| checksum = crc32c::crc32c_append(checksum, bytes);
    for write in &flush.writes {
        let mut head = Writer::new();
        head.write_topic_id(write.partition.topic_id);
        head.write_i32(write.partition.partition);
        match &write.change {
            StorageChange::Put { header: _, bytes } => {
                head.write_i8(1);
                add(&head.into_bytes());
                add(bytes);
                continue;
            }
            StorageChange::Remove(offset) => {
                head.write_i8(2);
                head.write_i64(offset.get());
            }
            StorageChange::Start(offset) => {
                head.write_i8(3);
                head.write_i64(offset.get());
            }
            StorageChange::Drop => head.write_i8(4),
        }
        add(&head.into_bytes());
    }
    write_number(checksum.into(), &mut out);
    out
}

pub(super) fn output(output: &Output) -> Writer {
    let kind = match output {
        Output::Answer { .. } => Kind::Answer,
        Output::NoAnswer { .. } => Kind::NoAnswer,
        Output::Close { .. } => Kind::Close,
    };
    let mut out = begun(kind);
    write_number(output.connection().0, &mut out);
    if let Output::Answer { connection: _, api_version, message } = output {
        out.write_i16(message.api_key().to_wire());
        out.write_i16(*api_version);
        message.encode(*api_version, &mut out);
    }
    out
}

/// Reads an answer: the connection, the API, the version, the body.
pub(super) fn read_answer(
    payload: &Bytes,
) -> Result<(ConnectionId, ApiKey, i16, ResponseMessage), DecodeError> {
    let mut reader = Reader::new(payload);
    let connection = read_connection(&mut reader)?;
    let (key, version) = read_api(&mut reader)?;
    let message = ResponseMessage::decode(key, version, &mut reader)?;
    reader.finish()?;
    Ok((connection, key, version, message))
}

/// Reads the connection that an answer, its lack or a close is for.
pub(super) fn read_connection_of(payload: &Bytes) -> Result<ConnectionId, DecodeError> {
    read_connection(&mut Reader::new(payload))
}

/// Reads a flush: its number, the count of its writes, their checksum.
pub(super) fn read_flush(payload: &Bytes) -> Result<(u64, u64, u64), DecodeError> {
    let mut reader = Reader::new(payload);
    Ok((read_number(&mut reader)?, read_number(&mut reader)?, read_number(&mut reader)?))
}

/// Reads what came of a command.
pub(super) fn read_outcome(payload: &Bytes) -> Result<String, DecodeError> {
    read_text(&mut Reader::new(payload))
}

pub(super) fn end(end: &End) -> Writer {
    let mut out = begun(Kind::End);
    let (how, text) = match end {
        End::Stopped => (0, ""),
        End::Core(text) => (1, text.as_str()),
        End::Storage(text) => (2, text.as_str()),
    };
    out.write_i8(how);
    write_text(text, &mut out);
    out
}

pub(super) fn read_end(payload: &Bytes) -> Result<End, DecodeError> {
    let mut reader = Reader::new(payload);
    let (how, text) = (reader.read_i8()?, read_text(&mut reader)?);
    reader.finish()?;
    match how {
        0 => Ok(End::Stopped),
        1 => Ok(End::Core(text)),
        _ => Ok(End::Storage(text)),
    }
}

fn begun(kind: Kind) -> Writer {
    let mut out = Writer::with_capacity(128);
    out.write_i8(kind as i8);
    out
}

fn timed(kind: Kind, now: Now) -> Writer {
    let mut out = begun(kind);
    out.write_i64(now.clock.ms());
    out.write_i64(now.real.ms());
    out
}

fn timed_number(kind: Kind, now: Now, number: u64) -> Writer {
    let mut out = timed(kind, now);
    write_number(number, &mut out);
    out
}

fn read_now(reader: &mut Reader<'_>) -> Result<Now, DecodeError> {
    let (clock, real) = (Timestamp::from_ms(reader.read_i64()?), Timestamp::from_ms(reader.read_i64()?));
    Ok(Now { clock, real })
}

pub(super) fn write_number(number: u64, out: &mut Writer) {
    out.write_i64(number.cast_signed());
}

pub(super) fn read_number(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    reader.read_i64().map(i64::cast_unsigned)
}

fn read_connection(reader: &mut Reader<'_>) -> Result<ConnectionId, DecodeError> {
    read_number(reader).map(ConnectionId)
}

fn read_node(reader: &mut Reader<'_>) -> Result<NodeId, DecodeError> {
    reader.read_i32().map(NodeId::new)
}

/// Reads an API with a version that is served.
fn read_api(reader: &mut Reader<'_>) -> Result<(ApiKey, i16), DecodeError> {
    let key = ApiKey::from_wire(reader.read_i16()?).ok_or(DecodeError::UnknownApi)?;
    let version = reader.read_i16()?;
    if key.api().serves(version) { Ok((key, version)) } else { Err(DecodeError::UnsupportedVersion) }
}

/// Writes a text of any length.
pub(super) fn write_text(text: &str, out: &mut Writer) {
    out.write_bytes(false, &Bytes::copy_from_slice(text.as_bytes()));
}

pub(super) fn read_text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let text = StrBytes::from_utf8(reader.read_bytes(false)?).ok_or(DecodeError::NotUtf8)?;
    Ok(text.to_string())
}
