//! Members fetch and acknowledge.

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::share_fetch_response::ShareFetchResponse;
use sharemark_protocol::{ErrorCode, NodeId, Timestamp};

use super::super::clients::Link;
use super::super::oracle::{Fate, Seen, TxnState};
use super::super::requests::{self, Acknowledged, Place};
use super::{DELIVERY_COUNT_LIMIT, Run};

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// What a request acknowledges: by partition on the wire, and record by record.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    pub(super) places: Vec<(Place, Vec<Acknowledged>)>,
    pub(super) records: Vec<(Seen, i8)>,
}

impl Run {
    /// Returns a member and a node that leads something it consumes.
    pub(super) fn any_member_and_node(&mut self) -> (usize, NodeId) {
        let member = self.random.below(self.members.len());
        (member, self.random.pick(&self.inputs).leader)
    }

    /// Makes sure that a member is connected to a node; returns its session's next epoch, or `None` while a fetch
    /// is out.
    fn link(&mut self, member: usize, node: NodeId) -> Option<i32> {
        if !self.members[member].links.contains_key(&node) {
            let connection = self.world.open(node);
            self.members[member].links.insert(node, Link { connection, session_epoch: 0, fetching: None });
        }
        let link = &self.members[member].links[&node];
        link.fetching.is_none().then_some(link.session_epoch)
    }

    /// Chooses some of what a member holds at a node, in runs, with types out of `types`.
    pub(super) fn choose(&mut self, member: usize, node: Option<NodeId>, types: &[i8]) -> Chosen {
        let held = self.oracle.held_by(self.world.now, member);
        let mut chosen = Chosen::default();
        for place in
            self.inputs.clone().into_iter().filter(|place| node.is_none_or(|node| place.leader == node))
        {
            let here = |seen: &&Seen| seen.topic_id == place.topic_id && seen.partition == place.partition;
            let mut left: Vec<Seen> = held.iter().filter(here).copied().collect();
            left.retain(|_| !self.random.one_in(5));
            let mut runs: Vec<Acknowledged> = Vec::new();
            let mut rest = &left[..];
            while let Some((first, _)) = rest.split_first() {
                let longest =
                    rest.windows(2).take_while(|pair| pair[0].offset + 1 == pair[1].offset).count() + 1;
                let length = 1 + self.random.below(longest);
                let mut each = vec![*self.random.pick(types); length];
                if self.random.one_in(4) {
                    for kind in &mut each {
                        *kind = *self.random.pick(types);
                    }
                }
                chosen.records.extend(rest[..length].iter().copied().zip(each.iter().copied()));
                let is_uniform = each.iter().all(|kind| *kind == each[0]);
                if is_uniform && self.random.one_in(2) {
                    each.truncate(1);
                }
                runs.push((first.offset, rest[length - 1].offset, each));
                rest = &rest[length..];
                if self.random.one_in(3) {
                    break;
                }
            }
            if !runs.is_empty() {
                chosen.places.push((place, runs));
            }
        }
        chosen
    }

    /// Notes acknowledgements that cannot be refused: each is of a record whose lock lasts.
    fn apply(&mut self, member: usize, records: &[(Seen, i8)]) {
        for &(seen, kind) in records {
            let fate = match kind {
                ACCEPT => Fate::Accepted,
                RELEASE => Fate::Free,
                REJECT => Fate::Rejected,
                _ => Fate::Held { member, until: self.world.now.plus_ms(self.lock_ms[seen.group]) },
            };
            self.oracle.set(seen, fate);
        }
    }

    pub(super) fn fetch(&mut self) {
        let (member, node) = self.any_member_and_node();
        let wait = if self.random.one_in(2) { 0 } else { 300 };
        let most = if self.random.one_in(6) { 60 } else { 12 };
        let count = i32::try_from(self.random.between(1, most)).unwrap_or(1);
        let mode = i8::from(self.random.one_in(3));
        self.fetch_from(member, node, wait, (count, mode));
    }

