//! Any sequence of inputs to consumer groups: invariants after each, replay equals live at each prefix, and in the
//! end every partition of a subscribed topic has one member.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{
    ConsumerAssignor, ConsumerGroupConfig, ConsumerGroupState, ConsumerHeartbeat, DescribedConsumer,
};

const MEMBERS: [&str; 4] = ["A", "B", "C", "D"];
const INSTANCES: [&str; 2] = ["i", "j"];
const TOPICS: [&str; 3] = ["ta", "tb", "u"];
const REGEXES: [&str; 3] = ["t.*", "u", ""];
const REBALANCE_TIMEOUT_MS: i32 = 20_000;

#[derive(Clone, Debug)]
enum Input {
    Join { member: usize, instance: Option<usize>, want: Want },
    Stay { member: usize, instance: Option<usize>, lag: i32, tells: Tells, want: Option<Want> },
    Leave { member: usize, instance: Option<usize>, for_good: bool },
    Pass { ms: i64 },
    Grow { topic: usize },
    Delete { topic: usize },
    Restart,
    DeleteGroup,
}

/// What a member subscribes to.
#[derive(Clone, Debug)]
struct Want {
    topics: Vec<usize>,
    regex: Option<usize>,
    assignor: Option<ConsumerAssignor>,
}

/// What a member says of what it has.
#[derive(Clone, Copy, Debug)]
enum Tells {
    Nothing,
    /// All that it was told last: what it is to give up it has given up.
    Told,
    /// What it is giving up too.
    All,
    None,
}

fn any_want() -> impl Strategy<Value = Want> {
    let assignor = prop_oneof![Just(ConsumerAssignor::Range), Just(ConsumerAssignor::Uniform)];
    let regex = prop::option::weighted(0.4, 0..REGEXES.len());
    (vec(0..TOPICS.len(), 0..3), regex, prop::option::weighted(0.2, assignor))
        .prop_map(|(topics, regex, assignor)| Want { topics, regex, assignor })
}

fn any_input() -> impl Strategy<Value = Input> {
    let member = 0..MEMBERS.len();
    let instance = prop::option::weighted(0.3, 0..INSTANCES.len());
    let topic = 0..TOPICS.len();
    let tells = prop_oneof![
        4 => Just(Tells::Told),
        1 => Just(Tells::Nothing),
        1 => Just(Tells::All),
        1 => Just(Tells::None),
    ];
    prop_oneof![
        4 => (member.clone(), instance.clone(), any_want())
            .prop_map(|(member, instance, want)| Input::Join { member, instance, want }),
        10 => (member.clone(), instance.clone(), 0..3_i32, tells, prop::option::weighted(0.2, any_want()))
            .prop_map(|(member, instance, lag, tells, want)| {
                Input::Stay { member, instance, lag, tells, want }
            }),
        2 => (member, instance, any::<bool>())
            .prop_map(|(member, instance, for_good)| Input::Leave { member, instance, for_good }),
        2 => (1..30_000_i64).prop_map(|ms| Input::Pass { ms }),
        2 => topic.clone().prop_map(|topic| Input::Grow { topic }),
        1 => topic.prop_map(|topic| Input::Delete { topic }),
        1 => Just(Input::Restart),
        1 => Just(Input::DeleteGroup),
    ]
}

/// A shard with the log below it, and what its members were told.
struct Consumers {
    shard: GroupCoordinatorShard,
    cluster: Cluster,
    config: ConsumerGroupConfig,
    now: Timestamp,
    log: Vec<GroupRecord>,
    /// What each member was told last.
    told: BTreeMap<String, TopicPartitions>,
}

impl Consumers {
    fn new(assignment_interval_ms: i64) -> Self {
        Self {
            shard: GroupCoordinatorShard::new(LIMITS),
            cluster: Cluster::default(),
            config: ConsumerGroupConfig { assignment_interval_ms, ..consumer_config() },
            now: Timestamp::from_ms(1_000_000),
            log: Vec::new(),
            told: BTreeMap::new(),
        }
    }

