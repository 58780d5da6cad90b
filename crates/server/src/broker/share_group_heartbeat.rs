//! ShareGroupHeartbeat (76), version 1 (KIP-932).
//!
//! Difference from Kafka, with the profile `latest`: a member whose partitions are still being initialised is asked
//! to come back at once, so that its first record does not wait for a whole heartbeat interval.

use sharemark_group_coordinator::{InitialiseShareStates, Refusal, ShareHeartbeat, ShareHeartbeatAnswer};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use sharemark_protocol::messages::share_group_heartbeat_response::{
    Assignment, ShareGroupHeartbeatResponse, TopicPartitions,
};

use super::Broker;
use super::authorize::Operation;
use super::cluster::SHARE_GROUP_STATE;
use super::groups::decide_subscribed_topics;
use super::input::{Now, Origin};
use crate::config::Profile;

/// When a member comes back that waits for its first assignment, in milliseconds.
const FIRST_ASSIGNMENT_INTERVAL_MS: i32 = 20;

impl Broker {
    pub(super) fn handle_share_group_heartbeat(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &ShareGroupHeartbeatRequest,
    ) {
        let response = match self.share_group_heartbeat(now, origin, request) {
            Ok((mut answer, states_to_initialise)) => {
                if let Some(states) = states_to_initialise {
                    if self.cluster.configs.start().profile == Profile::Latest {
                        let interval_ms = answer.heartbeat_interval_ms.min(FIRST_ASSIGNMENT_INTERVAL_MS);
                        answer.heartbeat_interval_ms = interval_ms;
                    }
                    self.cross_to_initialise(origin.node, &states, None);
                }
                answered(request, answer)
            }
            Err(refusal) => ShareGroupHeartbeatResponse {
                error_code: refusal.error.code(),
                error_message: refusal.message.map(Into::into),
                ..ShareGroupHeartbeatResponse::default()
            },
        };
        self.answer(origin, ResponseMessage::ShareGroupHeartbeat(response));
    }

    fn share_group_heartbeat(
        &mut self,
        now: Now,
        origin: &Origin,
        request: &ShareGroupHeartbeatRequest,
    ) -> Result<(ShareHeartbeatAnswer, Option<InitialiseShareStates>), Refusal> {
        self.decide_share_group(origin, &request.group_id, Operation::Read).map_err(Refusal::of)?;
        decide_subscribed_topics(origin, request.subscribed_topic_names.as_deref())?;
        let (at, _) = self.group_shard(origin.node, &request.group_id).map_err(Refusal::of)?;
        self.ensure_internal_topic(now, origin.node, SHARE_GROUP_STATE).map_err(Refusal::of)?;
        let heartbeat = ShareHeartbeat {
            group_id: &request.group_id,
            member_id: &request.member_id,
            member_epoch: request.member_epoch,
            rack_id: request.rack_id.as_deref(),
            subscribed_topic_names: request
                .subscribed_topic_names
                .as_ref()
                .map(|names| names.iter().map(|name| &**name).collect()),
            client_id: origin.client_id.as_deref().unwrap_or_default(),
            client_host: &origin.client_host,
        };
        let config = self.share_group_config(&request.group_id);
        let (_, shard) = self.group_shard(origin.node, &request.group_id).map_err(Refusal::of)?;
        let decision = shard.decide_share_heartbeat(now.clock, &heartbeat, &self.cluster, &config)?;
        self.commit_group_records(now, origin.node, at, &decision.records).map_err(Refusal::of)?;
        if let Some(shard) = self.group_shard_mut(origin.node, at) {
            shard.apply_share_heartbeat(decision.plan);
        }
        Ok((decision.answer, decision.states_to_initialise))
    }
}

fn answered(
    request: &ShareGroupHeartbeatRequest,
    answer: ShareHeartbeatAnswer,
) -> ShareGroupHeartbeatResponse {
    let assignment = answer.assignment.map(|topics| Assignment {
        topic_partitions: topics
            .into_iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id,
                partitions: partitions.into_iter().collect(),
            })
            .collect(),
    });
    ShareGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: answer.member_epoch.get(),
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        assignment,
        ..ShareGroupHeartbeatResponse::default()
    }
}
