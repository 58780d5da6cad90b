//! Who makes the weather: stops and starts nodes, installs faults, crashes the process, sets offsets, repeats markers.

use std::collections::BTreeMap;

use sharemark::broker::{Command, Fault, FaultAction, FaultPoint, NodeState};
use sharemark_protocol::messages::{self as m, RequestMessage};
use sharemark_protocol::{ErrorCode, NodeId, Producer};

use super::super::requests;
use super::coverage::Event;
use super::watch::{SHARE_GROUP_STATE, TRANSACTION_STATE};
use super::{GROUPS, INPUT, OUTPUT, Storm, TRANSACTIONAL_IDS};

/// How many faults there are at a time.
const FAULTS_MAX: usize = 4;

/// The seams.
const SEAMS: [FaultPoint; 9] = [
    FaultPoint::TxnAddPartition,
    FaultPoint::TxnVerify,
    FaultPoint::TxnMarkers,
    FaultPoint::TxnMarkers,
    FaultPoint::ShareStateInit,
    FaultPoint::ShareStateRead,
    FaultPoint::ShareStateWrite,
    FaultPoint::ShareStateWrite,
    FaultPoint::GroupMemberCheck,
];

impl Storm {
    pub(super) fn stop_node(&mut self) {
        let running = self.cluster.running();
        if running.len() < 2 && !self.random.one_in(4) {
            return;
        }
        if running.is_empty() {
            return;
        }
        let node = self.pick_victim(&running);
        self.note_failover(node);
        self.cluster.command(Command::StopNode(node));
    }

    /// Picks a node to fail: mostly one that has decided an end, or has to hear of it.
    fn pick_victim(&mut self, nodes: &[NodeId]) -> NodeId {
        let mut concerned = Vec::new();
        let leaders = self.cluster.broker.inspect_leaders();
        for (_, shadow, _, staged) in self.watch.shadows.pending() {
            if self.watch.outcome_of(staged.producer).is_none() {
                continue;
            }
            let places = [
                (TRANSACTION_STATE, self.watch.coordinator_of(staged.producer.id)),
                (SHARE_GROUP_STATE, Some(shadow.state_partition)),
            ];
            let is_one = |topic: &str, partition| places.contains(&(topic, Some(partition)));
            let leaders = leaders.iter().filter(|view| is_one(&view.topic, view.partition));
            concerned.extend(leaders.map(|view| view.leader).filter(|leader| nodes.contains(leader)));
        }
        let those = if concerned.is_empty() || self.random.one_in(4) { nodes } else { &concerned };
        *self.random.pick(those)
    }

    pub(super) fn start_node(&mut self) {
        let stopped = self.cluster.nodes_that_are(NodeState::Stopped);
        if !stopped.is_empty() {
            let node = *self.random.pick(&stopped);
            self.cluster.command(Command::StartNode(node));
        }
    }

    /// Cuts a node off, if another is left to lead.
    pub(super) fn isolate_node(&mut self) {
        let connected = self.cluster.nodes_that_are(NodeState::Running);
        if 1 < connected.len() {
            let node = self.pick_victim(&connected);
            self.note_failover(node);
            self.cluster.command(Command::IsolateNode(node));
        }
    }

    pub(super) fn rejoin_node(&mut self) {
        let isolated = self.cluster.nodes_that_are(NodeState::Isolated);
        if !isolated.is_empty() {
            let node = *self.random.pick(&isolated);
            self.cluster.command(Command::RejoinNode(node));
        }
    }

    /// Counts what fails with a node.
    fn note_failover(&mut self, node: NodeId) {
        let leaders: BTreeMap<(String, i32), NodeId> = self
            .cluster
            .broker
            .inspect_leaders()
            .into_iter()
            .map(|view| ((view.topic.to_string(), view.partition), view.leader))
            .collect();
        let leads = |topic: &str, partition: i32| leaders.get(&(topic.to_owned(), partition)) == Some(&node);
        let pending: Vec<_> = self.watch.shadows.pending().collect();
        if pending.iter().any(|(key, ..)| leads(INPUT, key.partition)) {
            self.coverage.note(Event::SourceLeaderFailover);
        }
        if pending.iter().any(|(_, shadow, ..)| leads(SHARE_GROUP_STATE, shadow.state_partition)) {
            self.coverage.note(Event::ShareCoordinatorFailover);
        }
        let coordinator = |producer: Producer| self.watch.coordinator_of(producer.id);
        let is_coordinator = |producer: Producer| {
            coordinator(producer).is_some_and(|partition| leads(TRANSACTION_STATE, partition))
        };
        if pending.iter().any(|(.., staged)| is_coordinator(staged.producer)) {
            self.coverage.note(Event::TransactionCoordinatorFailover);
        }
        let faults = self.cluster.broker.inspect_faults();
        if faults.iter().any(|view| view.fault.at == FaultPoint::TxnMarkers && 0 < view.held) {
            self.coverage.note(Event::MarkerHeldAcrossFailover);
        }
    }

    pub(super) fn install_fault(&mut self) {
        if FAULTS_MAX <= self.faults.len() {
            self.delete_fault();
        }
        let count = u64::try_from(self.random.between(1, 3)).ok();
        let refuses = FaultAction::Error(ErrorCode::NotEnoughReplicas);
        let fault = match self.random.below(8) {
            0 => {
                let log = *self.random.pick(&[OUTPUT, SHARE_GROUP_STATE, TRANSACTION_STATE]);
                Fault::new(FaultPoint::LogAppend, refuses).topic(log)
            }
            1 => {
                let id = *self.random.pick(&TRANSACTIONAL_IDS);
                Fault::new(FaultPoint::ShareStateWrite, refuses).transactional_id(id)
            }
            _ => self.fault_of_seam(),
        };
        let fault = Fault { count, ..fault };
        let installed = self.cluster.command(Command::InstallFault(Box::new(fault)));
        self.faults.extend(installed);
    }