    fn append(&mut self, records: Vec<GroupRecord>) {
        for record in records {
            let bytes = record.encode();
            assert_eq!(GroupRecord::decode(&bytes.key, bytes.value.as_ref()), Ok(record.clone()));
            self.shard.replay(Offset::new(self.log.len() as i64).unwrap(), &record);
            self.log.push(record);
        }
    }

    fn members(&self) -> Vec<DescribedConsumer> {
        let group = self.shard.describe_consumer_group("g", &self.config);
        group.map(|group| group.members).unwrap_or_default()
    }

    fn member(&self, member_id: &str) -> Option<DescribedConsumer> {
        self.members().into_iter().find(|member| &*member.member_id == member_id)
    }

    fn send(&mut self, request: &ConsumerHeartbeat<'_>) -> Result<i32, ErrorCode> {
        let decided =
            self.shard.decide_consumer_heartbeat(self.now, request, &self.cluster, &self.config, &CLASSIC);
        let decision = decided.map_err(|refusal| refusal.error)?;
        self.append(decision.records);
        self.shard.apply_consumer_heartbeat(decision.plan);
        self.shard.check_invariants();
        if decision.resolves_regexes {
            let records =
                self.shard.decide_regexes_resolved(self.now, request.group_id, &self.cluster, |_| true);
            self.append(records);
        }
        if let Some(told) = decision.answer.assignment {
            self.told.insert(request.member_id.to_owned(), told);
        }
        Ok(decision.answer.member_epoch.get())
    }

    fn stay(&mut self, member_id: &str, instance: Option<&str>, lag: i32, tells: Tells, want: Option<&Want>) {
        let Some(member) = self.member(member_id) else { return };
        let owned = |partitions: &TopicPartitions| {
            partitions.iter().map(|(topic_id, list)| (*topic_id, list.iter().copied().collect())).collect()
        };
        let mut request = beat(member_id, member.epoch.get() - lag);
        if want.is_some_and(|want| want.topics.is_empty() && want.regex.is_none()) {
            return;
        }
        request.instance_id = instance;
        request.owned = match tells {
            Tells::Nothing => None,
            Tells::Told => Some(owned(self.told.get(member_id).unwrap_or(&TopicPartitions::new()))),
            Tells::All => Some(owned(&member.assigned)),
            Tells::None => Some(Vec::new()),
        };
        with_want(&mut request, want);
        self.send(&request).ok();
    }

    fn expire(&mut self) {
        while let Some(member) = self.shard.decide_expired(self.now, &self.cluster, &CLASSIC) {
            self.append(member.records);
            self.shard.check_invariants();
        }
    }

    fn take(&mut self, input: Input) {
        let instance_of = |instance: Option<usize>| instance.map(|index| INSTANCES[index]);
        match input {
            Input::Join { member, instance, want } => {
                let mut request = beat(MEMBERS[member], 0);
                request.instance_id = instance_of(instance);
                request.rebalance_timeout_ms = Some(REBALANCE_TIMEOUT_MS);
                request.owned = Some(Vec::new());
                with_want(&mut request, Some(&want));
                self.send(&request).ok();
            }
            Input::Stay { member, instance, lag, tells, want } => {
                self.stay(MEMBERS[member], instance_of(instance), lag, tells, want.as_ref());
            }
            Input::Leave { member, instance, for_good } => {
                let mut request = beat(MEMBERS[member], if for_good { -1 } else { -2 });
                request.instance_id = instance_of(instance);
                self.send(&request).ok();
            }
            Input::Pass { ms } => {
                self.now = self.now.plus_ms(ms);
                self.expire();
            }
            Input::Grow { topic } => {
                let before = self.cluster.topic(TOPICS[topic]).map_or(0, |facts| facts.partition_count);
                self.cluster.set(TOPICS[topic], before + 1);
            }
            Input::Delete { topic } => {
                if self.cluster.topic(TOPICS[topic]).is_some() {
                    self.cluster.delete(TOPICS[topic]);
                }
            }
            Input::Restart => self.restart(),
            Input::DeleteGroup => {
                let first = self.shard.decide_delete_group("g", &self.cluster);
                self.append(first.map(|decision| decision.records).unwrap_or_default());
                let second = self.shard.decide_group_deleted("g");
                self.append(second.unwrap_or_default());
            }
        }
    }

