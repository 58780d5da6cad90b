//! Runs commands of transcripts on a broker in this process and notes the frames they send, as inputs to start from.

use std::time::Duration;

use bytes::Bytes;

use super::connections::{Connections, START_MS};
use super::frames::{CONNECTIONS, FrameEvents};
use crate::transcript::{CommandError, Kind, Names, Received, Session, Target, find_coordinators};

/// Runs `commands`, as far as they can be run, and returns the events that a fuzz target takes them for, and what
/// each printed.
pub fn record<'a>(commands: impl Iterator<Item = &'a str>) -> (FrameEvents, Vec<String>) {
    let mut recorder = Recorder::new(Connections::new());
    let mut outcome = Vec::new();
    let mut session = Session::new(&mut recorder, Names::new(String::new(), START_MS));
    if let Err(error) = find_coordinators(&mut session) {
        outcome.push(format!("error: {error}"));
    }
    for command in commands {
        match session.run(command) {
            Ok(text) => outcome.push(text),
            Err(error) => outcome.push(format!("error: {error}")),
        }
    }
    (recorder.events, outcome)
}

/// A broker in this process as a target of transcripts, and what was done to it.
pub(super) struct Recorder {
    pub(super) connections: Connections,
    events: FrameEvents,
    opened: usize,
    elapsed_ms: i64,
}

impl Recorder {
    pub(super) fn new(connections: Connections) -> Self {
        Self { connections, events: FrameEvents::default(), opened: 0, elapsed_ms: 0 }
    }

    fn name(connection: usize) -> u8 {
        u8::try_from(connection % usize::from(CONNECTIONS)).unwrap_or(0)
    }

    fn advance_ms(&mut self, ms: i64) {
        let ms = self.events.advance(ms);
        self.elapsed_ms += ms;
        self.connections.advance(ms);
    }
}

impl Target for Recorder {
    fn kind(&self) -> Kind {
        Kind::Sharemark
    }

    fn open(&mut self) -> Result<usize, CommandError> {
        self.opened += 1;
        self.connections.open(Self::name(self.opened - 1));
        Ok(self.opened - 1)
    }

    fn open_at(&mut self, _host: &str, _port: u16) -> Result<usize, CommandError> {
        self.open()
    }

    fn close(&mut self, connection: usize) {
        self.events.close(Self::name(connection));
        self.connections.close(Self::name(connection));
    }

    fn send(&mut self, connection: usize, frame: &[u8]) -> Result<(), CommandError> {
        let name = Self::name(connection);
        self.events.frame(name, frame);
        self.connections.send(name, Bytes::copy_from_slice(frame), true);
        Ok(())
    }

    fn receive(&mut self, connection: usize, wait: Duration) -> Result<Received, CommandError> {
        let name = Self::name(connection);
        for waited in [false, true] {
            if let Some(frame) = self.connections.receive(name) {
                return Ok(Received::Frame(frame.slice(4..)));
            }
            if !self.connections.is_open(name) {
                return Ok(Received::Closed);
            }
            if !waited {
                self.advance_ms(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).min(1_000));
            }
        }
        Ok(Received::Nothing)
    }

    fn advance(&mut self, ms: u64) {
        self.advance_ms(i64::try_from(ms).unwrap_or(i64::MAX));
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed_ms).unwrap_or(0)
    }
}
