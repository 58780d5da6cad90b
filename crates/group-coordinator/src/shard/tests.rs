use std::cell::Cell;

use super::*;
use crate::{
    ClassicGroupConfig, ConsumerAssignor, ConsumerGroupConfig, DeleteShareStates, GroupEpoch,
    InitialiseShareStates, MigrationPolicy, ShareGroupState, TopicFacts,
};

mod admin;
mod classic;
mod consumer;
mod heartbeat;
mod migration;
mod model;
mod states;

const CONFIG: ShareGroupConfig = ShareGroupConfig {
    assignment_interval_ms: 0,
    heartbeat_interval_ms: 5_000,
    session_timeout_ms: 45_000,
    max_size: 3,
    initialize_retry_interval_ms: 30_000,
};
const LIMITS: GroupCoordinatorConfig =
    GroupCoordinatorConfig { groups_max: 3, offsets_max: 100, subscribed_topics_max: 8 };

/// The topics of a cluster that a test makes up.
#[derive(Default)]
struct Cluster {
    version: u64,
    created: u64,
    next_id: u8,
    topics: BTreeMap<String, TopicFacts>,
    /// How often somebody went through all names.
    walks: Cell<usize>,
}

impl Cluster {
    /// Creates a topic, or adds partitions to it.
    fn set(&mut self, name: &str, partition_count: i32) -> TopicId {
        self.version += 1;
        self.next_id += 1;
        let new = TopicFacts { id: TopicId::from_bytes([self.next_id; 16]), partition_count: 0 };
        if !self.topics.contains_key(name) {
            self.created = self.version;
        }
        let facts = self.topics.entry(name.to_owned()).or_insert(new);
        facts.partition_count = partition_count;
        facts.id
    }

    fn delete(&mut self, name: &str) -> TopicId {
        self.version += 1;
        self.topics.remove(name).unwrap().id
    }
}

impl Topics for Cluster {
    fn version(&self) -> u64 {
        self.version
    }

    fn created_version(&self) -> u64 {
        self.created
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.walks.set(self.walks.get() + 1);
        self.topics.keys().map(String::as_str)
    }

    fn topic(&self, name: &str) -> Option<TopicFacts> {
        self.topics.get(name).copied()
    }

    fn name(&self, id: TopicId) -> Option<&str> {
        self.topics.iter().find(|(_, facts)| facts.id == id).map(|(name, _)| name.as_str())
    }
}

const CLASSIC: ClassicGroupConfig = ClassicGroupConfig {
    initial_rebalance_delay_ms: 0,
    max_size: 3,
    pending_members_max: 2,
    min_session_timeout_ms: 10,
    max_session_timeout_ms: 10_000,
    migration: MigrationPolicy::Bidirectional,
};

fn consumer_config() -> ConsumerGroupConfig {
    ConsumerGroupConfig {
        assignment_interval_ms: 0,
        heartbeat_interval_ms: 5_000,
        session_timeout_ms: 45_000,
        max_size: 3,
        assignors: vec![ConsumerAssignor::Uniform, ConsumerAssignor::Range],
        regex_refresh_interval_ms: 600_000,
        regex_batch_interval_ms: 0,
    }
}

/// A shard with the log below it and the share coordinator across from it.
struct World {
    shard: GroupCoordinatorShard,
    cluster: Cluster,
    config: ShareGroupConfig,
    now: Timestamp,
    log: Vec<GroupRecord>,
    /// What the share coordinator was asked and has not answered.
    asked: Vec<InitialiseShareStates>,
}

/// What a member is told: epoch and, if it is told one, the assignment.
type Told = (i32, Option<TopicPartitions>);

