//! The deterministic core: joins the logs and the coordinators into one broker.
//!
//! It reads no clock and no socket. Inputs go in through [`Broker::handle`]; flushes, answers and deadlines come
//! out through the `poll_*` functions. Each kind of request has a file of its own below.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod appends;
mod authorize;
mod classic_groups;
mod client_quotas;
mod cluster;
mod command;
mod commit_topics;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod coordinators;
mod create_acls;
mod create_partitions;
mod create_topics;
mod crossing;
mod dead_letters;
mod delete_acls;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
mod faults;
mod fetch;
mod fetch_sessions;
mod find_coordinator;
mod frame;
mod group_admin;
mod groups;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod input;
mod inspect;
mod invariants;
mod join_group;
mod leaders;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod log_config;
mod maintenance;
mod metadata;
mod metrics;
mod node;
mod nodes;
mod observe;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod operations;
mod parked;
#[cfg(feature = "plants")]
mod plants;
mod prepare;
mod produce;
mod random;
mod requests;
mod sasl_authenticate;
mod sasl_handshake;
mod scram_credentials;
mod share_acknowledge;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod share_partitions;
mod share_state_requests;
mod share_states;
mod stages;
mod sync_group;
mod ticks;
mod topics;
mod transactions;
mod txn_offset_commit;
mod txn_share_acknowledge;
mod unregister_broker;
mod update_features;
mod views;
mod write_txn_markers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sharemark_log::{Flush, StorageWrite};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{NodeId, SharePartitionKey, Timestamp, TopicIdPartition};

use crate::config::{BrokerConfig, DynamicConfigs};
use cluster::Cluster;
pub use command::{Command, CommandProblem};
use crossing::Crossing;
use faults::Faults;
pub use faults::{Fault, FaultAction, FaultPoint, FaultProblem, FaultView};
pub use frame::Frame;
pub use input::{
    ConnectionId, Deadlines, FlushNumber, Input, ListenerId, Now, Origin, Output, Principal, RefusedBatch,
    Request,
};
pub use inspect::{LeaderView, Missing, RecordsView, SharePartitionView, TransactionInspection};
pub use metrics::{
    Acknowledged, DeadLetterCounts, Distribution, GroupFigures, NodeFigures, NodeMetrics, RequestedTopics,
    SharePartitionFigures, SharePartitionMetrics,
};
use node::Node;
pub use nodes::{NodeProblem, NodeState};
pub use observe::{ObservedPartition, ObservedRecord};
use parked::{Parked, Wait, Wake};
use random::Random;

/// How long after the start retention begins at the latest, in milliseconds.
const RETENTION_DELAY_MS: i64 = 30_000;

/// A cluster in one process, as a state machine. A clone goes on by itself.
#[derive(Clone, Debug)]
pub struct Broker {
    cluster: Cluster,
    nodes: BTreeMap<NodeId, Node>,
    random: Random,
    /// Calls between nodes that this step has made and not yet carried out.
    crossings: VecDeque<Crossing>,
    /// Faults that tests have installed, and what they keep back.
    faults: Faults,
    /// When this step began.
    step_began: Now,
    /// Share partitions with records that may wait for their dead-letter copy, at their leaders.
    archiving: BTreeSet<(NodeId, SharePartitionKey)>,
    /// Transaction shards that may owe markers, by node and partition.
    owing: BTreeSet<(NodeId, i32)>,
    /// Share shards that were loaded in this step, by node and partition.
    loaded_share_states: BTreeSet<(NodeId, TopicIdPartition)>,
    /// How many share partitions have been loaded, at any node.
    share_loads: u64,
    /// Internal partitions that have grown enough to be compacted or pruned.
    overgrown: BTreeSet<TopicIdPartition>,
    /// Partitions that changed in this step in a way a parked request may wait for.
    changed: BTreeSet<TopicIdPartition>,
    /// What this step has written, for the next flush.
    writes: Vec<StorageWrite>,
    /// The number of the flush that `writes` will be.
    next_flush: FlushNumber,
    /// Answers, each with the flush that has to be durable first.
    outputs: VecDeque<(FlushNumber, Output)>,
    /// The last flush known to be durable.
    durable: FlushNumber,
    /// When logs are next looked through for what retention lets go.
    next_retention: Timestamp,
    /// When users' topics are next looked through for what compaction takes.
    next_cleaning: Timestamp,
    /// When `__share_group_state` is next pruned.
    next_prune: Timestamp,
    /// When idle producers are next forgotten.
    next_producer_expiry: Timestamp,
    /// When offsets of groups are next looked through for what has expired.
    next_offset_check: Timestamp,
    /// From when on cold snapshots are written; later than now if a log refused the last.
    snapshots_from: Timestamp,
    /// From when on members of groups are removed; later than now if a log refused the last removal.
    expiry_from: Timestamp,
}

