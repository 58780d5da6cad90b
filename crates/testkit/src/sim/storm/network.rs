//! The network between actors and nodes: slow, lossy, and now and then it delivers twice.

use std::collections::BTreeMap;

use sharemark_protocol::Timestamp;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};

use super::super::random::Random;
use super::cluster::Connection;

/// Connections of repeated requests, whose answers nobody awaits.
const FIRST_GHOST: u64 = 1 << 50;

/// Something under way.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// A request to its node.
    Request { connection: Connection, version: i16, message: Box<RequestMessage> },
    /// An answer to its actor.
    Answer { connection: Connection, message: Box<ResponseMessage> },
    /// A node learns that a connection is gone.
    Hangup { connection: Connection },
    /// An actor learns that a connection is gone.
    Cut { connection: Connection },
}

/// How bad the network is: one packet in so many is lost, repeated, or very late; 0 is never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) loses_one_in: usize,
    pub(super) repeats_one_in: usize,
    pub(super) is_late_one_in: usize,
}

/// Packets under way, by time of arrival.
pub(super) struct Network {
    under_way: BTreeMap<(Timestamp, u64), Packet>,
    weather: Weather,
    sent: u64,
}

impl Network {
    pub(super) const fn new(weather: Weather) -> Self {
        Self { under_way: BTreeMap::new(), weather, sent: 0 }
    }

    /// Ends all bad weather.
    pub(super) fn clear_up(&mut self) {
        self.weather = Weather { loses_one_in: 0, repeats_one_in: 0, is_late_one_in: 0 };
    }

    pub(super) fn send(&mut self, random: &mut Random, now: Timestamp, packet: Packet) {
        let happens = |random: &mut Random, one_in: usize| one_in != 0 && random.one_in(one_in);
        if let Packet::Request { connection, version, message } = &packet
            && happens(random, self.weather.repeats_one_in)
        {
            let ghost = Connection { node: connection.node, id: FIRST_GHOST + self.sent };
            let again = Packet::Request { connection: ghost, version: *version, message: message.clone() };
            let delay_ms = random.between(0, 1_500);
            self.put(now.plus_ms(delay_ms), again);
        }
        // Whoever hangs up has the system tell it until it is heard.
        let may_be_lost = matches!(packet, Packet::Request { .. } | Packet::Answer { .. });
        if may_be_lost && happens(random, self.weather.loses_one_in) {
            return;
        }
        let delay_ms = match happens(random, self.weather.is_late_one_in) {
            true => random.between(20, 1_200),
            false => random.between(0, 3),
        };
        self.put(now.plus_ms(delay_ms), packet);
    }

    fn put(&mut self, at: Timestamp, packet: Packet) {
        self.sent += 1;
        self.under_way.insert((at, self.sent), packet);
    }

    /// Returns when the next packet arrives.
    pub(super) fn next_arrival(&self) -> Option<Timestamp> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        self.under_way.pop_first().map(|(_, packet)| packet)
    }
}
