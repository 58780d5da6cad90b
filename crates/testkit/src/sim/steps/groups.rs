//! Members come, stay and go; connections break.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;

use super::super::requests;
use super::{INPUTS, Run, SESSION_TIMEOUT_MS};

impl Run {
    pub(super) fn heartbeat(&mut self) {
        let member = self.random.below(self.members.len());
        self.heartbeat_of(member);
    }

    pub(super) fn is_known(&self, member: usize) -> bool {
        let member = &self.members[member];
        member.epoch != 0 && self.world.now < member.heard_at.plus_ms(SESSION_TIMEOUT_MS)
    }

    pub(in super::super) fn heartbeat_of(&mut self, index: usize) {
        let is_known = self.is_known(index);
        let member = &self.members[index];
        let (group, name, epoch) = (member.group, member.name.clone(), member.epoch);
        let coordinator = self.coordinator(0, group);
        let topics = (epoch == 0).then_some(&INPUTS[..]);
        let answer = self.world.ask(coordinator, 1, requests::heartbeat(group, &name, epoch, topics));
        let ResponseMessage::ShareGroupHeartbeat(answer) = answer else { panic!("{answer:?}") };
        let member = &mut self.members[index];
        if answer.error_code == 0 {
            member.epoch = answer.member_epoch;
            member.heard_at = self.world.now;
            return;
        }
        assert_eq!(answer.error_code, ErrorCode::UnknownMemberId.code(), "{answer:?}");
        assert!(!is_known, "a member that was heard of lately is known");
        member.epoch = 0;
        self.heartbeat_of(index);
    }

    /// Lets a member leave its group; its share sessions and its locks stay.
    pub(super) fn leave(&mut self) {
        let index = self.random.below(self.members.len());
        if !self.is_known(index) {
            return;
        }
        let member = &self.members[index];
        let (group, name) = (member.group, member.name.clone());
        let coordinator = self.coordinator(0, group);
        let answer = self.world.ask(coordinator, 1, requests::heartbeat(group, &name, -1, None));
        let ResponseMessage::ShareGroupHeartbeat(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.error_code, 0);
        self.members[index].epoch = 0;
    }

    /// Ends a connection of a member, and with it what its session holds.
    pub(super) fn disconnect(&mut self) {
        let index = self.random.below(self.members.len());
        let nodes: Vec<_> = self.members[index].links.keys().copied().collect();
        if nodes.is_empty() {
            return;
        }
        let node = *self.random.pick(&nodes);
        let Some(link) = self.members[index].links.get(&node) else { return };
        let (connection, is_fetching) = (link.connection, link.fetching.is_some());
        if is_fetching && self.random.one_in(2) {
            self.world.close_half(connection);
            self.absorb();
        }
        self.members[index].links.remove(&node);
        self.release_at(index, node);
        self.world.disconnect(connection);
    }

    /// Notes that a session at `node` has ended.
    pub(super) fn release_at(&mut self, member: usize, node: sharemark_protocol::NodeId) {
        let led: Vec<_> = self.inputs.iter().filter(|place| place.leader == node).copied().collect();
        self.oracle.release(member, |seen| {
            led.iter().any(|place| place.topic_id == seen.topic_id && place.partition == seen.partition)
        });
    }
}
