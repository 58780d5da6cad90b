//! Looks at what enters and leaves the cluster: an answer says only what the logs say by then.

use sharemark::broker::NodeState;
use sharemark_protocol::messages::share_acknowledge_request::ShareAcknowledgeRequest;
use sharemark_protocol::messages::share_acknowledge_response::ShareAcknowledgeResponse;
use sharemark_protocol::messages::share_fetch_response::ShareFetchResponse;
use sharemark_protocol::messages::txn_share_acknowledge_request::TxnShareAcknowledgeRequest;
use sharemark_protocol::messages::txn_share_acknowledge_response::TxnShareAcknowledgeResponse;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Offset, Producer, SharePartitionKey, TopicId, TopicIdPartition};

use super::cluster::Connection;
use super::coverage::Event;
use super::moves::ACCEPT;
use super::{GROUPS, READ_COMMITTED, Storm};

fn key_of(group: &str, topic_id: TopicId, partition: i32) -> SharePartitionKey {
    SharePartitionKey { group_id: group.into(), topic_id, partition }
}

impl Storm {
    /// Checks what was read in the logs since the last time.
    pub(super) fn check_news(&mut self) {
        for (key, offset) in std::mem::take(&mut self.watch.shadows.acknowledged) {
            let Some(group) = GROUPS.into_iter().find(|group| *group == &*key.group_id) else { continue };
            let spot = (key.topic_id, key.partition, offset);
            let is_said = self.ledger.accepted.contains(&(group, spot));
            assert!(is_said, "somebody has accepted what is acknowledged: {spot:?} of {group}");
            let is_put = group != super::SINKS || self.ledger.put.contains(&spot);
            assert!(is_put, "a sink task accepts only what it has put: {spot:?}");
        }
        for (key, offset) in std::mem::take(&mut self.watch.shadows.passed) {
            let is_left = self.is_wanted(&key, offset) && !self.is_given_up(&key, offset);
            assert!(!is_left, "the start passes nothing that is left: {offset} of {key:?}");
        }
    }

    /// Returns whether a record was delivered as often as it may be. Its leader gives it up then, and goes on before
    /// that is stored.
    fn is_given_up(&self, key: &SharePartitionKey, offset: i64) -> bool {
        let count = self.delivered.get(key).and_then(|counts| counts.get(&offset)).copied().unwrap_or(0);
        // With a lazy disk the last delivery may not have come out yet.
        self.options.delivery_count_limit <= count || self.cluster.disk.is_lazy()
    }

    /// Returns whether a node that leads, or believes so, has given a record up and let its start pass it, which need
    /// not be stored yet. What is below the start is skipped by an acknowledgement, as in Kafka, and that is success.
    fn is_passed_at(&self, node: NodeId, key: &SharePartitionKey, offset: i64) -> bool {
        let copy = self.cluster.broker.observe_share_partition_at(node, key);
        let is_passed = match copy {
            Some(partition) => offset < partition.start_offset().get(),
            // It has joined the others again since it answered, and has forgotten what it led.
            None => self.cluster.disk.is_lazy(),
        };
        is_passed && self.is_given_up(key, offset)
    }

    /// Returns whether a group has to have an offset: a record is there that it may see.
    pub(super) fn is_wanted(&self, key: &SharePartitionKey, offset: i64) -> bool {
        let at = TopicIdPartition { topic_id: key.topic_id, partition: key.partition };
        let Some(offset) = Offset::new(offset) else { return false };
        let records = self.cluster.broker.observe_log(at, offset);
        let record = records.first().filter(|record| record.offset == offset && record.marker.is_none());
        record.is_some_and(|record| match record.producer {
            Some(producer) if &*key.group_id == READ_COMMITTED => {
                self.watch.outcome_of(producer) == Some(true)
            }
            Some(_) | None => true,
        })
    }

    /// Checks that an answer is true as it leaves.
    pub(super) fn check_answer(
        &mut self,
        connection: Connection,
        request: &RequestMessage,
        answer: &ResponseMessage,
    ) {
        match (request, answer) {
            (RequestMessage::ShareFetch(request), ResponseMessage::ShareFetch(answer)) => {
                self.check_fetch(connection, request.group_id.as_deref().unwrap_or_default(), answer);
            }
            (RequestMessage::ShareAcknowledge(request), ResponseMessage::ShareAcknowledge(answer)) => {
                self.check_acknowledged(connection, request, answer);
            }
            (RequestMessage::TxnShareAcknowledge(request), ResponseMessage::TxnShareAcknowledge(answer)) => {
                self.check_staged(request, answer);
            }
            (RequestMessage::EndTxn(request), ResponseMessage::EndTxn(answer)) if answer.error_code == 0 => {
                let producer = Producer::from_wire(request.producer_id, request.producer_epoch);
                let decided = producer.and_then(|producer| self.watch.outcome_of(producer));
                let is_decided = decided == Some(request.committed);
                assert!(is_decided, "an end that is answered is decided: {request:?} {decided:?}");
            }
            _ => {}
        }
    }