    /// Replays the log into a new shard, as after a failover.
    fn restart(&mut self) {
        let mut shard = GroupCoordinatorShard::new(LIMITS);
        for (record, offset) in self.log.iter().zip(0..) {
            shard.replay(Offset::new(offset).unwrap(), record);
        }
        assert!(shard.is_same_state(&self.shard), "replay equals live");
        shard.apply_loaded(self.now, |_| 45_000, |_| self.config.session_timeout_ms);
        shard.check_invariants();
        self.shard = shard;
    }

    /// Decides the same heartbeat on a shard that has only the log: the short way must not decide otherwise.
    fn check_short_way(&self, replayed: &GroupCoordinatorShard) {
        for member in self.members() {
            let heartbeat = beat(&member.member_id, member.epoch.get());
            let decide = |shard: &GroupCoordinatorShard| {
                let decision = shard.decide_consumer_heartbeat(
                    self.now,
                    &heartbeat,
                    &self.cluster,
                    &self.config,
                    &CLASSIC,
                );
                decision.map(|decision| (decision.records, decision.answer)).map_err(|refusal| refusal.error)
            };
            assert_eq!(decide(&self.shard), decide(replayed));
        }
    }

    /// Lets everybody who is there send heartbeats until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.now = self.now.plus_ms(self.config.assignment_interval_ms + 1);
            for member in self.members() {
                let instance = member.metadata.instance_id.as_deref();
                if member.epoch.get() == -2 {
                    // It comes back under its id.
                    let mut request = beat(&member.member_id, 0);
                    request.instance_id = instance;
                    request.rebalance_timeout_ms = Some(REBALANCE_TIMEOUT_MS);
                    request.owned = Some(Vec::new());
                    let names = member.metadata.subscribed_topic_names.iter();
                    request.subscribed_topic_names = Some(names.map(|name| &**name).collect());
                    self.send(&request).unwrap();
                    continue;
                }
                self.stay(&member.member_id, instance, 0, Tells::Told, None);
            }
        }
    }

    fn check_all_assigned(&self) {
        let Ok(group) = self.shard.describe_consumer_group("g", &self.config) else { return };
        assert_eq!(group.epoch, group.assignment_epoch);
        let settled =
            if group.members.is_empty() { ConsumerGroupState::Empty } else { ConsumerGroupState::Stable };
        assert_eq!(group.state, settled);
        for name in TOPICS {
            let Some(facts) = self.cluster.topic(name) else { continue };
            let wants = |member: &&DescribedConsumer| {
                let by_regex = match member.metadata.subscribed_topic_regex.as_deref() {
                    Some("t.*") => name.starts_with('t'),
                    Some(regex) => !regex.is_empty() && regex == name,
                    None => false,
                };
                by_regex || member.metadata.subscribed_topic_names.contains(name)
            };
            let takers = group.members.iter().filter(wants).count();
            for partition in 0..facts.partition_count {
                let has = |member: &&DescribedConsumer| {
                    member.assigned.get(&facts.id).is_some_and(|held| held.contains(&partition))
                };
                let owners: Vec<_> = group.members.iter().filter(has).collect();
                assert_eq!(owners.len(), usize::from(0 < takers), "{name}-{partition} has one member");
                assert!(owners.iter().all(wants), "{name}-{partition} went to one who wants it");
            }
        }
        for member in &group.members {
            assert_eq!(member.assigned, member.target);
            let told = self.told.get(&*member.member_id).cloned().unwrap_or_default();
            assert_eq!(told, member.assigned, "a member knows what it has");
        }
    }
}

fn beat(member_id: &str, epoch: i32) -> ConsumerHeartbeat<'_> {
    ConsumerHeartbeat {
        group_id: "g",
        member_id,
        fresh_member_id: "fresh",
        member_id_required: true,
        member_epoch: epoch,
        instance_id: None,
        rack_id: None,
        rebalance_timeout_ms: None,
        subscribed_topic_names: None,
        subscribed_topic_regex: None,
        server_assignor: None,
        owned: None,
        client_id: "client",
        client_host: "/127.0.0.1",
    }
}

