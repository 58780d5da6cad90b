//! What belongs to the cluster and outlives its nodes: topics with their logs and leaders, configurations,
//! features.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sharemark_group_coordinator::{TopicFacts, Topics};
use sharemark_log::{Log, LogConfig};
use sharemark_protocol::{LeaderEpoch, NodeId, TopicId, TopicIdPartition};
use sharemark_txn_coordinator::ProducerIdCounter;

use super::acls::Acls;
use super::client_quotas::ClientQuotas;
use super::log_config::log_config;
use super::scram_credentials::ScramCredentials;
use crate::config::{ConfigResource, DynamicConfigs, Features};

/// The topic of group memberships and committed offsets.
pub(super) const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// The topic of transactions.
pub(super) const TRANSACTION_STATE: &str = "__transaction_state";
/// The topic of share partitions' states.
pub(super) const SHARE_GROUP_STATE: &str = "__share_group_state";
/// The topic of the controllers, which nobody may create.
pub(super) const CLUSTER_METADATA: &str = "__cluster_metadata";

/// How many deleted topics are remembered by their id.
const DELETED_TOPICS_MAX: usize = 1_000;

/// The cluster's durable state.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    /// The cluster id, in Kafka's text form.
    pub(super) id: String,
    /// The nodes, in ascending order; fixed for the life of the process.
    pub(super) nodes: Vec<NodeId>,
    /// Those of them that run, in ascending order.
    pub(super) running: Vec<NodeId>,
    /// The finalized and supported features.
    pub(super) features: Features,
    /// Counts the changes of features.
    pub(super) features_epoch: i64,
    /// Hands out producer ids, in blocks.
    pub(super) producer_ids: ProducerIdCounter,
    /// Quotas of clients.
    pub(super) quotas: ClientQuotas,
    /// Credentials of users.
    pub(super) scram_credentials: ScramCredentials,
    /// Rules of who may do what.
    pub(super) acls: Acls,
    /// Configurations that requests have set.
    pub(super) configs: DynamicConfigs,
    /// How many bytes all logs hold together.
    pub(super) stored_bytes: u64,
    topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<Arc<str>, TopicId>,
    placed: usize,
    /// The ids of topics that were deleted last, oldest first.
    deleted: VecDeque<TopicId>,
    /// Counts changes of the set of topics and of their partitions.
    version: u64,
    /// The version that the last creation of a topic led to.
    created_version: u64,
}

/// A topic.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    /// Its id: a deleted and re-created topic has another.
    pub(super) id: TopicId,
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its partitions, by index; never empty.
    pub(super) partitions: Vec<Partition>,
}

impl Topic {
    /// Returns whether the broker keeps this topic for itself.
    pub(super) fn is_internal(&self) -> bool {
        is_internal(&self.name)
    }
}

/// Returns whether `name` is one of the topics that the broker keeps for itself.
pub(super) fn is_internal(name: &str) -> bool {
    [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE].contains(&name)
}

/// A partition: its log and who leads it.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// The records.
    pub(super) log: Log,
    /// The node that serves it.
    pub(super) leader: NodeId,
    /// How many leaders it has had before this one.
    pub(super) leader_epoch: LeaderEpoch,
    /// The nodes named as its replicas, the preferred leader first. There is one log whatever their number.
    pub(super) replicas: Vec<NodeId>,
}

impl Cluster {
    /// Starts a cluster without topics.
    pub(super) fn new(id: String, nodes: Vec<NodeId>, features: Features, configs: DynamicConfigs) -> Self {
        assert!(!nodes.is_empty(), "a cluster has at least one node");
        Self {
            id,
            running: nodes.clone(),
            nodes,
            features,
            features_epoch: 1,
            producer_ids: ProducerIdCounter::default(),
            quotas: ClientQuotas::default(),
            scram_credentials: ScramCredentials::default(),
            acls: Acls::default(),
            configs,
            stored_bytes: 0,
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            placed: 0,
            deleted: VecDeque::new(),
            version: 0,
            created_version: 0,
        }
    }

    /// Returns how often topics, their partitions or features have changed.
    pub(super) fn change_count(&self) -> i64 {
        self.features_epoch.saturating_add_unsigned(self.version)
    }

