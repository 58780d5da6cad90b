//! One transaction over fifty share partitions of two groups, three output topics and committed offsets, on three nodes
//! that stop at random: in the end all of it counts, or nothing.

use std::collections::BTreeMap;

use sharemark::{Fault, FaultAction, FaultPoint, Server};
use sharemark_testkit::process::full;
use sharemark_testkit::sim::Random;
use sharemark_testkit::transcript::Session;

use super::with_server;

const SEEDS: u64 = 12;
const SEEDS_FULL: u64 = 500;
const PARTITIONS: i32 = 25;
const GROUPS: [&str; 2] = ["g", "h"];
const OUTPUTS: [&str; 3] = ["o1", "o2", "o3"];
/// How often a request is sent to whoever may be meant.
const TRIES: usize = 50;

/// When nodes may stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kills {
    /// Whenever the transaction is open.
    Always,
    /// Once all is staged.
    Late,
}

struct Run<'a, 's> {
    server: &'a Server,
    session: &'a mut Session<'s>,
    random: Random,
    /// The one of the nodes 1 and 2 that is stopped. Node 0 stays, so that there is somebody to ask.
    stopped: Option<i32>,
    /// How often each node has started, which names the connection to it.
    starts: BTreeMap<i32, u32>,
    kill_count: u32,
}

impl Run<'_, '_> {
    /// Returns the connection to a node, if it runs.
    fn link(&self, node: i32) -> Option<String> {
        (self.stopped != Some(node)).then(|| format!("n{node}.{}", self.starts[&node]))
    }

    fn open(&mut self, node: i32) {
        *self.starts.entry(node).or_default() += 1;
        let link = self.link(node).unwrap();
        self.session.run(&format!("open {link} node={node}")).unwrap();
    }

    /// Stops a node or starts the one that is stopped, one time in so many.
    fn maybe_kill(&mut self, one_in: usize) {
        if !self.random.one_in(one_in) {
            return;
        }
        match self.stopped.take() {
            Some(node) => {
                self.server.start_node(node).unwrap();
                self.open(node);
            }
            None => {
                let node = *self.random.pick(&[1, 2]);
                self.server.stop_node(node).unwrap();
                self.stopped = Some(node);
                self.kill_count += 1;
            }
        }
    }

    fn leader(&self, topic: &str, partition: i32) -> i32 {
        let leaders = self.server.leaders().unwrap();
        let found = leaders.iter().find(|at| &*at.topic == topic && at.partition == partition);
        found.unwrap().leader.get()
    }

    /// Runs a command at a node.
    fn at(&mut self, node: i32, command: &str) -> String {
        let Some(link) = self.link(node) else { return "STOPPED\n".to_owned() };
        self.session.run(&format!("via {link} {command}")).unwrap()
    }

