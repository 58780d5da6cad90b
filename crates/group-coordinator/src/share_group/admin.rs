//! What administrators do to an empty group: set its offsets, drop them, delete it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, Offset, TopicId};

use super::ShareGroup;
use super::states::{InitialiseShareStates, InitialiseTopic};
use crate::record::{GroupRecord, ShareStatePartitions, StateTopic};
use crate::topics::Topics;
use crate::{Refusal, TopicPartitions};

/// A crossing to the share coordinator: drop the states of these share partitions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeleteShareStates {
    /// The group.
    pub group_id: Arc<str>,
    /// The partitions, by topic.
    pub partitions: TopicPartitions,
}

/// A decided deletion of a group, of which this is the first half.
#[derive(Clone, Debug)]
pub struct DeleteGroupDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// What to ask of the share coordinator. When that is done, or if it is `None` at once, follows
    /// `decide_group_deleted`.
    pub states_to_delete: Option<DeleteShareStates>,
}

/// One topic of an `AlterShareGroupOffsets` request.
#[derive(Clone, Debug)]
pub struct AlterOffsetsTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// Where each partition is to start, `None` (-1) to leave it to the reset policy.
    pub partitions: Vec<(i32, Option<Offset>)>,
}

/// One topic of the answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AlteredTopic {
    /// The topic's name.
    pub name: Arc<str>,
    /// Its id, `TopicId::ZERO` if there is no such topic.
    pub topic_id: TopicId,
    /// The outcome for each partition, in the order of the request.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// A decided `AlterShareGroupOffsets`.
#[derive(Clone, Debug)]
pub struct AlterOffsetsDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// What to answer once the share coordinator confirms; errors of its own replace the fine ones.
    pub topics: Vec<AlteredTopic>,
    /// What to ask of the share coordinator; `decide_states_initialised` follows.
    pub states_to_initialise: Option<InitialiseShareStates>,
}

/// A decided `DeleteShareGroupOffsets`, of which this is the first half.
#[derive(Clone, Debug)]
pub struct DeleteOffsetsDecision {
    /// What to append, then to replay.
    pub records: Vec<GroupRecord>,
    /// The topics that are refused, with the reason.
    pub refused: Vec<(Arc<str>, ErrorCode)>,
    /// The topics that will be answered with no error once the share coordinator confirms.
    pub accepted: Vec<(Arc<str>, TopicId)>,
    /// What to ask of the share coordinator; `decide_offsets_deleted` follows.
    pub states_to_delete: Option<DeleteShareStates>,
}

impl ShareGroup {
    /// Refuses what only an empty group allows.
    pub(crate) fn check_empty(&self) -> Result<(), Refusal> {
        if self.members.is_empty() { Ok(()) } else { Err(Refusal::of(ErrorCode::NonEmptyGroup)) }
    }

    /// Decides the first half of a deletion: the states are marked as going.
    pub(crate) fn decide_delete(&self, group_id: &Arc<str>, topics: &impl Topics) -> DeleteGroupDecision {
        let mut going = TopicPartitions::new();
        let mut deleting = BTreeMap::new();
        for (topic_id, topic) in self.states.initialised.iter().chain(&self.states.initialising) {
            going.entry(*topic_id).or_default().extend(&topic.partitions);
            deleting.insert(*topic_id, topic.name.clone());
        }
        for (topic_id, name) in &self.states.deleting {
            // An earlier deletion was not confirmed. Which partitions it meant is not kept: all there are.
            let Some(facts) = topics.topic(name).filter(|facts| facts.id == *topic_id) else { continue };
            going.entry(*topic_id).or_default().extend(0..facts.partition_count);
            deleting.insert(*topic_id, name.clone());
        }
        if self.states == ShareStatePartitions::default() {
            return DeleteGroupDecision { records: Vec::new(), states_to_delete: None };
        }
        let states = ShareStatePartitions { deleting, ..ShareStatePartitions::default() };
        DeleteGroupDecision {
            records: vec![states.into_record(group_id)],
            states_to_delete: (!going.is_empty())
                .then(|| DeleteShareStates { group_id: group_id.clone(), partitions: going }),
        }
    }

