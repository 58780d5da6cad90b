//! A classic group of consumers and a consumer group: what one takes over from the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::{ErrorCode, Timestamp};

use super::member::Member;
use super::{ClassicGroup, ClassicGroupState, Step};
use crate::consumer_group::{ConsumerGroup, ConsumerMember, ConvertedMember};
use crate::embedded::{PROTOCOL_TYPE, Subscription, read_assignment, write_assignment};
use crate::record::{ClassicMemberMetadata, ConsumerMemberMetadata};
use crate::refusal::Refusal;
use crate::topics::Topics;

impl Step<'_> {
    /// Has the group stored as the one that a consumer group has become; its members join anew if `rebalances`.
    pub(crate) fn begin_converted(&mut self, rebalances: bool) {
        self.store();
        if rebalances {
            self.prepare_rebalance();
        }
    }

    /// Tells all who wait to join anew, and goes on as if they had not come.
    pub(crate) fn send_waiting_away(&mut self) {
        self.group.refuse_waiting(ErrorCode::RebalanceInProgress, &mut self.answers);
        for member in self.group.members.values_mut() {
            let (joining, syncing) = (member.joining.take(), member.syncing.take());
            if joining.is_some() || syncing.is_some() {
                member.extend_session(self.now);
            }
        }
    }
}

impl ClassicGroup {
    /// Returns how many members it has.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Returns its generation.
    pub(crate) const fn generation(&self) -> i32 {
        self.generation
    }

    /// Returns the members, who are consumers, as a consumer group takes them over.
    ///
    /// # Errors
    ///
    /// - `GroupIdNotFound` if they say what cannot be read.
    /// - `UnknownServerError` if they have no protocol yet, or two of them have the same partition: Kafka runs into it.
    pub(crate) fn convert_members(&self, topics: &impl Topics) -> Result<Vec<ConvertedMember>, Refusal> {
        let refused = |message| Refusal::with(ErrorCode::UnknownServerError, message);
        let unread = Refusal::with(ErrorCode::GroupIdNotFound, "what its members say cannot be read");
        let protocol = self.protocol.as_deref().ok_or(refused("its members have no protocol yet"))?;
        let mut taken = BTreeSet::new();
        let mut members = Vec::with_capacity(self.members.len());
        for (member_id, member) in &self.members {
            let metadata = member.metadata(protocol).ok_or(unread)?;
            let subscription = Subscription::read(metadata, topics).ok_or(unread)?;
            let assigned = read_assignment(&member.assignment, topics).ok_or(unread)?;
            for (topic_id, partitions) in &assigned {
                if !partitions.iter().all(|partition| taken.insert((*topic_id, *partition))) {
                    return Err(refused("two of its members have the same partition"));
                }
            }
            let metadata = member.to_consumer(subscription);
            members.push(ConvertedMember { member_id: member_id.clone(), metadata, assigned });
        }
        Ok(members)
    }

    /// Returns the group that the classic members of a consumer group make without those who leave. Each is told what
    /// it should have.
    pub(crate) fn of_consumer_group(
        now: Timestamp,
        consumer: &ConsumerGroup,
        leaving: &BTreeSet<Arc<str>>,
        topics: &impl Topics,
    ) -> Self {
        let mut group = Self {
            state: ClassicGroupState::Stable,
            previous_state: ClassicGroupState::Stable,
            protocol_type: Some(PROTOCOL_TYPE.into()),
            generation: consumer.epoch().get(),
            ..Self::new(now)
        };
        for (member_id, member) in consumer.members().iter().filter(|(id, _)| !leaving.contains(*id)) {
            let Some(classic) = &member.metadata.classic else { continue };
            if let Some(place) = &member.metadata.instance_id {
                group.static_members.insert(place.clone(), member_id.clone());
            }
            group.members.insert(member_id.clone(), Member::of_consumer(member, classic, now));
        }
        group.leader = group.members.keys().next().cloned();
        group.protocol = group.select_protocol();
        group.subscribed_topics = group.compute_subscribed_topics();
        let protocol = group.protocol.clone().unwrap_or_default();
        for (member_id, member) in &mut group.members {
            let target = consumer.target(member_id).cloned().unwrap_or_default();
            member.assignment = write_assignment(&target, member.metadata(&protocol), topics);
        }
        group
    }
}

impl Member {
    fn to_consumer(&self, subscription: Subscription) -> ConsumerMemberMetadata {
        ConsumerMemberMetadata {
            instance_id: self.group_instance_id.clone(),
            rack_id: subscription.rack_id,
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            subscribed_topic_names: subscription.topics,
            rebalance_timeout_ms: Some(self.rebalance_timeout_ms),
            classic: Some(ClassicMemberMetadata {
                session_timeout_ms: self.session_timeout_ms,
                supported_protocols: self.protocols.to_vec(),
            }),
            ..ConsumerMember::default().metadata
        }
    }

    fn of_consumer(member: &ConsumerMember, classic: &ClassicMemberMetadata, now: Timestamp) -> Self {
        let metadata = &member.metadata;
        let mut converted = Self {
            group_instance_id: metadata.instance_id.clone(),
            client_id: metadata.client_id.clone(),
            client_host: metadata.client_host.clone(),
            rebalance_timeout_ms: metadata.rebalance_timeout_ms.unwrap_or(classic.session_timeout_ms),
            session_timeout_ms: classic.session_timeout_ms,
            protocols: classic.supported_protocols.as_slice().into(),
            assignment: Bytes::new(),
            is_new: false,
            joining: None,
            syncing: None,
            deadline: None,
        };
        converted.extend_session(now);
        converted
    }
}
