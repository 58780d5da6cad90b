//! Counts requests and their latencies where connections are served, so that the owner's thread does nothing for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sharemark_protocol::{APIS, ApiKey, NodeId};

/// The classes of latencies: the longest of each, in microseconds.
pub(super) const LATENCY_BOUNDS_US: [u64; 14] =
    [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000];

/// What one API has counted.
#[derive(Debug)]
pub(super) struct ApiMeter {
    /// The API.
    pub(super) key: ApiKey,
    /// Requests by version.
    pub(super) by_version: Vec<AtomicU64>,
    /// Requests that were answered, by class of their latency; the last class has no bound.
    pub(super) by_latency: [AtomicU64; LATENCY_BOUNDS_US.len() + 1],
    /// All latencies together.
    pub(super) latency_us: AtomicU64,
}

/// Counts the requests of each node.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    nodes: Arc<BTreeMap<NodeId, Arc<RequestMeters>>>,
}

impl Meters {
    pub(super) fn new(nodes: impl Iterator<Item = NodeId>) -> Self {
        Self { nodes: Arc::new(nodes.map(|id| (id, Arc::default())).collect()) }
    }

    /// Returns what counts the requests of a node.
    pub(super) fn of(&self, node: NodeId) -> Arc<RequestMeters> {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }

    /// Returns what each node has counted.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, &RequestMeters)> {
        self.nodes.iter().map(|(id, meters)| (*id, &**meters))
    }
}

/// Counts the requests of a node.
#[derive(Debug)]
pub(super) struct RequestMeters {
    apis: Vec<ApiMeter>,
}

impl Default for RequestMeters {
    fn default() -> Self {
        let meter = |api: &sharemark_protocol::Api| ApiMeter {
            key: api.key,
            by_version: (0..=api.announced_max).map(|_| AtomicU64::new(0)).collect(),
            by_latency: std::array::from_fn(|_| AtomicU64::new(0)),
            latency_us: AtomicU64::new(0),
        };
        Self { apis: APIS.iter().map(meter).collect() }
    }
}

impl RequestMeters {
    /// Counts a request that is handed over.
    pub(super) fn count(&self, key: ApiKey, version: i16) {
        let by_version = self.find(key).map(|meter| &meter.by_version);
        let index = usize::try_from(version).ok();
        if let Some(count) = by_version.zip(index).and_then(|(counts, index)| counts.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts that a request was answered, so long after it was handed over.
    pub(super) fn count_answer(&self, key: ApiKey, latency: Duration) {
        let Some(meter) = self.find(key) else { return };
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let class = LATENCY_BOUNDS_US.partition_point(|bound| *bound < latency_us);
        meter.by_latency[class].fetch_add(1, Ordering::Relaxed);
        meter.latency_us.fetch_add(latency_us, Ordering::Relaxed);
    }

    /// Returns what each API has counted, in the order of their keys.
    pub(super) fn apis(&self) -> &[ApiMeter] {
        &self.apis
    }

    fn find(&self, key: ApiKey) -> Option<&ApiMeter> {
        let index = self.apis.binary_search_by_key(&key.to_wire(), |meter| meter.key.to_wire()).ok()?;
        self.apis.get(index)
    }
}
