//! The end of a run: what was promised is held against what is there.

use std::collections::BTreeSet;

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::fetch_response::PartitionData;
use sharemark_share_coordinator::RecordState;

use super::clients::Member;
use super::oracle::{Fate, READ_COMMITTED, Seen, TxnState};
use super::requests;
use super::steps::{DELIVERY_COUNT_LIMIT, INPUTS, LOCK_MS, Run};
use crate::records::decode_batches;

/// So many fetches in a row bring nothing before nothing is left: some bring only one record, or none at a window's
/// end.
const EMPTY_FETCHES: usize = 6;

impl Run {
    /// Ends what is under way and checks that nothing is half done, lost or done twice.
    pub(super) fn finish(mut self) {
        self.pass(1_000);
        self.absorb();
        for writer in 0..self.writers.len() {
            let committed = self.random.one_in(2);
            self.end_txn_of(writer, committed);
            self.absorb();
        }
        self.world.check();
        self.world.check_replay();
        self.check_nothing_pending();
        self.check_outputs();
        self.pass(4 * LOCK_MS);
        self.absorb();
        for group in ["g", "h"] {
            self.drain(group);
        }
        self.check_nothing_lost();
        self.world.check();
        self.world.check_replay();
    }

    fn check_nothing_pending(&self) {
        for txn in &self.oracle.txns {
            assert!(matches!(txn.state, TxnState::Committed | TxnState::Aborted), "it has ended: {txn:?}");
        }
        for group in ["g", "h"] {
            for (topic, partition) in [(INPUTS[0], 0), (INPUTS[0], 1), (INPUTS[1], 0)] {
                let Some(observed) = self.world.broker.observe_share_partition(group, topic, partition)
                else {
                    continue;
                };
                let mut runs = Vec::new();
                observed.records(self.world.now, &mut runs);
                let is_pending = runs.iter().any(|run| run.state == RecordState::TxPending);
                assert!(!is_pending, "nothing waits for a transaction that has ended: {runs:?}");
            }
        }
    }

    /// Checks that a reader of committed records sees the outputs of committed transactions and no others.
    fn check_outputs(&mut self) {
        let mut seen = Vec::new();
        for place in self.outputs.clone() {
            let answer = self.world.ask(place.leader, 13, requests::fetch_committed(place));
            let ResponseMessage::Fetch(answer) = answer else { panic!("{answer:?}") };
            let data = &answer.responses[0].partitions[0];
            assert_eq!(data.high_watermark, data.last_stable_offset, "no transaction is left open");
            committed_values(data, &mut seen);
        }
        seen.sort();
        let committed = self.oracle.txns.iter().filter(|txn| txn.state == TxnState::Committed);
        let mut expected: Vec<String> = committed.flat_map(|txn| &txn.outputs).cloned().collect();
        expected.sort();
        assert_eq!(seen, expected, "outputs of committed transactions, each once");
    }

    /// Lets a member of its own fetch and accept whatever is left for a group.
    fn drain(&mut self, group: &'static str) {
        let index = self.members.len();
        self.members.push(Member {
            group,
            name: format!("drain-{group}"),
            epoch: 0,
            heard_at: self.world.now,
            links: std::collections::BTreeMap::new(),
        });
        self.heartbeat_of(index);
        let leaders: BTreeSet<_> = self.inputs.iter().map(|place| place.leader).collect();
        let mut empty = 0;
        while empty < EMPTY_FETCHES {
            for node in leaders.clone() {
                self.fetch_from(index, node, 0, (50, 0));
                self.absorb();
            }
            let held = self.oracle.held_by(self.world.now, index);
            empty = if held.is_empty() { empty + 1 } else { 0 };
            for node in leaders.clone() {
                self.accept_all(index, node);
            }
        }
    }

    /// Checks that every record was done with, or given up after its last delivery.
    fn check_nothing_lost(&self) {
        for (&(topic_id, partition, offset), txn) in &self.oracle.produced {
            let is_aborted = txn.is_some_and(|txn| self.oracle.txns[txn].state == TxnState::Aborted);
            for group in ["g", "h"].into_iter().filter(|group| !is_aborted || *group != READ_COMMITTED) {
                let seen = Seen { group, topic_id, partition, offset };
                let is_done = matches!(self.oracle.fate(&seen), Fate::Accepted | Fate::Rejected);
                let is_given_up = DELIVERY_COUNT_LIMIT <= self.oracle.delivery_count(&seen);
                let fate = self.oracle.fate(&seen);
                assert!(is_done || is_given_up, "{seen:?} was lost: {fate:?}");
            }
        }
    }
}

/// Adds the values that a reader of committed records takes from what it fetched.
pub(super) fn committed_values(data: &PartitionData, out: &mut Vec<String>) {
    let bytes = data.records.as_ref().map(|records| records.to_bytes()).unwrap_or_default();
    let batches = decode_batches(&bytes).unwrap_or_else(|error| panic!("batches can be read: {error}"));
    let mut aborted: Vec<(i64, i64)> = data
        .aborted_transactions
        .iter()
        .flatten()
        .map(|transaction| (transaction.producer_id, transaction.first_offset))
        .collect();
    for batch in batches {
        if batch.control {
            if batch.marker() == Some(false) {
                let ended = aborted
                    .iter()
                    .position(|(id, first)| *id == batch.producer_id && *first <= batch.base_offset);
                if let Some(index) = ended {
                    aborted.remove(index);
                }
            }
            continue;
        }
        let is_aborted =
            aborted.iter().any(|(id, first)| *id == batch.producer_id && *first <= batch.base_offset);
        if is_aborted {
            continue;
        }
        for record in &batch.records {
            let value = record.value.clone().unwrap_or_default();
            out.push(String::from_utf8_lossy(&value).into_owned());
        }
    }
}
