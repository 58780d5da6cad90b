//! JoinGroup: who becomes a member, and who has to wait for a rebalance.

use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;

use super::answer::{Caller, ClassicAnswer, JoinAnswer, JoinedMember};
use super::member::Member;
use super::{ClassicGroup, ClassicGroupState, Step};

/// How long a member that does not know its id yet may wait for a rebalance, in milliseconds.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 300_000;

/// A JoinGroup.
#[derive(Clone, Debug)]
pub struct JoinGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The member; empty if it has no id yet.
    pub member_id: &'a str,
    /// Its static place.
    pub group_instance_id: Option<&'a str>,
    /// The kind of members.
    pub protocol_type: &'a str,
    /// What it speaks, in order of preference.
    pub protocols: Vec<(Arc<str>, Bytes)>,
    /// After what silence it is removed.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// The client id of its requests.
    pub client_id: &'a str,
    /// The address its requests come from.
    pub client_host: &'a str,
    /// What makes the id of a new member of a classic group unique.
    pub unique: &'a str,
    /// The id of a new member of a consumer group.
    pub fresh_member_id: &'a str,
    /// Whether a dynamic member has to come back with the id it is told (KIP-394).
    pub requires_known_member_id: bool,
    /// Whether a leader understands that it need not assign (KIP-814).
    pub supports_skipping_assignment: bool,
    /// The request.
    pub caller: Caller,
}

impl Step<'_> {
    /// Lets a member join, or refuses it.
    pub(crate) fn join(&mut self, request: &JoinGroup<'_>) {
        if !self.group.accepts(request.member_id, self.config.max_size) {
            self.group.remove(request.member_id);
            self.refuse_join(request, ErrorCode::GroupMaxSizeReached, "");
            return;
        }
        if request.member_id.is_empty() {
            self.join_new(request);
        } else {
            self.join_existing(request);
        }
    }

    pub(super) fn refuse_join(&mut self, request: &JoinGroup<'_>, error: ErrorCode, member_id: &str) {
        let answer = JoinAnswer::refused(error, member_id);
        self.answers.push((request.caller, ClassicAnswer::Join(answer)));
    }

    fn join_new(&mut self, request: &JoinGroup<'_>) {
        if !self.group.supports(request) {
            self.refuse_join(request, ErrorCode::InconsistentGroupProtocol, "");
            return;
        }
        let prefix = request.group_instance_id.unwrap_or(request.client_id);
        let member_id: Arc<str> = format!("{prefix}-{}", request.unique).into();
        if let Some(place) = request.group_instance_id {
            match self.group.static_members.get(place).cloned() {
                Some(holder) => self.replace_static_member(request, &holder, member_id),
                None => self.add_member(request, member_id),
            }
        } else if request.requires_known_member_id {
            if self.config.pending_members_max <= self.group.pending_joins.len() {
                self.refuse_join(request, ErrorCode::GroupMaxSizeReached, "");
                return;
            }
            let deadline = self.now.plus_ms(i64::from(request.session_timeout_ms));
            self.group.pending_joins.insert(member_id.clone(), deadline);
            self.refuse_join(request, ErrorCode::MemberIdRequired, &member_id);
        } else {
            self.add_member(request, member_id);
        }
    }

    fn add_member(&mut self, request: &JoinGroup<'_>, member_id: Arc<str>) {
        let group = &mut self.group;
        // The first rebalance of an empty group is put off further by whoever joins meanwhile.
        if group.state == ClassicGroupState::PreparingRebalance
            && group.previous_state == ClassicGroupState::Empty
        {
            group.new_member_added = true;
        }
        if group.members.is_empty() {
            group.protocol_type = Some(request.protocol_type.into());
        }
        if group.leader.is_none() {
            group.leader = Some(member_id.clone());
        }
        group.pending_joins.remove(&member_id);
        let group_instance_id: Option<Arc<str>> = request.group_instance_id.map(Into::into);
        if let Some(place) = &group_instance_id {
            group.static_members.insert(place.clone(), member_id.clone());
        }
        let member = Member {
            group_instance_id,
            client_id: request.client_id.into(),
            client_host: request.client_host.into(),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.as_slice().into(),
            assignment: Bytes::new(),
            is_new: true,
            joining: Some(request.caller),
            syncing: None,
            // It cannot send heartbeats before it knows its id, and its end is not noticed while it waits.
            deadline: Some(self.now.plus_ms(NEW_MEMBER_JOIN_TIMEOUT_MS)),
        };
        group.members.insert(member_id, member);
        self.rebalance_or_complete_join();
    }

    fn join_existing(&mut self, request: &JoinGroup<'_>) {
        let member_id = request.member_id;
        if !self.group.supports(request) {
            self.refuse_join(request, ErrorCode::InconsistentGroupProtocol, member_id);
            return;
        }
        // An id that was handed out is never a static member's.
        if self.group.pending_joins.contains_key(member_id) && request.group_instance_id.is_none() {
            self.add_member(request, member_id.into());
            return;
        }
        if let Err(error) = self.group.check_member(member_id, request.group_instance_id) {
            self.refuse_join(request, error, member_id);
            return;
        }
        let says_the_same =
            self.group.members.get(member_id).is_some_and(|member| *member.protocols == *request.protocols);
        match self.group.state {
            ClassicGroupState::PreparingRebalance => self.update_member(request, member_id),
            // It may not have got the answer to its last JoinGroup.
            ClassicGroupState::CompletingRebalance if says_the_same => self.answer_joined(request),
            ClassicGroupState::CompletingRebalance => self.update_member(request, member_id),
            // A leader that joins again wants to assign again.
            ClassicGroupState::Stable if says_the_same && !self.group.is_leader(member_id) => {
                self.answer_joined(request);
            }
            ClassicGroupState::Stable => self.update_member(request, member_id),
            ClassicGroupState::Empty => self.refuse_join(request, ErrorCode::UnknownMemberId, ""),
        }
    }

    fn answer_joined(&mut self, request: &JoinGroup<'_>) {
        let answer = self.group.joined(request.member_id);
        self.answers.push((request.caller, ClassicAnswer::Join(answer)));
    }

    fn update_member(&mut self, request: &JoinGroup<'_>, member_id: &str) {
        self.group.update(request, member_id);
        self.rebalance_or_complete_join();
    }
}

