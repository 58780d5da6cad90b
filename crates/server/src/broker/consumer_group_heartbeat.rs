//! ConsumerGroupHeartbeat (68), versions 0-1 (KIP-848).
//!
//! Differences from Kafka, with the profile `latest`: a member whose regular expression has just been looked up is
//! asked to come back at once, so that its first record does not wait for a whole heartbeat interval; and topics that
//! appear are found by the next heartbeat, not only ten seconds after the last lookup.

use sharemark_group_coordinator::{
    ConsumerAssignor, ConsumerGroupConfig, ConsumerHeartbeat, ConsumerHeartbeatAnswer, Refusal,
};
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use sharemark_protocol::messages::consumer_group_heartbeat_response::{
    Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::groups::decide_subscribed_topics;
use super::input::{Now, Origin};
use crate::config::Profile;

/// When a member comes back whose regular expression has just been looked up, in milliseconds.
const FIRST_ASSIGNMENT_INTERVAL_MS: i32 = 20;
/// How long Kafka lets a lookup of regular expressions stand at least.
const REGEX_BATCH_INTERVAL_MS: i64 = 10_000;

impl Broker {
    pub(super) fn handle_consumer_group_heartbeat(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &ConsumerGroupHeartbeatRequest,
    ) {
        let response = match self.consumer_group_heartbeat(now, origin, request) {
            Ok(answer) => answered(answer),
            Err(refusal) => ConsumerGroupHeartbeatResponse {
                error_code: refusal.error.code(),
                error_message: refusal.message.map(Into::into),
                ..ConsumerGroupHeartbeatResponse::default()
            },
        };
        self.answer(origin, ResponseMessage::ConsumerGroupHeartbeat(response));
    }

    fn consumer_group_heartbeat(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerHeartbeatAnswer, Refusal> {
        self.decide_consumer_group(origin, &request.group_id, Operation::Read).map_err(Refusal::of)?;
        decide_subscribed_topics(origin, request.subscribed_topic_names.as_deref())?;
        let fresh_member_id = self.random.uuid().to_string();
        let heartbeat = heartbeat(origin, request, &fresh_member_id);
        let config = self.consumer_group_config(&request.group_id);
        let classic = self.classic_group_config();
        let (at, shard) = self.group_shard(origin.node, &request.group_id).map_err(Refusal::of)?;
        let decision =
            match shard.decide_consumer_heartbeat(now.clock, &heartbeat, &self.cluster, &config, &classic) {
                Ok(decision) => decision,
                Err(refusal) => {
                    let plan =
                        shard.decide_failed_upgrade(now.clock, &heartbeat, &self.cluster, &config, &classic);
                    if let Some(plan) = plan {
                        self.apply_classic_plan(origin.node, at, plan);
                    }
                    return Err(refusal);
                }
            };
        self.commit_group_records(now, origin.node, at, &decision.records).map_err(Refusal::of)?;
        let shard = self.group_shard_mut(origin.node, at);
        let answers = shard.map(|shard| shard.apply_consumer_heartbeat(decision.plan));
        self.answer_callers(origin.node, answers.unwrap_or_default());
        let mut answer = decision.answer;
        if decision.resolves_regexes {
            let resolved = self.resolve_regexes(now, origin, &request.group_id);
            if resolved && self.cluster.configs.start().profile == Profile::Latest {
                answer.heartbeat_interval_ms = answer.heartbeat_interval_ms.min(FIRST_ASSIGNMENT_INTERVAL_MS);
            }
        }
        Ok(answer)
    }

    /// Looks up the topics that the regular expressions of a group match, and returns whether the log took them. The
    /// next heartbeat tries again if it did not.
    fn resolve_regexes(&mut self, now: Now, origin: &Origin, group_id: &str) -> bool {
        let Ok((at, shard)) = self.group_shard(origin.node, group_id) else { return false };
        let may_see = |name: &str| authorize(&origin.principal, Operation::Describe, Resource::Topic(name));
        let records = shard.decide_regexes_resolved(now.clock, group_id, &self.cluster, may_see);
        self.commit_group_records(now, origin.node, at, &records).is_ok()
    }

    /// Judges whether the cluster has consumer groups and `origin` may do `operation` on this one.
    ///
    /// # Errors
    ///
    /// - `UnsupportedVersion` if `group.version` is 0, or `group.coordinator.rebalance.protocols` lacks `consumer`.
    /// - `GroupAuthorizationFailed` if `origin` may not.
    pub(super) fn decide_consumer_group(
        &self,
        origin: &Origin,
        group_id: &str,
        operation: Operation,
    ) -> Result<(), ErrorCode> {
        let protocols = &self.cluster.configs.broker().group_coordinator_rebalance_protocols;
        let is_enabled = protocols.iter().any(|protocol| protocol == "consumer");
        if self.cluster.features.group_version() < 1 || !is_enabled {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if !authorize(&origin.principal, operation, Resource::Group(group_id)) {
            return Err(ErrorCode::GroupAuthorizationFailed);
        }
        Ok(())
    }

    /// Returns what applies to a consumer group, from the broker's and its own configuration.
    pub(super) fn consumer_group_config(&self, group_id: &str) -> ConsumerGroupConfig {
        let own = self.cluster.configs.consumer_group(group_id);
        let broker = self.cluster.configs.broker();
        let assignors = broker.group_consumer_assignors.iter();
        ConsumerGroupConfig {
            assignment_interval_ms: i64::from(own.assignment_interval_ms),
            heartbeat_interval_ms: own.heartbeat_interval_ms,
            session_timeout_ms: i64::from(own.session_timeout_ms),
            max_size: usize::try_from(broker.group_consumer_max_size).unwrap_or(0),
            assignors: assignors.filter_map(|name| ConsumerAssignor::from_name(name)).collect(),
            regex_refresh_interval_ms: i64::from(broker.group_consumer_regex_refresh_interval_ms),
            regex_batch_interval_ms: match self.cluster.configs.start().profile {
                Profile::Latest => 0,
                Profile::Kafka44 => REGEX_BATCH_INTERVAL_MS,
            },
        }
    }
}

fn heartbeat<'a>(
    origin: &'a Origin,
    request: &'a ConsumerGroupHeartbeatRequest,
    fresh_member_id: &'a str,
) -> ConsumerHeartbeat<'a> {
    let names = request.subscribed_topic_names.as_ref();
    let owned = request.topic_partitions.as_ref();
    ConsumerHeartbeat {
        group_id: &request.group_id,
        member_id: &request.member_id,
        fresh_member_id,
        member_id_required: 1 <= origin.api_version,
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.as_deref(),
        rack_id: request.rack_id.as_deref(),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|timeout_ms| *timeout_ms != -1),
        subscribed_topic_names: names.map(|names| names.iter().map(|name| &**name).collect()),
        subscribed_topic_regex: request.subscribed_topic_regex.as_deref(),
        server_assignor: request.server_assignor.as_deref(),
        owned: owned
            .map(|topics| topics.iter().map(|topic| (topic.topic_id, topic.partitions.clone())).collect()),
        client_id: origin.client_id.as_deref().unwrap_or_default(),
        client_host: &origin.client_host,
    }
}

fn answered(answer: ConsumerHeartbeatAnswer) -> ConsumerGroupHeartbeatResponse {
    let assignment = answer.assignment.map(|topics| Assignment {
        topic_partitions: topics
            .into_iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id,
                partitions: partitions.into_iter().collect(),
            })
            .collect(),
    });
    ConsumerGroupHeartbeatResponse {
        member_id: Some((&*answer.member_id).into()),
        member_epoch: answer.member_epoch.get(),
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        assignment,
        ..ConsumerGroupHeartbeatResponse::default()
    }
}
