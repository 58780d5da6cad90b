//! How entries and verdicts read.

use std::fmt;

use bytes::Bytes;
use sharemark_protocol::DecodeError;

use super::{Difference, Ending, Verdict};
use crate::shell::journal::layout::{self, Kind};

/// How much of two texts is shown before the place where they part, in characters.
const BEFORE: usize = 60;
/// And from there on.
const AFTER: usize = 200;

/// Returns how an entry reads, without its time.
pub(super) fn shown(kind: Kind, payload: &Bytes) -> String {
    try_shown(kind, payload).unwrap_or_else(|error| format!("{kind:?} that cannot be read: {error}"))
}

fn try_shown(kind: Kind, payload: &Bytes) -> Result<String, DecodeError> {
    let connection = || layout::read_connection_of(payload).map(|connection| connection.0);
    Ok(match kind {
        Kind::Answer => {
            let (connection, api, version, message) = layout::read_answer(payload)?;
            format!("answer to connection {}, {} v{version}: {message:?}", connection.0, api.api().name)
        }
        Kind::NoAnswer => format!("no answer to connection {}", connection()?),
        Kind::Close => format!("connection {} is closed", connection()?),
        Kind::Flush => {
            let (number, writes, checksum) = layout::read_flush(payload)?;
            format!("flush {number}: {writes} writes with checksum {checksum:08x}")
        }
        Kind::Outcome => format!("outcome of a command: {}", layout::read_outcome(payload)?),
        Kind::End => format!("the end: {:?}", layout::read_end(payload)?),
        Kind::Start
        | Kind::Request
        | Kind::PeerClosed
        | Kind::Disconnected
        | Kind::Tick
        | Kind::Durable
        | Kind::Command => format!("{kind:?}"),
    })
}

/// Returns how an entry reads that begins with its kind; nothing is there if it is empty.
pub(super) fn shown_whole(entry: &Bytes) -> String {
    match entry.first().and_then(|kind| Kind::from_wire(*kind)) {
        Some(kind) => shown(kind, &entry.slice(1..)),
        None => "nothing".to_owned(),
    }
}

/// Cuts two texts to what is around the place where they part.
pub(super) fn contrast(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    (around(one, same), around(other, same))
}

fn around(text: &str, place: usize) -> String {
    let from = place.saturating_sub(BEFORE);
    let count = text.chars().count();
    let cut: String = text.chars().skip(from).take(BEFORE + AFTER).collect();
    let (before, after) =
        (if 0 < from { "…" } else { "" }, if from + BEFORE + AFTER < count { "…" } else { "" });
    format!("{before}{cut}{after}")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let this = env!("CARGO_PKG_VERSION");
        if let Some(program) = self.program.as_deref().filter(|program| *program != this) {
            writeln!(f, "written by version {program}, replayed by version {this}")?;
        }
        match &self.ending {
            Ending::Stopped => f.write_str("same: the server was stopped")?,
            Ending::Failed(message) => write!(f, "same: the core fails as it did: {message}")?,
            Ending::StorageFailed(message) => write!(f, "same, until the storage failed: {message}")?,
            Ending::Open => f.write_str("same, as far as it goes: the journal has no end")?,
            Ending::Cut(place) => write!(f, "same, as far as it goes: the journal ends within {place}")?,
            Ending::Damaged(place) => write!(f, "damaged: {place} is not what was written, same before it")?,
            Ending::Senseless(place, problem) => write!(f, "{place} makes no sense: {problem}")?,
            Ending::Differs(difference) => difference.fmt(f)?,
        }
        let counts = self.counts;
        write!(f, "\n{} entries, {} requests, {} answers", counts.entries, counts.requests, counts.answers)?;
        if !self.is_same() {
            f.write_str(" before that are the same")?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, journal, replay, request } = self;
        write!(f, "differs at {place}\n  journal: {journal}\n  replay:  {replay}")?;
        match request {
            Some(request) => write!(f, "\n  request: {request}"),
            None => Ok(()),
        }
    }
}
