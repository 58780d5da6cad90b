//! Faults that a test installs: what they meet is held, dropped, repeated, delayed, failed or cut.

mod again;
mod answers;
mod facts;
mod meet;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sharemark_protocol::{ApiKey, ErrorCode, NodeId, Timestamp};

pub(super) use self::again::{NotInitialised, without_errors};
use super::crossing::Crossing;
use super::input::{ConnectionId, Output, Request};

/// How many faults may be installed at a time.
const FAULTS_MAX: usize = 1_000;

/// How many things faults keep back at a time; what comes after that is failed.
const KEPT_BACK_MAX: usize = 10_000;

/// Where a fault may meet something.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FaultPoint {
    /// A request before it is handled.
    Request,
    /// An answer before it is sent.
    Response,
    /// An append to the log of a partition.
    LogAppend,
    /// The seam `txn.add.partition`.
    TxnAddPartition,
    /// The seam `txn.verify`.
    TxnVerify,
    /// The seam `txn.markers`.
    TxnMarkers,
    /// The seam `share.state.init`.
    ShareStateInit,
    /// The seam `share.state.read`.
    ShareStateRead,
    /// The seam `share.state.write`.
    ShareStateWrite,
    /// The seam `share.state.delete`.
    ShareStateDelete,
    /// The seam `share.state.summary`.
    ShareStateSummary,
    /// The seam `group.member.check`.
    GroupMemberCheck,
    /// The seam `dlq.write`.
    DlqWrite,
}

impl FaultPoint {
    /// Every point, with its name.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Request, "request"),
        (Self::Response, "response"),
        (Self::LogAppend, "log.append"),
        (Self::TxnAddPartition, "txn.add.partition"),
        (Self::TxnVerify, "txn.verify"),
        (Self::TxnMarkers, "txn.markers"),
        (Self::ShareStateInit, "share.state.init"),
        (Self::ShareStateRead, "share.state.read"),
        (Self::ShareStateWrite, "share.state.write"),
        (Self::ShareStateDelete, "share.state.delete"),
        (Self::ShareStateSummary, "share.state.summary"),
        (Self::GroupMemberCheck, "group.member.check"),
        (Self::DlqWrite, "dlq.write"),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(point, _)| *point == self).map_or("", |(_, name)| name)
    }

    /// Returns the point of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(point, _)| *point)
    }

    /// Returns whether a call is made again here whose error may pass, as by Kafka's persister.
    pub(super) fn is_retried(self) -> bool {
        matches!(
            self,
            Self::ShareStateInit
                | Self::ShareStateRead
                | Self::ShareStateWrite
                | Self::ShareStateDelete
                | Self::ShareStateSummary
        )
    }
}

/// What a fault does to what it meets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultAction {
    /// It is answered with this error before anything changes.
    Error(ErrorCode),
    /// It is kept until the fault is deleted, and then goes on.
    Hold,
    /// It is lost.
    Drop,
    /// It happens twice.
    Repeat,
    /// It happens, and the connection is cut before the answer; a request is not even handled.
    Disconnect,
    /// It goes on so many milliseconds of real time later.
    Delay(i64),
}

/// A fault. Every selector that is set has to match; one that says nothing of what is met does not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Where.
    pub at: FaultPoint,
    /// What it does.
    pub action: FaultAction,
    /// How often, or for ever.
    pub count: Option<u64>,
    /// The APIs, for requests and answers; none means all.
    pub apis: Vec<ApiKey>,
    /// The node that calls.
    pub from: Option<NodeId>,
    /// The node that is called.
    pub to: Option<NodeId>,
    /// The node that is asked, answers or appends; at a seam either of the two.
    pub node: Option<NodeId>,
    /// A topic that is concerned.
    pub topic: Option<String>,
    /// A partition that is concerned, of that topic if one is given.
    pub partition: Option<i32>,
    /// The group.
    pub group: Option<String>,
    /// The transactional id.
    pub transactional_id: Option<String>,
}

impl Fault {
    /// Returns a fault that meets the first thing that comes to a point.
    pub const fn new(at: FaultPoint, action: FaultAction) -> Self {
        Self {
            at,
            action,
            count: Some(1),
            apis: Vec::new(),
            from: None,
            to: None,
            node: None,
            topic: None,
            partition: None,
            group: None,
            transactional_id: None,
        }
    }

    /// Lets it last until it is deleted.
    #[must_use]
    pub fn for_ever(self) -> Self {
        Self { count: None, ..self }
    }

    /// Lets it meet this topic alone.
    #[must_use]
    pub fn topic(self, topic: impl Into<String>) -> Self {
        Self { topic: Some(topic.into()), ..self }
    }

    /// Lets it meet this group alone.
    #[must_use]
    pub fn group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// Lets it meet this transactional id alone.
    #[must_use]
    pub fn transactional_id(self, id: impl Into<String>) -> Self {
        Self { transactional_id: Some(id.into()), ..self }
    }

    /// Lets it meet requests or answers of these APIs alone.
    #[must_use]
    pub fn apis(self, apis: impl Into<Vec<ApiKey>>) -> Self {
        Self { apis: apis.into(), ..self }
    }
}

/// Why a fault cannot be installed or deleted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultProblem {
    /// No fault has that number.
    Unknown,
    /// There are too many.
    TooMany,
    /// That cannot be done there.
    NotThere,
}

/// An installed fault.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FaultView {
    /// Its number.
    pub id: u64,
    /// The fault as it was installed.
    pub fault: Fault,
    /// What it has met.
    pub met: u64,
    /// What it keeps.
    pub held: usize,
}

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

    /// Forgets what is kept back of a connection that is gone.
    pub(super) fn forget_connection(&mut self, connection: ConnectionId) {
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

impl Fault {
    fn is_left(&self, met: u64) -> bool {
        self.count.is_none_or(|count| met < count)
    }

    fn matches(&self, facts: &Facts) -> bool {
        fn same<T: PartialEq>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| Some(wanted) == found)
        }
        fn is_among(wanted: Option<&String>, found: &[String]) -> bool {
            wanted.is_none_or(|wanted| found.contains(wanted))
        }
        let is_api = self.apis.is_empty() || facts.api.is_some_and(|api| self.apis.contains(&api));
        let is_node = self.node.is_none_or(|node| [facts.node, facts.from, facts.to].contains(&Some(node)));
        let is_place = (self.topic.is_none() && self.partition.is_none())
            || facts.places.iter().any(|(topic, partition)| {
                self.topic.as_ref().is_none_or(|wanted| wanted == topic)
                    && self.partition.is_none_or(|wanted| wanted == *partition)
            });
        is_api
            && is_node
            && is_place
            && same(self.from.as_ref(), facts.from.as_ref())
            && same(self.to.as_ref(), facts.to.as_ref())
            && is_among(self.group.as_ref(), &facts.groups)
            && is_among(self.transactional_id.as_ref(), &facts.transactional_ids)
    }
}

/// Checks that a fault can do what it is to do where it is.
fn check(fault: &Fault) -> Result<(), FaultProblem> {
    let can_do = match (fault.at, fault.action) {
        (FaultPoint::LogAppend, action) => matches!(action, FaultAction::Error(_)),
        (FaultPoint::Response, FaultAction::Error(_) | FaultAction::Repeat) => false,
        _ => true,
    };
    if !can_do {
        return Err(FaultProblem::NotThere);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
