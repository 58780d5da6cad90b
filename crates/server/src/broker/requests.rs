//! From a request to its handler, and what the end of a connection does.

use sharemark_protocol::messages::RequestMessage;

use super::Broker;
use super::input::{ConnectionId, Now, Output, Request};
use super::views::is_for_controller;

impl Broker {
    /// Lets a request meet the faults, and then its handler.
    pub(super) fn handle_request(&mut self, now: Now, request: Request) {
        if !self.nodes.contains_key(&request.origin.node) {
            // Its node has been stopped meanwhile.
            self.output(Output::Close { connection: request.origin.connection });
            return;
        }
        if self.is_cut_off(request.origin.node) && is_for_controller(request.message.api_key()) {
            // Kafka's answer would come when its own request to the controller has timed out.
            self.output(Output::Close { connection: request.origin.connection });
            return;
        }
        if let Some(request) = self.meet_request(now, request) {
            self.dispatch(now, request);
        }
    }

    /// Hands a request to the handler of its kind.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of request, and nothing else")]
    pub(super) fn dispatch(&mut self, now: Now, request: Request) {
        let Request { origin, message, checked } = request;
        match message {
            RequestMessage::AddOffsetsToTxn(body) => self.handle_add_offsets_to_txn(now, &origin, &body),
            RequestMessage::AddPartitionsToTxn(body) => {
                self.handle_add_partitions_to_txn(now, &origin, &body)
            }
            RequestMessage::AddShareAcksToTxn(body) => self.handle_add_share_acks_to_txn(now, &origin, &body),
            RequestMessage::AlterClientQuotas(body) => self.handle_alter_client_quotas(&origin, &body),
            RequestMessage::AlterConfigs(body) => self.handle_alter_configs(&origin, &body),
            RequestMessage::AlterPartitionReassignments(body) => {
                self.handle_alter_partition_reassignments(now, &origin, &body)
            }
            RequestMessage::AlterReplicaLogDirs(body) => self.handle_alter_replica_log_dirs(&origin, &body),
            RequestMessage::AlterShareGroupOffsets(body) => {
                self.handle_alter_share_group_offsets(now, origin, &body);
            }
            RequestMessage::AlterUserScramCredentials(body) => {
                self.handle_alter_user_scram_credentials(&origin, &body)
            }
            RequestMessage::ApiVersions(body) => self.handle_api_versions(&origin, &body),
            RequestMessage::ConsumerGroupDescribe(body) => {
                self.handle_consumer_group_describe(&origin, &body);
            }
            RequestMessage::ConsumerGroupHeartbeat(body) => {
                self.handle_consumer_group_heartbeat(now, &origin, &body);
            }
            RequestMessage::CreateAcls(body) => self.handle_create_acls(&origin, &body),
            RequestMessage::CreatePartitions(body) => self.handle_create_partitions(now, &origin, &body),
            RequestMessage::CreateTopics(body) => self.handle_create_topics(now, &origin, &body),
            RequestMessage::DeleteAcls(body) => self.handle_delete_acls(&origin, &body),
            RequestMessage::DeleteGroups(body) => self.handle_delete_groups(now, origin, &body),
            RequestMessage::DeleteRecords(body) => self.handle_delete_records(&origin, &body),
            RequestMessage::DeleteShareGroupOffsets(body) => {
                self.handle_delete_share_group_offsets(now, origin, &body);
            }
            RequestMessage::DeleteShareGroupState(body) => {
                self.handle_delete_share_group_state(now, &origin, &body);
            }
            RequestMessage::DeleteTopics(body) => self.handle_delete_topics(now, &origin, &body),
            RequestMessage::DescribeAcls(body) => self.handle_describe_acls(&origin, &body),
            RequestMessage::DescribeClientQuotas(body) => self.handle_describe_client_quotas(&origin, &body),
            RequestMessage::DescribeCluster(body) => self.handle_describe_cluster(&origin, &body),
            RequestMessage::DescribeConfigs(body) => self.handle_describe_configs(&origin, &body),
            RequestMessage::DescribeGroups(body) => self.handle_describe_groups(&origin, &body),
            RequestMessage::DescribeLogDirs(body) => self.handle_describe_log_dirs(&origin, &body),
            RequestMessage::DescribeProducers(body) => self.handle_describe_producers(&origin, &body),
            RequestMessage::DescribeQuorum(body) => self.handle_describe_quorum(now, &origin, &body),
            RequestMessage::DescribeShareGroupOffsets(body) => {
                self.handle_describe_share_group_offsets(origin, &body);
            }
            RequestMessage::DescribeTopicPartitions(body) => {
                self.handle_describe_topic_partitions(&origin, &body)
            }
            RequestMessage::DescribeTransactions(body) => self.handle_describe_transactions(&origin, &body),
            RequestMessage::DescribeUserScramCredentials(body) => {
                self.handle_describe_user_scram_credentials(&origin, &body)
            }
            RequestMessage::ElectLeaders(body) => self.handle_elect_leaders(now, &origin, &body),
            RequestMessage::EndTxn(body) => self.handle_end_txn(now, &origin, &body),
            RequestMessage::Fetch(body) => self.handle_fetch(now, origin, body),
            RequestMessage::FindCoordinator(body) => self.handle_find_coordinator(now, &origin, &body),
            RequestMessage::Heartbeat(body) => self.handle_heartbeat(now, &origin, &body),
            RequestMessage::IncrementalAlterConfigs(body) => {
                self.handle_incremental_alter_configs(&origin, &body);
            }
            RequestMessage::InitProducerId(body) => self.handle_init_producer_id(now, &origin, &body),
            RequestMessage::InitializeShareGroupState(body) => {
                self.handle_initialize_share_group_state(now, &origin, &body);
            }
            RequestMessage::JoinGroup(body) => self.handle_join_group(now, origin, &body),
            RequestMessage::LeaveGroup(body) => self.handle_leave_group(now, &origin, &body),
            RequestMessage::ListConfigResources(body) => self.handle_list_config_resources(&origin, &body),
            RequestMessage::ListGroups(body) => self.handle_list_groups(&origin, &body),
            RequestMessage::ListOffsets(body) => self.handle_list_offsets(&origin, &body),
            RequestMessage::ListPartitionReassignments(_) => {
                self.handle_list_partition_reassignments(&origin)
            }
            RequestMessage::ListTransactions(body) => self.handle_list_transactions(now, &origin, &body),
            RequestMessage::Metadata(body) => self.handle_metadata(now, &origin, &body),
            RequestMessage::OffsetCommit(body) => self.handle_offset_commit(now, &origin, &body),
            RequestMessage::OffsetDelete(body) => self.handle_offset_delete(now, &origin, &body),
            RequestMessage::OffsetFetch(body) => self.handle_offset_fetch(&origin, &body),
            RequestMessage::OffsetForLeaderEpoch(body) => self.handle_offset_for_leader_epoch(&origin, &body),
            RequestMessage::Produce(body) => self.handle_produce(now, origin, body, checked),
            RequestMessage::ReadShareGroupState(body) => {
                self.handle_read_share_group_state(now, &origin, &body);
            }
            RequestMessage::ReadShareGroupStateSummary(body) => {
                self.handle_read_share_group_state_summary(&origin, &body);
            }
            RequestMessage::SaslAuthenticate(_) => self.handle_sasl_authenticate(&origin),
            RequestMessage::SaslHandshake(_) => self.handle_sasl_handshake(&origin),
            RequestMessage::SeedTxnShareAcknowledge(body) => {
                self.handle_seed_txn_share_acknowledge(origin, &body)
            }
            RequestMessage::ShareAcknowledge(body) => self.handle_share_acknowledge(now, origin, body),
            RequestMessage::ShareFetch(body) => self.handle_share_fetch(now, origin, body),
            RequestMessage::ShareGroupDescribe(body) => self.handle_share_group_describe(&origin, &body),
            RequestMessage::ShareGroupHeartbeat(body) => {
                self.handle_share_group_heartbeat(now, &origin, &body)
            }
            RequestMessage::SyncGroup(body) => self.handle_sync_group(now, origin, &body),
            RequestMessage::TxnOffsetCommit(body) => self.handle_txn_offset_commit(now, origin, body),
            RequestMessage::TxnShareAcknowledge(body) => self.handle_txn_share_acknowledge(origin, &body),
            RequestMessage::UnregisterBroker(body) => self.handle_unregister_broker(&origin, &body),
            RequestMessage::UpdateFeatures(body) => self.handle_update_features(&origin, &body),
            RequestMessage::WriteShareGroupState(body) => {
                self.handle_write_share_group_state(now, &origin, &body);
            }
            RequestMessage::WriteTxnMarkers(body) => self.handle_write_txn_markers(now, &origin, &body),
        }
    }

    /// Ends what a connection carried: its parked request acquires nothing, its share sessions release their locks.
    pub(super) fn handle_disconnected(&mut self, now: Now, connection: ConnectionId) {
        for node in self.nodes.values_mut() {
            if let Some(id) = node.parked.of_connection(connection) {
                node.parked.take(id);
            }
        }
        self.faults.forget_connection(connection);
        self.close_share_sessions_of(now, connection);
    }
}
