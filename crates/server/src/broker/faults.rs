//! Faults that a test installs: what they meet is held, dropped, repeated, delayed, failed or cut.

mod again;
mod answers;
mod facts;
mod fault;
mod meet;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::{ApiKey, NodeId, Timestamp};

pub(super) use self::again::{NotInitialised, without_errors};
use self::fault::check;
pub use self::fault::{Fault, FaultAction, FaultPoint, FaultProblem, FaultView};
use super::crossing::Crossing;
use super::input::{ConnectionId, Output, Request};

/// How many faults may be installed at a time.
const FAULTS_MAX: usize = 1_000;

/// How many things faults keep back at a time; what comes after that is failed.
const KEPT_BACK_MAX: usize = 10_000;

/// What comes to a point, as selectors see it.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) api: Option<ApiKey>,
    pub(super) from: Option<NodeId>,
    pub(super) to: Option<NodeId>,
    pub(super) node: Option<NodeId>,
    /// The partitions concerned; a negative number stands for a topic as a whole.
    pub(super) places: Vec<(String, i32)>,
    pub(super) groups: Vec<String>,
    pub(super) transactional_ids: Vec<String>,
}

/// What a fault keeps back.
#[derive(Clone, Debug)]
pub(super) enum KeptBack {
    /// A call, and how often it was made before.
    Crossing(Box<Crossing>, u32),
    /// A request.
    Request(Box<Request>),
    /// An answer.
    Output(Output),
}

#[derive(Clone, Debug)]
struct Installed {
    fault: Fault,
    met: u64,
}

/// A request whose answer a fault may meet.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    facts: Facts,
    message: RequestMessage,
}

/// The installed faults, and what they keep back.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    last_id: u64,
    last_order: u64,
    installed: BTreeMap<u64, Installed>,
    held: VecDeque<(u64, KeptBack)>,
    delayed: BTreeMap<(Timestamp, u64), KeptBack>,
    /// What was held by a fault that is gone.
    released: VecDeque<KeptBack>,
    repeats: u64,
    /// What each connection asks, where a fault waits for answers: one request of it is in the broker at a time.
    asked: BTreeMap<ConnectionId, Asked>,
    /// Whether a write to a share state was given up which may have been made: then more may be stored than its leader
    /// knows.
    is_unsure: bool,
    /// Groups whose share partitions a node forgets when their last writes are out.
    to_forget: BTreeSet<(NodeId, Arc<str>)>,
}

impl Faults {
    pub(super) fn install(&mut self, fault: Fault) -> Result<u64, FaultProblem> {
        check(&fault)?;
        if self.installed.len() == FAULTS_MAX {
            return Err(FaultProblem::TooMany);
        }
        self.last_id += 1;
        self.installed.insert(self.last_id, Installed { fault, met: 0 });
        Ok(self.last_id)
    }

    /// Deletes a fault, and lets go what it holds.
    pub(super) fn delete(&mut self, id: u64) -> Result<(), FaultProblem> {
        self.installed.remove(&id).ok_or(FaultProblem::Unknown)?;
        let held = std::mem::take(&mut self.held);
        for (holder, kept) in held {
            if holder == id {
                self.released.push_back(kept);
            } else {
                self.held.push_back((holder, kept));
            }
        }
        Ok(())
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.installed.keys().copied().collect()
    }

    pub(super) fn views(&self) -> Vec<FaultView> {
        let held = |id: u64| self.held.iter().filter(|(holder, _)| *holder == id).count();
        let installed = self.installed.iter();
        installed
            .map(|(id, it)| FaultView { id: *id, fault: it.fault.clone(), met: it.met, held: held(*id) })
            .collect()
    }

    /// Returns whether a fault might meet something at a point. Facts are not gathered for nothing.
    pub(super) fn watches(&self, at: FaultPoint) -> bool {
        self.installed.values().any(|it| it.fault.at == at)
    }

    /// Notes that a write to a share state was given up which may have been made.
    pub(super) fn note_unsure(&mut self) {
        self.is_unsure = true;
    }

    /// Returns whether a write to a share state was ever given up which may have been made.
    pub(super) fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Returns whether nothing is kept back.
    pub(super) fn is_quiet(&self) -> bool {
        self.held.is_empty() && self.delayed.is_empty() && self.released.is_empty()
    }

