//! Weather that strikes where it hurts: it looks for something that is under way, and meets just that.
//!
//! What it does others do as well, at random; but a marker that is held, a node that fails meanwhile, and an
//! acknowledgement that waits for that marker come together too seldom.

use sharemark::broker::{Command, Fault, FaultAction, FaultPoint, NodeState};
use sharemark_protocol::{NodeId, Producer};

use super::actors::Kind;
use super::{INPUT, Storm};

impl Storm {
    /// Meets something that is under way, if there is such a thing.
    pub(super) fn strike(&mut self) {
        match self.random.below(14) {
            0..=4 => self.strike_markers(),
            5 => self.is_crash_due = self.cluster.disk.is_lazy(),
            6 => self.strike_session(),
            7..=9 => self.strike_group(),
            10 => self.repeat_marker(),
            11..=12 => self.strike_waiting(),
            _ => self.strike_node(),
        }
    }

    /// Holds back the next marker if something waits for one, or lets a node fail while one is held.
    fn strike_markers(&mut self) {
        let faults = self.cluster.broker.inspect_faults();
        let mut markers = faults.iter().filter(|view| view.fault.at == FaultPoint::TxnMarkers);
        if markers.any(|view| 0 < view.held) {
            self.strike_node();
        } else if self.watch.shadows.pending().next().is_some() && self.has_room_for_fault() {
            let fault = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold);
            let installed = self.cluster.command(Command::InstallFault(Box::new(fault)));
            self.faults.extend(installed);
        }
    }

    /// Crashes if that is due, as soon as a part of a transaction is durable and another part is not.
    pub(super) fn crash_if_due(&mut self) {
        if !self.is_crash_due {
            return;
        }
        let now = self.watch.transactions();
        if self.cluster.disk.lag() == 0 {
            self.durable = now;
        } else if self.durable.iter().any(|(producer, then)| now.get(producer).is_some_and(|it| it != then)) {
            self.is_crash_due = false;
            self.durable.clear();
            self.crash();
        }
    }

    /// Drops the connection of a session whose member has something pending there.
    fn strike_session(&mut self) {
        let leaders = self.cluster.broker.inspect_leaders();
        let pending: Vec<(i32, Producer)> = self
            .watch
            .shadows
            .pending()
            .map(|(key, _, _, staged)| (key.partition, staged.producer))
            .collect();
        let leads = |node: NodeId, partition: i32| {
            leaders.iter().any(|it| it.leader == node && it.partition == partition && &*it.topic == INPUT)
        };
        let mut found = Vec::new();
        for (index, actor) in self.actors.iter().enumerate().filter(|(_, it)| it.kind == Kind::Processor) {
            let own = |node: NodeId| {
                pending
                    .iter()
                    .any(|(partition, it)| Some(*it) == actor.writer.producer && leads(node, *partition))
            };
            let sessions = actor.member.sessions.iter().filter(|(node, _)| own(**node));
            found.extend(sessions.map(|(_, session)| (index, session.connection)));
        }
        if !found.is_empty() {
            let (index, connection) = *self.random.pick(&found);
            self.lose(index, connection);
        }
    }

    /// Has the members of a group leave whose offsets are to be set, all but those that wait for an answer.
    fn strike_group(&mut self) {
        if self.resetting.is_none() && self.watch.shadows.pending().next().is_some() {
            self.reset_offsets();
        }
        let Some(group) = self.resetting else { return };
        for index in 0..self.actors.len() {
            let member = &self.actors[index].member;
            if member.group == group && member.epoch != 0 {
                self.act(index);
            }
        }
        self.reset_offsets();
    }

    /// Has members of a group wait where something of it is pending, and aborts that: then they get it.
    fn strike_waiting(&mut self) {
        let mut pending = self.watch.shadows.pending();
        let found = pending.next().map(|(key, _, _, staged)| (key.clone(), staged.producer));
        drop(pending);
        let Some((key, producer)) = found else { return };
        let leaders = self.cluster.broker.inspect_leaders();
        let Some(leader) = leaders.iter().find(|it| it.partition == key.partition && &*it.topic == INPUT)
        else {
            return;
        };
        for index in 0..self.actors.len() {
            let actor = &self.actors[index];
            let is_other = actor.writer.producer != Some(producer) && actor.waiting.is_none();
            if is_other && actor.member.epoch != 0 && actor.member.group == &*key.group_id {
                self.fetch_at(index, leader.leader);
            }
        }
        let mut actors = self.actors.iter();
        let owner = actors.position(|it| it.writer.producer == Some(producer) && it.waiting.is_none());
        if let Some(owner) = owner {
            self.end(owner, producer, false);
        }
    }

    /// Lets a node fail that something pending depends on, if another is left.
    fn strike_node(&mut self) {
        let connected = self.cluster.nodes_that_are(NodeState::Running);
        if connected.len() < 2 || self.watch.shadows.pending().next().is_none() {
            return;
        }
        let node = self.pick_victim(&connected);
        let stops = self.random.one_in(2);
        self.fail_over(if stops { Command::StopNode(node) } else { Command::IsolateNode(node) });
    }
}
