//! What clients do, one step after the other.

mod groups;
mod records;
mod topics;
mod transactions;

use std::collections::BTreeMap;

use sharemark::config::BrokerConfig;
use sharemark_protocol::NodeId;
use sharemark_protocol::messages::ResponseMessage;

use super::clients::{Member, Writer};
use super::oracle::{Oracle, READ_COMMITTED};
use super::random::Random;
use super::requests::{self, Place};
use super::world::World;

/// How long a lock lasts.
pub(super) const LOCK_MS: i64 = 1_000;
/// How long a transaction may stay open, where records stay and where they are deleted after a while: there a
/// transaction may last longer than its records.
pub(super) const TXN_TIMEOUT_MS: [i32; 2] = [5_000, 90_000];
/// How long a member is known after a heartbeat.
pub(super) const SESSION_TIMEOUT_MS: i64 = 45_000;
/// How often a record is delivered at most.
pub(super) const DELIVERY_COUNT_LIMIT: i16 = 5;
/// The topics that groups consume; the second one comes and goes.
pub(super) const INPUTS: [&str; 2] = ["in", "gone"];
/// The topic that transactions write to.
pub(super) const OUTPUT: &str = "out";

type Step = fn(&mut Run);

/// All steps with how often they are taken, before the seed changes that.
const STEPS: [(Step, usize); 17] = [
    (Run::produce, 12),
    (Run::fetch, 24),
    (Run::acknowledge, 14),
    (Run::renew, 2),
    (Run::acknowledge_wrongly, 2),
    (Run::close_session, 2),
    (Run::heartbeat, 6),
    (Run::leave, 1),
    (Run::stage, 14),
    (Run::produce_in_txn, 8),
    (Run::end_txn, 10),
    (Run::init_producer, 2),
    (Run::repeat_markers, 2),
    (Run::advance, 16),
    (Run::disconnect, 2),
    (Run::replace_topic, 1),
    (Run::configure, 1),
];

/// One run: the world, its clients, and what they know together.
pub(super) struct Run {
    pub(super) random: Random,
    pub(super) world: World,
    pub(super) oracle: Oracle,
    pub(super) members: Vec<Member>,
    pub(super) writers: Vec<Writer>,
    pub(super) inputs: Vec<Place>,
    pub(super) outputs: Vec<Place>,
    weights: Vec<usize>,
    pub(super) value_count: usize,
    /// How long locks of each group last now.
    pub(super) lock_ms: BTreeMap<&'static str, i64>,
    /// Whether old records are deleted.
    loses_records: bool,
}

