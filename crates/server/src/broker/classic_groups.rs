//! What the requests of classic groups have in common: a step is appended, counts, and answers whoever waited.

use sharemark_group_coordinator::{
    Caller, ClassicAnswer, ClassicGroupConfig, ClassicPlan, JoinAnswer, MigrationPolicy, SyncAnswer,
};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use sharemark_protocol::messages::sync_group_response::SyncGroupResponse;
use sharemark_protocol::{ErrorCode, NodeId, Timestamp, TopicIdPartition};

use super::Broker;
use super::input::{ConnectionId, Now, Origin};
use super::parked::{Parked, Wait};
use super::ticks::REFUSED_BACKOFF_MS;

/// How many members a group has at most, and how many ids may be out to clients that do not use them. Kafka sets no
/// limit unless it is told to.
const MEMBERS_MAX: usize = 100_000;
/// The first version of JoinGroup in which the protocol may be missing.
const FIRST_VERSION_WITHOUT_PROTOCOL: i16 = 7;

impl Broker {
    /// Returns what applies to classic groups.
    pub(super) fn classic_group_config(&self) -> ClassicGroupConfig {
        let broker = self.cluster.configs.broker();
        ClassicGroupConfig {
            initial_rebalance_delay_ms: broker.group_initial_rebalance_delay_ms,
            max_size: usize::try_from(broker.group_max_size).unwrap_or(0).min(MEMBERS_MAX),
            pending_members_max: MEMBERS_MAX,
            min_session_timeout_ms: broker.group_min_session_timeout_ms,
            max_session_timeout_ms: broker.group_max_session_timeout_ms,
            migration: MigrationPolicy::from_name(&broker.group_consumer_migration_policy)
                .unwrap_or(MigrationPolicy::Bidirectional),
        }
    }

    /// Appends what a step of a classic group has decided, lets it count, and answers those who waited for it.
    ///
    /// # Errors
    ///
    /// - What the log refuses; nothing has changed then.
    pub(super) fn commit_classic_plan(
        &mut self,
        now: Now,
        node: NodeId,
        at: TopicIdPartition,
        plan: ClassicPlan,
    ) -> Result<(), ErrorCode> {
        self.commit_group_records(now, node, at, &plan.records)?;
        self.apply_classic_plan(node, at, plan);
        Ok(())
    }

    /// Lets count what has been appended, and answers those who waited for it.
    pub(super) fn apply_classic_plan(&mut self, node: NodeId, at: TopicIdPartition, plan: ClassicPlan) {
        let answers = self.group_shard_mut(node, at).map(|shard| shard.apply_classic(plan));
        self.answer_callers(node, answers.unwrap_or_default());
    }

    /// Answers those who waited for a classic group.
    pub(super) fn answer_callers(&mut self, node: NodeId, answers: Vec<(Caller, ClassicAnswer)>) {
        for (caller, answer) in answers {
            self.answer_caller(node, caller, answer);
        }
    }

    /// Answers a JoinGroup or SyncGroup that waits. Its connection may be gone: the group does not know.
    fn answer_caller(&mut self, node: NodeId, caller: Caller, answer: ClassicAnswer) {
        let Some(node) = self.nodes.get_mut(&node) else { return };
        let parked = node.parked.of_connection(ConnectionId(caller.0)).and_then(|id| node.parked.take(id));
        if let Some(Parked { origin, wait: Wait::ClassicGroup, .. }) = parked {
            let message = match answer {
                ClassicAnswer::Join(answer) => joined(origin.api_version, answer),
                ClassicAnswer::Sync(answer) => synced(answer),
            };
            self.answer(&origin, message);
        }
    }

    /// Answers whoever waits at a node for a group of the partitions of `__consumer_offsets` that it leads no longer;
    /// all of them if none is named. Called before their shards go.
    pub(super) fn refuse_waiting_for_groups(&mut self, node: NodeId, partition: Option<i32>) {
        let shards = self.nodes.get(&node).into_iter().flat_map(|node| &node.groups);
        let shards = shards.filter(|(index, _)| partition.is_none_or(|partition| partition == **index));
        let answers: Vec<_> = shards.flat_map(|(_, shard)| shard.callers_when_unloaded()).collect();
        self.answer_callers(node, answers);
    }

    /// Parks a request until its group answers it; the deadlines of the group are on the broker's clock.
    pub(super) fn park_for_group(&mut self, origin: Origin) {
        if let Some(node) = self.nodes.get_mut(&origin.node) {
            let parked = Parked { origin, deadline: Timestamp::MAX, wait: Wait::ClassicGroup };
            node.parked.park(parked, Vec::new());
        }
    }

    /// Takes a request back that need not wait.
    pub(super) fn unpark_for_group(&mut self, connection: ConnectionId) {
        for node in self.nodes.values_mut() {
            if let Some(id) = node.parked.of_connection(connection) {
                node.parked.take(id);
            }
        }
    }

    /// Lets everything come to its end in classic groups that is due.
    pub(super) fn expire_classic_groups(&mut self, now: Now, node: NodeId, at: TopicIdPartition) {
        let config = self.classic_group_config();
        while let Some(plan) = self
            .nodes
            .get(&node)
            .and_then(|node| node.groups.get(&at.partition))
            .and_then(|shard| shard.decide_classic_expired(now.clock, &config))
        {
            if self.commit_classic_plan(now, node, at, plan).is_err() {
                self.expiry_from = now.clock.plus_ms(REFUSED_BACKOFF_MS);
                break;
            }
        }
    }
}

/// Returns the answer to a JoinGroup.
pub(super) fn joined(api_version: i16, answer: JoinAnswer) -> ResponseMessage {
    let members = answer.members.into_iter();
    let protocol_name = match answer.protocol {
        Some(protocol) => Some((&*protocol).into()),
        None => (api_version < FIRST_VERSION_WITHOUT_PROTOCOL).then(|| "".into()),
    };
    ResponseMessage::JoinGroup(JoinGroupResponse {
        error_code: answer.error.code(),
        generation_id: answer.generation,
        protocol_type: answer.protocol_type.map(|text| (&*text).into()),
        protocol_name,
        leader: (&*answer.leader).into(),
        skip_assignment: answer.skips_assignment,
        member_id: (&*answer.member_id).into(),
        members: members
            .map(|member| JoinGroupResponseMember {
                member_id: (&*member.member_id).into(),
                group_instance_id: member.group_instance_id.map(|text| (&*text).into()),
                metadata: member.metadata,
            })
            .collect(),
        ..JoinGroupResponse::default()
    })
}

/// Returns the answer to a SyncGroup.
pub(super) fn synced(answer: SyncAnswer) -> ResponseMessage {
    ResponseMessage::SyncGroup(SyncGroupResponse {
        error_code: answer.error.code(),
        protocol_type: answer.protocol_type.map(|text| (&*text).into()),
        protocol_name: answer.protocol.map(|text| (&*text).into()),
        assignment: answer.assignment,
        ..SyncGroupResponse::default()
    })
}