    fn check_fetch(&mut self, connection: Connection, group: &str, answer: &ShareFetchResponse) {
        let leaders = self.cluster.broker.inspect_leaders();
        let is_isolated = self.cluster.nodes_that_are(NodeState::Isolated).contains(&connection.node);
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let key = key_of(group, topic.topic_id, partition.partition_index);
                let leads = leaders.iter().any(|view| {
                    view.leader == connection.node
                        && view.partition == partition.partition_index
                        && &*view.topic == super::INPUT
                });
                if is_isolated && !leads && !partition.acquired_records.is_empty() {
                    self.coverage.note(Event::IsolatedLeaderAnswers);
                }
                let counts = self.delivered.entry(key.clone()).or_default();
                for acquired in &partition.acquired_records {
                    for offset in acquired.first_offset..=acquired.last_offset {
                        let count = counts.entry(offset).or_default();
                        *count = acquired.delivery_count.max(*count);
                    }
                }
                // It was answered before the leader moved, and waited for its flush.
                let Some(shadow) = self.watch.shadows.by_key.get(&key).filter(|_| leads) else { continue };
                for acquired in &partition.acquired_records {
                    for offset in acquired.first_offset..=acquired.last_offset {
                        // In a lazy flush somebody may have changed it since.
                        let is_sure = !self.cluster.disk.is_lazy();
                        let count = acquired.delivery_count;
                        assert!(
                            shadow.allows_delivery(offset, count) || !is_sure,
                            "what is delivered is free: {offset} of {key:?}, {count} times, {:?}",
                            shadow.entries.get(&offset)
                        );
                    }
                }
            }
        }
    }

    fn check_acknowledged(
        &self,
        connection: Connection,
        request: &ShareAcknowledgeRequest,
        answer: &ShareAcknowledgeResponse,
    ) {
        let group = request.group_id.as_deref().unwrap_or_default();
        if answer.error_code != 0 || self.was_reset {
            return;
        }
        for topic in &request.topics {
            for partition in &topic.partitions {
                let answers = answer.responses.iter().filter(|it| it.topic_id == topic.topic_id);
                let mut answers = answers.flat_map(|it| &it.partitions);
                let outcome = answers.find(|it| it.partition_index == partition.partition_index);
                let key = key_of(group, topic.topic_id, partition.partition_index);
                let shadow = self.watch.shadows.by_key.get(&key);
                let is_fine = outcome.is_some_and(|it| it.error_code == 0);
                let Some(shadow) = shadow.filter(|_| is_fine) else { continue };
                for batch in partition.acknowledgement_batches.iter() {
                    let is_done = batch.acknowledge_types != [ACCEPT]
                        || shadow.is_done(batch.first_offset)
                        || self.is_passed_at(connection.node, &key, batch.first_offset);
                    assert!(is_done, "what is answered is stored: {batch:?} of {key:?} {shadow:?}");
                }
            }
        }
    }

    fn check_staged(&mut self, request: &TxnShareAcknowledgeRequest, answer: &TxnShareAcknowledgeResponse) {
        let Some(producer) = Producer::from_wire(request.producer_id, request.producer_epoch) else { return };
        if answer.error_code != 0 {
            return;
        }
        for topic in &request.topics {
            for partition in &topic.partitions {
                let answers = answer.responses.iter().filter(|it| it.topic_id == topic.topic_id);
                let mut answers = answers.flat_map(|it| &it.partitions);
                let outcome = answers.find(|it| it.partition_index == partition.partition_index);
                let error = outcome.map_or(0, |it| it.error_code);
                let key = key_of(&request.group_id, topic.topic_id, partition.partition_index);
                let offsets = partition.acknowledgement_batches.iter().map(|batch| batch.first_offset);
                self.note_lapsed_stage(request, &key, error, offsets);
                if error == 0 {
                    for batch in &partition.acknowledgement_batches {
                        (batch.first_offset..=batch.last_offset)
                            .for_each(|offset| self.watch.note_told(producer, &key, offset));
                    }
                }
                let is_sure = error == 0 && !self.was_reset && self.watch.outcome_of(producer).is_none();
                let Some(shadow) = self.watch.shadows.by_key.get(&key).filter(|_| is_sure) else { continue };
                for batch in &partition.acknowledgement_batches {
                    let offset = batch.first_offset;
                    let entry = shadow.entries.get(&offset);
                    let owner = entry.and_then(|entry| entry.staged).map(|staged| staged.producer);
                    // What the start has passed is skipped, and that is success.
                    let is_below = shadow.start.is_some_and(|start| offset < start.get());
                    assert!(
                        owner == Some(producer) || is_below,
                        "what is staged is stored: {offset} of {key:?}"
                    );
                }
            }
        }
    }
}
