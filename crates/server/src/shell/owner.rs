//! The one thread that runs the core.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use sharemark_log::{Storage, StorageError};
use sharemark_protocol::messages::ResponseMessage;
use tokio::sync::mpsc;
use tracing::debug;

use super::clock::Clock;
use super::desk::{Desk, DeskCall};
use super::journal::{End, Recorder};
use super::requests::RequestLog;
use crate::broker::{Broker, Command, CommandProblem, ConnectionId, Input, Now, Output};

/// The most inputs that are handled before their answers go out.
const BATCH_INPUTS_MAX: usize = 256;

/// How many of the last inputs are named when the core fails.
const LAST_INPUTS: usize = 16;

/// What a connection task or the server tells the owner.
#[derive(Debug)]
pub(super) enum Message {
    /// A connection begins; its answers go here.
    Connected(ConnectionId, mpsc::Sender<Reply>),
    /// Something for the core.
    Input(Input),
    /// Something to be done on this thread.
    Call(DeskCall),
    /// Nothing more is to be handled.
    Stop,
}

/// What the owner tells a connection task.
#[derive(Debug)]
pub(super) enum Reply {
    /// Send this answer.
    Answer(Box<ResponseMessage>),
    /// There is no answer to the request: go on.
    NoAnswer,
    /// Close the connection.
    Close,
}

/// Why the owner ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum OwnerError {
    /// The disk failed.
    Storage(StorageError),
    /// The core found itself in the wrong.
    Panic {
        /// What it said.
        message: String,
        /// What it had last been told, the newest last.
        last_inputs: Vec<String>,
    },
}

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Panic { message, last_inputs } => {
                write!(f, "the core failed: {message}; last inputs: {}", last_inputs.join(", "))
            }
        }
    }
}

/// Runs the core until it is told to stop or fails.
pub(super) fn run<S: Storage>(
    broker: Broker,
    clock: Clock,
    inbox: &Receiver<Message>,
    storage: S,
    requests: RequestLog,
    journal: Option<Recorder>,
) -> Result<(), OwnerError> {
    let mut owner = Owner {
        broker,
        clock,
        storage,
        connections: HashMap::new(),
        last_inputs: VecDeque::new(),
        failed: None,
        requests,
        journal,
    };
    let outcome = match catch_unwind(AssertUnwindSafe(|| owner.run(inbox))) {
        Ok(outcome) => outcome.map_err(OwnerError::Storage),
        Err(panic) => {
            let message = panic_message(&*panic);
            let last_inputs = owner.last_inputs.iter().map(LastInput::to_string).collect();
            Err(OwnerError::Panic { message, last_inputs })
        }
    };
    if let Some(journal) = owner.journal.take() {
        journal.end(&match &outcome {
            Ok(()) => End::Stopped,
            Err(OwnerError::Storage(error)) => End::Storage(error.to_string()),
            Err(OwnerError::Panic { message, .. }) => End::Core(message.clone()),
        });
    }
    outcome
}

/// Returns what somebody said who panicked.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

struct Owner<S> {
    broker: Broker,
    clock: Clock,
    storage: S,
    /// Where answers go. Looked up only, never iterated.
    connections: HashMap<ConnectionId, mpsc::Sender<Reply>>,
    last_inputs: VecDeque<LastInput>,
    /// Why the storage failed within a call.
    failed: Option<StorageError>,
    requests: RequestLog,
    /// Where all that enters and leaves the core is written down, if anywhere.
    journal: Option<Recorder>,
}

