//! A cluster in bad weather: its nodes stop and start, its seams hold, lose and repeat calls, its process crashes, and
//! the network between it and its clients is slow, lossy and repeats requests.
//!
//! ```text
//! actors -> network -> cluster (broker, clock, disk) -> network -> actors
//!                         |            \-> tap: what is answered must be true by then
//!                         \-> watch: reads along in the logs, and judges every record
//! ```
//!
//! An actor never knows for sure; so promises are held against the logs rather than against what actors believe. In the
//! end the weather clears up, and everything has to come to an end: transactions, records, locks.

mod actors;
mod administrator;
mod answers;
mod cluster;
mod coverage;
mod disk;
mod events;
mod finish;
mod ledger;
mod moves;
mod network;
mod runs;
mod strikes;
mod tap;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use sharemark::config::{BrokerConfig, ConfigBuilder};
use sharemark_protocol::{Producer, SharePartitionKey, Timestamp, TopicId};

use self::actors::{Actor, Kind};
use self::cluster::{Cluster, Connection, Outcome};
pub use self::coverage::{Coverage, Event};
use self::disk::Disk;
use self::ledger::Ledger;
use self::network::{Network, Packet, Weather};
pub use self::runs::{Plan, Summary};
use self::watch::{Transaction, Watch};
use super::random::Random;
use super::requests;

/// The topic that groups consume.
const INPUT: &str = "in";
/// The topic that transactions write to.
const OUTPUT: &str = "out";
/// The groups: of everybody, of readers of committed records, of sink tasks alone.
const GROUPS: [&str; 3] = ["g", READ_COMMITTED, SINKS];
const READ_COMMITTED: &str = "h";
const SINKS: &str = "s";
/// The transactional ids of processors.
const TRANSACTIONAL_IDS: [&str; 2] = ["x", "y"];
const LOCK_MS: i64 = 1_000;
const TXN_TIMEOUT_MS: i32 = 5_000;
const SESSION_TIMEOUT_MS: i64 = 45_000;
/// How many steps pass between two looks at whether replay equals live.
const REPLAY_CHECK_INTERVAL: usize = 16;

/// What a run has come to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// A hash over all inputs and outputs of the broker: equal for equal runs.
    pub trace_hash: u64,
    /// What happened.
    pub coverage: Coverage,
}

