//! The end of a run: the weather clears up, and everything has to come to an end.

use std::collections::{BTreeMap, BTreeSet};

use sharemark::broker::{Command, NodeState};
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{NodeId, SharePartitionKey};
use sharemark_share_coordinator::{RecordRun, RecordState};

use super::super::finish::committed_values;
use super::super::requests::{self, Place};
use super::actors::{Actor, Kind, Spot};
use super::moves::ACCEPT;
use super::{GROUPS, INPUT, LOCK_MS, OUTPUT, Storm, TXN_TIMEOUT_MS};

/// So many rounds of fetching bring nothing before nothing is left.
const EMPTY_ROUNDS: usize = 4;
const ROUNDS_MAX: usize = 2_000;

impl Storm {
    pub(super) fn finish(&mut self) {
        self.clear_up();
        // Transactions time out, their markers are written, and locks end.
        for _ in 0..4 {
            self.pass(i64::from(TXN_TIMEOUT_MS));
            self.settle();
        }
        self.cluster.broker.check_invariants();
        self.check_replay();
        self.check_nothing_pending();
        self.check_outputs();
        for group in GROUPS {
            self.drain(group);
        }
        self.check_nothing_left();
        self.cluster.broker.check_invariants();
        self.check_replay();
    }

    /// Starts all nodes, deletes all faults, and lets everybody hang up, or fall silent: then only locks give back what
    /// they hold.
    fn clear_up(&mut self) {
        self.network.clear_up();
        for node in self.cluster.nodes_that_are(NodeState::Stopped) {
            self.cluster.command(Command::StartNode(node));
        }
        for node in self.cluster.nodes_that_are(NodeState::Isolated) {
            self.cluster.command(Command::RejoinNode(node));
        }
        self.faults.clear();
        self.cluster.command(Command::DeleteFaults);
        self.cluster.sync();
        self.settle();
        while self.network.next_arrival().is_some() {
            self.let_arrive();
            self.cluster.sync();
            self.settle();
        }
        // After a reset a session that stays open keeps its leader at the state of before, as in Kafka.
        if self.was_reset || self.random.one_in(2) {
            self.cluster.disconnect_all();
        }
        self.cluster.sync();
        self.settle();
    }

    fn check_nothing_pending(&self) {
        let now = self.cluster.clocks();
        for transaction in self.cluster.broker.inspect_transactions(now) {
            let is_open = transaction.view.state == sharemark_txn_coordinator::TransactionState::Ongoing;
            let is_owing = transaction.view.state.prepared().is_some();
            assert!(!is_open && !is_owing, "every transaction comes to its end: {transaction:?}");
        }
        let pending = self.watch.shadows.pending().next();
        assert!(pending.is_none(), "nothing waits for a transaction that has ended: {pending:?}");
        self.check_runs(|run| {
            let is_pending = run.state == RecordState::TxPending;
            assert!(!is_pending, "no leader waits for a transaction that has ended: {run:?}");
        });
    }

    /// Checks that the lock of whatever is held ends in time.
    pub(super) fn check_locks(&self) {
        let is_held = |run: &RecordRun<'_>| run.state == RecordState::Acquired && !run.in_transition;
        self.check_runs(|run| {
            let ends = run.lock_ms_left.is_some_and(|left| left <= LOCK_MS);
            assert!(ends || !is_held(run), "what is held is locked for a while: {run:?}");
        });
    }

