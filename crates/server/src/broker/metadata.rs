//! Metadata (3), versions 0-13.
//!
//! Differences from Kafka: a topic that is created by asking for it is in the same answer.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use sharemark_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use sharemark_protocol::{ErrorCode, LeaderEpoch, NodeId, TopicId};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::cluster::{Partition, Topic};
use super::input::{Now, Origin};
use super::topics::{CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED, TOPIC_OPERATIONS};

impl Broker {
    pub(super) fn handle_metadata(&mut self, now: Now, origin: &Origin, request: &MetadataRequest) {
        let response = match decide_metadata(origin.api_version, request) {
            Ok(()) => self.metadata(now, origin, request),
            Err(error) => refused(request, error),
        };
        self.answer(origin, ResponseMessage::Metadata(response));
    }

    fn metadata(&mut self, now: Now, origin: &Origin, request: &MetadataRequest) -> MetadataResponse {
        let operations =
            if request.include_topic_authorized_operations { TOPIC_OPERATIONS } else { OPERATIONS_NOT_ASKED };
        let all = match &request.topics {
            None => true,
            // Version 0 has no null: there the empty list means all.
            Some(topics) => origin.api_version == 0 && topics.is_empty(),
        };
        let topics = if all {
            self.cluster.topics().map(|topic| self.described_topic(origin.node, topic, operations)).collect()
        } else {
            self.asked_topics(now, origin, request, operations)
        };
        MetadataResponse {
            brokers: self.metadata_brokers(origin),
            cluster_id: Some(self.cluster.id.as_str().into()),
            controller_id: self.controller_seen_by(origin.node).get(),
            topics,
            cluster_authorized_operations: if request.include_cluster_authorized_operations {
                CLUSTER_OPERATIONS
            } else {
                OPERATIONS_NOT_ASKED
            },
            ..MetadataResponse::default()
        }
    }

    fn metadata_brokers(&self, origin: &Origin) -> Vec<MetadataResponseBroker> {
        self.endpoints(origin)
            .map(|(node, endpoint)| MetadataResponseBroker {
                node_id: node.get(),
                host: endpoint.host.as_str().into(),
                port: i32::from(endpoint.port),
                rack: self.rack(node),
            })
            .collect()
    }

    fn asked_topics(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &MetadataRequest,
        operations: i32,
    ) -> Vec<MetadataResponseTopic> {
        let create = origin.api_version < 4 || request.allow_auto_topic_creation;
        // As in Kafka, one id makes the request one by ids, and what it names besides is left out.
        let by_id = request.topics.iter().flatten().any(|asked| asked.topic_id != TopicId::ZERO);
        let mut seen = BTreeSet::new();
        let mut answers = Vec::new();
        for asked in request.topics.iter().flatten() {
            let is_meant = !by_id || asked.topic_id != TopicId::ZERO;
            let key = (asked.topic_id, asked.name.as_deref().filter(|_| !by_id));
            // A topic that is asked for twice is told once.
            if !is_meant || !seen.insert(key) {
                continue;
            }
            answers.push(match &asked.name {
                Some(name) if !by_id => self.topic_by_name(now, origin, name, create, operations),
                Some(_) | None => self.topic_by_id(origin, asked, operations),
            });
        }
        answers
    }

    fn topic_by_name(
        &mut self,
        now: Now,
        origin: &Origin,
        name: &str,
        create: bool,
        operations: i32,
    ) -> MetadataResponseTopic {
        let failed = |error: ErrorCode| MetadataResponseTopic {
            error_code: error.code(),
            name: Some(name.into()),
            ..MetadataResponseTopic::default()
        };
        if !authorize(&origin.principal, Operation::Describe, Resource::Topic(name)) {
            return failed(ErrorCode::TopicAuthorizationFailed);
        }
        if self.cluster.topic_named(name).is_none() {
            let may_create = create && !self.is_cut_off(origin.node);
            if !may_create || !self.cluster.configs.broker().auto_create_topics_enable {
                let error = super::topics::check_topic_name(name)
                    .map_or(ErrorCode::InvalidTopicException, |()| ErrorCode::UnknownTopicOrPartition);
                return failed(error);
            }
            if !authorize(&origin.principal, Operation::Create, Resource::Topic(name)) {
                return failed(ErrorCode::TopicAuthorizationFailed);
            }
            if let Err(error) = self.auto_create_topic(now, name) {
                return failed(error);
            }
        }
        match self.cluster.topic_named(name) {
            Some(topic) => self.described_topic(origin.node, topic, operations),
            None => failed(ErrorCode::UnknownTopicOrPartition),
        }
    }

    fn topic_by_id(
        &self,
        origin: &Origin,
        asked: &MetadataRequestTopic,
        operations: i32,
    ) -> MetadataResponseTopic {
        match self.cluster.topic(asked.topic_id) {
            Some(topic) => self.described_topic(origin.node, topic, operations),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicId.code(),
                name: None,
                topic_id: asked.topic_id,
                ..MetadataResponseTopic::default()
            },
        }
    }

    /// Describes a topic as `node` sees it.
    fn described_topic(&self, node: NodeId, topic: &Topic, operations: i32) -> MetadataResponseTopic {
        let running = self.running_seen_by(node);
        let partitions = self
            .partitions_seen_by(node, topic)
            .map(|(partition, index, leader)| described_partition(partition, index, leader, running));
        MetadataResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some((&*topic.name).into()),
            topic_id: topic.id,
            is_internal: topic.is_internal(),
            partitions: partitions.collect(),
            topic_authorized_operations: operations,
        }
    }
}

/// Judges what versions 10 and 11 carry but do not serve: topics by their id.
fn decide_metadata(version: i16, request: &MetadataRequest) -> Result<(), ErrorCode> {
    let by_id = |topic: &MetadataRequestTopic| topic.name.is_none() || topic.topic_id != TopicId::ZERO;
    if version < 12 && request.topics.iter().flatten().any(by_id) {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(())
}

/// Returns the answer that says `error` of all that is asked.
pub(super) fn refused(request: &MetadataRequest, error: ErrorCode) -> MetadataResponse {
    let topics = request
        .topics
        .iter()
        .flatten()
        .map(|topic| MetadataResponseTopic {
            error_code: error.code(),
            name: Some(topic.name.clone().unwrap_or_default()),
            topic_id: topic.topic_id,
            ..MetadataResponseTopic::default()
        })
        .collect();
    MetadataResponse { topics, error_code: error.code(), ..MetadataResponse::default() }
}

fn described_partition(
    partition: &Partition,
    index: i32,
    (leader, leader_epoch): (NodeId, LeaderEpoch),
    running: &[NodeId],
) -> MetadataResponsePartition {
    let ids = |runs: bool| -> Vec<i32> {
        let replicas = partition.replicas.iter().filter(|node| running.contains(node) == runs);
        replicas.map(|node| node.get()).collect()
    };
    MetadataResponsePartition {
        error_code: ErrorCode::None.code(),
        partition_index: index,
        leader_id: leader.get(),
        leader_epoch: leader_epoch.get(),
        isr_nodes: ids(true),
        replica_nodes: partition.replicas.iter().map(|node| node.get()).collect(),
        offline_replicas: ids(false),
    }
}