    fn fault_of_seam(&mut self) -> Fault {
        let at = *self.random.pick(&SEAMS);
        let error = *self.random.pick(&[
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NetworkException,
        ]);
        let action = match self.random.below(8) {
            0..=2 => FaultAction::Hold,
            3 => FaultAction::Drop,
            4 => FaultAction::Repeat,
            5 => FaultAction::Delay(self.random.between(1, 2_000)),
            6 => FaultAction::Disconnect,
            _ => FaultAction::Error(error),
        };
        Fault::new(at, action)
    }

    pub(super) fn delete_fault(&mut self) {
        if self.faults.is_empty() {
            return;
        }
        let index = self.random.below(self.faults.len());
        let id = self.faults.swap_remove(index);
        self.cluster.command(Command::DeleteFault(id));
    }

    /// Crashes the process, if its disk knows what is durable.
    pub(super) fn crash(&mut self) {
        if !self.cluster.disk.is_lazy() {
            return;
        }
        if 0 < self.cluster.disk.lag() && self.has_open_txn() {
            self.coverage.note(Event::CrashBetweenFlushes);
        }
        self.cluster.crash();
        self.faults.clear();
        self.watch.begin_anew(&self.cluster.broker, &mut self.coverage);
    }

    fn has_open_txn(&self) -> bool {
        let producers = self.actors.iter().filter(|actor| actor.writer.txn.is_some());
        producers.filter_map(|actor| actor.writer.producer).any(|it| self.watch.is_open(it))
    }

    /// Lets the members of a group leave, and sets its offsets once they have.
    pub(super) fn reset_offsets(&mut self) {
        let Some(group) = self.resetting else {
            self.resetting = Some(*self.random.pick(&GROUPS[..2]));
            return;
        };
        if self.actors.iter().any(|actor| actor.member.group == group && actor.member.epoch != 0) {
            return;
        }
        self.resetting = None;
        let start_offset = self.random.between(0, 4);
        let Some(node) = self.coordinator_of_group(group) else { return };
        self.was_reset = true;
        let _answer = self.cluster.ask_node(node, 0, alter_offsets(group, start_offset));
    }

    /// Sends a marker once more that was written before, to all partitions.
    pub(super) fn repeat_marker(&mut self) {
        let ended = self.watch.ended();
        if ended.is_empty() {
            return;
        }
        // Mostly the last one of a producer that has gone on since: from transaction version 2 on it bears the epoch of
        // the next transaction.
        let is_next =
            |producer: Producer| self.watch.shadows.pending().any(|(.., staged)| staged.producer == producer);
        let late: Vec<_> = ended.iter().copied().filter(|(producer, _)| is_next(*producer)).collect();
        let those = if late.is_empty() || self.random.one_in(4) { &ended } else { &late };
        let (producer, committed) = *self.random.pick(those);
        if self.watch.shadows.pending().any(|(.., staged)| staged.producer.id == producer.id) {
            self.coverage.note(Event::LateDuplicateMarker);
        }
        let mut partitions = vec![(OUTPUT, 0), (OUTPUT, 1)];
        partitions.extend((0..self.options.state_partitions).map(|partition| (SHARE_GROUP_STATE, partition)));
        // It may be as old as its coordinator, or come from the one of today.
        let coordinator_epoch = if self.random.one_in(4) { 0 } else { self.coordinator_epoch(producer) };
        for node in self.cluster.running() {
            let request = requests::markers(producer, committed, coordinator_epoch, &partitions);
            let _answer = self.cluster.ask_node(node, 2, request);
        }
    }

    /// Returns the epoch of the coordinator that knows a producer.
    fn coordinator_epoch(&self, producer: Producer) -> i32 {
        let known = self.watch.coordinator_of(producer.id);
        let leaders = self.cluster.broker.inspect_leaders();
        let mut leaders = leaders.iter().filter(|view| &*view.topic == TRANSACTION_STATE);
        let coordinator = leaders.find(|view| Some(view.partition) == known);
        coordinator.map_or(0, |view| view.leader_epoch.get())
    }

    /// Gives leaderships back to the nodes that are preferred.
    pub(super) fn move_leaders(&mut self) {
        let _answer = self.cluster.ask(2, elect_leaders());
    }
}

fn alter_offsets(group: &str, start_offset: i64) -> RequestMessage {
    use m::alter_share_group_offsets_request as alter;
    let partition =
        |partition_index| alter::AlterShareGroupOffsetsRequestPartition { partition_index, start_offset };
    let topic = alter::AlterShareGroupOffsetsRequestTopic {
        topic_name: INPUT.into(),
        partitions: (0..2).map(partition).collect(),
    };
    RequestMessage::AlterShareGroupOffsets(alter::AlterShareGroupOffsetsRequest {
        group_id: group.into(),
        topics: vec![topic],
    })
}

fn elect_leaders() -> RequestMessage {
    RequestMessage::ElectLeaders(m::elect_leaders_request::ElectLeadersRequest {
        election_type: 0,
        topic_partitions: None,
        timeout_ms: 1_000,
    })
}
