//! What actors ask for, one request at a time.

use std::collections::BTreeSet;

use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{NodeId, Producer};

use super::super::requests::{self, Acknowledged, Place};
use super::actors::{Call, Kind, OpenTxn, Session, Spot, Waiting};
use super::cluster::Connection;
use super::ledger::Output;
use super::network::Packet;
use super::{INPUT, LOCK_MS, OUTPUT, Storm, TXN_TIMEOUT_MS};

pub(super) const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const HEARTBEAT_MS: i64 = 10_000;
/// How soon a member asks again while the states of its group are initialised.
const INITIALISING_HEARTBEAT_MS: i64 = 20;
const INPUT_PARTITIONS: usize = 2;
/// How many records one transaction is about at most.
const RECORDS_PER_TXN: usize = 4;

impl Storm {
    /// Lets an actor that waits for nothing do the next thing.
    pub(super) fn act(&mut self, index: usize) {
        if self.actors[index].waiting.is_some() || !self.sees(index) {
            return;
        }
        let kind = self.actors[index].kind;
        if kind == Kind::Producer {
            self.produce(index);
            return;
        }
        let member = &self.actors[index].member;
        let is_leaving = self.resetting == Some(member.group);
        let initialising = self.assigned.get(member.group).map_or(0, BTreeSet::len) < INPUT_PARTITIONS;
        let wait_ms = if initialising { INITIALISING_HEARTBEAT_MS } else { HEARTBEAT_MS };
        let is_due = member.epoch == 0 || member.heard_at.plus_ms(wait_ms) <= self.cluster.now;
        if is_leaving || is_due {
            if member.epoch != 0 || !is_leaving {
                self.heartbeat(index, is_leaving);
            } else if kind == Kind::Processor && self.random.one_in(8) {
                self.go_on_with_txn(index); // Its transaction outlives its membership.
            }
            return;
        }
        if self.random.one_in(40) {
            self.hang_up(index);
            return;
        }
        match kind {
            Kind::Producer => {}
            Kind::Consumer if self.random.one_in(2) => self.fetch(index),
            Kind::Consumer => self.acknowledge(index, &[ACCEPT, ACCEPT, RELEASE, REJECT]),
            Kind::Sink if self.actors[index].member.held.is_empty() => self.fetch(index),
            Kind::Sink => self.put(index),
            Kind::Processor => self.go_on_with_txn(index),
        }
    }