    /// Returns the tombstones of an empty group; the one of its epoch, which removes it, comes last.
    pub(crate) fn decide_deleted(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        assert!(self.members.is_empty(), "only an empty group is deleted");
        let group_id = || group_id.clone();
        vec![
            GroupRecord::ShareGroupTargetAssignmentMetadata { group_id: group_id(), value: None },
            GroupRecord::ShareGroupStatePartitionMetadata { group_id: group_id(), value: None },
            GroupRecord::ShareGroupMetadata { group_id: group_id(), value: None },
        ]
    }

    /// Decides new start offsets of an empty, perhaps new, group.
    pub(crate) fn decide_alter_offsets(
        &self,
        group_id: &Arc<str>,
        request: &[AlterOffsetsTopic<'_>],
        topics: &impl Topics,
    ) -> AlterOffsetsDecision {
        let mut initialising = BTreeMap::new();
        let mut crossing = Vec::new();
        let mut answer = Vec::new();
        for topic in request {
            let facts = topics.topic(topic.name);
            let partition_count = facts.map_or(0, |facts| facts.partition_count);
            let exists = |partition: i32| (0..partition_count).contains(&partition);
            let outcomes = topic.partitions.iter().map(|(partition, _)| {
                let known = exists(*partition);
                (*partition, if known { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition })
            });
            answer.push(AlteredTopic {
                name: topic.name.into(),
                topic_id: facts.map_or(TopicId::ZERO, |facts| facts.id),
                partitions: outcomes.collect(),
            });
            let starts: BTreeMap<i32, Option<Offset>> =
                topic.partitions.iter().copied().filter(|(partition, _)| exists(*partition)).collect();
            let Some(facts) = facts.filter(|_| !starts.is_empty()) else { continue };
            let partitions = starts.keys().copied().collect();
            initialising.insert(facts.id, StateTopic { name: topic.name.into(), partitions });
            crossing.push(InitialiseTopic { topic_id: facts.id, partitions: starts });
        }
        if crossing.is_empty() {
            return AlterOffsetsDecision { records: Vec::new(), topics: answer, states_to_initialise: None };
        }
        AlterOffsetsDecision {
            records: vec![self.states_with_initialising(initialising).into_record(group_id)],
            topics: answer,
            states_to_initialise: Some(InitialiseShareStates {
                group_id: group_id.clone(),
                state_epoch: self.epoch.state(),
                topics: crossing,
            }),
        }
    }

    /// Decides the first half of dropping the offsets of topics.
    pub(crate) fn decide_delete_offsets(
        &self,
        group_id: &Arc<str>,
        names: &[&str],
        topics: &impl Topics,
    ) -> DeleteOffsetsDecision {
        let mut states = self.states.clone();
        let mut going = TopicPartitions::new();
        let mut refused = Vec::new();
        let mut accepted = Vec::new();
        for name in names {
            let name: Arc<str> = (*name).into();
            let Some(facts) = topics.topic(&name) else {
                refused.push((name, ErrorCode::UnknownTopicOrPartition));
                continue;
            };
            let partitions: BTreeSet<i32> = if let Some(topic) = states.initialised.remove(&facts.id) {
                states.initialising.remove(&facts.id);
                states.deleting.insert(facts.id, topic.name);
                topic.partitions
            } else if states.deleting.contains_key(&facts.id) {
                (0..facts.partition_count).collect()
            } else {
                refused.push((name, ErrorCode::UnknownTopicOrPartition));
                continue;
            };
            going.entry(facts.id).or_default().extend(partitions);
            accepted.push((name, facts.id));
        }
        if going.is_empty() {
            return DeleteOffsetsDecision { records: Vec::new(), refused, accepted, states_to_delete: None };
        }
        DeleteOffsetsDecision {
            records: vec![states.into_record(group_id)],
            refused,
            accepted,
            states_to_delete: Some(DeleteShareStates { group_id: group_id.clone(), partitions: going }),
        }
    }

    /// Decides the second half: the states are gone.
    pub(crate) fn decide_offsets_deleted(
        &self,
        group_id: &Arc<str>,
        topic_ids: &BTreeSet<TopicId>,
    ) -> Vec<GroupRecord> {
        let mut states = self.states.clone();
        states.deleting.retain(|topic_id, _| !topic_ids.contains(topic_id));
        if states == self.states {
            return Vec::new();
        }
        vec![states.into_record(group_id)]
    }
}
