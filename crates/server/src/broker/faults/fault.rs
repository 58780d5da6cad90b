//! What a fault is: where it meets what, and what it does to it.

use sharemark_protocol::{ApiKey, ErrorCode, NodeId};

use super::Facts;

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
    /// It is answered with this error before anything changes; an answer says this error in place of what it said.
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
    /// The APIs, for requests and their answers; none means all.
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

    /// Lets it meet so many things.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    /// Lets it meet what this node calls alone.
    #[must_use]
    pub fn from(self, node: i32) -> Self {
        Self { from: Some(NodeId::new(node)), ..self }
    }

    /// Lets it meet calls of this node alone.
    #[must_use]
    pub fn to(self, node: i32) -> Self {
        Self { to: Some(NodeId::new(node)), ..self }
    }

    /// Lets it meet what this node is asked, answers or appends alone; at a seam what it calls or is called for.
    #[must_use]
    pub fn node(self, node: i32) -> Self {
        Self { node: Some(NodeId::new(node)), ..self }
    }

    /// Lets it meet this topic alone.
    #[must_use]
    pub fn topic(self, topic: impl Into<String>) -> Self {
        Self { topic: Some(topic.into()), ..self }
    }

    /// Lets it meet this partition alone, of its topic if that is given.
    #[must_use]
    pub fn partition(self, partition: i32) -> Self {
        Self { partition: Some(partition), ..self }
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

impl Fault {
    pub(super) fn is_left(&self, met: u64) -> bool {
        self.count.is_none_or(|count| met < count)
    }

    pub(super) fn matches(&self, facts: &Facts) -> bool {
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
pub(super) fn check(fault: &Fault) -> Result<(), FaultProblem> {
    let can_do = match (fault.at, fault.action) {
        (FaultPoint::LogAppend, action) => matches!(action, FaultAction::Error(_)),
        // Two answers to one request would be taken for the next one's.
        (FaultPoint::Response, FaultAction::Repeat) => false,
        _ => true,
    };
    if !can_do {
        return Err(FaultProblem::NotThere);
    }
    Ok(())
}
