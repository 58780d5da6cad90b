//! What a test may do to a running server beside sending it requests: the verbs of the control endpoint, which are
//! those of the embedded [`Server`](super::Server) too.

mod clock;
mod faults;
mod http;
mod inspect;
mod json;
mod metrics;
mod nodes;

use std::fmt;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::desk::{self, Desk, Ended};
use super::meters::Meters;
use super::owner::Message;
use super::server::Listening;
use crate::broker::CommandProblem;
pub use clock::ClockView;
pub(super) use http::serve;

/// Why a verb was not carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ControlError {
    /// What was said makes no sense (400).
    Invalid(String),
    /// What was named is not there (404).
    NotFound(String),
    /// It is there, but not in a state for that (409).
    Conflict(String),
    /// The server has ended (503).
    Ended,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::NotFound(text) | Self::Conflict(text) => f.write_str(text),
            Self::Ended => f.write_str("the server has ended"),
        }
    }
}

impl std::error::Error for ControlError {}

impl From<CommandProblem> for ControlError {
    fn from(problem: CommandProblem) -> Self {
        match problem {
            CommandProblem::Fault(problem) => problem.into(),
            CommandProblem::Node(problem) => problem.into(),
        }
    }
}

impl From<Ended> for ControlError {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

/// Has verbs carried out on the owner's thread.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) inbox: Sender<Message>,
    pub(super) meters: Meters,
    pub(super) listening: Arc<Listening>,
}

/// A verb: what it does on the owner's thread.
pub(super) trait Verb<T>: FnOnce(&mut dyn Desk) -> Result<T, ControlError> + Send + 'static {}

impl<T, F: FnOnce(&mut dyn Desk) -> Result<T, ControlError> + Send + 'static> Verb<T> for F {}

impl Control {
    /// Carries out a verb and waits for it on this thread.
    ///
    /// # Errors
    ///
    /// What the verb says; or if the server has ended.
    pub(super) fn call<T: Send + 'static>(&self, verb: impl Verb<T>) -> Result<T, ControlError> {
        desk::call(&self.inbox, verb)?
    }

    /// Carries out a verb and waits for it in a task.
    ///
    /// # Errors
    ///
    /// What the verb says; or if the server has ended.
    pub(super) async fn call_from_task<T: Send + 'static>(
        &self,
        verb: impl Verb<T>,
    ) -> Result<T, ControlError> {
        desk::call_from_task(&self.inbox, verb).await?
    }
}

pub(super) use clock::{hold, release, view};
pub(super) use faults::{delete_faults, faults, install_fault};
pub(super) use inspect::{leaders, requests, share_partition, transaction, transactions};
pub(super) use metrics::render;
pub(super) use nodes::{isolate_node, nodes, rejoin_node};
