//! DescribeLogDirs (35), versions 1-5.
//!
//! Difference from Kafka: a node keeps all its logs in memory and tells of one directory, the first that
//! `log.dirs` or `log.dir` names; its size is the limit of memory.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use sharemark_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use sharemark_protocol::{ErrorCode, NodeId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::Topic;
use super::input::Origin;
use crate::config::ConfigValue;

/// The partitions asked for of each topic; `None` for all there are.
type Asked<'a> = Option<BTreeMap<&'a str, BTreeSet<i32>>>;

impl Broker {
    pub(super) fn handle_describe_log_dirs(&mut self, origin: &Origin, request: &DescribeLogDirsRequest) {
        let allowed = authorize(&origin.principal, Operation::Describe, Resource::Cluster);
        let response = if allowed {
            DescribeLogDirsResponse {
                results: vec![self.describe_log_dir(origin.node, request)],
                ..DescribeLogDirsResponse::default()
            }
        } else {
            DescribeLogDirsResponse {
                error_code: ErrorCode::ClusterAuthorizationFailed.code(),
                ..DescribeLogDirsResponse::default()
            }
        };
        self.answer(origin, ResponseMessage::DescribeLogDirs(response));
    }

    /// Returns the directory that a node tells of.
    pub(super) fn log_dir(&self) -> String {
        let start = self.cluster.configs.start();
        let dirs = ["log.dirs", "log.dir"].iter().find_map(|name| match start.value(name) {
            Some(ConfigValue::List(dirs)) => dirs.into_iter().next(),
            Some(_) | None => None,
        });
        dirs.unwrap_or_default()
    }

    fn describe_log_dir(&self, node: NodeId, request: &DescribeLogDirsRequest) -> DescribeLogDirsResult {
        let asked: Asked<'_> = request.topics.as_ref().map(|topics| {
            let mut asked: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
            for topic in topics {
                asked.entry(&*topic.topic).or_default().extend(&topic.partitions);
            }
            asked
        });
        let topics = self.cluster.topics().filter_map(|topic| describe_topic(node, topic, &asked)).collect();
        let limit = self.cluster.configs.start().memory_limit_bytes;
        let wire = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        DescribeLogDirsResult {
            error_code: ErrorCode::None.code(),
            log_dir: self.log_dir().into(),
            topics,
            total_bytes: wire(limit),
            usable_bytes: wire(limit.saturating_sub(self.cluster.stored_bytes)),
            is_cordoned: false,
        }
    }
}

/// Describes the partitions of a topic that `node` has a replica of, or returns `None` if there are none.
fn describe_topic(node: NodeId, topic: &Topic, asked: &Asked<'_>) -> Option<DescribeLogDirsTopic> {
    let asked = match asked {
        None => None,
        Some(asked) => Some(asked.get(&*topic.name)?),
    };
    let partitions: Vec<DescribeLogDirsPartition> = topic
        .partitions
        .iter()
        .zip(0..)
        .filter(|(_, index)| asked.is_none_or(|asked| asked.contains(index)))
        .filter(|(partition, _)| partition.replicas.contains(&node))
        .map(|(partition, partition_index)| DescribeLogDirsPartition {
            partition_index,
            partition_size: i64::try_from(partition.log.size_bytes()).unwrap_or(i64::MAX),
            offset_lag: 0,
            is_future_key: false,
        })
        .collect();
    if partitions.is_empty() {
        return None;
    }
    Some(DescribeLogDirsTopic { name: (&*topic.name).into(), partitions })
}