    /// Returns the topic with this id.
    pub(super) fn topic(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(&id)
    }

    /// Returns the topic with this name.
    pub(super) fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.names.get(name).and_then(|id| self.topics.get(id))
    }

    /// Returns whether a topic with this id was deleted, as far back as is remembered.
    pub(super) fn was_deleted(&self, id: TopicId) -> bool {
        self.deleted.contains(&id)
    }

    /// Returns the topics in the order of their names.
    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.names.values().filter_map(|id| self.topics.get(id))
    }

    /// Returns a partition.
    pub(super) fn partition(&self, at: TopicIdPartition) -> Option<&Partition> {
        let index = usize::try_from(at.partition).ok()?;
        self.topics.get(&at.topic_id)?.partitions.get(index)
    }

    /// Returns a partition, to be changed.
    pub(super) fn partition_mut(&mut self, at: TopicIdPartition) -> Option<&mut Partition> {
        let index = usize::try_from(at.partition).ok()?;
        self.topics.get_mut(&at.topic_id)?.partitions.get_mut(index)
    }

    /// Returns every partition with its place, in the order of topic ids.
    pub(super) fn partitions_mut(
        &mut self,
    ) -> impl Iterator<Item = (&Arc<str>, TopicIdPartition, &mut Partition)> {
        self.topics.values_mut().flat_map(|topic| {
            let (topic_id, name) = (topic.id, &topic.name);
            topic.partitions.iter_mut().zip(0..).map(move |(partition, index)| {
                (name, TopicIdPartition { topic_id, partition: index }, partition)
            })
        })
    }

    /// Creates a topic; its leaders go round the nodes.
    ///
    /// `assignment` names the replicas of each partition, the leader first.
    pub(super) fn create_topic(&mut self, id: TopicId, name: Arc<str>, assignment: Vec<Vec<NodeId>>) {
        assert!(!self.names.contains_key(&name), "a topic's name is used once at a time");
        assert!(!assignment.is_empty(), "a topic has at least one partition");
        let config = log_config(&self.configs, &name);
        let partitions = assignment
            .into_iter()
            .zip(0..)
            .map(|(replicas, partition)| {
                new_partition(TopicIdPartition { topic_id: id, partition }, replicas, &config)
            })
            .collect();
        self.version += 1;
        self.created_version = self.version;
        self.names.insert(name.clone(), id);
        self.topics.insert(id, Topic { id, name, partitions });
    }

    /// Adds partitions to a topic.
    pub(super) fn add_partitions(&mut self, id: TopicId, assignment: Vec<Vec<NodeId>>) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        let config = log_config(&self.configs, &topic.name);
        self.version += 1;
        for replicas in assignment {
            let partition = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
            let at = TopicIdPartition { topic_id: id, partition };
            topic.partitions.push(new_partition(at, replicas, &config));
        }
    }

    /// Gives every log of a topic the configuration that is now in force for it.
    pub(super) fn refresh_log_configs(&mut self, resource: &ConfigResource) {
        for topic in self.topics.values_mut() {
            let concerned = match resource {
                ConfigResource::Topic(name) => *name == topic.name,
                ConfigResource::Broker(_) => true,
                ConfigResource::Group(_) | ConfigResource::ClientMetrics(_) => false,
            };
            if concerned {
                let config = log_config(&self.configs, &topic.name);
                for partition in &mut topic.partitions {
                    partition.log.set_config(config.clone());
                }
            }
        }
    }

    /// Removes a topic and its records.
    pub(super) fn delete_topic(&mut self, id: TopicId) -> Option<Topic> {
        let topic = self.topics.remove(&id)?;
        self.version += 1;
        self.deleted.push_back(id);
        if DELETED_TOPICS_MAX < self.deleted.len() {
            self.deleted.pop_front();
        }
        self.stored_bytes -= topic.partitions.iter().map(|partition| partition.log.bytes()).sum::<u64>();
        self.names.remove(&topic.name);
        self.configs.replay_removal(&ConfigResource::Topic(topic.name.clone()));
        Some(topic)
    }

    /// Checks the logs, and that what they hold is counted.
    pub(super) fn check_invariants(&self) {
        let mut stored_bytes = 0;
        for topic in self.topics.values() {
            assert!(self.names.get(&topic.name) == Some(&topic.id), "a topic is found by its name");
            for partition in &topic.partitions {
                partition.log.check_invariants();
                stored_bytes += partition.log.bytes();
            }
        }
        assert!(self.names.len() == self.topics.len(), "each name is that of a topic");
        assert!(stored_bytes == self.stored_bytes, "the bytes of all logs are counted");
    }

    /// Returns the partitions whose leader does not run, or has just come back, each with its next one: a replica
    /// that runs, or else any node that does, which takes the leader's place among the replicas.
    pub(super) fn decide_leaders(
        &self,
        back: Option<NodeId>,
    ) -> Vec<(TopicIdPartition, NodeId, Vec<NodeId>)> {
        let mut moves = Vec::new();
        for topic in self.topics.values() {
            for (partition, index) in topic.partitions.iter().zip(0..) {
                if self.running.contains(&partition.leader) && back != Some(partition.leader) {
                    continue;
                }
                let at = TopicIdPartition { topic_id: topic.id, partition: index };
                let mut replicas = partition.replicas.clone();
                let leader = replicas.iter().copied().find(|node| self.running.contains(node));
                let leader = leader.unwrap_or_else(|| {
                    let leader = self.running[moves.len() % self.running.len()];
                    replicas.iter_mut().filter(|it| **it == partition.leader).for_each(|it| *it = leader);
                    leader
                });
                moves.push((at, leader, replicas));
            }
        }
        moves
    }

    /// Returns the replicas of a partition that run, which are those in sync, as there is one log.
    pub(super) fn in_sync(&self, partition: &Partition) -> impl Iterator<Item = NodeId> {
        partition.replicas.iter().copied().filter(|node| self.running.contains(node))
    }

    /// Returns replicas for `partition_count` new partitions: leaders go round the racks and the nodes of each,
    /// followers come from the racks after their leader's.
    pub(super) fn place(&mut self, partition_count: usize, replica_count: usize) -> Vec<Vec<NodeId>> {
        let mut racks: BTreeMap<Option<&str>, Vec<NodeId>> = BTreeMap::new();
        for node in &self.running {
            racks.entry(self.configs.start().rack(*node)).or_default().push(*node);
        }
        let racks: Vec<_> = racks.into_values().collect();
        let turns = (0..partition_count).map(|index| self.placed.wrapping_add(index));
        let placed = turns.map(|turn| place_one(&racks, turn, replica_count)).collect();
        self.placed = self.placed.wrapping_add(partition_count);
        placed
    }
}

