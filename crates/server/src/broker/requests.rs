//! From a request to its handler, and what the end of a connection does.

use sharemark_protocol::messages::RequestMessage;

use super::Broker;
use super::input::{ConnectionId, Now, Output, Request};

impl Broker {
    /// Hands a request to the handler of its kind. A kind without a handler is not announced, and closes the
    /// connection that sent it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the codec knows more kinds than are served")]
    pub(super) fn handle_request(&mut self, now: Now, request: Request) {
        let Request { origin, message, checked } = request;
        match message {
            RequestMessage::ApiVersions(body) => self.handle_api_versions(&origin, &body),
            RequestMessage::CreatePartitions(body) => self.handle_create_partitions(now, &origin, &body),
            RequestMessage::CreateTopics(body) => self.handle_create_topics(now, &origin, &body),
            RequestMessage::DeleteTopics(body) => self.handle_delete_topics(now, &origin, &body),
            RequestMessage::DescribeCluster(body) => self.handle_describe_cluster(&origin, &body),
            RequestMessage::DescribeConfigs(body) => self.handle_describe_configs(&origin, &body),
            RequestMessage::DescribeShareGroupOffsets(body) => {
                self.handle_describe_share_group_offsets(origin, &body);
            }
            RequestMessage::DescribeTopicPartitions(body) => {
                self.handle_describe_topic_partitions(&origin, &body)
            }
            RequestMessage::Fetch(body) => self.handle_fetch(now, origin, body),
            RequestMessage::FindCoordinator(body) => self.handle_find_coordinator(now, &origin, &body),
            RequestMessage::IncrementalAlterConfigs(body) => {
                self.handle_incremental_alter_configs(&origin, &body);
            }
            RequestMessage::ListGroups(body) => self.handle_list_groups(&origin, &body),
            RequestMessage::ListOffsets(body) => self.handle_list_offsets(&origin, &body),
            RequestMessage::Metadata(body) => self.handle_metadata(now, &origin, &body),
            RequestMessage::Produce(body) => self.handle_produce(now, origin, body, checked),
            RequestMessage::ShareAcknowledge(body) => self.handle_share_acknowledge(now, origin, body),
            RequestMessage::ShareFetch(body) => self.handle_share_fetch(now, origin, body),
            RequestMessage::ShareGroupDescribe(body) => self.handle_share_group_describe(&origin, &body),
            RequestMessage::ShareGroupHeartbeat(body) => {
                self.handle_share_group_heartbeat(now, &origin, &body)
            }
            _ => self.output(Output::Close { connection: origin.connection }),
        }
    }

    /// Ends what a connection carried: its parked request acquires nothing, its share sessions release their locks.
    pub(super) fn handle_disconnected(&mut self, now: Now, connection: ConnectionId) {
        for node in self.nodes.values_mut() {
            if let Some(id) = node.parked.of_connection(connection) {
                node.parked.take(id);
            }
        }
        self.close_share_sessions_of(now, connection);
    }
}
