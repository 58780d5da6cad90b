//! Any sequence of inputs to one group by members of both protocols: invariants after each, and replay equals live.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Caller, ClassicHeartbeat, ClassicPlan, ConsumerHeartbeat, JoinGroup, LeavingMember, SyncGroup};
use bytes::Bytes;
use sharemark_protocol::Message;
use sharemark_protocol::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition,
};
use sharemark_protocol::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;

const MEMBERS: [&str; 3] = ["A", "B", "C"];
const INSTANCES: [&str; 2] = ["i", "j"];
const POLICIES: [MigrationPolicy; 4] = [
    MigrationPolicy::Disabled,
    MigrationPolicy::Upgrade,
    MigrationPolicy::Downgrade,
    MigrationPolicy::Bidirectional,
];

#[derive(Clone, Debug)]
enum Input {
    /// A ConsumerGroupHeartbeat: to join, to stay, to leave.
    Modern {
        member: usize,
        instance: Option<usize>,
        epoch: Option<i32>,
        owns_nothing: bool,
    },
    Join {
        member: usize,
        instance: Option<usize>,
        is_new: bool,
        is_readable: bool,
    },
    Sync {
        member: usize,
        instance: Option<usize>,
        assigns: Vec<i32>,
    },
    Heartbeat {
        member: usize,
        instance: Option<usize>,
    },
    Leave {
        member: usize,
        instance: Option<usize>,
    },
    Pass {
        ms: i64,
    },
    Restart,
}

fn any_input() -> impl Strategy<Value = Input> {
    let who = || (0..MEMBERS.len(), prop::option::weighted(0.3, 0..INSTANCES.len()));
    prop_oneof![
        (who(), prop_oneof![Just(Some(0)), Just(Some(-1)), Just(Some(-2)), Just(None)], any::<bool>())
            .prop_map(|((member, instance), epoch, owns_nothing)| Input::Modern {
                member,
                instance,
                epoch,
                owns_nothing
            }),
        (who(), any::<bool>(), prop::bool::weighted(0.9)).prop_map(
            |((member, instance), is_new, is_readable)| {
                Input::Join { member, instance, is_new, is_readable }
            }
        ),
        (who(), vec(0..4, 0..4)).prop_map(|((member, instance), assigns)| Input::Sync {
            member,
            instance,
            assigns
        }),
        who().prop_map(|(member, instance)| Input::Heartbeat { member, instance }),
        who().prop_map(|(member, instance)| Input::Leave { member, instance }),
        (1..1_500_i64).prop_map(|ms| Input::Pass { ms }),
        Just(Input::Restart),
    ]
}

struct Case {
    shard: GroupCoordinatorShard,
    cluster: Cluster,
    config: ClassicGroupConfig,
    consumer: ConsumerGroupConfig,
    now: Timestamp,
    log: Vec<GroupRecord>,
    /// The id and generation that each member was told last by the classic protocol, the epoch by the other.
    classic: BTreeMap<usize, (String, i32)>,
    epochs: BTreeMap<usize, i32>,
    next: u64,
    callers: BTreeMap<u64, usize>,
}

impl Case {
    fn new(migration: MigrationPolicy) -> Self {
        let mut cluster = Cluster::default();
        cluster.set("t", 4);
        Self {
            shard: GroupCoordinatorShard::new(LIMITS),
            cluster,
            config: ClassicGroupConfig { migration, ..CLASSIC },
            consumer: consumer_config(),
            now: Timestamp::from_ms(1_000_000),
            log: Vec::new(),
            classic: BTreeMap::new(),
            epochs: BTreeMap::new(),
            next: 0,
            callers: BTreeMap::new(),
        }
    }

    fn append(&mut self, records: &[GroupRecord]) {
        for record in records {
            self.shard.replay(Offset::new(self.log.len() as i64).unwrap(), record);
            self.log.push(record.clone());
        }
    }

    fn told(&mut self, answers: Vec<(Caller, crate::ClassicAnswer)>) {
        for (caller, answer) in answers {
            let member = self.callers.remove(&caller.0).expect("only who waits is answered");
            if let crate::ClassicAnswer::Join(answer) = answer {
                self.classic.insert(member, (answer.member_id.to_string(), answer.generation));
            }
        }
    }

    fn run(&mut self, plan: ClassicPlan) {
        self.append(&plan.records);
        let answers = self.shard.apply_classic(plan);
        self.told(answers);
    }

    fn call(&mut self, member: usize) -> Caller {
        self.next += 1;
        self.callers.insert(self.next, member);
        Caller(self.next)
    }

    fn modern(&mut self, member: usize, instance: Option<usize>, epoch: Option<i32>, owns_nothing: bool) {
        let member_epoch = epoch.unwrap_or_else(|| self.epochs.get(&member).copied().unwrap_or(1));
        let is_join = member_epoch == 0;
        let request = ConsumerHeartbeat {
            group_id: "g",
            member_id: MEMBERS[member],
            fresh_member_id: "",
            member_id_required: true,
            member_epoch,
            instance_id: instance.map(|index| INSTANCES[index]),
            rack_id: None,
            rebalance_timeout_ms: is_join.then_some(2_000),
            subscribed_topic_names: is_join.then(|| vec!["t"]),
            subscribed_topic_regex: None,
            server_assignor: None,
            owned: (is_join || owns_nothing).then(Vec::new),
            client_id: "c",
            client_host: "/127.0.0.1",
        };
        let decided = self.shard.decide_consumer_heartbeat(
            self.now,
            &request,
            &self.cluster,
            &self.consumer,
            &self.config,
        );
        let Ok(decision) = decided else { return };
        self.append(&decision.records);
        let answers = self.shard.apply_consumer_heartbeat(decision.plan);
        self.told(answers);
        self.epochs.insert(member, decision.answer.member_epoch.get());
    }

