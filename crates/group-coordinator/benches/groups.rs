//! What a heartbeat and a new assignment cost as groups grow.

use std::collections::BTreeMap;

use divan::Bencher;
use sharemark_group_coordinator::{
    GroupCoordinatorConfig, GroupCoordinatorShard, ShareGroupConfig, ShareHeartbeat, TopicFacts, Topics,
};
use sharemark_protocol::{Offset, Timestamp, TopicId};

const LIMITS: GroupCoordinatorConfig =
    GroupCoordinatorConfig { groups_max: 10, offsets_max: 100, subscribed_topics_max: 10 };
const CONFIG: ShareGroupConfig = ShareGroupConfig {
    assignment_interval_ms: 0,
    heartbeat_interval_ms: 5_000,
    session_timeout_ms: 45_000,
    max_size: 1_000,
    initialize_retry_interval_ms: 30_000,
};
const NOW: Timestamp = Timestamp::from_ms(1);

struct OneTopic(TopicFacts);

impl Topics for OneTopic {
    fn version(&self) -> u64 {
        0
    }

    fn created_version(&self) -> u64 {
        0
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        ["t"].into_iter()
    }

    fn topic(&self, name: &str) -> Option<TopicFacts> {
        (name == "t").then_some(self.0)
    }

    fn name(&self, id: TopicId) -> Option<&str> {
        (id == self.0.id).then_some("t")
    }
}

struct Group {
    shard: GroupCoordinatorShard,
    topics: OneTopic,
    offset: i64,
    epochs: BTreeMap<String, i32>,
}

impl Group {
    /// Builds a group whose members have all seen the newest assignment.
    fn new(member_count: usize, partition_count: i32) -> Self {
        let mut group = Self {
            shard: GroupCoordinatorShard::new(LIMITS),
            topics: OneTopic(TopicFacts { id: TopicId::from_bytes([1; 16]), partition_count }),
            offset: 0,
            epochs: BTreeMap::new(),
        };
        // The partitions are initialised when everybody is there, so that only one assignment is computed.
        let mut crossings = Vec::new();
        for member in 0..member_count {
            crossings.extend(group.heartbeat(&format!("member-{member:04}"), Some(vec!["t"])));
        }
        for partitions in crossings {
            let records = group.shard.decide_states_initialised("g", &partitions);
            group.append(&records);
        }
        let members: Vec<String> = group.epochs.keys().cloned().collect();
        for member_id in members.iter().chain(&members) {
            group.heartbeat(member_id, None);
        }
        group
    }

    fn append(&mut self, records: &[sharemark_group_coordinator::GroupRecord]) {
        for record in records {
            let offset = Offset::new(self.offset).unwrap_or_default();
            self.shard.replay(offset, record);
            self.offset += 1;
        }
    }

    fn heartbeat(
        &mut self,
        member_id: &str,
        topics: Option<Vec<&str>>,
    ) -> Option<sharemark_group_coordinator::TopicPartitions> {
        let request = ShareHeartbeat {
            group_id: "g",
            member_id,
            member_epoch: self.epochs.get(member_id).copied().unwrap_or(0),
            rack_id: None,
            subscribed_topic_names: topics,
            client_id: "client",
            client_host: "/127.0.0.1",
        };
        let decided = self.shard.decide_share_heartbeat(NOW, &request, &self.topics, &CONFIG);
        let decision = decided.ok()?;
        self.append(&decision.records);
        self.shard.apply_share_heartbeat(decision.plan);
        self.epochs.insert(member_id.to_owned(), decision.answer.member_epoch.get());
        decision.states_to_initialise.map(|crossing| crossing.partitions())
    }
}

/// A heartbeat that changes nothing.
#[divan::bench(args = [(10, 10), (1_000, 10_000)])]
fn heartbeat(bencher: Bencher<'_, '_>, (member_count, partition_count): (usize, i32)) {
    let mut group = Group::new(member_count, partition_count);
    bencher.bench_local(|| group.heartbeat("member-0005", None));
}

/// A member joins, so that the whole assignment is computed anew.
#[divan::bench(args = [(10, 10), (999, 10_000)], sample_count = 10, sample_size = 1)]
fn join(bencher: Bencher<'_, '_>, (member_count, partition_count): (usize, i32)) {
    bencher
        .with_inputs(|| Group::new(member_count, partition_count))
        .bench_local_values(|mut group| group.heartbeat("newcomer", Some(vec!["t"])));
}

fn main() {
    divan::main();
}