impl Run {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let brokers = if random.one_in(4) { 3 } else { 1 };
        let state_partitions = if random.one_in(2) { "1" } else { "3" };
        let updates_per_snapshot = (*random.pick(&[0, 3, 500])).to_string();
        let loses_records = random.one_in(2);
        let retention = if loses_records { "segment.ms=2000,retention.ms=30000" } else { "retention.ms=-1" };
        let config = BrokerConfig::builder()
            .listen("127.0.0.1:9092")
            .brokers(brokers)
            .seed(seed)
            .topic(format!("in:2:{retention}"))
            .property("log.retention.check.interval.ms", "20000")
            .topic("gone:1")
            .topic("out:2")
            .property("offsets.topic.num.partitions", state_partitions)
            .property("transaction.state.log.num.partitions", state_partitions)
            .property("share.coordinator.state.topic.num.partitions", state_partitions)
            .property("share.coordinator.snapshot.update.records.per.snapshot", updates_per_snapshot)
            .property("group.share.record.lock.duration.ms", LOCK_MS.to_string())
            .property("group.share.delivery.count.limit", DELIVERY_COUNT_LIMIT.to_string())
            .property("group.share.session.timeout.ms", SESSION_TIMEOUT_MS.to_string())
            .property("group.share.partition.max.record.locks", "100")
            .property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
            .build(&mut Vec::new());
        let config = config.unwrap_or_else(|error| panic!("the settings are right: {error}"));
        let member = |group, name: &str| Member {
            group,
            name: name.to_owned(),
            epoch: 0,
            heard_at: sharemark_protocol::Timestamp::from_ms(0),
            links: BTreeMap::new(),
        };
        // Each seed leaves some steps out and takes others more often.
        let weights = STEPS.iter().map(|(_, weight)| weight * [0, 1, 1, 1, 3][random.below(5)]).collect();
        let mut run = Self {
            world: World::new(config),
            oracle: Oracle::default(),
            members: vec![member("g", "A"), member("g", "B"), member("h", "C")],
            writers: vec![Writer::new("x", false), Writer::new("y", false), Writer::new("z", true)],
            inputs: Vec::new(),
            outputs: Vec::new(),
            weights,
            value_count: 0,
            lock_ms: [("g", LOCK_MS), ("h", LOCK_MS)].into(),
            loses_records,
            random,
        };
        run.look_up_topics();
        for group in ["g", "h"] {
            run.configure_group(group, "share.auto.offset.reset", "earliest");
        }
        run.configure_group(READ_COMMITTED, "share.isolation.level", "read_committed");
        for member in 0..run.members.len() {
            run.heartbeat_of(member);
        }
        run
    }

    /// Takes one step.
    pub(super) fn step(&mut self) {
        let total: usize = self.weights.iter().sum();
        let mut left = self.random.below(total.max(1));
        for ((step, _), weight) in STEPS.iter().zip(self.weights.clone()) {
            if left < weight {
                step(self);
                self.absorb();
                return;
            }
            left -= weight;
        }
    }

    /// Lets time go by: mostly little, now and then past locks, transactions or sessions.
    fn advance(&mut self) {
        let ms = match self.random.below(20) {
            0..=11 => self.random.between(0, 20),
            12..=15 => self.random.between(100, 600),
            16..=18 => self.random.between(900, 1_200),
            _ if self.random.one_in(if self.loses_records { 2 } else { 6 }) => {
                self.random.between(44_000, 50_000)
            }
            _ => self.random.between(4_000, 6_000),
        };
        self.pass(ms);
    }

    pub(super) fn pass(&mut self, ms: i64) {
        self.world.advance(ms);
        self.oracle.pass(self.world.now, i64::from(self.txn_timeout_ms()));
        if self.loses_records {
            self.look_up_log_starts();
        }
    }

    pub(super) fn txn_timeout_ms(&self) -> i32 {
        TXN_TIMEOUT_MS[usize::from(self.loses_records)]
    }

    /// Changes how a group is served.
    fn configure(&mut self) {
        let group = *self.random.pick(&["g", "h"]);
        if self.random.one_in(2) {
            let locks = *self.random.pick(&["100", "2000"]);
            self.configure_group(group, "share.partition.max.record.locks", locks);
            return;
        }
        let lock_ms = *self.random.pick(&[300, LOCK_MS, 2_500]);
        self.configure_group(group, "share.record.lock.duration.ms", &lock_ms.to_string());
        self.lock_ms.insert(group, lock_ms);
    }

    fn configure_group(&mut self, group: &str, name: &str, value: &str) {
        let answer = self.ask(1, requests::group_config(group, name, value));
        let ResponseMessage::IncrementalAlterConfigs(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
    }

    pub(super) fn any_node(&mut self) -> NodeId {
        *self.random.pick(self.world.nodes())
    }

    /// Asks any node.
    pub(super) fn ask(
        &mut self,
        api_version: i16,
        message: sharemark_protocol::messages::RequestMessage,
    ) -> ResponseMessage {
        let node = self.any_node();
        self.world.ask(node, api_version, message)
    }

    pub(super) fn coordinator(&mut self, key_type: i8, key: &str) -> NodeId {
        let answer = self.ask(4, requests::find_coordinator(key_type, key));
        let ResponseMessage::FindCoordinator(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.coordinators[0].error_code, 0);
        NodeId::new(answer.coordinators[0].node_id)
    }
}
