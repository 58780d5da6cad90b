//! Which share partitions have a state at the share coordinator: asked for, confirmed, being deleted.
//!
//! The share coordinator is on the far side of a crossing. What it was asked stands in the log as initialising,
//! so that a coordinator that takes over asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{Offset, StateEpoch, TopicId};

use super::ShareGroup;
use super::heartbeat::HeartbeatContext;
use crate::record::{GroupRecord, ShareStatePartitions, StateTopic};
use crate::topics::Topics;
use crate::{GroupEpoch, TopicPartitions};

/// A crossing to the share coordinator: give these share partitions their first state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InitialiseShareStates {
    /// The group.
    pub group_id: Arc<str>,
    /// The state epoch they start with.
    pub state_epoch: StateEpoch,
    /// The partitions, by topic.
    pub topics: Vec<InitialiseTopic>,
}

/// The share partitions of one topic to initialise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InitialiseTopic {
    /// The topic.
    pub topic_id: TopicId,
    /// Where each partition starts; `None` leaves that to the group's reset policy.
    pub partitions: BTreeMap<i32, Option<Offset>>,
}

impl InitialiseShareStates {
    /// Returns the topics concerned.
    pub fn topic_ids(&self) -> impl Iterator<Item = TopicId> + '_ {
        self.topics.iter().map(|topic| topic.topic_id)
    }

    /// Returns the partitions concerned, as `decide_states_initialised` takes them.
    pub fn partitions(&self) -> TopicPartitions {
        let topics = self.topics.iter();
        topics.map(|topic| (topic.topic_id, topic.partitions.keys().copied().collect())).collect()
    }
}

impl ShareGroup {
    /// Finds subscribed partitions without a state and asks for it.
    pub(super) fn decide_initialisation(
        &self,
        group_id: &Arc<str>,
        epoch: GroupEpoch,
        names: &BTreeSet<&Arc<str>>,
        context: &HeartbeatContext<'_, impl Topics>,
        records: &mut Vec<GroupRecord>,
    ) -> Option<InitialiseShareStates> {
        let mut missing = BTreeMap::new();
        for name in names {
            let Some(facts) = context.topics.topic(name) else { continue };
            let mut partitions: BTreeSet<i32> = (0..facts.partition_count).collect();
            let mut remove_known = |known: Option<&StateTopic>| {
                for partition in known.into_iter().flat_map(|topic| &topic.partitions) {
                    partitions.remove(partition);
                }
            };
            remove_known(self.states.initialised.get(&facts.id));
            if !(context.is_initialising_stale)(facts.id) {
                remove_known(self.states.initialising.get(&facts.id));
            }
            if !partitions.is_empty() {
                missing.insert(facts.id, StateTopic { name: (*name).clone(), partitions });
            }
        }
        if missing.is_empty() {
            return None;
        }
        let topics = missing.iter().map(|(topic_id, topic)| {
            // Partitions that join a topic the group knows are read from their beginning.
            let is_known = self.states.initialised.contains_key(topic_id)
                || self.states.initialising.contains_key(topic_id);
            let start = is_known.then_some(Offset::ZERO);
            let partitions = topic.partitions.iter().map(|partition| (*partition, start)).collect();
            InitialiseTopic { topic_id: *topic_id, partitions }
        });
        let crossing = InitialiseShareStates {
            group_id: group_id.clone(),
            state_epoch: epoch.state(),
            topics: topics.collect(),
        };
        records.push(self.states_with_initialising(missing).into_record(group_id));
        Some(crossing)
    }

    /// Returns the states with more of them asked for.
    pub(super) fn states_with_initialising(
        &self,
        more: BTreeMap<TopicId, StateTopic>,
    ) -> ShareStatePartitions {
        let mut states = self.states.clone();
        for (topic_id, topic) in more {
            states.deleting.remove(&topic_id);
            merge(&mut states.initialising, topic_id, topic);
        }
        states
    }

    /// Decides what a confirmed initialisation changes. Partitions that are no longer asked for, such as those
    /// of a topic deleted meanwhile, are passed over.
    pub(crate) fn decide_initialised(
        &self,
        group_id: &Arc<str>,
        partitions: &TopicPartitions,
    ) -> Vec<GroupRecord> {
        let (mut states, done) = self.states_without_initialising(partitions);
        if done.is_empty() {
            return Vec::new();
        }
        for (topic_id, topic) in done {
            merge(&mut states.initialised, topic_id, topic);
        }
        vec![states.into_record(group_id)]
    }

    /// Decides what a failed initialisation changes: the next heartbeat asks again.
    pub(crate) fn decide_not_initialised(
        &self,
        group_id: &Arc<str>,
        partitions: &TopicPartitions,
    ) -> Vec<GroupRecord> {
        let (states, failed) = self.states_without_initialising(partitions);
        if failed.is_empty() {
            return Vec::new();
        }
        vec![states.into_record(group_id)]
    }

    /// Decides what the deletion of topics changes: nothing of them is kept. The share coordinator drops their
    /// states by itself, having heard of the deletion too.
    pub(crate) fn decide_topics_deleted(
        &self,
        group_id: &Arc<str>,
        deleted: &BTreeSet<TopicId>,
    ) -> Option<GroupRecord> {
        let mut states = self.states.clone();
        states.initialising.retain(|topic_id, _| !deleted.contains(topic_id));
        states.initialised.retain(|topic_id, _| !deleted.contains(topic_id));
        states.deleting.retain(|topic_id, _| !deleted.contains(topic_id));
        (states != self.states).then(|| states.into_record(group_id))
    }

    /// Returns the states without `partitions` among the initialising ones, and what that took away.
    fn states_without_initialising(
        &self,
        partitions: &TopicPartitions,
    ) -> (ShareStatePartitions, BTreeMap<TopicId, StateTopic>) {
        let mut states = self.states.clone();
        let mut taken = BTreeMap::new();
        for (topic_id, answered) in partitions {
            let Some(topic) = states.initialising.get_mut(topic_id) else { continue };
            let (gone, left) = topic.partitions.iter().partition(|partition| answered.contains(partition));
            topic.partitions = left;
            let gone: BTreeSet<i32> = gone;
            if !gone.is_empty() {
                taken.insert(*topic_id, StateTopic { name: topic.name.clone(), partitions: gone });
            }
        }
        states.initialising.retain(|_, topic| !topic.partitions.is_empty());
        (states, taken)
    }
}

impl ShareStatePartitions {
    pub(super) fn into_record(self, group_id: &Arc<str>) -> GroupRecord {
        GroupRecord::ShareGroupStatePartitionMetadata { group_id: group_id.clone(), value: Some(self) }
    }
}

fn merge(topics: &mut BTreeMap<TopicId, StateTopic>, topic_id: TopicId, topic: StateTopic) {
    match topics.get_mut(&topic_id) {
        Some(known) => known.partitions.extend(topic.partitions),
        None => {
            topics.insert(topic_id, topic);
        }
    }
}