/// Runs `step_count` random steps from `seed`, and then the end. `configure` changes what the broker is made of.
///
/// # Panics
///
/// If something is wrong. Equal arguments take equal steps.
pub fn run(seed: u64, step_count: usize, configure: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Report {
    let mut storm = Storm::new(seed, configure);
    for step in 0..step_count {
        storm.step();
        storm.cluster.broker.check_invariants();
        if step % REPLAY_CHECK_INTERVAL == 0 {
            storm.check_replay();
        }
    }
    storm.finish();
    Report { trace_hash: storm.cluster.trace_hash(), coverage: storm.coverage }
}

/// What the weather is like in a run; each seed leaves some of it out.
#[derive(Clone, Debug)]
struct Options {
    brokers: u16,
    /// How often each step of [`STEPS`] is taken.
    weights: Vec<usize>,
    weather: Weather,
    has_lazy_disk: bool,
    delivery_count_limit: i16,
    updates_per_snapshot: u32,
    state_partitions: i32,
}

type Step = fn(&mut Storm);

/// All steps with how often they are taken, before the seed changes that.
const STEPS: [(Step, usize); 15] = [
    (Storm::let_act, 60),
    (Storm::let_arrive, 120),
    (Storm::let_time_pass, 12),
    (Storm::sync_disk, 20),
    (Storm::strike, 30),
    (Storm::start_node, 8),
    (Storm::rejoin_node, 8),
    (Storm::stop_node, 2),
    (Storm::isolate_node, 2),
    (Storm::install_fault, 4),
    (Storm::delete_fault, 4),
    (Storm::crash, 1),
    (Storm::reset_offsets, 3),
    (Storm::repeat_marker, 3),
    (Storm::move_leaders, 1),
];
/// So many steps are always taken: without them nothing happens.
const STEPS_NEEDED: usize = 7;

impl Options {
    fn of(random: &mut Random) -> Self {
        let rate = |random: &mut Random| *random.pick(&[0, 0, 12, 40]);
        let mut weights = Vec::new();
        for (index, (_, weight)) in STEPS.iter().enumerate() {
            let factors = if index < STEPS_NEEDED { [1, 1, 2] } else { [0, 1, 3] };
            weights.push(weight * random.pick(&factors));
        }
        Self {
            brokers: *random.pick(&[1, 2, 3, 3]),
            weights,
            weather: Weather {
                loses_one_in: rate(random),
                repeats_one_in: rate(random),
                is_late_one_in: rate(random),
            },
            has_lazy_disk: random.one_in(3),
            delivery_count_limit: *random.pick(&[2, 2, 5]),
            updates_per_snapshot: *random.pick(&[0, 3, 500]),
            state_partitions: *random.pick(&[1, 3]),
        }
    }

    fn config(&self, seed: u64) -> ConfigBuilder {
        BrokerConfig::builder()
            .listen("127.0.0.1:9092")
            .brokers(self.brokers)
            .seed(seed)
            .topic("in:2")
            .topic("out:2")
            .property("offsets.topic.num.partitions", self.state_partitions.to_string())
            .property("transaction.state.log.num.partitions", self.state_partitions.to_string())
            .property("share.coordinator.state.topic.num.partitions", self.state_partitions.to_string())
            .property(
                "share.coordinator.snapshot.update.records.per.snapshot",
                self.updates_per_snapshot.to_string(),
            )
            .property("share.coordinator.state.topic.prune.interval.ms", "1000")
            .property("share.coordinator.cold.partition.snapshot.interval.ms", "3000")
            .property("group.share.record.lock.duration.ms", LOCK_MS.to_string())
            .property("group.share.delivery.count.limit", self.delivery_count_limit.to_string())
            .property("group.share.session.timeout.ms", SESSION_TIMEOUT_MS.to_string())
            .property("group.share.partition.max.record.locks", "100")
            .property("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")
    }
}

/// One run.
struct Storm {
    random: Random,
    options: Options,
    cluster: Cluster,
    network: Network,
    watch: Watch,
    ledger: Ledger,
    coverage: Coverage,
    actors: Vec<Actor>,
    /// Whose session each connection carries or carried.
    session_owners: BTreeMap<Connection, usize>,
    /// How often each record was delivered at most, by offset.
    delivered: BTreeMap<SharePartitionKey, BTreeMap<i64, i16>>,
    next_connection: u64,
    /// The faults that are installed.
    faults: Vec<u64>,
    /// The group whose members leave, so that its offsets can be set.
    resetting: Option<&'static str>,
    /// The partitions that a member of each group was assigned, ever: their states are initialised.
    assigned: BTreeMap<&'static str, BTreeSet<(TopicId, i32)>>,
    /// Whether the process crashes at the next opportunity.
    is_crash_due: bool,
    /// What was durable of transactions when all was.
    durable: BTreeMap<Producer, Transaction>,
    /// The newest epoch that a member of each group was told.
    group_epochs: BTreeMap<&'static str, i32>,
    /// The newest one before the offsets of a group were set last.
    reset_at: BTreeMap<&'static str, i32>,
    /// Whether offsets were ever set: then records are delivered anew.
    was_reset: bool,
}

impl Storm {
    fn new(seed: u64, configure: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        let mut random = Random::new(seed);
        let options = Options::of(&mut random);
        let config = configure(options.config(seed)).build(&mut Vec::new());
        let config = config.unwrap_or_else(|error| panic!("the settings are right: {error}"));
        let mut storm = Self {
            cluster: Cluster::new(config, Disk::new(options.has_lazy_disk)),
            network: Network::new(options.weather),
            watch: Watch::new(),
            ledger: Ledger::default(),
            coverage: Coverage::default(),
            actors: vec![
                Actor::new(Kind::Producer, "", "producer", ""),
                Actor::new(Kind::Consumer, "g", "A", ""),
                Actor::new(Kind::Consumer, READ_COMMITTED, "B", ""),
                Actor::new(Kind::Processor, "g", "P", "x"),
                Actor::new(Kind::Processor, READ_COMMITTED, "Q", "y"),
                Actor::new(Kind::Processor, "g", "R", "x"), // One of the two fences the other.
                Actor::new(Kind::Sink, SINKS, "S", ""),
                Actor::new(Kind::Sink, SINKS, "T", ""),
            ],
            session_owners: BTreeMap::new(),
            delivered: BTreeMap::new(),
            next_connection: 0,
            faults: Vec::new(),
            resetting: None,
            assigned: BTreeMap::new(),
            is_crash_due: false,
            durable: BTreeMap::new(),
            group_epochs: BTreeMap::new(),
            reset_at: BTreeMap::new(),
            was_reset: false,
            options,
            random,
        };
        for group in GROUPS {
            storm.configure_group(group, "share.auto.offset.reset", "earliest");
        }
        storm.configure_group(READ_COMMITTED, "share.isolation.level", "read_committed");
        storm
    }

    fn configure_group(&mut self, group: &str, name: &str, value: &str) {
        let answer = self.cluster.ask(1, requests::group_config(group, name, value));
        assert!(answer.is_some(), "a group's setting is taken");
    }

    /// Takes one step, and all that follows from it.
    fn step(&mut self) {
        let total: usize = self.options.weights.iter().sum();
        let mut left = self.random.below(total);
        for (index, (step, _)) in STEPS.iter().enumerate() {
            if left < self.options.weights[index] {
                step(self);
                break;
            }
            left -= self.options.weights[index];
        }
        self.settle();
        self.crash_if_due();
        self.settle();
    }

    /// Judges what the logs say and what comes out of the cluster, after each of its inputs.
    fn judge(&mut self) {
        self.watch.catch_up(&self.cluster.broker, &mut self.coverage);
        while let Some(outcome) = self.cluster.pop_outcome() {
            let packet = match outcome {
                Outcome::Answered { connection, request, answer } => {
                    self.check_answer(connection, &request, &answer);
                    Packet::Answer { connection, message: answer }
                }
                Outcome::Cut { connection } => Packet::Cut { connection },
            };
            self.network.send(&mut self.random, self.cluster.now, packet);
        }
        self.check_news();
    }

    /// Judges what happened, and gives up what takes too long.
    fn settle(&mut self) {
        self.judge();
        for index in 0..self.actors.len() {
            let waiting = self.actors[index].waiting.as_ref();
            let late = waiting.filter(|waiting| waiting.until <= self.cluster.now);
            if let Some(connection) = late.map(|waiting| waiting.connection) {
                self.lose(index, connection);
            }
        }
    }

    fn let_act(&mut self) {
        let indices = 0..self.actors.len();
        let idle: Vec<usize> = indices.filter(|index| self.actors[*index].waiting.is_none()).collect();
        if !idle.is_empty() {
            // Half of the time a transaction goes on: that is what the storm is about.
            let is_open = |index: &usize| self.actors[*index].writer.txn.is_some();
            let open: Vec<usize> = idle.iter().copied().filter(is_open).collect();
            let who = if open.is_empty() || self.random.one_in(2) { &idle } else { &open };
            let index = *self.random.pick(who);
            self.act(index);
        }
    }

    fn let_arrive(&mut self) {
        let Some(at) = self.network.next_arrival() else { return };
        self.pass_until(at);
        let Some(packet) = self.network.pop() else { return };
        match packet {
            Packet::Request { connection, version, message } => {
                let is_late = self.comes_after_end(&message);
                if self.cluster.deliver(connection, version, *message) && is_late {
                    self.coverage.note(Event::StageAfterEnd);
                }
            }
            Packet::Answer { connection, message } => self.hear(connection, *message),
            Packet::Hangup { connection } => {
                if self.cluster.is_open(connection) {
                    self.note_hangup(connection);
                    self.cluster.disconnect(connection);
                }
            }
            Packet::Cut { connection } => {
                let owner = self.actors.iter().position(|actor| actor.has(connection));
                if let Some(index) = owner {
                    self.lose(index, connection);
                }
            }
        }
    }

    /// Lets time go by: mostly little, now and then past locks or transactions.
    fn let_time_pass(&mut self) {
        let ms = match self.random.below(12) {
            0..=7 => self.random.between(0, 30),
            8..=9 => self.random.between(200, 600),
            10 => self.random.between(900, 1_200),
            _ => self.random.between(3_000, 6_000),
        };
        self.pass(ms);
    }

    fn pass(&mut self, ms: i64) {
        self.pass_until(self.cluster.now.plus_ms(ms));
    }

    /// Lets time go by; what each deadline brings is read by itself.
    fn pass_until(&mut self, until: Timestamp) {
        while !self.cluster.advance_towards(until) {
            self.judge();
        }
    }

    fn sync_disk(&mut self) {
        self.cluster.sync();
    }

    fn check_replay(&self) {
        self.cluster.broker.check_replay_equals_live(self.cluster.clocks());
        self.check_locks();
    }
}