impl Topics for Cluster {
    fn version(&self) -> u64 {
        self.version
    }

    fn created_version(&self) -> u64 {
        self.created_version
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }

    fn topic(&self, name: &str) -> Option<TopicFacts> {
        let topic = self.topic_named(name)?;
        let partition_count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        Some(TopicFacts { id: topic.id, partition_count })
    }

    fn name(&self, id: TopicId) -> Option<&str> {
        self.topic(id).map(|topic| &*topic.name)
    }
}

/// Returns the replicas of the partition whose turn it is: one of each rack, then a second of each, from the next rack
/// and node on at each turn.
fn place_one(racks: &[Vec<NodeId>], turn: usize, replica_count: usize) -> Vec<NodeId> {
    let (first, round) = (turn % racks.len(), turn / racks.len());
    let largest = racks.iter().map(Vec::len).max().unwrap_or(0);
    let in_order = (0..largest).flat_map(|step| (0..racks.len()).map(move |after| (step, first + after)));
    let nodes = in_order.filter_map(|(step, rack)| {
        let nodes = &racks[rack % racks.len()];
        (step < nodes.len()).then(|| nodes[(round + step) % nodes.len()])
    });
    nodes.take(replica_count).collect()
}

fn new_partition(at: TopicIdPartition, replicas: Vec<NodeId>, config: &LogConfig) -> Partition {
    let leader_epoch = LeaderEpoch::new(0);
    let mut log = Log::new(at, config.clone());
    log.begin_leader_epoch(leader_epoch);
    Partition { log, leader: replicas[0], leader_epoch, replicas }
}

#[cfg(test)]
mod tests;
