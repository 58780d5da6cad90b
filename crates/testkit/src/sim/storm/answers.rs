//! What actors make of answers, and of those that never come.

use sharemark_protocol::Producer;
use sharemark_protocol::messages::{self as m, ResponseMessage};

use super::Storm;
use super::actors::{Call, Kind};
use super::cluster::Connection;
use super::network::Packet;

impl Storm {
    /// Hands an answer to the actor that waits for it, if one does.
    pub(super) fn hear(&mut self, connection: Connection, answer: ResponseMessage) {
        let is_awaited = |actor: &super::actors::Actor| {
            actor.waiting.as_ref().is_some_and(|waiting| waiting.connection == connection)
        };
        let Some(index) = self.actors.iter().position(is_awaited) else { return };
        let Some(waiting) = self.actors[index].waiting.take() else { return };
        let call = waiting.call;
        #[expect(clippy::wildcard_enum_match_arm, reason = "an answer of another kind is told by its call")]
        match answer {
            ResponseMessage::ShareGroupHeartbeat(answer) => self.hear_heartbeat(index, &call, &answer),
            ResponseMessage::ShareFetch(answer) => self.hear_fetch(index, connection, &call, &answer),
            ResponseMessage::ShareAcknowledge(answer) => {
                self.hear_acknowledged(index, connection, &call, &answer);
            }
            ResponseMessage::Produce(answer) => self.hear_produced(index, &call, &answer),
            ResponseMessage::InitProducerId(answer) => {
                let producer = Producer::from_wire(answer.producer_id, answer.producer_epoch);
                self.hear_init(index, answer.error_code, producer);
            }
            ResponseMessage::TxnShareAcknowledge(answer) => self.hear_staged(index, &answer),
            ResponseMessage::EndTxn(answer) => {
                let producer = Producer::from_wire(answer.producer_id, answer.producer_epoch);
                self.hear_ended(index, answer.error_code, producer);
            }
            other => panic!("an answer is of its request's kind: {call:?} {other:?}"),
        }
    }

    /// Gives up a connection, and what was asked on it.
    pub(super) fn lose(&mut self, index: usize, connection: Connection) {
        self.network.send(&mut self.random, self.cluster.now, Packet::Hangup { connection });
        let actor = &mut self.actors[index];
        actor.view.clear();
        if actor.forget(connection) && actor.kind != Kind::Processor {
            actor.member.held.clear(); // What it held at other nodes is delivered again when its lock ends.
        }
        let Some(waiting) = actor.waiting.take_if(|waiting| waiting.connection == connection) else { return };
        self.give_up(index, &waiting.call);
    }

    fn give_up(&mut self, index: usize, call: &Call) {
        let ends_anew = self.random.one_in(2);
        let actor = &mut self.actors[index];
        match call {
            Call::Heartbeat { leaves } => {
                actor.member.coordinator = None;
                if *leaves {
                    actor.member.epoch = 0;
                }
            }
            Call::Fetch { acknowledged } => {
                actor.let_go(acknowledged);
            }
            Call::Acknowledge { spots, .. } => {
                actor.let_go(spots);
            }
            Call::Produce { in_txn: true } | Call::Stage => {
                if let Some(txn) = &mut actor.writer.txn {
                    txn.is_broken = true;
                }
            }
            Call::Produce { in_txn: false } => {}
            Call::Init => actor.writer.coordinator = None,
            Call::End => {
                actor.writer.coordinator = None;
                // It may have ended either way: its producer asks again, or another takes its place.
                if ends_anew {
                    actor.end_txn();
                    actor.become_producer(None);
                }
            }
        }
    }

    fn hear_heartbeat(
        &mut self,
        index: usize,
        call: &Call,
        answer: &m::share_group_heartbeat_response::ShareGroupHeartbeatResponse,
    ) {
        let now = self.cluster.now;
        let member = &mut self.actors[index].member;
        let leaves = matches!(call, Call::Heartbeat { leaves: true });
        match (answer.error_code, leaves) {
            (0, true) => member.epoch = 0,
            (0, false) => {
                member.epoch = answer.member_epoch;
                member.heard_at = now;
                let topics = answer.assignment.iter().flat_map(|it| &it.topic_partitions);
                let partitions =
                    topics.flat_map(|it| it.partitions.iter().map(|partition| (it.topic_id, *partition)));
                self.assigned.entry(member.group).or_default().extend(partitions);
                let epoch = self.group_epochs.entry(member.group).or_default();
                *epoch = answer.member_epoch.max(*epoch);
            }
            (_, _) => {
                member.epoch = 0;
                member.coordinator = None;
            }
        }
    }

