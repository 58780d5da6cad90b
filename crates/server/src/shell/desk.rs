//! How others have something done or looked up on the owner's thread.

use std::fmt;

use crossbeam_channel::{Sender, bounded};
use sharemark_log::StorageError;
use tokio::sync::oneshot;

use super::clock::Clock;
use super::owner::Message;
use super::requests::RequestLog;
use crate::broker::{Broker, Command, CommandProblem, Now};

/// What the owner lets a call use.
pub(super) trait Desk {
    /// Returns the core, to look at.
    fn broker(&self) -> &Broker;

    /// Does something to the core; returns the number of a fault that this installs.
    ///
    /// # Errors
    ///
    /// What the core says against it.
    fn command(&mut self, command: Command) -> Result<Option<u64>, CommandProblem>;

    /// Returns the clock.
    fn clock(&mut self) -> &mut Clock;

    /// Lets every deadline pass that is due now, and sends the answers that this brings about.
    ///
    /// # Errors
    ///
    /// If the storage fails; the owner ends then.
    fn tick(&mut self, now: Now) -> Result<(), StorageError>;

    /// Returns the last requests.
    fn requests(&self) -> &RequestLog;
}

/// Something to be done on the owner's thread.
pub(super) struct DeskCall(Boxed);

type Boxed = Box<dyn FnOnce(&mut dyn Desk) + Send>;

impl DeskCall {
    /// Does it.
    pub(super) fn run(self, desk: &mut dyn Desk) {
        (self.0)(desk);
    }
}

impl fmt::Debug for DeskCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeskCall")
    }
}

/// The owner has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ended;

/// Has `call` done on the owner's thread, and waits for its outcome on this one.
///
/// # Errors
///
/// If the owner has ended.
pub(super) fn call<T: Send + 'static>(
    inbox: &Sender<Message>,
    call: impl FnOnce(&mut dyn Desk) -> T + Send + 'static,
) -> Result<T, Ended> {
    let (reply, outcome) = bounded(1);
    let done = move |desk: &mut dyn Desk| drop(reply.send(call(desk)));
    inbox.send(Message::Call(DeskCall(Box::new(done)))).map_err(|_| Ended)?;
    outcome.recv().map_err(|_| Ended)
}

/// As [`call`], within a task.
///
/// # Errors
///
/// If the owner has ended.
pub(super) async fn call_from_task<T: Send + 'static>(
    inbox: &Sender<Message>,
    call: impl FnOnce(&mut dyn Desk) -> T + Send + 'static,
) -> Result<T, Ended> {
    let (reply, outcome) = oneshot::channel();
    let done = move |desk: &mut dyn Desk| drop(reply.send(call(desk)));
    inbox.send(Message::Call(DeskCall(Box::new(done)))).map_err(|_| Ended)?;
    outcome.await.map_err(|_| Ended)
}
