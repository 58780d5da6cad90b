//! Transactions: staged acknowledgements, outputs, ends.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{ErrorCode, NodeId, Producer};

use super::super::oracle::{Fate, Seen, Txn, TxnState};
use super::super::requests::{self, Acknowledged, Place};
use super::Run;

const ACCEPT: i8 = 1;
const REJECT: i8 = 3;

impl Run {
    pub(super) fn init_producer(&mut self) {
        let writer = self.random.below(self.writers.len());
        self.init_writer(writer);
    }

    /// Gives a writer a new incarnation, which aborts what it has open.
    pub(super) fn init_writer(&mut self, index: usize) {
        let id = self.writers[index].transactional_id;
        let coordinator = self.coordinator(1, id);
        if let Some(txn) = self.writers[index].txn {
            self.oracle.end(txn, TxnState::Aborted);
        }
        for _ in 0..2 {
            let answer = self.world.ask(coordinator, 5, requests::init_producer(id, self.txn_timeout_ms()));
            self.absorb();
            let ResponseMessage::InitProducerId(answer) = answer else { panic!("{answer:?}") };
            if answer.error_code == 0 {
                let producer = Producer::from_wire(answer.producer_id, answer.producer_epoch);
                self.writers[index].become_producer(producer);
                return;
            }
            assert_eq!(answer.error_code, ErrorCode::ConcurrentTransactions.code());
        }
        panic!("the second try finds the transaction in the way aborted");
    }

    /// Returns a writer that may write: none whose transaction can have been aborted behind its back.
    fn ready_writer(&mut self) -> Option<(usize, Producer)> {
        let index = self.random.below(self.writers.len());
        if self.writers[index].producer.is_none() {
            self.init_writer(index);
        }
        let writer = &self.writers[index];
        let is_overdue = writer.txn.is_some_and(|txn| self.oracle.txns[txn].state != TxnState::Open);
        writer.producer.filter(|_| !is_overdue).map(|producer| (index, producer))
    }

    /// Returns the open transaction of a writer, a new one if need be.
    fn open_txn(&mut self, index: usize) -> usize {
        if let Some(txn) = self.writers[index].txn {
            return txn;
        }
        let txn = self.oracle.txns.len();
        let began = self.world.now;
        self.oracle.txns.push(Txn { state: TxnState::Open, began, outputs: BTreeSet::new() });
        self.writers[index].txn = Some(txn);
        txn
    }

    /// Writes in a transaction: mostly to the output topic, now and then to one that groups consume.
    pub(super) fn produce_in_txn(&mut self) {
        let Some((index, producer)) = self.ready_writer() else { return };
        let is_output = !self.random.one_in(3);
        let place = *self.random.pick(if is_output { &self.outputs } else { &self.inputs });
        let values = self.values(if is_output { "out" } else { "in" });
        let (id, is_old) = (self.writers[index].transactional_id, self.writers[index].is_old);
        if is_old {
            let coordinator = self.coordinator(1, id);
            let answer = self.world.ask(coordinator, 3, requests::add_partition(id, producer, place));
            let ResponseMessage::AddPartitionsToTxn(answer) = answer else { panic!("{answer:?}") };
            let result = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
            assert_eq!(result.partition_error_code, 0);
        }
        let txn = self.open_txn(index);
        let sequences = &mut self.writers[index].sequences;
        let sequence = sequences.entry((place.topic_id, place.partition)).or_default();
        let transactional = Some((id, producer, *sequence));
        let request = requests::produce(place, &values, self.world.now.ms(), transactional);
        *sequence += i32::try_from(values.len()).unwrap_or(0);
        let answer = self.world.ask(place.leader, if is_old { 11 } else { 13 }, request);
        let ResponseMessage::Produce(answer) = answer else { panic!("{answer:?}") };
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!(partition.error_code, 0);
        if is_output {
            self.oracle.txns[txn].outputs.extend(values);
        } else {
            self.note_produced(place, partition.base_offset, values.len(), Some(txn));
        }
    }

    /// Stages acknowledgements; now and then once more, by the wrong producer, or of what is not held.
    pub(super) fn stage(&mut self) {
        let Some((index, producer)) = self.ready_writer() else { return };
        let (member, node) = self.any_member_and_node();
        if !self.is_known(member) {
            return;
        }
        let chosen = self.choose(member, Some(node), &[ACCEPT, ACCEPT, REJECT]);
        if chosen.places.is_empty() {
            return;
        }
        let is_old = self.writers[index].is_old;
        if let Some(fenced) = self.writers[index].fenced.filter(|_| !is_old && self.random.one_in(6)) {
            let errors = self.send_stage(index, fenced, member, node, &chosen.places);
            assert!(errors.iter().all(|error| *error != 0), "a fenced producer stages nothing: {errors:?}");
        }
        let errors = self.send_stage(index, producer, member, node, &chosen.places);
        assert!(errors.iter().all(|error| *error == 0), "{errors:?} {chosen:?}");
        let txn = self.open_txn(index);
        for &(seen, kind) in &chosen.records {
            self.oracle.set(seen, Fate::Staged { txn, accepted: kind == ACCEPT });
        }
        if self.random.one_in(4) {
            let errors = self.send_stage(index, producer, member, node, &chosen.places);
            assert!(errors.iter().all(|error| *error == 0), "a repeat changes nothing: {errors:?}");
        }
        if !is_old && self.random.one_in(6) {
            self.stage_too_much(index, producer, member, &chosen.places);
        }
    }

