//! Topics: what is where, a topic that comes and goes, records that are produced.

use sharemark_protocol::NodeId;
use sharemark_protocol::messages::ResponseMessage;

use super::super::requests::{self, Place};
use super::{INPUTS, OUTPUT, Run};

impl Run {
    pub(super) fn look_up_topics(&mut self) {
        let answer = self.ask(12, requests::metadata());
        let ResponseMessage::Metadata(answer) = answer else { panic!("{answer:?}") };
        self.inputs.clear();
        self.outputs.clear();
        for topic in &answer.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            let Some(name) = INPUTS.into_iter().chain([OUTPUT]).find(|known| *known == name) else {
                continue;
            };
            let places = topic.partitions.iter().map(|partition| Place {
                topic: name,
                topic_id: topic.topic_id,
                partition: partition.partition_index,
                leader: NodeId::new(partition.leader_id),
            });
            if name == OUTPUT { self.outputs.extend(places) } else { self.inputs.extend(places) }
        }
    }

    /// Asks where the logs of inputs start, since retention may have deleted something.
    pub(super) fn look_up_log_starts(&mut self) {
        for place in self.inputs.clone() {
            let answer = self.world.ask(place.leader, 11, requests::earliest_offset(place));
            let ResponseMessage::ListOffsets(answer) = answer else { panic!("{answer:?}") };
            let partition = &answer.topics[0].partitions[0];
            assert_eq!(partition.error_code, 0);
            self.oracle.truncate(place.topic_id, place.partition, partition.offset);
        }
    }

    pub(super) fn is_alive(&self, topic_id: sharemark_protocol::TopicId) -> bool {
        self.inputs.iter().any(|place| place.topic_id == topic_id)
    }

    /// Deletes the topic that comes and goes, and creates it anew, at once or later.
    pub(super) fn replace_topic(&mut self) {
        let known: Vec<_> = self.inputs.iter().map(|place| place.topic_id).collect();
        let answer = self.ask(6, requests::delete_topic(INPUTS[1]));
        let ResponseMessage::DeleteTopics(answer) = answer else { panic!("{answer:?}") };
        let was_there = answer.responses[0].error_code == 0;
        self.look_up_topics();
        for topic_id in known {
            if !self.is_alive(topic_id) {
                self.oracle.forget(topic_id);
            }
        }
        if !was_there || self.random.one_in(2) {
            self.absorb();
            let answer = self.ask(7, requests::create_topic(INPUTS[1], 1));
            let ResponseMessage::CreateTopics(answer) = answer else { panic!("{answer:?}") };
            assert_eq!(answer.topics[0].error_code, 0);
            self.look_up_topics();
        }
    }

    pub(super) fn values(&mut self, kind: &str) -> Vec<String> {
        let most = if self.random.one_in(8) { 40 } else { 4 };
        let first = self.value_count;
        self.value_count += 1 + self.random.below(most);
        (first..self.value_count).map(|number| format!("{kind}-{number}")).collect()
    }

    /// Produces records outside transactions.
    pub(super) fn produce(&mut self) {
        let place = *self.random.pick(&self.inputs);
        let values = self.values("in");
        let request = requests::produce(place, &values, self.world.now.ms(), None);
        let answer = self.world.ask(place.leader, 13, request);
        let ResponseMessage::Produce(answer) = answer else { panic!("{answer:?}") };
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0);
        self.note_produced(place, partition.base_offset, values.len(), None);
    }

    /// Notes records that groups may not miss, unless they belong to a transaction that is not committed.
    pub(super) fn note_produced(&mut self, place: Place, base_offset: i64, count: usize, txn: Option<usize>) {
        for offset in (base_offset..).take(count) {
            self.oracle.produced.insert((place.topic_id, place.partition, offset), txn);
        }
    }
}
