//! Transactions: staged acknowledgements, outputs, ends.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{ErrorCode, NodeId, Producer};

use super::super::oracle::{Fate, Seen, Txn, TxnState};
use super::super::requests::{self, Acknowledged, Place};
use super::{Run, TXN_TIMEOUT_MS};

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
            let answer = self.world.ask(coordinator, 5, requests::init_producer(id, TXN_TIMEOUT_MS));
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

    /// Writes to the output topic in a transaction.
    pub(super) fn produce_in_txn(&mut self) {
        let Some((index, producer)) = self.ready_writer() else { return };
        let place = *self.random.pick(&self.outputs);
        let values = self.values("out");
        let writer = &mut self.writers[index];
        let sequence = writer.sequences.entry((place.topic_id, place.partition)).or_default();
        let transactional = Some((writer.transactional_id, producer, *sequence));
        let request = requests::produce(place, &values, self.world.now.ms(), transactional);
        *sequence += i32::try_from(values.len()).unwrap_or(0);
        let answer = self.world.ask(place.leader, 13, request);
        let ResponseMessage::Produce(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        let txn = self.open_txn(index);
        self.oracle.txns[txn].outputs.extend(values);
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
        if let Some(fenced) = self.writers[index].fenced.filter(|_| self.random.one_in(6)) {
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
        if self.random.one_in(6) {
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
        let request = requests::stage((id, producer), (group, &name, epoch), places);
        let answer = self.world.ask(node, 0, request);
        let ResponseMessage::TxnShareAcknowledge(answer) = answer else { panic!("{answer:?}") };
        if answer.error_code != 0 {
            return vec![answer.error_code];
        }
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
        let answer = self.world.ask(coordinator, 5, requests::end_txn(id, producer, committed));
        let ResponseMessage::EndTxn(answer) = answer else { panic!("{answer:?}") };
        if answer.error_code == 0 {
            let state = if committed { TxnState::Committed } else { TxnState::Aborted };
            let before = self.oracle.txns[txn].state;
            assert!(before != TxnState::Aborted || !committed, "what was seen to be aborted stays so");
            self.oracle.end(txn, state);
            let next = Producer::from_wire(answer.producer_id, answer.producer_epoch);
            self.writers[index].become_producer(next);
            return;
        }
        assert!(self.oracle.txns[txn].state != TxnState::Open, "an open transaction ends: {answer:?}");
        self.oracle.end(txn, TxnState::Aborted);
        self.writers[index].become_producer(None);
    }
}
