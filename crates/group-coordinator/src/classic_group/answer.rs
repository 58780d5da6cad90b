//! What those who wait for a classic group are told, and what a step has to write first.

use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;

use super::ClassicGroup;
use crate::consumer_group::DeadlineChange;
use crate::record::GroupRecord;

/// Names a request that waits for the group; the broker hands it in and gets it back with the answer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Caller(pub u64);

/// What a request of a member that speaks the classic protocol comes to: append and replay the records, then apply it.
#[derive(Clone, Debug)]
pub struct ClassicPlan {
    pub(crate) group_id: Arc<str>,
    pub(crate) change: ClassicChange,
    /// What has to be appended, then replayed.
    pub records: Vec<GroupRecord>,
    pub(crate) answers: Vec<(Caller, ClassicAnswer)>,
}

/// What of a group changes that is not in the log.
#[derive(Clone, Debug)]
pub(crate) enum ClassicChange {
    /// The classic group is this one.
    Group(Box<ClassicGroup>),
    /// A member of a consumer group has other deadlines.
    Member(MemberTimes),
    /// Nothing but the log.
    Nothing,
}

/// What becomes of the deadlines of a consumer group's member that speaks the classic protocol.
#[derive(Clone, Debug)]
pub(crate) struct MemberTimes {
    pub(crate) member_id: Arc<str>,
    /// Until when it has to be heard of.
    pub(crate) session: DeadlineChange,
    /// Until when it has to join anew, once it was told to.
    pub(crate) join: DeadlineChange,
    /// Until when it has to ask for its assignment, once it has joined.
    pub(crate) sync: DeadlineChange,
    /// The version of the topics that the group's hash was compared with, `None` if it was not.
    pub(crate) topics_version: Option<u64>,
}

/// An answer to a request that may have waited.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClassicAnswer {
    /// To a JoinGroup.
    Join(JoinAnswer),
    /// To a SyncGroup.
    Sync(SyncAnswer),
}

/// The answer to a JoinGroup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JoinAnswer {
    /// Why it is refused, if it is.
    pub error: ErrorCode,
    /// The id to go on with.
    pub member_id: Arc<str>,
    /// The generation; -1 without one.
    pub generation: i32,
    /// The kind of members.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol selected.
    pub protocol: Option<Arc<str>>,
    /// The member that assigns; empty without one.
    pub leader: Arc<str>,
    /// Whether the leader need not assign, since nothing has changed.
    pub skips_assignment: bool,
    /// All members, for the leader alone.
    pub members: Vec<JoinedMember>,
}

/// A member as its leader sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its static place.
    pub group_instance_id: Option<Arc<str>>,
    /// What it said of itself under the selected protocol.
    pub metadata: Bytes,
}

impl JoinAnswer {
    /// Refuses a JoinGroup.
    pub fn refused(error: ErrorCode, member_id: &str) -> Self {
        Self {
            error,
            member_id: member_id.into(),
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: Arc::default(),
            skips_assignment: false,
            members: Vec::new(),
        }
    }
}

/// The answer to a SyncGroup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SyncAnswer {
    /// Why it is refused, if it is.
    pub error: ErrorCode,
    /// The kind of members.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol selected.
    pub protocol: Option<Arc<str>>,
    /// What the leader assigned.
    pub assignment: Bytes,
}

impl SyncAnswer {
    /// Refuses a SyncGroup.
    pub const fn refused(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol: None, assignment: Bytes::new() }
    }
}