impl World {
    fn new() -> Self {
        Self {
            shard: GroupCoordinatorShard::new(LIMITS),
            cluster: Cluster::default(),
            config: CONFIG,
            now: Timestamp::from_ms(1_000_000),
            log: Vec::new(),
            asked: Vec::new(),
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

    /// Returns the record types appended since the log was `from` long.
    fn types_since(&self, from: usize) -> Vec<i16> {
        let tail = self.log[from..].iter();
        tail.map(|record| if record.is_tombstone() { -record.record_type() } else { record.record_type() })
            .collect()
    }

    fn send(&mut self, request: &ShareHeartbeat<'_>) -> Result<Told, ErrorCode> {
        let decided = self.shard.decide_share_heartbeat(self.now, request, &self.cluster, &self.config);
        let decision = decided.map_err(|refusal| refusal.error)?;
        self.append(decision.records);
        self.shard.apply_share_heartbeat(decision.plan);
        self.shard.check_invariants();
        self.asked.extend(decision.states_to_initialise);
        let answer = decision.answer;
        let interval = if request.member_epoch == -1 { 0 } else { self.config.heartbeat_interval_ms };
        assert_eq!(answer.heartbeat_interval_ms, interval);
        Ok((answer.member_epoch.get(), answer.assignment))
    }

    fn heartbeat(&mut self, member_id: &str, epoch: i32, topics: Option<&[&str]>) -> Result<Told, ErrorCode> {
        self.send(&ShareHeartbeat {
            subscribed_topic_names: topics.map(<[&str]>::to_vec),
            ..request(member_id, epoch)
        })
    }

    /// Lets the share coordinator confirm everything it was asked.
    fn confirm(&mut self) {
        for crossing in std::mem::take(&mut self.asked) {
            let records = self.shard.decide_states_initialised(&crossing.group_id, &crossing.partitions());
            self.append(records);
            self.shard.check_invariants();
        }
    }

    /// Joins, lets the states be initialised, and returns the member's epoch with its assignment.
    fn join(&mut self, member_id: &str, topics: &[&str]) -> Told {
        let (epoch, _) = self.heartbeat(member_id, 0, Some(topics)).unwrap();
        self.confirm();
        self.heartbeat(member_id, epoch, Some(topics)).unwrap()
    }

    fn expire(&mut self) -> Vec<String> {
        let mut expired = Vec::new();
        while let Some(member) = self.shard.decide_expired(self.now, &self.cluster, &CLASSIC) {
            self.append(member.records);
            self.shard.check_invariants();
            expired.push(member.member_id.to_string());
        }
        expired
    }

    fn delete_topic(&mut self, name: &str) {
        let deleted = self.cluster.delete(name);
        let records = self.shard.decide_topics_deleted(&BTreeSet::from([deleted]));
        self.append(records);
    }

    /// Replays the log into a new shard, as after a failover.
    fn restart(&mut self) {
        let mut shard = GroupCoordinatorShard::new(LIMITS);
        for (record, offset) in self.log.iter().zip(0..) {
            shard.replay(Offset::new(offset).unwrap(), record);
        }
        assert!(shard.is_same_state(&self.shard), "replay equals live");
        shard.apply_loaded(self.now, |_| self.config.session_timeout_ms, |_| 45_000);
        shard.check_invariants();
        self.shard = shard;
    }

    fn describe(&self) -> DescribedShareGroup {
        self.shard.describe_share_group("g").unwrap()
    }

    /// Returns the epochs of the group and of its assignment.
    fn epochs(&self) -> (i32, i32) {
        let group = self.describe();
        (group.epoch.get(), group.assignment_epoch.get())
    }
}

fn request(member_id: &str, epoch: i32) -> ShareHeartbeat<'_> {
    ShareHeartbeat {
        group_id: "g",
        member_id,
        member_epoch: epoch,
        rack_id: None,
        subscribed_topic_names: None,
        client_id: "client",
        client_host: "/127.0.0.1",
    }
}

fn held(topics: &[(TopicId, &[i32])]) -> TopicPartitions {
    topics.iter().map(|(topic_id, list)| (*topic_id, list.iter().copied().collect())).collect()
}