    /// Stages what is held together with what is not: nothing of that partition may be staged.
    fn stage_too_much(
        &mut self,
        index: usize,
        producer: Producer,
        member: usize,
        places: &[(Place, Vec<Acknowledged>)],
    ) {
        let (place, _) = places[0];
        let held = self.oracle.held_by(self.world.now, member);
        let here = |seen: &&Seen| seen.topic_id == place.topic_id && seen.partition == place.partition;
        let mut runs: Vec<Acknowledged> =
            held.iter().filter(here).map(|seen| (seen.offset, seen.offset, vec![ACCEPT])).collect();
        let beyond = runs.last().map_or(0, |run| run.1) + 1;
        let group = self.members[member].group;
        let seen = Seen { group, topic_id: place.topic_id, partition: place.partition, offset: beyond };
        if !self.is_not_held(&seen, member) {
            return;
        }
        runs.push((beyond, beyond, vec![ACCEPT]));
        let errors = self.send_stage(index, producer, member, place.leader, &[(place, runs)]);
        assert!(errors.iter().all(|error| *error != 0), "{beyond} is not held: {errors:?}");
    }

    fn send_stage(
        &mut self,
        index: usize,
        producer: Producer,
        member: usize,
        node: NodeId,
        places: &[(Place, Vec<Acknowledged>)],
    ) -> Vec<i16> {
        let id = self.writers[index].transactional_id;
        let member = &self.members[member];
        let (group, name, epoch) = (member.group, member.name.clone(), member.epoch);
        if self.writers[index].is_old {
            return self.send_early_stage((id, producer), group, node, places);
        }
        let request = requests::stage((id, producer), (group, &name, epoch), places);
        let answer = self.world.ask(node, 0, request);
        let ResponseMessage::TxnShareAcknowledge(answer) = answer else { panic!("{answer:?}") };
        if answer.error_code != 0 {
            return vec![answer.error_code];
        }
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    fn send_early_stage(
        &mut self,
        (id, producer): (&str, Producer),
        group: &str,
        node: NodeId,
        places: &[(Place, Vec<Acknowledged>)],
    ) -> Vec<i16> {
        let coordinator = self.coordinator(1, id);
        let request = requests::add_share_acks((id, producer), group, places);
        let ResponseMessage::AddShareAcksToTxn(answer) = self.world.ask(coordinator, 0, request) else {
            panic!("an answer is of its request's kind")
        };
        assert_eq!(answer.error_code, 0);
        let answer = self.world.ask(node, 0, requests::stage_early(id, group, places));
        let ResponseMessage::SeedTxnShareAcknowledge(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.error_code, 0);
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    pub(super) fn end_txn(&mut self) {
        let index = self.random.below(self.writers.len());
        let committed = !self.random.one_in(3);
        self.end_txn_of(index, committed);
    }

    pub(in super::super) fn end_txn_of(&mut self, index: usize, committed: bool) {
        let writer = &self.writers[index];
        let (Some(producer), Some(txn)) = (writer.producer, writer.txn) else { return };
        let id = writer.transactional_id;
        let coordinator = self.coordinator(1, id);
        if let Some(fenced) = self.writers[index].fenced.filter(|_| self.random.one_in(6)) {
            let answer = self.world.ask(coordinator, 5, requests::end_txn(id, fenced, !committed));
            let ResponseMessage::EndTxn(answer) = answer else { panic!("{answer:?}") };
            assert!(answer.error_code != 0, "a fenced producer ends nothing");
        }
        let version = if self.writers[index].is_old { 4 } else { 5 };
        let answer = self.world.ask(coordinator, version, requests::end_txn(id, producer, committed));
        let ResponseMessage::EndTxn(answer) = answer else { panic!("{answer:?}") };
        if answer.error_code == 0 {
            let state = if committed { TxnState::Committed } else { TxnState::Aborted };
            let before = self.oracle.txns[txn].state;
            assert!(before != TxnState::Aborted || !committed, "what was seen to be aborted stays so");
            self.oracle.end(txn, state);
            let is_old = self.writers[index].is_old;
            let bumped = Producer::from_wire(answer.producer_id, answer.producer_epoch);
            let next = if is_old { Some(producer) } else { bumped };
            self.writers[index].become_producer(next);
            return;
        }
        assert!(self.oracle.txns[txn].state != TxnState::Open, "an open transaction ends: {answer:?}");
        self.oracle.end(txn, TxnState::Aborted);
        self.writers[index].become_producer(None);
    }

    /// Sends markers of a writer's last transaction once more, or others that bear its epoch: what it does next is
    /// none of their business.
    pub(super) fn repeat_markers(&mut self) {
        let index = self.random.below(self.writers.len());
        let writer = &self.writers[index];
        let Some(producer) = writer.producer.filter(|_| !writer.is_old) else { return };
        let committed = self.random.one_in(2);
        let mut partitions = vec![("__share_group_state", 0), ("__share_group_state", 1)];
        partitions.extend(self.outputs.iter().map(|place| (place.topic, place.partition)));
        for node in self.world.nodes().to_vec() {
            let answer = self.world.ask(node, 2, requests::markers(producer, committed, 0, &partitions));
            let ResponseMessage::WriteTxnMarkers(answer) = answer else { panic!("{answer:?}") };
            assert_eq!(answer.markers.len(), 1);
        }
    }
}
