//! AlterReplicaLogDirs (34), versions 1-2. A node has one directory, so a replica is in it or goes nowhere.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_replica_log_dirs_request::AlterReplicaLogDirsRequest;
use sharemark_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};
use sharemark_protocol::{ErrorCode, NodeId, StrBytes};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_alter_replica_log_dirs(
        &mut self,
        origin: &Origin,
        request: &AlterReplicaLogDirsRequest,
    ) {
        let allowed = authorize(&origin.principal, Operation::Alter, Resource::Cluster);
        let own = self.log_dir();
        let mut results: Vec<AlterReplicaLogDirTopicResult> = Vec::new();
        for dir in &request.dirs {
            for topic in &dir.topics {
                let told = topic.partitions.iter().map(|&partition_index| {
                    let error = if !allowed {
                        ErrorCode::ClusterAuthorizationFailed
                    } else if *dir.path != *own {
                        ErrorCode::LogDirNotFound
                    } else {
                        self.replica_error(origin.node, &topic.name, partition_index)
                    };
                    AlterReplicaLogDirPartitionResult { partition_index, error_code: error.code() }
                });
                let told: Vec<_> = told.collect();
                topic_result(&mut results, &topic.name).partitions.extend(told);
            }
        }
        let response = AlterReplicaLogDirsResponse { throttle_time_ms: 0, results };
        self.answer(origin, ResponseMessage::AlterReplicaLogDirs(response));
    }

    /// Judges whether `node` has a replica of a partition.
    fn replica_error(&self, node: NodeId, topic_name: &str, partition: i32) -> ErrorCode {
        let partition = self
            .cluster
            .topic_named(topic_name)
            .and_then(|topic| topic.partitions.get(usize::try_from(partition).ok()?));
        match partition {
            None => ErrorCode::UnknownTopicOrPartition,
            Some(partition) if !partition.replicas.contains(&node) => ErrorCode::ReplicaNotAvailable,
            Some(_) => ErrorCode::None,
        }
    }
}

fn topic_result<'a>(
    results: &'a mut Vec<AlterReplicaLogDirTopicResult>,
    name: &StrBytes,
) -> &'a mut AlterReplicaLogDirTopicResult {
    let index = results.iter().position(|result| result.topic_name == *name).unwrap_or(results.len());
    if index == results.len() {
        results.push(AlterReplicaLogDirTopicResult { topic_name: name.clone(), partitions: Vec::new() });
    }
    &mut results[index]
}