fn with_want<'a>(request: &mut ConsumerHeartbeat<'a>, want: Option<&Want>) {
    let Some(want) = want else { return };
    request.subscribed_topic_names = Some(want.topics.iter().map(|topic| TOPICS[*topic]).collect());
    request.subscribed_topic_regex = want.regex.map(|regex| REGEXES[regex]);
    request.server_assignor = want.assignor.map(ConsumerAssignor::name);
}

fn run(inputs: Vec<Input>, assignment_interval_ms: i64) {
    let mut world = Consumers::new(assignment_interval_ms);
    let mut replayed = GroupCoordinatorShard::new(LIMITS);
    let mut replayed_count = 0;
    for input in inputs {
        world.take(input);
        world.shard.check_invariants();
        for (record, offset) in world.log.iter().zip(0..).skip(replayed_count) {
            replayed.replay(Offset::new(offset).unwrap(), record);
        }
        replayed_count = world.log.len();
        assert!(replayed.is_same_state(&world.shard), "replay equals live");
        world.check_short_way(&replayed);
    }
    world.settle();
    world.shard.check_invariants();
    world.check_all_assigned();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_sequence_keeps_the_rules(inputs in vec(any_input(), 0..60)) {
        run(inputs, 0);
    }

    #[test]
    fn any_sequence_keeps_the_rules_with_an_assignment_interval(inputs in vec(any_input(), 0..60)) {
        run(inputs, 10_000);
    }
}

#[test]
fn a_member_that_waits_is_put_out_by_neither_clock() {
    let mut world = Consumers::new(0);
    world.cluster.set("ta", 2);
    let join = |member_id| {
        let mut request = beat(member_id, 0);
        request.rebalance_timeout_ms = Some(REBALANCE_TIMEOUT_MS);
        request.owned = Some(Vec::new());
        request.subscribed_topic_names = Some(vec!["ta"]);
        request
    };
    assert_eq!(world.send(&join("A")), Ok(2));
    assert_eq!(world.send(&join("B")), Ok(3));
    assert_eq!(world.send(&beat("A", 2)), Ok(2));
    // A has twenty seconds to give up, and both have forty-five to be heard of.
    assert_eq!(world.shard.poll_timeout(), Some(world.now.plus_ms(i64::from(REBALANCE_TIMEOUT_MS))));
    world.restart();
    assert_eq!(world.shard.poll_timeout(), Some(world.now.plus_ms(i64::from(REBALANCE_TIMEOUT_MS))));
    world.now = world.now.plus_ms(i64::from(REBALANCE_TIMEOUT_MS));
    world.expire();
    let left: BTreeSet<String> = world.members().iter().map(|it| it.member_id.to_string()).collect();
    assert_eq!(left, BTreeSet::from(["B".to_owned()]));
    assert_eq!(world.shard.poll_timeout(), Some(world.now.plus_ms(25_000)));
}

/// A large expression takes long among many topics: it is not looked up again for each member that joins.
#[test]
fn an_expression_is_looked_up_again_only_when_topics_have_changed() {
    let mut world = Consumers::new(0);
    world.cluster.set("ta", 1);
    let join = |member_id, regex| {
        let mut request = beat(member_id, 0);
        request.rebalance_timeout_ms = Some(REBALANCE_TIMEOUT_MS);
        request.owned = Some(Vec::new());
        request.subscribed_topic_regex = Some(regex);
        request
    };
    world.send(&join("A", "t.*")).unwrap();
    assert_eq!(world.cluster.walks.take(), 1);
    world.send(&join("B", "u.*")).unwrap();
    assert_eq!(world.cluster.walks.take(), 1, "the new one alone");
    world.cluster.set("ub", 1);
    world.send(&join("C", "[u]b")).unwrap();
    assert_eq!(world.cluster.walks.take(), 3, "all, since there is another topic");
    let epoch = world.member("B").unwrap().epoch.get();
    world.send(&beat("B", epoch)).unwrap();
    assert!(!world.told["B"].is_empty(), "what appeared is assigned");
}
