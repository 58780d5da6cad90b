//! Transcripts: what a client sends and sees, as text, run on a real Kafka and on Sharemark alike.
//!
//! A transcript is recorded from Kafka where Kafka has the requests; Sharemark then has to print the same.

mod admin;
mod arguments;
mod classic;
mod cluster;
mod consumer;
mod core;
mod embedded;
mod fetch_session;
mod groups;
mod internal;
mod log;
mod names;
mod offsets;
mod script;
mod session;
mod share;
mod state_requests;
mod target;
mod topics;
mod txn;
mod txn_share_draft;
mod warm_up;

pub use self::core::CoreTarget;
pub use arguments::CommandError;
pub use names::Names;
pub use script::{Block, Origin, Part, Script, ScriptError};
pub use session::{Member, Producer, Session, is_sharemark_only};
pub use target::{Kind, Received, Target, TcpTarget};
pub use warm_up::{find_coordinators, warm_up};

use std::fmt::Write;

/// Runs a transcript and returns it with what came out.
///
/// On Sharemark the outcome goes to a block's own `---- sharemark` answer where it has one; `state` commands
/// are left out on Kafka, with the answer they had.
///
/// # Errors
///
/// Returns the first command that could not be run, with its line.
pub fn run(script: &Script, session: &mut Session<'_>) -> Result<Script, CommandError> {
    let mut outcome = script.clone();
    for part in &mut outcome.parts {
        let Part::Block(block) = part else { continue };
        let sharemark_only = block.commands.iter().any(|(_, command)| is_sharemark_only(command));
        if session.is_kafka() && sharemark_only {
            continue;
        }
        let mut output = String::new();
        for (line, command) in &block.commands {
            output += &session.run(command).map_err(|error| format!("line {line}: {command}: {error}"))?;
        }
        match &mut block.sharemark {
            Some((_, expected)) if !session.is_kafka() => *expected = output,
            Some(_) | None => block.output = output,
        }
    }
    Ok(outcome)
}

/// Returns what differs between a transcript and what came out, or `None` if nothing does.
pub fn difference(expected: &Script, outcome: &Script) -> Option<String> {
    let mut text = String::new();
    for (expected, outcome) in expected.blocks().zip(outcome.blocks()) {
        if expected == outcome {
            continue;
        }
        let (wanted, got) = match (&expected.sharemark, &outcome.sharemark) {
            (Some((_, wanted)), Some((_, got))) if wanted != got => (wanted, got),
            _ => (&expected.output, &outcome.output),
        };
        let line = expected.commands.first().map_or(0, |(line, _)| *line);
        let commands: Vec<&str> = expected.commands.iter().map(|(_, command)| command.as_str()).collect();
        let _ = write!(text, "line {line}: {}\nexpected:\n{wanted}got:\n{got}\n", commands.join("\n"));
    }
    (!text.is_empty()).then_some(text)
}