impl ClassicGroup {
    /// Returns whether there is room for who joins.
    fn accepts(&self, member_id: &str, max_size: usize) -> bool {
        match self.state {
            ClassicGroupState::Empty => true,
            // Who waits already stays; of the others those are taken that come first.
            ClassicGroupState::PreparingRebalance => {
                let is_waiting = self.members.get(member_id).is_some_and(|member| member.joining.is_some());
                is_waiting || self.joining_count() < max_size
            }
            ClassicGroupState::CompletingRebalance | ClassicGroupState::Stable => {
                self.members.contains_key(member_id) || self.members.len() < max_size
            }
        }
    }

    pub(super) fn joining_count(&self) -> usize {
        self.members.values().filter(|member| member.joining.is_some()).count()
    }

    /// Returns whether who joins speaks something that all members speak.
    fn supports(&self, request: &JoinGroup<'_>) -> bool {
        if self.state == ClassicGroupState::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        let is_spoken_by_all =
            |name: &str| self.members.values().all(|member| member.metadata(name).is_some());
        self.protocol_type.as_deref() == Some(request.protocol_type)
            && request.protocols.iter().any(|(name, _)| is_spoken_by_all(name))
    }

    /// Takes over what a member says of itself now, and that it waits.
    pub(super) fn update(&mut self, request: &JoinGroup<'_>, member_id: &str) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.protocols = request.protocols.as_slice().into();
            member.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.session_timeout_ms = request.session_timeout_ms;
            member.joining = Some(request.caller);
        }
    }

    /// Tells a member of the generation that is.
    pub(super) fn joined(&self, member_id: &str) -> JoinAnswer {
        JoinAnswer {
            error: ErrorCode::None,
            member_id: member_id.into(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skips_assignment: false,
            members: if self.is_leader(member_id) { self.joined_members() } else { Vec::new() },
        }
    }

    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter();
        members
            .map(|(member_id, member)| JoinedMember {
                member_id: member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                metadata: member.metadata(protocol).cloned().unwrap_or_default(),
            })
            .collect()
    }
}
