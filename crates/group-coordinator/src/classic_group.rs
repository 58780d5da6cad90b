//! A classic group: members that agree on a generation, of whom one assigns.
//!
//! ```text
//!            a member joins            all have joined, or time is up       the leader has assigned
//!   Empty -------------> PreparingRebalance -------------> CompletingRebalance -------------> Stable
//!     ^                      |  ^    ^                             |                            |
//!     +----------------------+  |    +-----------------------------+                            |
//!       nobody has joined       |      a member joins anew, leaves or is silent                 |
//!                               +---------------------------------------------------------------+
//! ```
//!
//! The log says what the last generation was; who waits for what dies with the node. A request is decided on a
//! copy of the group ([`Step`]), which takes the group's place once its records are appended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Timestamp};

use crate::MigrationPolicy;
use crate::embedded::PROTOCOL_TYPE;
use crate::record::{ClassicGroupMetadata, GroupRecord};

mod answer;
mod commit;
mod convert;
mod deadlines;
mod describe;
mod heartbeat;
mod join;
mod leave;
mod member;
mod rebalance;
mod static_member;
mod sync;

pub use answer::{Caller, ClassicAnswer, ClassicPlan, JoinAnswer, JoinedMember, SyncAnswer};
pub(crate) use answer::{ClassicChange, MemberTimes};
pub use commit::{CommitDecision, CommitOffsets, OffsetToCommit};
pub use describe::{DescribedClassicGroup, DescribedClassicMember};
pub use heartbeat::{ClassicHeartbeat, ClassicHeartbeatDecision};
pub use join::JoinGroup;
pub use leave::{LeaveAnswer, LeavingMember};
use member::Member;
pub use sync::SyncGroup;

/// What applies to a classic group, from the broker's configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClassicGroupConfig {
    /// How long a group that had no members waits for more: `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// How many members a group may have: `group.max.size`.
    pub max_size: usize,
    /// How many ids may be out to clients that have not come back with them. Kafka has no such limit.
    pub pending_members_max: usize,
    /// The shortest session: `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// The longest session: `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// Whether it may become a consumer group, and a consumer group one of these: `group.consumer.migration.policy`.
    pub migration: MigrationPolicy,
}

/// Where a classic group is in its rebalance.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum ClassicGroupState {
    /// It has no members.
    #[default]
    Empty,
    /// It waits for its members to join.
    PreparingRebalance,
    /// It waits for its leader to assign.
    CompletingRebalance,
    /// Its members have their assignments.
    Stable,
}

impl ClassicGroupState {
    /// Returns Kafka's name of the state.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// When a group stops waiting for its members to join.
#[derive(Clone, Copy, Debug)]
struct JoinDeadline {
    at: Timestamp,
    /// In the first rebalance of an empty group: how much longer new members may put it off.
    remaining_ms: Option<i64>,
}

/// A classic group. What its log says is its last generation; the rest begins anew when it is loaded.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassicGroup {
    /// What the log says; nothing of a group that only ever committed offsets.
    stored: Option<ClassicGroupMetadata>,
    state: ClassicGroupState,
    previous_state: ClassicGroupState,
    state_since: Option<Timestamp>,
    protocol_type: Option<Arc<str>>,
    protocol: Option<Arc<str>>,
    generation: i32,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, Member>,
    /// The member of each static place.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were handed out to clients that have to join again with them, and until when.
    pending_joins: BTreeMap<Arc<str>, Timestamp>,
    /// Members of this generation that have not asked for their assignment.
    pending_syncs: BTreeSet<Arc<str>>,
    /// The topics that the members want, if they are consumers whose metadata can be read.
    subscribed_topics: Option<BTreeSet<Arc<str>>>,
    /// Whether the first rebalance is put off since somebody joined.
    new_member_added: bool,
    join_deadline: Option<JoinDeadline>,
    sync_deadline: Option<Timestamp>,
}

impl PartialEq for ClassicGroup {
    /// Compares what the log says, as for every other group.
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for ClassicGroup {}

/// A step of a group, made on a copy.
pub(crate) struct Step<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a ClassicGroupConfig,
    pub(crate) group_id: Arc<str>,
    pub(crate) group: ClassicGroup,
    /// What has to be appended before the copy counts.
    records: Vec<GroupRecord>,
    /// Who gets an answer then.
    answers: Vec<(Caller, ClassicAnswer)>,
}

impl<'a> Step<'a> {
    /// Begins a step on a copy of `group`.
    pub(crate) fn new(
        now: Timestamp,
        config: &'a ClassicGroupConfig,
        group_id: Arc<str>,
        group: &ClassicGroup,
    ) -> Self {
        Self { now, config, group_id, group: group.clone(), records: Vec::new(), answers: Vec::new() }
    }

    /// Returns what the step has come to.
    pub(crate) fn into_plan(self) -> ClassicPlan {
        let Self { group_id, group, records, answers, .. } = self;
        ClassicPlan { group_id, change: ClassicChange::Group(Box::new(group)), records, answers }
    }

    /// Has the group stored as it is now.
    fn store(&mut self) {
        let value = Some(self.group.to_stored());
        self.records.push(GroupRecord::ClassicGroup { group_id: self.group_id.clone(), value });
    }

