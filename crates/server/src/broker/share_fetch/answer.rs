//! The answer to a ShareFetch.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_fetch_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareFetchResponse, ShareFetchableTopicResponse,
};
use sharemark_protocol::{ErrorCode, TopicIdPartition};
use sharemark_share_coordinator::PartitionOutcome;

use super::super::Broker;
use super::super::input::{Now, Origin};
use super::super::topics::by_topic;
use super::ShareFetchWait;

impl Broker {
    pub(super) fn answer_share_fetch(
        &mut self,
        now: Now,
        origin: &Origin,
        wait: &ShareFetchWait,
        order: Vec<TopicIdPartition>,
        mut fetched: BTreeMap<TopicIdPartition, PartitionData>,
    ) {
        let acknowledged: BTreeSet<TopicIdPartition> = wait.acknowledged.iter().map(|(at, _)| *at).collect();
        let fetched_from: BTreeSet<TopicIdPartition> = wait.partitions.iter().copied().collect();
        self.count_share_fetch(origin.node, wait, &fetched);
        let mut listed = Vec::with_capacity(order.len());
        let mut leaders = BTreeSet::new();
        for at in order {
            let Some(mut data) = fetched.remove(&at) else { continue };
            let error = ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError);
            let outcome = PartitionOutcome {
                has_records: !data.acquired_records.is_empty(),
                has_error: error != ErrorCode::None,
                has_acknowledgements: acknowledged.contains(&at),
            };
            let is_listed = match self.nodes.get_mut(&origin.node) {
                Some(node) if fetched_from.contains(&at) => {
                    node.share_sessions.apply_answer(&wait.session, at, outcome)
                }
                Some(_) | None => outcome.is_listed(),
            };
            if !is_listed {
                continue;
            }
            let acknowledge_error =
                ErrorCode::from_code(data.acknowledge_error_code).unwrap_or(ErrorCode::None);
            let hint = self
                .leader_hint(origin.node, error, Some(at))
                .or_else(|| self.leader_hint(origin.node, acknowledge_error, Some(at)));
            if let Some((leader, epoch)) = hint {
                leaders.insert(leader);
                data.current_leader = LeaderIdAndEpoch { leader_id: leader.get(), leader_epoch: epoch.get() };
            }
            listed.push((at, data));
        }
        let responses = by_topic(listed)
            .into_iter()
            .map(|(topic_id, partitions)| ShareFetchableTopicResponse { topic_id, partitions })
            .collect();
        let response = ShareFetchResponse {
            acquisition_lock_timeout_ms: self
                .cluster
                .configs
                .share_group(&wait.session.group_id)
                .record_lock_duration_ms,
            responses,
            node_endpoints: self
                .addresses(origin, &leaders)
                .map(|(node_id, host, port, rack)| NodeEndpoint { node_id, host, port, rack })
                .collect(),
            ..ShareFetchResponse::default()
        };
        self.answer(origin, ResponseMessage::ShareFetch(response));
        if wait.closes {
            self.close_share_session(now, origin.node, &wait.session);
        }
    }

    fn count_share_fetch(
        &mut self,
        node: sharemark_protocol::NodeId,
        wait: &ShareFetchWait,
        fetched: &BTreeMap<TopicIdPartition, PartitionData>,
    ) {
        let has_failed = |at| fetched.get(at).is_some_and(|data| data.error_code != ErrorCode::None.code());
        let topics = wait.partitions.iter().map(|at| (at.topic_id, has_failed(at)));
        let acknowledged =
            wait.acknowledged.iter().map(|(at, error)| (at.topic_id, *error != ErrorCode::None));
        self.count(node, |figures| {
            figures.share_fetches.count(topics);
            figures.share_acknowledges.count(acknowledged);
        });
    }
}
