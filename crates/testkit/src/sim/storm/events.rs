//! Decides what has really happened: an event counts when the state of the cluster shows it, not when it was tried.

use std::collections::{BTreeMap, BTreeSet};

use sharemark::broker::{Command, FaultPoint, NodeState};
use sharemark_protocol::messages::txn_share_acknowledge_request::TxnShareAcknowledgeRequest;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId, Producer, SharePartitionKey};

use super::cluster::Connection;
use super::coverage::Event;
use super::watch::{SHARE_GROUP_STATE, TRANSACTION_STATE};
use super::{INPUT, Storm};

/// A partition by the name of its topic.
type Place = (&'static str, i32);

/// The three roles that acknowledgements of a transaction depend on.
const ROLES: [Event; 3] =
    [Event::SourceLeaderFailover, Event::ShareCoordinatorFailover, Event::TransactionCoordinatorFailover];

/// An acknowledgement that is pending, with the partitions whose leaders have a part in it, in the order of [`ROLES`].
struct Pending {
    producer: Producer,
    places: [Option<Place>; 3],
}

impl Storm {
    fn pending(&self) -> Vec<Pending> {
        let pending = self.watch.shadows.pending().map(|(key, shadow, _, staged)| {
            let coordinator = self.watch.coordinator_of(staged.producer.id);
            let places = [
                Some((INPUT, key.partition)),
                Some((SHARE_GROUP_STATE, shadow.state_partition)),
                coordinator.map(|partition| (TRANSACTION_STATE, partition)),
            ];
            Pending { producer: staged.producer, places }
        });
        pending.collect()
    }

    fn leaders(&self) -> BTreeMap<Place, NodeId> {
        let named = |topic: &str| {
            [INPUT, SHARE_GROUP_STATE, TRANSACTION_STATE].into_iter().find(|name| *name == topic)
        };
        let views = self.cluster.broker.inspect_leaders().into_iter();
        views.filter_map(|view| Some(((named(&view.topic)?, view.partition), view.leader))).collect()
    }

    /// Returns those of some nodes that something pending depends on, out of what is chosen.
    fn leaders_of(&self, nodes: &[NodeId], is_chosen: impl Fn(&Self, &Pending) -> bool) -> Vec<NodeId> {
        let leaders = self.leaders();
        let pending = self.pending().into_iter().filter(|it| is_chosen(self, it));
        let leads =
            pending.flat_map(|it| it.places).flatten().filter_map(|place| leaders.get(&place).copied());
        let needed: BTreeSet<NodeId> = leads.collect();
        nodes.iter().copied().filter(|node| needed.contains(node)).collect()
    }

    /// Chooses a node to fail: mostly one that something pending depends on, above all on what its marker brings.
    pub(super) fn pick_victim(&mut self, nodes: &[NodeId]) -> NodeId {
        let held_up = self.leaders_of(nodes, |storm, it| storm.watch.outcome_of(it.producer).is_some());
        let needed = self.leaders_of(nodes, |_, _| true);
        let those = match self.random.below(4) {
            0 => nodes,
            _ if !held_up.is_empty() => &held_up,
            _ if !needed.is_empty() => &needed,
            _ => nodes,
        };
        *self.random.pick(those)
    }

    /// Lets a node fail, and counts the roles that another has taken over with something pending.
    pub(super) fn fail_over(&mut self, command: Command) {
        let (pending, before) = (self.pending(), self.leaders());
        let faults = self.cluster.broker.inspect_faults();
        let holds = |at: FaultPoint| faults.iter().any(|view| view.fault.at == at && 0 < view.held);
        let holds_marker = holds(FaultPoint::TxnMarkers);
        self.cluster.command(command);
        let (after, connected) = (self.leaders(), self.cluster.nodes_that_are(NodeState::Running));
        let has_moved = |place: &Place| {
            let leader = after.get(place);
            leader != before.get(place) && leader.is_some_and(|leader| connected.contains(leader))
        };
        for (index, event) in ROLES.into_iter().enumerate() {
            if pending.iter().any(|it| it.places[index].as_ref().is_some_and(has_moved)) {
                self.coverage.note(event);
            }
        }
        let waits_for_marker = |it: &Pending| self.watch.outcome_of(it.producer).is_some();
        let moved = |it: &Pending| it.places.iter().flatten().any(has_moved);
        if holds_marker && pending.iter().any(|it| waits_for_marker(it) && moved(it)) {
            self.coverage.note(Event::MarkerHeldAcrossFailover);
        }
    }

    /// Returns whether a request would stage something in a transaction whose end is decided.
    pub(super) fn comes_after_end(&self, message: &RequestMessage) -> bool {
        let RequestMessage::TxnShareAcknowledge(request) = message else { return false };
        let producer = Producer::from_wire(request.producer_id, request.producer_epoch);
        producer.is_some_and(|producer| self.watch.outcome_of(producer).is_some())
    }

    /// Counts a session that ends at the leader of records that its member has pending.
    pub(super) fn note_hangup(&mut self, connection: Connection) {
        let Some(actor) = self.session_owners.get(&connection).map(|index| &self.actors[*index]) else {
            return;
        };
        let (leaders, group) = (self.leaders(), actor.member.group);
        let is_own = |key: &SharePartitionKey, producer: Producer| {
            &*key.group_id == group
                && actor.writer.producer == Some(producer)
                && leaders.get(&(INPUT, key.partition)) == Some(&connection.node)
        };
        if self.watch.shadows.pending().any(|(key, _, _, staged)| is_own(key, staged.producer)) {
            self.coverage.note(Event::SessionClosedWhilePending);
        }
    }

    /// Returns the state partitions where a marker would meet what its producer has staged since.
    pub(super) fn late_for(&self, marker: Producer) -> BTreeSet<i32> {
        let pending = self.watch.shadows.pending();
        let late = pending
            .filter(|(.., staged)| staged.producer.id == marker.id && marker.epoch <= staged.producer.epoch);
        late.map(|(_, shadow, ..)| shadow.state_partition).collect()
    }

    /// Returns whether a marker has come to a state partition of those: its leader took it, or its log refused it as too
    /// old, as logs do from transaction version 2 on.
    pub(super) fn has_come(answer: Option<&ResponseMessage>, late: &BTreeSet<i32>) -> bool {
        let Some(ResponseMessage::WriteTxnMarkers(answer)) = answer else { return false };
        let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
        let of_states = topics.filter(|topic| &*topic.name == SHARE_GROUP_STATE);
        let mut partitions = of_states.flat_map(|topic| &topic.partitions);
        let judged = [ErrorCode::None.code(), ErrorCode::InvalidProducerEpoch.code()];
        partitions.any(|it| judged.contains(&it.error_code) && late.contains(&it.partition_index))
    }

    /// Counts a stage that was refused since a lock had ended on the way.
    pub(super) fn note_lapsed_stage(
        &mut self,
        request: &TxnShareAcknowledgeRequest,
        key: &SharePartitionKey,
        error: i16,
        offsets: impl Iterator<Item = i64>,
    ) {
        if error != ErrorCode::InvalidRecordState.code() {
            return;
        }
        let mut actors = self.actors.iter();
        let Some(actor) = actors.find(|actor| *actor.member.name == *request.member_id) else { return };
        let mut spots = offsets.map(|offset| (key.topic_id, key.partition, offset));
        let has_ended = |until| until <= self.cluster.now;
        if spots.any(|spot| actor.member.held.get(&spot).is_some_and(|(until, _)| has_ended(*until))) {
            self.coverage.note(Event::ExpiryRacesStage);
        }
    }

    /// Crashes the process, if its disk knows what is durable, and counts the transactions of which it lost a part.
    pub(super) fn crash(&mut self) {
        if !self.cluster.disk.is_lazy() {
            return;
        }
        let before = self.watch.transactions();
        let kept = self.random.below(self.cluster.disk.lag() + 1);
        let Some(left) = self.cluster.crash(kept) else { return };
        self.faults.clear();
        self.watch.begin_anew(&self.cluster.broker, &left, &mut self.coverage);
        let after = self.watch.transactions();
        if after.iter().any(|(producer, now)| before.get(producer).is_some_and(|then| then != now)) {
            self.coverage.note(Event::CrashBetweenFlushes);
        }
    }
}