    /// Has the group stored as one that was just made, unless something else is.
    pub(crate) fn store_new(&mut self) {
        if self.records.is_empty() {
            let value = ClassicGroupMetadata {
                state_since: self.group.state_since,
                ..ClassicGroupMetadata::default()
            };
            self.records
                .push(GroupRecord::ClassicGroup { group_id: self.group_id.clone(), value: Some(value) });
        }
    }
}

impl ClassicGroup {
    /// Returns a group that was just made.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { state_since: Some(now), ..Self::default() }
    }

    /// Applies a record of the group.
    pub(crate) fn replay(&mut self, value: &ClassicGroupMetadata) {
        self.stored = Some(value.clone());
    }

    /// Begins with what the log says: its members are stable, and have to be heard of in time.
    pub(crate) fn load(&mut self, now: Timestamp) {
        let Some(stored) = self.stored.clone() else { return };
        *self = Self {
            state: if stored.members.is_empty() {
                ClassicGroupState::Empty
            } else {
                ClassicGroupState::Stable
            },
            state_since: stored.state_since,
            protocol_type: Some(stored.protocol_type.clone()).filter(|name| !name.is_empty()),
            protocol: stored.protocol.clone(),
            generation: stored.generation,
            leader: stored.leader.clone(),
            ..Self::default()
        };
        for member in &stored.members {
            if let Some(place) = &member.group_instance_id {
                self.static_members.insert(place.clone(), member.member_id.clone());
            }
            let loaded = Member::load(member, stored.protocol.as_ref(), now);
            self.members.insert(member.member_id.clone(), loaded);
        }
        self.subscribed_topics = self.compute_subscribed_topics();
        self.stored = Some(stored);
    }

    /// Takes over what a step has made of the group; what the log says of it is replayed apart.
    pub(crate) fn take_over(&mut self, stepped: Self) {
        let stored = self.stored.take();
        *self = Self { stored, ..stepped };
    }

    fn to_stored(&self) -> ClassicGroupMetadata {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        ClassicGroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_since: self.state_since,
            members: self.members.iter().map(|(id, member)| member.to_stored(id, protocol)).collect(),
        }
    }

    /// Returns whether the log speaks of the group, and not only of its offsets.
    pub(crate) const fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns its state.
    pub(crate) const fn state(&self) -> ClassicGroupState {
        self.state
    }

    /// Returns whether it has no members, though some may be about to join.
    pub(crate) fn is_empty(&self) -> bool {
        self.state == ClassicGroupState::Empty
    }

    /// Returns the kind of its members; empty if it never had any.
    pub(crate) fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    /// Returns whether its members are consumers.
    pub(crate) fn has_consumers(&self) -> bool {
        self.protocol_type() == PROTOCOL_TYPE
    }

    /// Judges who claims to be a member.
    ///
    /// # Errors
    ///
    /// - `FencedInstanceId` if another member has its static place.
    /// - `UnknownMemberId` if there is no such member.
    fn check_member(&self, member_id: &str, group_instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(place) = group_instance_id {
            match self.static_members.get(place) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if **holder != *member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Forgets a member, or an id that was handed out. Who leads is another member then.
    fn remove(&mut self, member_id: &str) -> Option<Member> {
        let removed = self.members.remove(member_id);
        if let Some(place) = removed.as_ref().and_then(|member| member.group_instance_id.as_ref()) {
            self.static_members.remove(place);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_joins.remove(member_id);
        self.pending_syncs.remove(member_id);
        removed
    }

    /// Refuses whatever JoinGroup and SyncGroup wait.
    pub(crate) fn refuse_waiting(&self, error: ErrorCode, answers: &mut Vec<(Caller, ClassicAnswer)>) {
        for (member_id, member) in &self.members {
            if let Some(caller) = member.joining {
                answers.push((caller, ClassicAnswer::Join(JoinAnswer::refused(error, member_id))));
            }
            if let Some(caller) = member.syncing {
                answers.push((caller, ClassicAnswer::Sync(SyncAnswer::refused(error))));
            }
        }
    }

    fn transition_to(&mut self, state: ClassicGroupState, now: Timestamp) {
        self.previous_state = self.state;
        self.state = state;
        self.state_since = Some(now);
    }

    /// Checks what must hold between two requests.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub(crate) fn check_invariants(&self) {
        assert!(self.members.is_empty() == self.leader.is_none(), "members have a leader");
        assert!(self.leader.as_ref().is_none_or(|id| self.members.contains_key(id)), "a leader is a member");
        for (place, member_id) in &self.static_members {
            let holder = self.members.get(member_id).and_then(|member| member.group_instance_id.as_ref());
            assert!(holder == Some(place), "a static place has a member");
        }
        assert!(self.pending_syncs.iter().all(|id| self.members.contains_key(id)), "members are awaited");
        let is_preparing = self.state == ClassicGroupState::PreparingRebalance;
        assert!(is_preparing == self.join_deadline.is_some(), "a rebalance ends");
        for member in self.members.values() {
            assert!(is_preparing || member.joining.is_none(), "who joins is answered by the rebalance");
            let is_completing = self.state == ClassicGroupState::CompletingRebalance;
            assert!(is_completing || member.syncing.is_none(), "who syncs is answered by the leader");
        }
    }
}