    /// Checks what the leaders of all share partitions know of their records.
    fn check_runs(&self, check: impl Fn(&RecordRun<'_>)) {
        for group in GROUPS {
            for partition in 0..2 {
                let observed = self.cluster.broker.observe_share_partition(group, INPUT, partition);
                let mut runs = Vec::new();
                if let Some(observed) = observed {
                    observed.records(self.cluster.now, &mut runs);
                }
                runs.iter().for_each(&check);
            }
        }
    }

    fn places(&mut self, name: &'static str) -> Vec<Place> {
        let leaders = self.cluster.broker.inspect_leaders();
        let topic_id = self.cluster.broker.observe_topic(name);
        let of_topic = leaders.into_iter().filter(|view| &*view.topic == name);
        of_topic
            .filter_map(|view| {
                let leader = view.leader;
                topic_id.map(|topic_id| Place { topic: name, topic_id, partition: view.partition, leader })
            })
            .collect()
    }

    /// Checks that outputs of committed transactions are seen, each once, and no others; and that the records they
    /// were made from are acknowledged.
    fn check_outputs(&mut self) {
        let mut seen = Vec::new();
        for place in self.places(OUTPUT) {
            let answer = self.cluster.ask_node(place.leader, 13, requests::fetch_committed(place));
            let Some(ResponseMessage::Fetch(answer)) = answer else { panic!("{answer:?}") };
            let data = &answer.responses[0].partitions[0];
            assert_eq!(data.high_watermark, data.last_stable_offset, "no transaction is left open");
            committed_values(data, &mut seen);
        }
        let visible: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(visible.len(), seen.len(), "each output is there once");
        let mut made: BTreeMap<(&str, Spot), &String> = BTreeMap::new();
        for (value, output) in &self.ledger.outputs {
            let is_committed = self.watch.outcome_of(output.producer) == Some(true);
            if visible.contains(value) {
                assert!(is_committed, "{value} of {output:?} is seen though it was not committed");
                let before = made.insert((output.group, output.source), value);
                let is_first = before.is_none() || self.was_reset;
                assert!(is_first, "what was made of a record is there once: {before:?} {value} {output:?}");
                self.check_source(output.group, output.source);
            } else {
                let is_lost = output.is_acknowledged && is_committed;
                assert!(!is_lost, "{value} of {output:?} was committed and is gone");
            }
        }
    }

    fn check_source(&self, group: &str, source: Spot) {
        let key = SharePartitionKey { group_id: group.into(), topic_id: source.0, partition: source.1 };
        let Some(shadow) = self.watch.shadows.by_key.get(&key).filter(|_| !self.was_reset) else { return };
        assert!(shadow.is_done(source.2), "output and acknowledgement go together: {source:?} of {group}");
    }

    /// Lets a member of its own fetch and accept whatever is left for a group.
    fn drain(&mut self, group: &'static str) {
        let index = self.actors.len();
        self.actors.push(Actor::new(Kind::Sink, group, format!("drain-{group}"), ""));
        self.resetting = None;
        let mut empty = 0;
        for _ in 0..ROUNDS_MAX {
            if self.actors[index].member.epoch == 0 {
                self.do_whole(index, |storm| storm.act(index));
                // In fine weather that has initialised all states, whoever is assigned what.
                let places = self.places(INPUT).into_iter().map(|place| (place.topic_id, place.partition));
                self.assigned.entry(group).or_default().extend(places);
                continue;
            }
            let nodes: BTreeSet<NodeId> = self.places(INPUT).iter().map(|place| place.leader).collect();
            let mut is_empty = true;
            for node in nodes {
                self.do_whole(index, |storm| storm.fetch_at(index, node));
                let held = self.actors[index].held_at(node, self.cluster.now);
                is_empty &= held.is_empty();
                let chosen: Vec<(Spot, i8)> = held.into_iter().map(|spot| (spot, ACCEPT)).collect();
                self.ledger.put.extend(chosen.iter().map(|(spot, _)| *spot));
                self.do_whole(index, |storm| storm.send_acknowledgements(index, node, &chosen, false));
            }
            empty = if is_empty { empty + 1 } else { 0 };
            if empty == EMPTY_ROUNDS {
                return;
            }
            if is_empty {
                self.pass(LOCK_MS);
                self.settle();
            }
        }
        panic!("a group comes to the end of its records: {group}");
    }

    /// Does something, and waits until the actor has its answer.
    fn do_whole(&mut self, index: usize, act: impl FnOnce(&mut Self)) {
        act(self);
        self.cluster.sync();
        self.settle();
        for _ in 0..100 {
            if self.actors[index].waiting.is_none() {
                return;
            }
            if self.network.next_arrival().is_some() {
                self.let_arrive();
            } else {
                self.pass(100);
            }
            self.cluster.sync();
            self.settle();
        }
        panic!("in fine weather there is an answer: {:?}", self.actors[index].waiting);
    }

    /// Checks that no group has missed a record.
    fn check_nothing_left(&self) {
        for partition in self.cluster.broker.observe_partitions().iter().filter(|it| it.topic == INPUT) {
            for group in GROUPS {
                let key = SharePartitionKey {
                    group_id: group.into(),
                    topic_id: partition.at.topic_id,
                    partition: partition.at.partition,
                };
                let shadow = self.watch.shadows.by_key.get(&key);
                for offset in 0..partition.log_end.get() {
                    let is_done = shadow.is_some_and(|shadow| shadow.is_done(offset));
                    assert!(
                        is_done || !self.is_wanted(&key, offset),
                        "{offset} of {key:?} was lost: {shadow:?}"
                    );
                }
            }
        }
    }
}
