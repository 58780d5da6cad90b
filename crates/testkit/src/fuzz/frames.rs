//! Bytes as what happens on the connections of a broker: frames, closes, and time that goes by.
//!
//! The first byte chooses whether the run starts with topics, a share group and a transaction. Then come events:
//! a byte that tells the kind and the connection, and for a frame two bytes of length and the frame itself.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Buf, BufMut, Bytes};

use super::connections::Connections;
use super::prelude::prelude;

/// How many connections there are.
pub(super) const CONNECTIONS: u8 = 8;
const REPAIRED_FRAME: u8 = 1;
const TIME: u8 = 2;
const HALF_CLOSE: u8 = 3;
const CLOSE: u8 = 4;
/// How many milliseconds one step of time is.
const TIME_STEP_MS: i64 = 50;

/// Does what `bytes` says to a broker of its own, and checks that it still serves.
///
/// # Panics
///
/// If it does not, or an answer cannot be read.
pub fn run_frames(bytes: &[u8]) {
    let Some((&start, events)) = bytes.split_first() else { return };
    let mut connections = if start % 2 == 1 { after_prelude().clone() } else { fresh().clone() };
    apply_events(events, &mut connections);
    connections.assert_serves();
}

/// Returns a broker that has just started. To clone it is much faster than to start one.
fn fresh() -> &'static Connections {
    static FRESH: OnceLock<Connections> = OnceLock::new();
    FRESH.get_or_init(Connections::new)
}

/// Returns a broker that has seen the prelude.
fn after_prelude() -> &'static Connections {
    static AFTER_PRELUDE: OnceLock<Connections> = OnceLock::new();
    AFTER_PRELUDE.get_or_init(|| {
        let mut connections = fresh().clone();
        apply_events(prelude(), &mut connections);
        connections
    })
}

/// One event of an input.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FrameEvent {
    /// A frame arrives, given without its length.
    Frame {
        /// The connection.
        connection: u8,
        /// What arrives.
        frame: Bytes,
        /// Whether the checksums of produced records are mended before it is handled.
        repairs: bool,
    },
    /// So many milliseconds go by.
    Time(i64),
    /// The peer closes its side of a connection.
    HalfClose(u8),
    /// A connection is closed.
    Close(u8),
}

/// Reads the events of an input of [`run_frames`].
pub fn frame_events(input: &[u8]) -> impl Iterator<Item = FrameEvent> {
    events(input.get(1..).unwrap_or_default())
}

fn events(mut rest: &[u8]) -> impl Iterator<Item = FrameEvent> {
    std::iter::from_fn(move || {
        let (&event, after) = rest.split_first()?;
        rest = after;
        let connection = event % CONNECTIONS;
        match event / CONNECTIONS {
            TIME => {
                let (&steps, after) = rest.split_first()?;
                rest = after;
                Some(FrameEvent::Time(i64::from(steps) * TIME_STEP_MS))
            }
            HALF_CLOSE => Some(FrameEvent::HalfClose(connection)),
            CLOSE => Some(FrameEvent::Close(connection)),
            kind => {
                let length = usize::from(rest.try_get_u16().ok()?).min(rest.len());
                let (frame, after) = rest.split_at(length);
                rest = after;
                let frame = Bytes::copy_from_slice(frame);
                Some(FrameEvent::Frame { connection, frame, repairs: kind == REPAIRED_FRAME })
            }
        }
    })
}

/// Does what the events say.
fn apply_events(bytes: &[u8], connections: &mut Connections) {
    for event in events(bytes) {
        match event {
            FrameEvent::Frame { connection, frame, repairs } => connections.send(connection, frame, repairs),
            FrameEvent::Time(ms) => connections.advance(ms),
            FrameEvent::HalfClose(connection) => connections.close_half(connection),
            FrameEvent::Close(connection) => connections.close(connection),
        }
    }
}

/// Writes events for [`run_frames`].
#[derive(Clone, Debug, Default)]
pub struct FrameEvents {
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
}

impl FrameEvents {
    /// Adds a frame, given without its length, whose produced records have their checksum mended. One longer
    /// than 16 bits tell is left out.
    pub fn frame(&mut self, connection: u8, frame: &[u8]) {
        let Ok(length) = u16::try_from(frame.len()) else { return };
        self.bytes.put_u8(REPAIRED_FRAME * CONNECTIONS + connection % CONNECTIONS);
        self.bytes.put_u16(length);
        self.frames.push(self.bytes.len()..self.bytes.len() + frame.len());
        self.bytes.put_slice(frame);
    }

    /// Lets time go by, in whole steps; returns how many milliseconds these are.
    pub fn advance(&mut self, ms: i64) -> i64 {
        let steps = (ms + TIME_STEP_MS - 1) / TIME_STEP_MS;
        let mut left = steps;
        while 0 < left {
            let some = u8::try_from(left).unwrap_or(u8::MAX);
            self.bytes.extend([TIME * CONNECTIONS, some]);
            left -= i64::from(some);
        }
        steps * TIME_STEP_MS
    }

    /// Closes a connection.
    pub fn close(&mut self, connection: u8) {
        self.bytes.push(CLOSE * CONNECTIONS + connection % CONNECTIONS);
    }

    /// Closes the peer's side of a connection.
    pub fn close_half(&mut self, connection: u8) {
        self.bytes.push(HALF_CLOSE * CONNECTIONS + connection % CONNECTIONS);
    }

    /// Returns the frames alone, in order.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(|range| &self.bytes[range.clone()])
    }

    /// Returns the input: with what comes before every run that asks for it, or without.
    pub fn input(&self, with_prelude: bool) -> Vec<u8> {
        let mut input = vec![u8::from(with_prelude)];
        input.extend(&self.bytes);
        input
    }

    /// Returns the events alone.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
