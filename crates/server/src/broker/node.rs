//! What belongs to one node and dies with it: coordinator shards, sessions, parked requests.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_group_coordinator::GroupCoordinatorShard;
use sharemark_protocol::{SharePartitionKey, Timestamp};
use sharemark_share_coordinator::{ShareCoordinatorShard, ShareSessions, ShareSessionsConfig};
use sharemark_txn_coordinator::{ProducerIds, TxnCoordinatorShard};

use super::dead_letters::DeadLetters;
use super::fetch_sessions::FetchSessions;
use super::metrics::NodeFigures;
use super::operations::Operations;
use super::parked::ParkedRequests;
use super::share_partitions::SharePartitionSlot;
use super::views::OldView;
use crate::config::BrokerSettings;

/// How many partitions one share session may hold. Kafka sets no limit.
const SHARE_SESSION_PARTITIONS_MAX: usize = 100_000;

/// The soft state of one node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// What it knew when it was cut off from the others, as long as it is.
    pub(super) old_view: Option<Box<OldView>>,
    /// Shards of `__consumer_offsets` that this node leads, by partition.
    pub(super) groups: BTreeMap<i32, GroupCoordinatorShard>,
    /// Shards of `__transaction_state` that this node leads, by partition.
    pub(super) transactions: BTreeMap<i32, TxnCoordinatorShard>,
    /// Producer ids that this node may hand out.
    pub(super) producer_ids: ProducerIds,
    /// Shards of `__share_group_state` that this node leads, by partition.
    pub(super) share_states: BTreeMap<i32, ShareCoordinatorShard>,
    /// The share partitions of the partitions that this node leads, since their first fetch.
    pub(super) share_partitions: BTreeMap<SharePartitionKey, SharePartitionSlot>,
    /// When locks of those run out next, or earlier.
    pub(super) share_deadlines: BTreeSet<(Timestamp, SharePartitionKey)>,
    /// What is being copied to dead-letter topics.
    pub(super) dead_letters: DeadLetters,
    /// Share sessions opened with this node.
    pub(super) share_sessions: ShareSessions,
    /// Fetch sessions opened with this node (KIP-227).
    pub(super) fetch_sessions: FetchSessions,
    /// Requests that wait at this node.
    pub(super) parked: ParkedRequests,
    /// Requests that have called another node and wait for it.
    pub(super) operations: Operations,
    /// What this node has counted.
    pub(super) figures: NodeFigures,
}

impl Node {
    /// Starts a node that leads nothing yet.
    pub(super) fn new(settings: &BrokerSettings) -> Self {
        let count = |number: i32| usize::try_from(number).unwrap_or(0);
        Self {
            old_view: None,
            groups: BTreeMap::new(),
            transactions: BTreeMap::new(),
            producer_ids: ProducerIds::new(),
            share_states: BTreeMap::new(),
            share_partitions: BTreeMap::new(),
            share_deadlines: BTreeSet::new(),
            dead_letters: DeadLetters::default(),
            share_sessions: ShareSessions::new(ShareSessionsConfig {
                session_count_max: count(settings.group_share_max_share_sessions),
                partition_count_max: SHARE_SESSION_PARTITIONS_MAX,
            }),
            fetch_sessions: FetchSessions::new(count(settings.max_incremental_fetch_session_cache_slots)),
            parked: ParkedRequests::default(),
            operations: Operations::default(),
            figures: NodeFigures::new(),
        }
    }
}