impl<S: Storage> Owner<S> {
    fn run(&mut self, inbox: &Receiver<Message>) -> Result<(), StorageError> {
        loop {
            if let Some(journal) = &mut self.journal {
                journal.hand_over();
            }
            let mut is_last = match inbox.recv_timeout(self.time_to_deadline()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            for message in inbox.try_iter().take(BATCH_INPUTS_MAX) {
                is_last |= self.take(message);
            }
            if self.time_to_deadline().is_zero() {
                let now = self.clock.now();
                self.handle(now, Input::Tick);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.flush()?;
            self.send_outputs();
            if is_last {
                return Ok(());
            }
        }
    }

    /// Handles one message; returns whether it is the last.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Connected(connection, replies) => {
                self.connections.insert(connection, replies);
            }
            Message::Input(input) => {
                match &input {
                    Input::Disconnected(connection) => drop(self.connections.remove(connection)),
                    Input::Request(request) => self.requests.note(request),
                    Input::PeerClosed(_) | Input::Flushed(_) | Input::Tick => {}
                }
                let now = self.clock.now();
                self.handle(now, input);
            }
            Message::Call(call) => call.run(self),
            Message::Stop => return true,
        }
        false
    }

    fn handle(&mut self, now: Now, input: Input) {
        if self.last_inputs.len() == LAST_INPUTS {
            self.last_inputs.pop_front();
        }
        self.last_inputs.push_back(LastInput::of(&input));
        if let Some(journal) = &mut self.journal {
            journal.input(now, &input);
        }
        self.broker.handle(now, input);
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        while let Some(flush) = self.broker.poll_flush() {
            if let Some(journal) = &mut self.journal {
                journal.flush(&flush);
            }
            self.storage.append(flush)?;
            let now = self.clock.now();
            self.handle(now, Input::Flushed(self.storage.durable()));
        }
        Ok(())
    }

    fn send_outputs(&mut self) {
        while let Some(output) = self.broker.poll_output() {
            if let Some(journal) = &mut self.journal {
                journal.output(&output);
            }
            let (connection, reply) = match output {
                Output::Answer { connection, message, .. } => {
                    self.requests.note_answer(connection, &message);
                    (connection, Reply::Answer(message))
                }
                Output::NoAnswer { connection } => (connection, Reply::NoAnswer),
                Output::Close { connection } => (connection, Reply::Close),
            };
            let Some(replies) = self.connections.get(&connection) else { continue };
            // There is room, since a connection has one request out; an error means that its task is gone.
            if replies.try_send(reply).is_err() {
                debug!(connection = connection.0, "an answer comes too late");
            }
        }
    }

    /// Returns how long nothing is due: at least a millisecond unless something is.
    fn time_to_deadline(&mut self) -> Duration {
        const NO_DEADLINE: Duration = Duration::from_secs(3600);
        let now = self.clock.now();
        let deadlines = self.broker.poll_timeout();
        let clock_ms = deadlines.clock.map(|deadline| deadline.ms_since(now.clock));
        let real_ms = deadlines.real.map(|deadline| deadline.ms_since(now.real));
        match clock_ms.into_iter().chain(real_ms).min() {
            Some(ms) => Duration::from_millis(u64::try_from(ms).unwrap_or(0)).min(NO_DEADLINE),
            None => NO_DEADLINE,
        }
    }
}

impl<S: Storage> Desk for Owner<S> {
    fn broker(&self) -> &Broker {
        &self.broker
    }

    fn command(&mut self, command: Command) -> Result<Option<u64>, CommandProblem> {
        let now = self.clock.now();
        if let Some(journal) = &mut self.journal {
            journal.command(now, &command);
        }
        let outcome = self.broker.handle_command(now, command);
        if let Some(journal) = &mut self.journal {
            journal.outcome(outcome);
        }
        outcome
    }

    fn clock(&mut self) -> &mut Clock {
        &mut self.clock
    }

    fn tick(&mut self, now: Now) -> Result<(), StorageError> {
        self.handle(now, Input::Tick);
        let flushed = self.flush();
        match &flushed {
            Ok(()) => self.send_outputs(),
            Err(error) => self.failed = Some(error.clone()),
        }
        flushed
    }

    fn requests(&self) -> &RequestLog {
        &self.requests
    }
}

/// An input as it is named when the core fails.
#[derive(Clone, Copy, Debug)]
enum LastInput {
    Request { connection: u64, api_key: i16, api_version: i16 },
    PeerClosed(u64),
    Disconnected(u64),
    Flushed(u64),
    Tick,
}

impl LastInput {
    fn of(input: &Input) -> Self {
        match input {
            Input::Request(request) => Self::Request {
                connection: request.origin.connection.0,
                api_key: request.message.api_key().to_wire(),
                api_version: request.origin.api_version,
            },
            Input::PeerClosed(connection) => Self::PeerClosed(connection.0),
            Input::Disconnected(connection) => Self::Disconnected(connection.0),
            Input::Flushed(number) => Self::Flushed(*number),
            Input::Tick => Self::Tick,
        }
    }
}

impl fmt::Display for LastInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { connection, api_key, api_version } => {
                write!(f, "request {api_key} v{api_version} of connection {connection}")
            }
            Self::PeerClosed(connection) => write!(f, "half-close of connection {connection}"),
            Self::Disconnected(connection) => write!(f, "end of connection {connection}"),
            Self::Flushed(number) => write!(f, "flush {number} durable"),
            Self::Tick => f.write_str("tick"),
        }
    }
}

#[cfg(test)]
mod tests;