    /// Runs a command at whoever coordinates what it is about, and returns what that says.
    fn anywhere(&mut self, command: &str) -> String {
        let mut told = String::new();
        for attempt in 0..TRIES {
            told = self.at(i32::try_from(attempt % 3).unwrap(), command);
            let elsewhere =
                ["STOPPED", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"];
            if !elsewhere.iter().any(|word| told.contains(word)) {
                return told;
            }
            self.server.advance_clock(std::time::Duration::from_millis(100)).unwrap();
        }
        panic!("nobody takes `{command}`: {told}")
    }

    /// Returns the share partitions by their leaders.
    fn sources(&self) -> BTreeMap<i32, Vec<String>> {
        let mut by_leader: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for at in self.server.leaders().unwrap().iter().filter(|at| ["t", "u"].contains(&&*at.topic)) {
            by_leader.entry(at.leader.get()).or_default().push(format!("{}-{}", at.topic, at.partition));
        }
        by_leader
    }

    /// Makes topics and groups, produces one record for each share partition, and has a member of each group hold all.
    fn prepare(&mut self) {
        for topic in ["t", "u"] {
            self.at(0, &format!("create-topic {topic} partitions={PARTITIONS}"));
        }
        for topic in OUTPUTS {
            self.at(0, &format!("create-topic {topic}"));
        }
        for (node, partitions) in self.sources() {
            for partition in partitions {
                let told = self.at(node, &format!("produce {partition}"));
                assert!(told.contains("NONE"), "{told}");
            }
        }
        for group in GROUPS {
            self.at(0, &format!("group-config {group} share.auto.offset.reset=earliest"));
            let joined = self.anywhere(&format!("join group={group} member={group}A topics=t,u counted"));
            assert!(joined.contains("NONE"), "{joined}");
            for (node, partitions) in self.sources() {
                let link = self.link(node).unwrap();
                let list = partitions.join(" ");
                let fetch = format!("share-fetch group={group} member={group}A on={link} epoch=0 {list}");
                let fetched = self.session.run(&fetch).unwrap();
                assert_eq!(fetched.matches("acquired 0-0x1").count(), partitions.len(), "{fetched}");
            }
        }
        let told = self.anywhere("init-producer p txn=x");
        assert!(told.contains("NONE"), "{told}");
    }

    /// Does all that belongs to the transaction; returns whether all of it succeeded.
    fn work(&mut self, kills: Kills) -> bool {
        let one_in = if kills == Kills::Always { 6 } else { usize::MAX };
        let mut all = true;
        for group in GROUPS {
            for (node, partitions) in self.sources() {
                self.maybe_kill(one_in);
                let acks: Vec<_> = partitions.iter().map(|it| format!("{it} accept 0")).collect();
                let member = format!("group={group} member={group}A");
                let stage = format!("txn-share-acknowledge producer=p {member} {}", acks.join(" "));
                let told = self.at(node, &stage);
                all &= told.matches(" NONE").count() == partitions.len();
            }
        }
        for topic in OUTPUTS {
            self.maybe_kill(one_in);
            let leader = self.leader(topic, 0);
            all &= self.at(leader, &format!("produce {topic}-0 values=y producer=p")).contains(" NONE");
        }
        self.maybe_kill(one_in);
        all &= self.anywhere("txn-commit-offsets p group=c o1-0@7").contains(" NONE");
        all
    }

    /// Ends the transaction while nodes stop, and lets its end be told to everybody.
    fn end(&mut self, commit: bool) {
        for _ in 0..3 {
            self.maybe_kill(2);
        }
        let hold = Fault::new(FaultPoint::TxnMarkers, FaultAction::Hold).for_ever();
        let held = self.random.one_in(2).then(|| self.server.install_fault(hold).unwrap());
        let end = self.anywhere(if commit { "end-txn p commit" } else { "end-txn p abort" });
        assert!(end.contains("NONE"), "{end}");
        for _ in 0..3 {
            self.maybe_kill(2);
        }
        if let Some(fault) = held {
            self.server.delete_fault(fault).unwrap();
        }
        if let Some(node) = self.stopped.take() {
            self.server.start_node(node).unwrap();
            self.open(node);
        }
        let is_over = |server: &Server| {
            let state = server.transaction("x").unwrap().view.state.name();
            state.starts_with("Complete")
        };
        for _ in 0..TRIES {
            if is_over(self.server) {
                return;
            }
            self.server.advance_clock(std::time::Duration::from_millis(100)).unwrap();
        }
        panic!("the transaction does not come to its end: {:?}", self.server.transaction("x"));
    }

    /// Checks that everything says the same of the transaction.
    fn check(&mut self, commit: bool, what: &str) {
        let done = if commit { 2 * usize::try_from(PARTITIONS).unwrap() } else { 0 };
        for group in GROUPS {
            let offsets = self.anywhere(&format!("describe-share-offsets group={group}"));
            assert_eq!(offsets.matches(" lag=0\n").count(), done, "{what}, {group}: {offsets}");
        }
        for topic in OUTPUTS {
            let leader = self.leader(topic, 0);
            let read = self.at(leader, &format!("fetch {topic}-0 isolation=committed"));
            assert_eq!(read.contains("COMMIT"), commit, "{what}: {read}");
            assert!(!(commit && read.contains("ABORT")), "{what}: {read}");
        }
        let offsets = self.anywhere("fetch-offsets group=c o1-0");
        assert_eq!(offsets.starts_with("o1-0 7 "), commit, "{what}: {offsets}");
    }
}

#[test]
fn a_transaction_over_everything_counts_as_a_whole_whatever_stops() {
    let (mut committed, mut aborted, mut kill_count) = (0, 0, 0);
    for seed in 0..if full() { SEEDS_FULL } else { SEEDS } {
        let kills = if seed % 3 == 0 { Kills::Always } else { Kills::Late };
        let builder = Server::builder().config(|mut config| {
            for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
                config = config.property(format!("{topic}.num.partitions"), "5");
            }
            config.brokers(3).seed(seed)
        });
        let server = builder.start().unwrap();
        server.hold_clock().unwrap();
        with_server(&server, |session| {
            let mut run = Run {
                server: &server,
                session,
                random: Random::new(seed),
                stopped: None,
                starts: BTreeMap::new(),
                kill_count: 0,
            };
            for node in 0..3 {
                run.open(node);
            }
            run.prepare();
            // A client that was refused anything aborts; so does one in three of the others.
            let commit = run.work(kills) && !run.random.one_in(3);
            run.end(commit);
            run.check(commit, &format!("seed {seed}, {kills:?}, commit {commit}"));
            *if commit { &mut committed } else { &mut aborted } += 1;
            kill_count += run.kill_count;
        });
        server.stop().unwrap();
    }
    println!("{committed} committed, {aborted} aborted, {kill_count} nodes stopped");
    assert!(0 < committed && 0 < aborted && 0 < kill_count, "all of it has happened");
}