    fn join(&mut self, member: usize, instance: Option<usize>, is_new: bool, is_readable: bool) {
        let value = ConsumerProtocolSubscription { topics: vec!["t".into()], ..Default::default() };
        let metadata = if is_readable { value.to_versioned_bytes(1) } else { Bytes::from_static(b"x") };
        let (known, _) = self.classic.get(&member).cloned().unwrap_or_default();
        let caller = self.call(member);
        let unique = caller.0.to_string();
        let request = JoinGroup {
            group_id: "g",
            member_id: if is_new { "" } else { &known },
            group_instance_id: instance.map(|index| INSTANCES[index]),
            protocol_type: "consumer",
            protocols: vec![("range".into(), metadata)],
            session_timeout_ms: 1_000,
            rebalance_timeout_ms: 700,
            client_id: "c",
            client_host: "/127.0.0.1",
            unique: &unique,
            fresh_member_id: &unique,
            requires_known_member_id: false,
            supports_skipping_assignment: true,
            caller,
        };
        match self.shard.decide_join_group(self.now, &request, &self.cluster, &self.config, &self.consumer) {
            Ok(plan) => self.run(plan),
            Err(_) => self.callers.remove(&caller.0).map_or((), |_| ()),
        }
    }

    fn sync(&mut self, member: usize, instance: Option<usize>, assigns: Vec<i32>) {
        let (known, generation) = self.classic.get(&member).cloned().unwrap_or_default();
        let topic = TopicPartition { topic: "t".into(), partitions: assigns };
        let value = ConsumerProtocolAssignment { assigned_partitions: vec![topic], user_data: None };
        let all: Vec<String> = self.classic.values().map(|(id, _)| id.clone()).collect();
        let caller = self.call(member);
        let request = SyncGroup {
            group_id: "g",
            member_id: &known,
            group_instance_id: instance.map(|index| INSTANCES[index]),
            generation,
            protocol_type: None,
            protocol: None,
            // Every member is given the same now and then, as no sane leader would.
            assignments: all.iter().map(|id| (id.as_str(), value.to_versioned_bytes(0))).collect(),
            caller,
        };
        match self.shard.decide_sync_group(self.now, &request, &self.cluster, &self.config) {
            Ok(plan) => self.run(plan),
            Err(_) => self.callers.remove(&caller.0).map_or((), |_| ()),
        }
    }

    fn pass(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        while let Some(due) = self.shard.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            while let Some(expired) = self.shard.decide_expired(self.now, &self.cluster, &self.config) {
                self.append(&expired.records);
                if let Some(plan) = expired.downgraded {
                    let answers = self.shard.apply_classic(plan);
                    self.told(answers);
                }
            }
            while let Some(plan) = self.shard.decide_classic_expired(self.now, &self.config) {
                self.run(plan);
            }
        }
        self.now = end;
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Modern { member, instance, epoch, owns_nothing } => {
                self.modern(member, instance, epoch, owns_nothing)
            }
            Input::Join { member, instance, is_new, is_readable } => {
                self.join(member, instance, is_new, is_readable)
            }
            Input::Sync { member, instance, assigns } => self.sync(member, instance, assigns),
            Input::Heartbeat { member, instance } => {
                let (known, generation) = self.classic.get(&member).cloned().unwrap_or_default();
                let group_instance_id = instance.map(|index| INSTANCES[index]);
                let request =
                    ClassicHeartbeat { group_id: "g", member_id: &known, group_instance_id, generation };
                if let Ok(decision) = self.shard.decide_classic_heartbeat(self.now, &request) {
                    self.shard.apply_classic_heartbeat(self.now, &decision);
                }
            }
            Input::Leave { member, instance } => {
                let (known, _) = self.classic.get(&member).cloned().unwrap_or_default();
                let group_instance_id = instance.map(|index| INSTANCES[index]);
                let leaving = [LeavingMember { member_id: &known, group_instance_id }];
                let left =
                    self.shard.decide_leave_group(self.now, "g", &leaving, &self.cluster, &self.config);
                if let Ok((plan, _)) = left {
                    self.run(plan);
                }
            }
            Input::Pass { ms } => self.pass(ms),
            Input::Restart => {
                self.shard = self.replayed();
                let session_ms = self.consumer.session_timeout_ms;
                self.shard.apply_loaded(self.now, |_| 45_000, |_| session_ms);
                self.callers.clear();
            }
        }
    }

    fn replayed(&self) -> GroupCoordinatorShard {
        let mut replayed = GroupCoordinatorShard::new(LIMITS);
        for (record, offset) in self.log.iter().zip(0..) {
            replayed.replay(Offset::new(offset).unwrap(), record);
        }
        replayed
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn members_of_both_protocols_share_a_group(policy in 0..POLICIES.len(), inputs in vec(any_input(), 1..60)) {
        let mut case = Case::new(POLICIES[policy]);
        for input in inputs {
            case.input(input);
            case.shard.check_invariants();
            prop_assert!(case.replayed().is_same_state(&case.shard), "replay equals live");
        }
    }
}
