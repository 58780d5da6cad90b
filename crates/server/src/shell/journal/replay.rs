//! Runs a journal on a core of its own, and compares all that the core says with what it said.

mod report;

use std::collections::BTreeMap;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use sharemark_protocol::{ApiKey, DecodeError, Writer};

use super::config;
use super::layout::{self, End, Kind};
use super::reader::{JournalError, JournalReader, Next, Place};
use crate::broker::{Broker, ConnectionId, Input};
use crate::shell::owner::panic_message;

/// What a replay has found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::shell) struct Verdict {
    /// What was compared and was the same.
    pub(super) counts: Counts,
    /// How the journal ends, as far as it was read.
    pub(super) ending: Ending,
    /// The version of the program that wrote it.
    pub(super) program: Option<String>,
}

/// What was the same.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    pub(super) entries: u64,
    pub(super) requests: u64,
    pub(super) answers: u64,
}

/// How a replay ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// The server was stopped.
    Stopped,
    /// The core failed, and fails again with these words.
    Failed(String),
    /// The storage failed.
    StorageFailed(String),
    /// The file ends between two entries, without the last one.
    Open,
    /// The file ends within this entry.
    Cut(Place),
    /// This entry is damaged; nothing after it was looked at.
    Damaged(Place),
    /// This entry makes no sense.
    Senseless(Place, String),
    /// The core does something else than it did.
    Differs(Box<Difference>),
}

/// Where a replay differs first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Difference {
    pub(super) place: Place,
    /// What the journal says there.
    pub(super) journal: String,
    /// What the core does instead.
    pub(super) replay: String,
    /// The last request of the connection that is answered.
    pub(super) request: Option<String>,
}

impl Verdict {
    /// Returns whether the core did all that the journal says, as far as that goes.
    pub(in crate::shell) const fn is_same(&self) -> bool {
        match self.ending {
            Ending::Stopped
            | Ending::Failed(_)
            | Ending::StorageFailed(_)
            | Ending::Open
            | Ending::Cut(_) => true,
            Ending::Damaged(_) | Ending::Senseless(..) | Ending::Differs(_) => false,
        }
    }
}

/// Runs a journal.
///
/// # Errors
///
/// If it is none, or cannot be read.
pub(in crate::shell) fn replay(source: impl Read) -> Result<Verdict, JournalError> {
    let mut reader = JournalReader::new(source)?;
    let mut verdict = Verdict { counts: Counts::default(), ending: Ending::Open, program: None };
    let mut run: Option<Run> = None;
    verdict.ending = loop {
        let place = reader.place();
        let (kind, payload) = match reader.read_next()? {
            Next::Entry(kind, payload) => (kind, payload),
            Next::Nothing => break run.map_or(Ending::Open, |run| run.end_early(Ending::Open)),
            Next::Cut => break run.map_or(Ending::Cut(place), |run| run.end_early(Ending::Cut(place))),
            Next::Damaged => break Ending::Damaged(place),
        };
        let ending = match &mut run {
            Some(run) => run.take(place, kind, &payload),
            None if kind == Kind::Start => match Run::begin(&payload) {
                Ok((begun, program)) => {
                    verdict.program = Some(program);
                    run = Some(begun);
                    None
                }
                Err(problem) => Some(Ending::Senseless(place, problem)),
            },
            None => Some(Ending::Senseless(place, "nothing has begun yet".to_owned())),
        };
        if let Some(ending @ (Ending::Senseless(..) | Ending::Differs(_))) = ending {
            break ending;
        }
        verdict.counts.count(kind);
        if let Some(ending) = ending {
            break ending;
        }
    };
    Ok(verdict)
}

impl Counts {
    fn count(&mut self, kind: Kind) {
        self.entries += 1;
        self.requests += u64::from(kind == Kind::Request);
        self.answers += u64::from(kind == Kind::Answer);
    }
}

/// A core that is told what a journal says.
struct Run {
    broker: Broker,
    decompressed_bytes_max: usize,
    /// What came of the last command, until it is compared.
    outcome: Option<Writer>,
    /// The last request of each connection.
    asked: BTreeMap<ConnectionId, (Place, ApiKey, i16)>,
    /// Where the core failed, and what it said.
    failure: Option<(Place, String)>,
}

impl Run {
    /// Begins as a start says; returns the version of the program that wrote it, too.
    fn begin(payload: &Bytes) -> Result<(Self, String), String> {
        let (now, program, config) = layout::read_start(payload).map_err(|error| error.to_string())?;
        let config = config::read(&config).map_err(|problem| format!("the configuration: {problem}"))?;
        let decompressed_bytes_max = config.decompressed_bytes_max();
        let broker = catch_unwind(|| Broker::new(config, now)).map_err(|panic| panic_message(&*panic))?;
        let (outcome, asked, failure) = (None, BTreeMap::new(), None);
        Ok((Self { broker, decompressed_bytes_max, outcome, asked, failure }, program))
    }

