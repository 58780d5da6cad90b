//! A classic group as an administrator sees it.

use std::sync::Arc;

use bytes::Bytes;

use super::{ClassicGroup, ClassicGroupState};

/// A group, for `DescribeGroups`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedClassicGroup {
    /// The name of its state.
    pub state: &'static str,
    /// The kind of its members; empty if it never had any.
    pub protocol_type: Arc<str>,
    /// The protocol, once the group is stable; empty before.
    pub protocol: Arc<str>,
    /// Its members in order of their ids.
    pub members: Vec<DescribedClassicMember>,
}

/// A member.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DescribedClassicMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// Its static place.
    pub group_instance_id: Option<Arc<str>>,
    /// The client id of its requests.
    pub client_id: Arc<str>,
    /// The address its requests come from.
    pub client_host: Arc<str>,
    /// What it said of itself, once the group is stable.
    pub metadata: Bytes,
    /// What it was assigned last.
    pub assignment: Bytes,
}

impl ClassicGroup {
    pub(crate) fn describe(&self) -> DescribedClassicGroup {
        let is_stable = self.state == ClassicGroupState::Stable;
        let protocol = self.protocol.clone().filter(|_| is_stable).unwrap_or_default();
        let members = self.members.iter().map(|(member_id, member)| DescribedClassicMember {
            member_id: member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: member.metadata(&protocol).cloned().filter(|_| is_stable).unwrap_or_default(),
            assignment: member.assignment.clone(),
        });
        DescribedClassicGroup {
            state: self.state.name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: protocol.clone(),
            members: members.collect(),
        }
    }
}