    pub(in super::super) fn fetch_from(&mut self, member: usize, node: NodeId, wait: i32, limits: (i32, i8)) {
        let Some(epoch) = self.link(member, node) else { return };
        let chosen = if epoch != 0 && self.random.one_in(3) {
            self.choose(member, Some(node), &[ACCEPT, ACCEPT, RELEASE, REJECT])
        } else {
            Chosen::default()
        };
        let mut places: Vec<(Place, Vec<Acknowledged>)> = Vec::new();
        for place in self.inputs.iter().filter(|place| place.leader == node) {
            let acknowledged = chosen.places.iter().find(|(other, _)| other == place);
            places.push((*place, acknowledged.map(|(_, runs)| runs.clone()).unwrap_or_default()));
        }
        self.apply(member, &chosen.records);
        let (group, name) = (self.members[member].group, self.members[member].name.clone());
        let request = requests::share_fetch((group, &name, epoch), &places, wait, limits);
        let Some(link) = self.members[member].links.get_mut(&node) else { return };
        link.session_epoch = epoch + 1;
        link.fetching = Some(chosen.places.iter().map(|(place, _)| *place).collect());
        let connection = link.connection;
        self.world.send(connection, 2, request);
    }

    /// Takes in the answers to fetches, in the order in which they came.
    pub(in super::super) fn absorb(&mut self) {
        let mut answers = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            for link in member.links.values_mut().filter(|link| link.fetching.is_some()) {
                if let Some(answer) = self.world.take(link.connection) {
                    answers.push((answer, index, link.fetching.take().unwrap_or_default()));
                }
            }
        }
        answers.sort_by_key(|(answer, _, _)| answer.number);
        for (answer, member, acknowledged) in answers {
            let ResponseMessage::ShareFetch(message) = answer.message else { panic!("{answer:?}") };
            self.absorb_fetch(member, &acknowledged, answer.at, &message);
        }
    }

    fn absorb_fetch(
        &mut self,
        member: usize,
        acknowledged: &[Place],
        at: Timestamp,
        answer: &ShareFetchResponse,
    ) {
        assert_eq!(answer.error_code, 0, "the session is as its member has it");
        let until = at.plus_ms(i64::from(answer.acquisition_lock_timeout_ms));
        let mut told = Vec::new();
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let is_alive = self.is_alive(topic.topic_id);
                assert!(
                    is_alive || partition.acquired_records.is_empty(),
                    "nothing is left of a deleted topic"
                );
                let is_fine = partition.error_code == 0 && partition.acknowledge_error_code == 0;
                assert!(is_fine || !is_alive || self.may_fail(partition.error_code), "{partition:?}");
                told.push((topic.topic_id, partition.partition_index));
                for acquired in &partition.acquired_records {
                    assert!(acquired.delivery_count <= DELIVERY_COUNT_LIMIT, "{acquired:?}");
                    for offset in acquired.first_offset..=acquired.last_offset {
                        let seen = Seen {
                            group: self.members[member].group,
                            topic_id: topic.topic_id,
                            partition: partition.partition_index,
                            offset,
                        };
                        self.oracle.acquire(at, seen, member, until, acquired.delivery_count);
                    }
                }
            }
        }
        for place in acknowledged.iter().filter(|place| self.is_alive(place.topic_id)) {
            let is_told = told.contains(&(place.topic_id, place.partition));
            assert!(is_told, "what is acknowledged is answered: {place:?}");
        }
    }

    /// Whether a partition may have an error: that of a state which no member's heartbeat has asked for yet.
    fn may_fail(&self, error: i16) -> bool {
        error == ErrorCode::UnknownServerError.code()
    }

    pub(super) fn acknowledge(&mut self) {
        self.acknowledge_some(false, &[ACCEPT, ACCEPT, RELEASE, REJECT]);
    }

    pub(super) fn renew(&mut self) {
        self.acknowledge_some(true, &[RENEW, RENEW, ACCEPT]);
    }

    fn acknowledge_some(&mut self, renews: bool, types: &[i8]) {
        let (member, node) = self.any_member_and_node();
        let Some(epoch) = self.link(member, node).filter(|epoch| *epoch != 0) else { return };
        let chosen = self.choose(member, Some(node), types);
        self.apply(member, &chosen.records);
        let errors = self.send_acknowledgements(member, node, epoch, renews, &chosen.places);
        assert!(errors.iter().all(|error| *error == 0), "{errors:?} {chosen:?}");
    }

    fn send_acknowledgements(
        &mut self,
        member: usize,
        node: NodeId,
        epoch: i32,
        renews: bool,
        places: &[(Place, Vec<Acknowledged>)],
    ) -> Vec<i16> {
        let (group, name) = (self.members[member].group, self.members[member].name.clone());
        let request = requests::share_acknowledge((group, &name, epoch), renews, places);
        let Some(link) = self.members[member].links.get_mut(&node) else { return Vec::new() };
        link.session_epoch = if epoch == -1 { 0 } else { epoch + 1 };
        let connection = link.connection;
        let answer = self.world.call(connection, 2, request);
        let ResponseMessage::ShareAcknowledge(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.error_code, 0);
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    }

    /// Returns whether a record is still to be done with, and not by this member now. What is done with may lie below
    /// the start offset, where an acknowledgement changes nothing and is not refused.
    pub(super) fn is_not_held(&self, seen: &Seen, member: usize) -> bool {
        // Where a marker or an aborted record lies the start offset may have gone on.
        match self.oracle.produced.get(&(seen.topic_id, seen.partition, seen.offset)) {
            Some(Some(txn)) if self.oracle.txns[*txn].state == TxnState::Committed => {}
            Some(None) => {}
            Some(Some(_)) | None => return false,
        }
        let is_given_up = DELIVERY_COUNT_LIMIT <= self.oracle.delivery_count(seen);
        match self.oracle.fate(seen) {
            Fate::Free => !is_given_up,
            Fate::Held { until, .. } if until <= self.world.now => !is_given_up,
            Fate::Held { member: holder, .. } => holder != member,
            Fate::Staged { .. } | Fate::Accepted | Fate::Rejected => false,
        }
    }

    /// Acknowledges what another holds, or nobody.
    pub(super) fn acknowledge_wrongly(&mut self) {
        let (member, node) = self.any_member_and_node();
        let Some(epoch) = self.link(member, node).filter(|epoch| *epoch != 0) else { return };
        let led: Vec<Place> = self.inputs.iter().filter(|place| place.leader == node).copied().collect();
        let place = *self.random.pick(&led);
        let first = self.random.between(0, 40);
        let last = first + self.random.between(0, 3);
        let group = self.members[member].group;
        let is_wrong = (first..=last).any(|offset| {
            let seen = Seen { group, topic_id: place.topic_id, partition: place.partition, offset };
            self.is_not_held(&seen, member)
        });
        if !is_wrong {
            return;
        }
        let errors = self.send_acknowledgements(
            member,
            node,
            epoch,
            false,
            &[(place, vec![(first, last, vec![ACCEPT])])],
        );
        assert!(errors.iter().all(|error| *error != 0), "{place:?} {first}-{last} {errors:?}");
    }

    /// Accepts all that a member holds at a node.
    pub(in super::super) fn accept_all(&mut self, member: usize, node: NodeId) {
        let Some(epoch) = self.link(member, node).filter(|epoch| *epoch != 0) else { return };
        let held = self.oracle.held_by(self.world.now, member);
        let mut places: Vec<(Place, Vec<Acknowledged>)> = Vec::new();
        for place in self.inputs.iter().filter(|place| place.leader == node) {
            let here = |seen: &&Seen| seen.topic_id == place.topic_id && seen.partition == place.partition;
            let runs: Vec<Acknowledged> =
                held.iter().filter(here).map(|seen| (seen.offset, seen.offset, vec![ACCEPT])).collect();
            if !runs.is_empty() {
                places.push((*place, runs));
            }
        }
        let led: Vec<Place> = places.iter().map(|(place, _)| *place).collect();
        let is_here = |seen: &Seen| {
            led.iter().any(|place| place.topic_id == seen.topic_id && place.partition == seen.partition)
        };
        let accepted: Vec<(Seen, i8)> = held.into_iter().filter(is_here).map(|seen| (seen, ACCEPT)).collect();
        self.apply(member, &accepted);
        let errors = self.send_acknowledgements(member, node, epoch, false, &places);
        assert!(errors.iter().all(|error| *error == 0), "{errors:?}");
    }

    /// Ends a session, with acknowledgements or without.
    pub(super) fn close_session(&mut self) {
        let (member, node) = self.any_member_and_node();
        if self.link(member, node).is_none_or(|epoch| epoch == 0) {
            return;
        }
        let chosen = self.choose(member, Some(node), &[ACCEPT, RELEASE]);
        self.apply(member, &chosen.records);
        self.release_at(member, node);
        let errors = self.send_acknowledgements(member, node, -1, false, &chosen.places);
        assert!(errors.iter().all(|error| *error == 0), "{errors:?} {chosen:?}");
    }
}
