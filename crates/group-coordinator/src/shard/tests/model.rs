//! Any sequence of inputs: invariants after each, replay equals live at each prefix, and in the end every
//! partition of a subscribed topic has a member.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MEMBERS: [&str; 4] = ["A", "B", "C", "D"];
const TOPICS: [&str; 3] = ["t", "u", "v"];

#[derive(Clone, Debug)]
enum Input {
    Join { member: usize, topics: Vec<usize> },
    Stay { member: usize, lag: i32, topics: Option<Vec<usize>> },
    Leave { member: usize },
    Pass { ms: i64 },
    Confirm,
    Fail,
    Grow { topic: usize },
    Delete { topic: usize },
    Restart,
    DeleteGroup,
    DeleteOffsets { topic: usize },
    AlterOffsets { topic: usize },
}

fn any_input() -> impl Strategy<Value = Input> {
    let member = 0..MEMBERS.len();
    let topic = 0..TOPICS.len();
    let topics = vec(topic.clone(), 1..4);
    prop_oneof![
        4 => (member.clone(), topics.clone()).prop_map(|(member, topics)| Input::Join { member, topics }),
        8 => (member.clone(), -1..3_i32, prop::option::weighted(0.3, topics))
            .prop_map(|(member, lag, topics)| Input::Stay { member, lag, topics }),
        2 => member.prop_map(|member| Input::Leave { member }),
        2 => (1..50_000_i64).prop_map(|ms| Input::Pass { ms }),
        4 => Just(Input::Confirm),
        1 => Just(Input::Fail),
        2 => topic.clone().prop_map(|topic| Input::Grow { topic }),
        1 => topic.clone().prop_map(|topic| Input::Delete { topic }),
        1 => Just(Input::Restart),
        1 => Just(Input::DeleteGroup),
        1 => topic.clone().prop_map(|topic| Input::DeleteOffsets { topic }),
        1 => topic.prop_map(|topic| Input::AlterOffsets { topic }),
    ]
}

impl World {
    fn member_epoch(&self, member_id: &str) -> i32 {
        let group = self.shard.describe_share_group("g");
        let members = group.map(|group| group.members).unwrap_or_default();
        members.iter().find(|member| &*member.member_id == member_id).map_or(1, |member| member.epoch.get())
    }

    fn take(&mut self, input: Input) {
        let names = |topics: &[usize]| -> Vec<&str> { topics.iter().map(|topic| TOPICS[*topic]).collect() };
        match input {
            Input::Join { member, topics } => {
                self.heartbeat(MEMBERS[member], 0, Some(&names(&topics))).ok();
            }
            Input::Stay { member, lag, topics } => {
                let epoch = self.member_epoch(MEMBERS[member]) - lag;
                self.heartbeat(MEMBERS[member], epoch, topics.map(|topics| names(&topics)).as_deref()).ok();
            }
            Input::Leave { member } => {
                self.heartbeat(MEMBERS[member], -1, None).ok();
            }
            Input::Pass { ms } => {
                self.now = self.now.plus_ms(ms);
                self.expire();
            }
            Input::Confirm => self.confirm(),
            Input::Fail => {
                for crossing in std::mem::take(&mut self.asked) {
                    let records = self.shard.decide_states_not_initialised("g", &crossing.partitions());
                    self.append(records);
                }
            }
            Input::Grow { topic } => {
                let before = self.cluster.topic(TOPICS[topic]).map_or(0, |facts| facts.partition_count);
                self.cluster.set(TOPICS[topic], before + 1);
            }
            Input::Delete { topic } if self.cluster.topic(TOPICS[topic]).is_some() => {
                self.delete_topic(TOPICS[topic])
            }
            Input::Delete { .. } => {}
            Input::Restart => self.restart(),
            Input::DeleteGroup => {
                let first = self.shard.decide_delete_group("g", &self.cluster);
                self.append(first.map(|decision| decision.records).unwrap_or_default());
                let second = self.shard.decide_group_deleted("g");
                self.append(second.unwrap_or_default());
            }
            Input::DeleteOffsets { topic } => {
                let Ok(first) = self.shard.decide_delete_offsets("g", &[TOPICS[topic]], &self.cluster) else {
                    return;
                };
                let gone = first.accepted.iter().map(|(_, topic_id)| *topic_id).collect();
                self.append(first.records);
                let second = self.shard.decide_offsets_deleted("g", &gone);
                self.append(second);
            }
            Input::AlterOffsets { topic } => {
                let request =
                    [AlterOffsetsTopic { name: TOPICS[topic], partitions: vec![(0, Offset::new(3))] }];
                let Ok(decision) = self.shard.decide_alter_offsets("g", &request, &self.cluster) else {
                    return;
                };
                self.append(decision.records);
                self.asked.extend(decision.states_to_initialise);
            }
        }
    }

    /// Decides the same heartbeat on a shard that has only the log: the short way must not decide otherwise.
    fn check_short_way(&self, replayed: &GroupCoordinatorShard, member_id: &str) {
        let heartbeat = request(member_id, self.member_epoch(member_id));
        let decide = |shard: &GroupCoordinatorShard| {
            let decision = shard.decide_share_heartbeat(self.now, &heartbeat, &self.cluster, &self.config);
            decision.map(|decision| (decision.records, decision.answer)).map_err(|refusal| refusal.error)
        };
        assert_eq!(decide(&self.shard), decide(replayed));
    }

    fn is_initialising(&self) -> bool {
        let group = self.shard.share_group("g");
        group.is_ok_and(|(_, group)| !group.states().initialising.is_empty())
    }

    /// Lets everybody who is there send heartbeats until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.now = self
                .now
                .plus_ms(self.config.initialize_retry_interval_ms.max(self.config.assignment_interval_ms));
            let members = self.shard.describe_share_group("g").map(|group| group.members).unwrap_or_default();
            for member in members {
                self.heartbeat(&member.member_id, member.epoch.get(), None).unwrap();
            }
            self.confirm();
        }
    }

    fn check_all_assigned(&self) {
        let Ok(group) = self.shard.describe_share_group("g") else { return };
        assert_eq!(group.epoch, group.assignment_epoch);
        for name in TOPICS {
            let Some(facts) = self.cluster.topic(name) else { continue };
            let takers: Vec<_> = group
                .members
                .iter()
                .filter(|member| member.metadata.subscribed_topic_names.contains(name))
                .collect();
            for partition in (0..facts.partition_count).filter(|_| !takers.is_empty()) {
                let has = |held: &TopicPartitions| {
                    held.get(&facts.id).is_some_and(|held| held.contains(&partition))
                };
                assert!(takers.iter().any(|member| has(&member.assigned)), "{name}-{partition} has a member");
            }
        }
        for member in &group.members {
            assert_eq!(member.epoch, group.epoch.member());
        }
    }
}

fn run(inputs: Vec<Input>, assignment_interval_ms: i64) {
    let mut world = World::new();
    world.config.assignment_interval_ms = assignment_interval_ms;
    world.config.session_timeout_ms = 200_000;
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
        if !world.is_initialising() {
            for member_id in MEMBERS {
                world.check_short_way(&replayed, member_id);
            }
        }
    }
    world.settle();
    world.check_all_assigned();
}

proptest! {
    #[test]
    fn any_sequence_keeps_the_rules(inputs in vec(any_input(), 0..60)) {
        run(inputs, 0);
    }

    #[test]
    fn any_sequence_keeps_the_rules_with_an_assignment_interval(inputs in vec(any_input(), 0..60)) {
        run(inputs, 10_000);
    }
}