    fn hear_fetch(
        &mut self,
        index: usize,
        connection: Connection,
        call: &Call,
        answer: &m::share_fetch_response::ShareFetchResponse,
    ) {
        let now = self.cluster.now;
        if answer.error_code != 0 {
            self.give_up(index, call);
            self.lose(index, connection);
            return;
        }
        self.go_on_with_session(index, connection);
        let actor = &mut self.actors[index];
        if let Call::Fetch { acknowledged } = call {
            actor.let_go(acknowledged);
        }
        let until = now.plus_ms(i64::from(answer.acquisition_lock_timeout_ms));
        for topic in &answer.responses {
            for partition in &topic.partitions {
                if partition.error_code != 0 {
                    actor.view.clear();
                }
                for acquired in &partition.acquired_records {
                    for offset in acquired.first_offset..=acquired.last_offset {
                        let spot = (topic.topic_id, partition.partition_index, offset);
                        actor.member.held.insert(spot, (until, acquired.delivery_count));
                    }
                }
            }
        }
    }

    fn go_on_with_session(&mut self, index: usize, connection: Connection) {
        if let Some(session) = self.actors[index].member.sessions.get_mut(&connection.node) {
            session.epoch += 1;
        }
    }

    fn hear_acknowledged(
        &mut self,
        index: usize,
        connection: Connection,
        call: &Call,
        answer: &m::share_acknowledge_response::ShareAcknowledgeResponse,
    ) {
        self.give_up(index, call); // Acknowledged or refused: it is not held any more.
        let is_closed = matches!(call, Call::Acknowledge { closes: true, .. });
        if answer.error_code != 0 || is_closed {
            self.lose(index, connection);
            return;
        }
        self.go_on_with_session(index, connection);
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        if partitions.any(|partition| partition.error_code != 0) {
            self.actors[index].view.clear();
        }
    }

    fn hear_produced(&mut self, index: usize, call: &Call, answer: &m::produce_response::ProduceResponse) {
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
        let is_fine = partitions.all(|partition| partition.error_code == 0);
        let actor = &mut self.actors[index];
        if !is_fine {
            actor.view.clear();
        }
        if matches!(call, Call::Produce { in_txn: true })
            && let (Some(txn), Some(producer)) = (&mut actor.writer.txn, actor.writer.producer)
        {
            txn.is_produced |= is_fine;
            txn.is_broken |= !is_fine;
            if is_fine {
                let outputs = self.ledger.outputs.values_mut();
                outputs.filter(|it| it.producer == producer).for_each(|it| it.is_acknowledged = true);
            }
        }
    }

    fn hear_init(&mut self, index: usize, error: i16, producer: Option<Producer>) {
        let actor = &mut self.actors[index];
        actor.end_txn();
        if error == 0 {
            actor.become_producer(producer);
        } else {
            actor.writer.coordinator = None;
        }
    }

    fn hear_staged(
        &mut self,
        index: usize,
        answer: &m::txn_share_acknowledge_response::TxnShareAcknowledgeResponse,
    ) {
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let is_fine = answer.error_code == 0 && partitions.all(|partition| partition.error_code == 0);
        let actor = &mut self.actors[index];
        if !is_fine {
            actor.view.clear();
        }
        if let Some(txn) = &mut actor.writer.txn {
            txn.is_staged |= is_fine;
            txn.is_broken |= !is_fine;
        }
    }

    fn hear_ended(&mut self, index: usize, error: i16, next: Option<Producer>) {
        let actor = &mut self.actors[index];
        let may_pass = [
            sharemark_protocol::ErrorCode::NotCoordinator,
            sharemark_protocol::ErrorCode::CoordinatorNotAvailable,
            sharemark_protocol::ErrorCode::CoordinatorLoadInProgress,
            sharemark_protocol::ErrorCode::ConcurrentTransactions,
        ];
        if may_pass.iter().any(|may| may.code() == error) {
            actor.writer.coordinator = None;
            return; // It asks again.
        }
        actor.end_txn();
        actor.become_producer(next.filter(|_| error == 0));
    }
}