    /// Returns what the first matching fault does, and counts that it has.
    pub(super) fn meet(&mut self, at: FaultPoint, facts: &Facts) -> Option<(u64, FaultAction)> {
        let (id, met) = self
            .installed
            .iter_mut()
            .find(|(_, it)| it.fault.at == at && it.fault.is_left(it.met) && it.fault.matches(facts))?;
        met.met += 1;
        Some((*id, met.fault.action))
    }

    /// Keeps something until its fault is deleted; gives it back if too much is kept.
    pub(super) fn hold(&mut self, id: u64, kept: KeptBack) -> Result<(), KeptBack> {
        if KEPT_BACK_MAX <= self.held.len() {
            return Err(kept);
        }
        self.held.push_back((id, kept));
        Ok(())
    }

    /// Keeps something until a date; gives it back if too much is kept.
    pub(super) fn delay(&mut self, until: Timestamp, kept: KeptBack) -> Result<(), KeptBack> {
        if KEPT_BACK_MAX <= self.delayed.len() {
            return Err(kept);
        }
        self.last_order += 1;
        self.delayed.insert((until, self.last_order), kept);
        Ok(())
    }

    /// Returns when something that is delayed goes on, in real time.
    pub(super) fn first_delayed(&self) -> Option<Timestamp> {
        self.delayed.keys().next().map(|(until, _)| *until)
    }

    /// Lets go what was delayed until now.
    pub(super) fn release_due(&mut self, real: Timestamp) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= real) {
            self.released.push_back(entry.remove());
        }
    }

    /// Returns the next thing that goes on.
    pub(super) fn pop_released(&mut self) -> Option<KeptBack> {
        self.released.pop_front()
    }

    /// Returns whether a write of a group's states by `node` is kept back; if so the group is to be forgotten there
    /// after the last one: whoever loaded its states before would read what the write is about to change.
    pub(super) fn puts_off_forgetting(&mut self, node: NodeId, group_id: &Arc<str>) -> bool {
        let delayed = self.delayed.values();
        let mut kept = self.held.iter().map(|(_, kept)| kept).chain(delayed).chain(&self.released);
        let is_put_off = kept.any(|kept| match kept {
            KeptBack::Crossing(crossing, _) => crossing.from == node && crossing.call.writes_group(group_id),
            KeptBack::Request(_) | KeptBack::Output(_) => false,
        });
        if is_put_off {
            self.to_forget.insert((node, group_id.clone()));
        }
        is_put_off
    }

    /// Returns the groups that were not forgotten, to try again.
    pub(super) fn take_to_forget(&mut self) -> BTreeSet<(NodeId, Arc<str>)> {
        std::mem::take(&mut self.to_forget)
    }

    /// Returns a connection that nobody has, for a request that is handled twice.
    pub(super) fn nobody(&mut self) -> ConnectionId {
        self.repeats += 1;
        ConnectionId(u64::MAX - self.repeats)
    }

    /// Remembers what a connection asks until it is answered.
    pub(super) fn note_asked(&mut self, connection: ConnectionId, asked: Asked) {
        self.asked.insert(connection, asked);
    }

    /// Returns what a connection asked, if that was remembered.
    pub(super) fn take_asked(&mut self, connection: ConnectionId) -> Option<Asked> {
        self.asked.remove(&connection)
    }

    /// Forgets what a connection that is gone has asked, and what is kept back of it.
    pub(super) fn forget_connection(&mut self, connection: ConnectionId) {
        self.asked.remove(&connection);
        self.forget(|kept| match kept {
            KeptBack::Crossing(..) => false,
            KeptBack::Request(request) => request.origin.connection == connection,
            KeptBack::Output(output) => output.connection() == connection,
        });
    }

    /// Forgets what is kept back at a node that is gone.
    pub(super) fn forget_node(&mut self, node: NodeId) {
        self.forget(|kept| match kept {
            KeptBack::Crossing(crossing, _) => crossing.from == node,
            KeptBack::Request(request) => request.origin.node == node,
            KeptBack::Output(_) => false, // Its connection is cut.
        });
    }

    fn forget(&mut self, is_gone: impl Fn(&KeptBack) -> bool) {
        self.held.retain(|(_, kept)| !is_gone(kept));
        self.delayed.retain(|_, kept| !is_gone(kept));
        self.released.retain(|kept| !is_gone(kept));
    }
}

#[cfg(test)]
mod tests;
