//! Who makes the weather: stops and starts nodes, installs faults, crashes the process, sets offsets, repeats markers.

use sharemark::broker::{Command, Fault, FaultAction, FaultPoint, NodeState};
use sharemark_protocol::messages::{self as m, RequestMessage};
use sharemark_protocol::{ErrorCode, Producer};

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
        self.fail_over(Command::StopNode(node));
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
            self.fail_over(Command::IsolateNode(node));
        }
    }

    pub(super) fn rejoin_node(&mut self) {
        let isolated = self.cluster.nodes_that_are(NodeState::Isolated);
        if !isolated.is_empty() {
            let node = *self.random.pick(&isolated);
            self.cluster.command(Command::RejoinNode(node));
        }
    }

    pub(super) fn has_room_for_fault(&self) -> bool {
        self.faults.len() < FAULTS_MAX
    }

    pub(super) fn install_fault(&mut self) {
        if !self.has_room_for_fault() {
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

    /// Lets the members of a group leave, and sets its offsets once they have.
    pub(super) fn reset_offsets(&mut self) {
        let Some(group) = self.resetting else {
            self.choose_group_to_reset();
            return;
        };
        if self.actors.iter().any(|actor| actor.member.group == group && actor.member.epoch != 0) {
            return;
        }
        self.resetting = None;
        self.reset_at.insert(group, self.group_epochs.get(group).copied().unwrap_or_default());
        let start_offset = self.random.between(0, 4);
        let Some(node) = self.coordinator_of_group(group) else { return };
        self.was_reset = true;
        let _answer = self.cluster.ask_node(node, 0, alter_offsets(group, start_offset));
    }

    /// Chooses the group whose members leave: one that somebody has joined since its last reset. As in Kafka, a state is
    /// reset at the epoch of its group, so that its leader does not see a second reset at the same epoch.
    fn choose_group_to_reset(&mut self) {
        let mut groups = GROUPS[..2].to_vec();
        groups.retain(|group| self.reset_at.get(group) < self.group_epochs.get(group));
        let pending: Vec<&str> = groups
            .iter()
            .copied()
            .filter(|group| self.watch.shadows.pending().any(|(key, ..)| &*key.group_id == *group))
            .collect();
        let those = if pending.is_empty() { groups } else { pending };
        if !those.is_empty() {
            self.resetting = Some(*self.random.pick(&those));
        }
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
        let late = self.late_for(producer);
        let mut has_come = false;
        let mut partitions = vec![(OUTPUT, 0), (OUTPUT, 1)];
        partitions.extend((0..self.options.state_partitions).map(|partition| (SHARE_GROUP_STATE, partition)));
        // It may be as old as its coordinator, or come from the one of today.
        let coordinator_epoch = if self.random.one_in(4) { 0 } else { self.coordinator_epoch(producer) };
        for node in self.cluster.running() {
            let request = requests::markers(producer, committed, coordinator_epoch, &partitions);
            let answer = self.cluster.ask_node(node, 2, request);
            has_come |= Self::has_come(answer.as_ref(), &late);
            self.watch.catch_up(&self.cluster.broker, &mut self.coverage);
        }
        if has_come {
            self.coverage.note(Event::LateDuplicateMarker);
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