    /// Makes sure that an actor knows the partitions and their leaders, as they are now.
    fn sees(&mut self, index: usize) -> bool {
        if !self.actors[index].view.is_empty() {
            return true;
        }
        let Some(ResponseMessage::Metadata(answer)) = self.cluster.ask(12, requests::metadata()) else {
            return false;
        };
        let mut view = Vec::new();
        for topic in &answer.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            let Some(name) = [INPUT, OUTPUT].into_iter().find(|known| *known == name) else { continue };
            view.extend(topic.partitions.iter().map(|partition| Place {
                topic: name,
                topic_id: topic.topic_id,
                partition: partition.partition_index,
                leader: NodeId::new(partition.leader_id),
            }));
        }
        self.actors[index].view = view;
        true
    }

    fn inputs_of(&self, index: usize) -> Vec<Place> {
        self.actors[index].view.iter().filter(|place| place.topic == INPUT).copied().collect()
    }

    /// Returns the inputs that a member may know to be initialised, since one of its group was assigned them. Whoever
    /// uses a state before has it initialised once more under its hands, as in Kafka.
    fn initialised_inputs_of(&self, index: usize) -> Vec<Place> {
        let assigned = self.assigned.get(self.actors[index].member.group);
        let is_assigned =
            |place: &Place| assigned.is_some_and(|them| them.contains(&(place.topic_id, place.partition)));
        self.inputs_of(index).into_iter().filter(is_assigned).collect()
    }

    fn open(&mut self, node: NodeId) -> Connection {
        self.next_connection += 1;
        Connection { node, id: self.next_connection }
    }

    fn connect(&mut self, index: usize, node: NodeId) -> Connection {
        if let Some(connection) = self.actors[index].connections.get(&node) {
            return *connection;
        }
        let connection = self.open(node);
        self.actors[index].connections.insert(node, connection);
        connection
    }

    fn send(
        &mut self,
        index: usize,
        connection: Connection,
        version: i16,
        message: RequestMessage,
        call: Call,
    ) {
        let until = self.cluster.now.plus_ms(self.random.between(1_500, 2_500));
        self.actors[index].waiting = Some(Waiting { connection, call, until });
        let packet = Packet::Request { connection, version, message: Box::new(message) };
        self.network.send(&mut self.random, self.cluster.now, packet);
    }

    fn coordinator(&mut self, key_type: i8, key: &str) -> Option<NodeId> {
        let answer = self.cluster.ask(4, requests::find_coordinator(key_type, key))?;
        let ResponseMessage::FindCoordinator(answer) = answer else { return None };
        let coordinator = answer.coordinators.first().filter(|found| found.error_code == 0)?;
        Some(NodeId::new(coordinator.node_id))
    }

    pub(super) fn coordinator_of_group(&mut self, group: &str) -> Option<NodeId> {
        self.coordinator(0, group)
    }

    fn group_coordinator(&mut self, index: usize) -> Option<NodeId> {
        if self.actors[index].member.coordinator.is_none() {
            let found = self.coordinator(0, self.actors[index].member.group);
            self.actors[index].member.coordinator = found;
        }
        self.actors[index].member.coordinator
    }

    fn txn_coordinator(&mut self, index: usize) -> Option<NodeId> {
        if self.actors[index].writer.coordinator.is_none() {
            let found = self.coordinator(1, self.actors[index].writer.transactional_id);
            self.actors[index].writer.coordinator = found;
        }
        self.actors[index].writer.coordinator
    }

    pub(super) fn heartbeat(&mut self, index: usize, leaves: bool) {
        let Some(node) = self.group_coordinator(index) else { return };
        let member = &self.actors[index].member;
        let epoch = if leaves { -1 } else { member.epoch };
        let topics = (epoch == 0).then_some(&[INPUT][..]);
        let request = requests::heartbeat(member.group, &member.name, epoch, topics);
        let connection = self.connect(index, node);
        self.send(index, connection, 1, request, Call::Heartbeat { leaves });
    }

    /// Drops the connection of a session.
    fn hang_up(&mut self, index: usize) {
        let sessions: Vec<Session> = self.actors[index].member.sessions.values().copied().collect();
        if sessions.is_empty() {
            return;
        }
        let connection = self.random.pick(&sessions).connection;
        self.lose(index, connection);
    }

    fn session(&mut self, index: usize, node: NodeId) -> Session {
        if let Some(session) = self.actors[index].member.sessions.get(&node) {
            return *session;
        }
        let session = Session { connection: self.open(node), epoch: 0 };
        self.session_owners.insert(session.connection, index);
        self.actors[index].member.sessions.insert(node, session);
        session
    }

    pub(super) fn fetch(&mut self, index: usize) {
        let inputs = self.initialised_inputs_of(index);
        if !inputs.is_empty() {
            let node = self.random.pick(&inputs).leader;
            self.fetch_at(index, node);
        }
    }

    pub(super) fn fetch_at(&mut self, index: usize, node: NodeId) {
        if !self.sees(index) {
            return;
        }
        let inputs = self.initialised_inputs_of(index);
        let session = self.session(index, node);
        let acknowledged = match session.epoch != 0 && self.random.one_in(3) {
            true if self.actors[index].kind == Kind::Consumer => self.choose(index, node, &[ACCEPT, RELEASE]),
            _ => Vec::new(),
        };
        let mut places = self.by_place(index, &acknowledged);
        for place in inputs.into_iter().filter(|place| place.leader == node) {
            if !places.iter().any(|(known, _)| *known == place) {
                places.push((place, Vec::new()));
            }
        }
        let spots: Vec<Spot> = acknowledged.iter().map(|(spot, _)| *spot).collect();
        self.note_said(index, &acknowledged);
        let wait_ms = *self.random.pick(&[0, 0, 300, 1_000]);
        let most = i32::try_from(self.random.between(1, 8)).unwrap_or(1);
        let mode = i8::from(self.random.one_in(2));
        let member = &self.actors[index].member;
        let request = requests::share_fetch(
            (member.group, &member.name, session.epoch),
            &places,
            wait_ms,
            (most, mode),
        );
        self.send(index, session.connection, 2, request, Call::Fetch { acknowledged: spots });
    }

    /// Chooses some of what an actor holds at a node, each with a type out of `types`.
    fn choose(&mut self, index: usize, node: NodeId, types: &[i8]) -> Vec<(Spot, i8)> {
        let mut chosen = Vec::new();
        for spot in self.actors[index].held_at(node, self.cluster.now) {
            if !self.random.one_in(4) {
                chosen.push((spot, *self.random.pick(types)));
            }
        }
        chosen
    }

    fn by_place(&self, index: usize, chosen: &[(Spot, i8)]) -> Vec<(Place, Vec<Acknowledged>)> {
        let mut places: Vec<(Place, Vec<Acknowledged>)> = Vec::new();
        for (spot, kind) in chosen {
            let Some(place) = self.actors[index].place_of(*spot) else { continue };
            let acknowledged = (spot.2, spot.2, vec![*kind]);
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, of_place)) => of_place.push(acknowledged),
                None => places.push((place, vec![acknowledged])),
            }
        }
        places
    }

    /// Notes what an actor says of records, whether it is heard or not.
    fn note_said(&mut self, index: usize, chosen: &[(Spot, i8)]) {
        let group = self.actors[index].member.group;
        for (spot, kind) in chosen {
            if *kind == ACCEPT {
                self.ledger.accepted.insert((group, *spot));
            }
        }
    }

    /// Acknowledges some of what is held at a node; now and then that ends the session.
    fn acknowledge(&mut self, index: usize, types: &[i8]) {
        let sessions: Vec<NodeId> = self.actors[index].member.sessions.keys().copied().collect();
        if sessions.is_empty() {
            return;
        }
        let node = *self.random.pick(&sessions);
        let chosen = self.choose(index, node, types);
        let closes = self.random.one_in(12);
        self.send_acknowledgements(index, node, &chosen, closes);
    }

    pub(super) fn send_acknowledgements(
        &mut self,
        index: usize,
        node: NodeId,
        chosen: &[(Spot, i8)],
        closes: bool,
    ) {
        let session = self.session(index, node);
        if session.epoch == 0 || (chosen.is_empty() && !closes) {
            return;
        }
        self.note_said(index, chosen);
        let places = self.by_place(index, chosen);
        let member = &self.actors[index].member;
        let epoch = if closes { -1 } else { session.epoch };
        let request = requests::share_acknowledge((member.group, &member.name, epoch), false, &places);
        let spots = chosen.iter().map(|(spot, _)| *spot).collect();
        self.send(index, session.connection, 2, request, Call::Acknowledge { spots, closes });
    }

    /// Puts what a sink task holds, and says so. Accepted is only what was put.
    fn put(&mut self, index: usize) {
        let Some(spot) = self.actors[index].member.held.keys().next().copied() else { return };
        let Some(node) = self.actors[index].place_of(spot).map(|place| place.leader) else { return };
        let held = self.actors[index].held_at(node, self.cluster.now);
        let kind = match self.random.below(8) {
            0 => RELEASE, // An error that may pass.
            1 => REJECT,
            _ => ACCEPT,
        };
        if kind == ACCEPT {
            self.ledger.put.extend(held.iter().copied());
        }
        let chosen: Vec<(Spot, i8)> = held.into_iter().map(|spot| (spot, kind)).collect();
        self.send_acknowledgements(index, node, &chosen, false);
        if self.actors[index].waiting.is_none() {
            self.actors[index].member.held.clear(); // Its lock or its session is gone.
        }
    }

    fn produce(&mut self, index: usize) {
        let inputs = self.inputs_of(index);
        if inputs.is_empty() {
            return;
        }
        let place = *self.random.pick(&inputs);
        let count = self.random.between(1, 4);
        let values: Vec<String> =
            (0..count).map(|number| format!("in-{}-{number}", self.next_connection)).collect();
        let request = requests::produce(place, &values, self.cluster.now.ms(), None);
        let connection = self.connect(index, place.leader);
        self.send(index, connection, 13, request, Call::Produce { in_txn: false });
    }

    /// Does what comes next in a processor's loop.
    fn go_on_with_txn(&mut self, index: usize) {
        let Some(producer) = self.actors[index].writer.producer else {
            self.init(index);
            return;
        };
        let Some(txn) = &self.actors[index].writer.txn else {
            self.begin_txn(index);
            return;
        };
        let (is_broken, is_produced, is_staged) = (txn.is_broken, txn.is_produced, txn.is_staged);
        if let Some(committed) = txn.asked_end {
            self.end(index, producer, committed);
        } else if is_broken {
            self.end(index, producer, false);
        } else if !is_produced && (is_staged || self.random.one_in(2)) {
            self.produce_outputs(index, producer);
        } else if !is_staged {
            self.stage(index, producer);
        } else if self.random.one_in(3) {
            // Otherwise it dawdles, maybe until its transaction times out.
            let committed = !self.random.one_in(3);
            self.end(index, producer, committed);
        }
    }

    fn init(&mut self, index: usize) {
        let Some(node) = self.txn_coordinator(index) else { return };
        let id = self.actors[index].writer.transactional_id;
        let connection = self.connect(index, node);
        self.send(index, connection, 5, requests::init_producer(id, TXN_TIMEOUT_MS), Call::Init);
    }

    /// Begins a transaction about some of what is held at one node, or fetches if that is nothing.
    fn begin_txn(&mut self, index: usize) {
        let now = self.cluster.now;
        self.actors[index].member.held.retain(|_, (until, _)| now < until.plus_ms(LOCK_MS / 4));
        let held: Vec<Spot> = self.actors[index].member.held.keys().copied().collect();
        if held.is_empty() || self.random.one_in(6) {
            self.fetch(index);
            return;
        }
        let Some(leader) = self.actors[index].place_of(*self.random.pick(&held)).map(|place| place.leader)
        else {
            return;
        };
        // A lock may have ended: then the stage is refused.
        let actor = &self.actors[index];
        let is_here = |spot: &Spot| actor.place_of(*spot).is_some_and(|place| place.leader == leader);
        let here: Vec<Spot> = held.into_iter().filter(is_here).take(RECORDS_PER_TXN).collect();
        let chosen = here.into_iter().map(|spot| (spot, if self.random.one_in(6) { REJECT } else { ACCEPT }));
        let txn = OpenTxn {
            chosen: chosen.collect(),
            is_produced: self.random.one_in(5), // Acknowledgements alone make a transaction, too.
            is_staged: false,
            is_broken: false,
            asked_end: None,
        };
        self.actors[index].writer.txn = Some(txn);
        self.go_on_with_txn(index);
    }

    fn produce_outputs(&mut self, index: usize, producer: Producer) {
        let outputs: Vec<Place> =
            self.actors[index].view.iter().filter(|place| place.topic == OUTPUT).copied().collect();
        if outputs.is_empty() {
            return;
        }
        let place = *self.random.pick(&outputs);
        let Some(txn) = &self.actors[index].writer.txn else { return };
        let group = self.actors[index].member.group;
        let accepted = txn.chosen.iter().filter(|(_, kind)| *kind == ACCEPT).map(|(spot, _)| *spot);
        let mut values = Vec::new();
        for source in accepted.collect::<Vec<Spot>>() {
            let value = format!("out-{}", self.ledger.outputs.len());
            let output = Output { producer, group, source, is_acknowledged: false };
            self.ledger.outputs.insert(value.clone(), output);
            values.push(value);
        }
        if values.is_empty() {
            if let Some(txn) = &mut self.actors[index].writer.txn {
                txn.is_produced = true;
            }
            return;
        }
        let writer = &mut self.actors[index].writer;
        let sequence = writer.sequences.entry((place.topic_id, place.partition)).or_default();
        let transactional = Some((writer.transactional_id, producer, *sequence));
        let request = requests::produce(place, &values, self.cluster.now.ms(), transactional);
        *sequence += i32::try_from(values.len()).unwrap_or(0);
        let connection = self.connect(index, place.leader);
        self.send(index, connection, 13, request, Call::Produce { in_txn: true });
    }

    fn stage(&mut self, index: usize, producer: Producer) {
        let Some(txn) = &self.actors[index].writer.txn else { return };
        let chosen = txn.chosen.clone();
        let places = self.by_place(index, &chosen);
        let Some(node) = places.first().map(|(place, _)| place.leader) else { return };
        self.note_said(index, &chosen);
        let actor = &self.actors[index];
        let member = (actor.member.group, actor.member.name.as_str(), actor.member.epoch);
        let request = requests::stage((actor.writer.transactional_id, producer), member, &places);
        let connection = self.connect(index, node);
        self.send(index, connection, 0, request, Call::Stage);
    }

    pub(super) fn end(&mut self, index: usize, producer: Producer, committed: bool) {
        let Some(node) = self.txn_coordinator(index) else { return };
        let writer = &mut self.actors[index].writer;
        let id = writer.transactional_id;
        let asked = writer.txn.as_mut().map(|txn| *txn.asked_end.get_or_insert(committed));
        let request = requests::end_txn(id, producer, asked.unwrap_or(committed));
        let connection = self.connect(index, node);
        self.send(index, connection, 5, request, Call::End);
    }
}