    /// Takes an entry; returns how the replay ends if it ends here.
    fn take(&mut self, place: Place, kind: Kind, payload: &Bytes) -> Option<Ending> {
        if let Some((_, message)) = &self.failure {
            let failed_so = kind == Kind::End && layout::read_end(payload) == Ok(End::Core(message.clone()));
            if failed_so {
                return Some(Ending::Failed(message.clone()));
            }
            return Some(differs(place, report::shown(kind, payload), format!("the core fails: {message}")));
        }
        match catch_unwind(AssertUnwindSafe(|| self.step(place, kind, payload))) {
            Ok(Ok(ending)) => ending,
            Ok(Err(error)) => Some(Ending::Senseless(place, error.to_string())),
            Err(panic) => {
                self.failure = Some((place, panic_message(&*panic)));
                None
            }
        }
    }

    /// Returns how the replay ends where the file does.
    fn end_early(self, ending: Ending) -> Ending {
        match self.failure {
            Some((place, message)) => {
                differs(place, "the server goes on".to_owned(), format!("the core fails: {message}"))
            }
            None => ending,
        }
    }

    fn step(&mut self, place: Place, kind: Kind, payload: &Bytes) -> Result<Option<Ending>, DecodeError> {
        let own = match kind {
            Kind::Request | Kind::PeerClosed | Kind::Disconnected | Kind::Tick | Kind::Durable => {
                let (now, input) = layout::read_input(kind, payload, self.decompressed_bytes_max)?;
                self.note(place, &input);
                self.broker.handle(now, input);
                return Ok(None);
            }
            Kind::Command => {
                let (now, command) = layout::read_command(payload)?;
                self.outcome = Some(layout::outcome(self.broker.handle_command(now, command)));
                return Ok(None);
            }
            Kind::Outcome => self.outcome.take(),
            Kind::Flush => self.broker.poll_flush().map(|flush| layout::flush(&flush)),
            Kind::Answer | Kind::NoAnswer | Kind::Close => {
                self.broker.poll_output().map(|output| layout::output(&output))
            }
            Kind::Start => return Ok(Some(Ending::Senseless(place, "it begins twice".to_owned()))),
            Kind::End => {
                let end = layout::read_end(payload)?;
                return Ok(Some(self.end(place, end)));
            }
        };
        Ok(self.compare(place, kind, payload, own))
    }

    fn note(&mut self, place: Place, input: &Input) {
        match input {
            Input::Request(request) => {
                let asked = (place, request.message.api_key(), request.origin.api_version);
                self.asked.insert(request.origin.connection, asked);
            }
            Input::Disconnected(connection) => drop(self.asked.remove(connection)),
            Input::PeerClosed(_) | Input::Flushed(_) | Input::Tick => {}
        }
    }

    /// Compares what the core hands out with an entry.
    fn compare(&self, place: Place, kind: Kind, payload: &Bytes, own: Option<Writer>) -> Option<Ending> {
        let own = own.map(Writer::into_bytes).unwrap_or_default();
        if own.split_first() == Some((&(kind as u8), payload)) {
            return None;
        }
        let (journal, replay) = report::contrast(&report::shown(kind, payload), &report::shown_whole(&own));
        let answered = match kind {
            Kind::Answer | Kind::NoAnswer | Kind::Close => layout::read_connection_of(payload).ok(),
            Kind::Start
            | Kind::Request
            | Kind::PeerClosed
            | Kind::Disconnected
            | Kind::Tick
            | Kind::Durable
            | Kind::Command
            | Kind::Outcome
            | Kind::Flush
            | Kind::End => None,
        };
        let request = answered.and_then(|connection| self.asked.get(&connection));
        let request = request.map(|(place, api, version)| format!("{place}, {} v{version}", api.api().name));
        Some(Ending::Differs(Box::new(Difference { place, journal, replay, request })))
    }

    /// Returns how a replay ends at the last entry.
    fn end(&mut self, place: Place, end: End) -> Ending {
        match end {
            End::Storage(message) => Ending::StorageFailed(message),
            End::Core(message) => {
                differs(place, format!("the core failed: {message}"), "it goes on".to_owned())
            }
            End::Stopped => {
                let flush = self.broker.poll_flush().map(|flush| layout::flush(&flush));
                let left = flush.or_else(|| self.broker.poll_output().map(|output| layout::output(&output)));
                match left {
                    None => Ending::Stopped,
                    Some(left) => {
                        differs(place, "the end".to_owned(), report::shown_whole(&left.into_bytes()))
                    }
                }
            }
        }
    }
}

fn differs(place: Place, journal: String, replay: String) -> Ending {
    Ending::Differs(Box::new(Difference { place, journal, replay, request: None }))
}