impl Broker {
    /// Starts a cluster with the nodes and topics of `config`, and nothing in its logs.
    pub fn new(config: BrokerConfig, now: Now) -> Self {
        let mut random = Random::new(config.seed);
        let nodes: Vec<NodeId> = config.nodes.iter().map(|node| node.id).collect();
        let settings = config.settings();
        let new_topics = config.topics.clone();
        let first_retention_ms = RETENTION_DELAY_MS.min(settings.log_retention_check_interval_ms);
        let offset_check_ms = settings.offsets_retention_check_interval_ms;
        let cluster = Cluster::new(
            random.uuid().to_string(),
            nodes.clone(),
            config.features.clone(),
            DynamicConfigs::new(config),
        );
        let mut broker = Self {
            cluster,
            nodes: nodes.into_iter().map(|id| (id, Node::new(&settings))).collect(),
            random,
            crossings: VecDeque::new(),
            faults: Faults::default(),
            step_began: now,
            archiving: BTreeSet::new(),
            owing: BTreeSet::new(),
            loaded_share_states: BTreeSet::new(),
            share_loads: 0,
            overgrown: BTreeSet::new(),
            changed: BTreeSet::new(),
            writes: Vec::new(),
            next_flush: 1,
            outputs: VecDeque::new(),
            durable: 0,
            // As in Kafka, nothing is deleted in the first moments.
            next_retention: now.clock.plus_ms(first_retention_ms),
            next_cleaning: now.clock,
            next_prune: now.clock,
            next_producer_expiry: now.clock,
            next_offset_check: now.clock.plus_ms(offset_check_ms),
            snapshots_from: now.clock,
            expiry_from: now.clock,
        };
        for topic in new_topics {
            broker.create_configured_topic(now, &topic);
        }
        broker
    }

    /// Handles one input completely: afterwards nothing of it is left but parked requests and held crossings.
    pub fn handle(&mut self, now: Now, input: Input) {
        self.step_began = now;
        match input {
            Input::Request(request) => self.handle_request(now, *request),
            Input::PeerClosed(connection) => self.handle_peer_closed(now, connection),
            Input::Disconnected(connection) => self.handle_disconnected(now, connection),
            Input::Flushed(number) => self.durable = self.durable.max(number),
            Input::Tick => self.handle_tick(now),
        }
        self.settle(now);
    }

    /// Carries out crossings and wakes parked requests until the step has come to rest.
    fn settle(&mut self, now: Now) {
        loop {
            if let Some((node, key)) = self.archiving.pop_first() {
                self.begin_dead_letters(now, node, &key);
            } else if let Some(crossing) = self.crossings.pop_front() {
                self.cross(now, crossing, 0);
            } else if let Some(kept) = self.faults.pop_released() {
                self.go_on(now, kept);
            } else if let Some((node, shard)) = self.owing.pop_first() {
                self.pump_markers(now, node, shard);
            } else if let Some((node, partition)) = self.loaded_share_states.pop_first() {
                self.reconcile(now, node, partition);
            } else if let Some(partition) = self.changed.pop_first() {
                self.wake_waiting_for(now, partition);
            } else if let Some(partition) = self.overgrown.pop_first() {
                self.shrink(now, partition);
            } else {
                return;
            }
        }
    }

    fn wake_waiting_for(&mut self, now: Now, partition: TopicIdPartition) {
        let node_ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        for id in node_ids {
            let waiting: Vec<_> = match self.nodes.get(&id) {
                Some(node) => node.parked.waiting_for(&partition).collect(),
                None => Vec::new(),
            };
            for parked_id in waiting {
                let parked = self.nodes.get_mut(&id).and_then(|node| node.parked.take(parked_id));
                if let Some(parked) = parked {
                    self.resume(now, parked, Wake::Changed);
                }
            }
        }
    }

    fn handle_peer_closed(&mut self, now: Now, connection: ConnectionId) {
        let parked: Vec<Parked> = self
            .nodes
            .values_mut()
            .filter_map(|node| node.parked.of_connection(connection).and_then(|id| node.parked.take(id)))
            .collect();
        for parked in parked {
            self.resume(now, parked, Wake::PeerClosed);
        }
    }

    fn resume(&mut self, now: Now, parked: Parked, wake: Wake) {
        let Parked { origin, deadline, wait } = parked;
        match wait {
            Wait::Fetch(wait) => self.resume_fetch(now, origin, deadline, *wait, wake),
            Wait::ShareFetch(wait) => self.resume_share_fetch(now, origin, deadline, *wait, wake),
            Wait::Time(answer) => self.answer(&origin, *answer),
            // Only its group answers it; a client that sends no more is not kept.
            Wait::ClassicGroup => self.output(Output::Close { connection: origin.connection }),
        }
    }

    /// Hands out the answer to a request, once what this step has written is durable.
    fn answer(&mut self, origin: &Origin, message: ResponseMessage) {
        let output = Output::Answer {
            connection: origin.connection,
            api_version: origin.api_version,
            message: Box::new(message),
        };
        if let Some(output) = self.meet_answer(origin, output) {
            self.output(output);
        }
    }

    fn output(&mut self, output: Output) {
        // Reads may show what this step wrote, so every output waits for the flush being built, if there is one.
        let after = if self.writes.is_empty() { self.next_flush - 1 } else { self.next_flush };
        self.outputs.push_back((after, output));
    }

    /// Returns what has been written since the last call, to be made durable as one whole.
    pub fn poll_flush(&mut self) -> Option<Flush> {
        if self.writes.is_empty() {
            return None;
        }
        let number = self.next_flush;
        self.next_flush = number + 1;
        Some(Flush { number, writes: std::mem::take(&mut self.writes) })
    }

    /// Returns the next output that waits for no flush, or for a durable one.
    pub fn poll_output(&mut self) -> Option<Output> {
        let (after, _) = self.outputs.front()?;
        if self.durable < *after {
            return None;
        }
        self.outputs.pop_front().map(|(_, output)| output)
    }
}

#[cfg(test)]
mod tests;
