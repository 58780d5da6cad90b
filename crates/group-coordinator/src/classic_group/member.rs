//! A member of a classic group.

use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::Timestamp;

use super::answer::Caller;
use crate::record::ClassicGroupMember;

/// What a member speaks: names of protocols in order of preference, each with what it says of itself.
pub(super) type Protocols = Arc<[(Arc<str>, Bytes)]>;

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) group_instance_id: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) session_timeout_ms: i32,
    pub(super) protocols: Protocols,
    pub(super) assignment: Bytes,
    /// Whether it does not know its id yet, so that nobody would notice its end while it joins.
    pub(super) is_new: bool,
    /// The JoinGroup that waits.
    pub(super) joining: Option<Caller>,
    /// The SyncGroup that waits.
    pub(super) syncing: Option<Caller>,
    /// When it has to be heard of; nothing while it waits itself.
    pub(super) deadline: Option<Timestamp>,
}

impl Member {
    /// Returns a member that the log speaks of, from now on heard of.
    pub(super) fn load(stored: &ClassicGroupMember, protocol: Option<&Arc<str>>, now: Timestamp) -> Self {
        let name = protocol.cloned().unwrap_or_default();
        Self {
            group_instance_id: stored.group_instance_id.clone(),
            client_id: stored.client_id.clone(),
            client_host: stored.client_host.clone(),
            rebalance_timeout_ms: if stored.rebalance_timeout_ms < 0 {
                stored.session_timeout_ms
            } else {
                stored.rebalance_timeout_ms
            },
            session_timeout_ms: stored.session_timeout_ms,
            protocols: Arc::from([(name, stored.subscription.clone())]),
            assignment: stored.assignment.clone(),
            is_new: false,
            joining: None,
            syncing: None,
            deadline: Some(now.plus_ms(i64::from(stored.session_timeout_ms))),
        }
    }

    pub(super) fn to_stored(&self, member_id: &Arc<str>, protocol: &str) -> ClassicGroupMember {
        ClassicGroupMember {
            member_id: member_id.clone(),
            group_instance_id: self.group_instance_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            subscription: self.metadata(protocol).cloned().unwrap_or_default(),
            assignment: self.assignment.clone(),
        }
    }

    /// Returns what it says of itself under a protocol.
    pub(super) fn metadata(&self, protocol: &str) -> Option<&Bytes> {
        self.protocols.iter().find(|(name, _)| **name == *protocol).map(|(_, metadata)| metadata)
    }

    /// Starts its session anew.
    pub(super) fn extend_session(&mut self, now: Timestamp) {
        self.deadline = Some(now.plus_ms(i64::from(self.session_timeout_ms)));
    }

    /// Returns whether its silence is no sign of its end: it waits for the group itself.
    pub(super) const fn is_excused(&self) -> bool {
        !self.is_new && (self.joining.is_some() || self.syncing.is_some())
    }
}
