//! Classic groups through the doors of a shard, with the log below it.

use super::*;
use crate::{
    Caller, ClassicAnswer, ClassicGroupConfig, ClassicHeartbeat, ClassicPlan, JoinAnswer, JoinGroup,
    LeavingMember, SyncGroup,
};
use bytes::Bytes;

/// A shard, its log, and what callers were told.
struct Case {
    shard: GroupCoordinatorShard,
    cluster: Cluster,
    config: ClassicGroupConfig,
    now: Timestamp,
    log: Vec<GroupRecord>,
    answers: BTreeMap<u64, ClassicAnswer>,
    next_unique: u32,
}

impl Case {
    fn new() -> Self {
        Self {
            shard: GroupCoordinatorShard::new(LIMITS),
            cluster: Cluster::default(),
            config: CLASSIC,
            now: Timestamp::from_ms(1_000),
            log: Vec::new(),
            answers: BTreeMap::new(),
            next_unique: 0,
        }
    }

    fn run(&mut self, plan: ClassicPlan) {
        for record in &plan.records {
            self.shard.replay(Offset::new(self.log.len() as i64).unwrap(), record);
            self.log.push(record.clone());
        }
        for (caller, answer) in self.shard.apply_classic(plan) {
            self.answers.insert(caller.0, answer);
        }
        self.shard.check_invariants();
        let mut replayed = GroupCoordinatorShard::new(LIMITS);
        for (record, offset) in self.log.iter().zip(0..) {
            replayed.replay(Offset::new(offset).unwrap(), record);
        }
        assert!(replayed.is_same_state(&self.shard), "replay equals live");
    }

    fn join(&mut self, caller: u64, member_id: &str, change: impl FnOnce(&mut JoinGroup<'_>)) {
        // Only who has no id yet is given one.
        self.next_unique += u32::from(member_id.is_empty());
        let unique = self.next_unique.to_string();
        let mut request = JoinGroup {
            group_id: "g",
            member_id,
            group_instance_id: None,
            protocol_type: "consumer",
            protocols: vec![("range".into(), Bytes::from_static(b"m"))],
            session_timeout_ms: 1_000,
            rebalance_timeout_ms: 2_000,
            client_id: "c",
            client_host: "/127.0.0.1",
            unique: &unique,
            fresh_member_id: &unique,
            requires_known_member_id: false,
            supports_skipping_assignment: true,
            caller: Caller(caller),
        };
        change(&mut request);
        match self.shard.decide_join_group(
            self.now,
            &request,
            &self.cluster,
            &self.config,
            &consumer_config(),
        ) {
            Ok(plan) => self.run(plan),
            Err(answer) => {
                self.answers.insert(caller, ClassicAnswer::Join(answer));
            }
        }
    }

    fn sync(&mut self, caller: u64, member_id: &str, generation: i32, assignments: &[(&str, &'static str)]) {
        let request = SyncGroup {
            group_id: "g",
            member_id,
            group_instance_id: None,
            generation,
            protocol_type: None,
            protocol: None,
            assignments: assignments
                .iter()
                .map(|(id, text)| (*id, Bytes::from_static(text.as_bytes())))
                .collect(),
            caller: Caller(caller),
        };
        let plan = self.shard.decide_sync_group(self.now, &request, &self.cluster, &self.config).unwrap();
        self.run(plan);
    }

    fn leave(&mut self, member_id: &str) -> Vec<ErrorCode> {
        let members = [LeavingMember { member_id, group_instance_id: None }];
        let (plan, answer) =
            self.shard.decide_leave_group(self.now, "g", &members, &self.cluster, &self.config).unwrap();
        self.run(plan);
        answer
    }

    fn beat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let request = ClassicHeartbeat { group_id: "g", member_id, group_instance_id: None, generation };
        match self.shard.decide_classic_heartbeat(self.now, &request) {
            Ok(decision) => {
                self.shard.apply_classic_heartbeat(self.now, &decision);
                decision.error
            }
            Err(error) => error,
        }
    }

    fn advance(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        while let Some(next) = self.shard.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            while let Some(plan) = self.shard.decide_classic_expired(self.now, &self.config) {
                self.run(plan);
            }
        }
        self.now = end;
    }

    fn joined(&mut self, caller: u64) -> JoinAnswer {
        match self.answers.remove(&caller) {
            Some(ClassicAnswer::Join(answer)) => answer,
            other => panic!("a JoinGroup is answered: {other:?}"),
        }
    }

    fn synced(&mut self, caller: u64) -> Result<String, ErrorCode> {
        match self.answers.remove(&caller) {
            Some(ClassicAnswer::Sync(answer)) if answer.error == ErrorCode::None => {
                Ok(String::from_utf8(answer.assignment.to_vec()).unwrap())
            }
            Some(ClassicAnswer::Sync(answer)) => Err(answer.error),
            other => panic!("a SyncGroup is answered: {other:?}"),
        }
    }

    fn state(&self) -> &'static str {
        self.shard.describe_classic_group("g").unwrap().state
    }

    /// A stable group of the members `c-1` and `c-2` in generation 2, led by the first.
    fn of_two() -> Self {
        let mut case = Self::new();
        case.join(1, "", |_| {});
        case.sync(1, "c-1", 1, &[("c-1", "all")]);
        case.join(2, "", |_| {});
        case.join(1, "c-1", |_| {});
        case.sync(2, "c-2", 2, &[]);
        case.sync(1, "c-1", 2, &[("c-1", "a"), ("c-2", "b")]);
        case.answers.clear();
        case
    }
}

#[test]
fn members_get_what_the_leader_assigns() {
    let mut case = Case::new();
    case.join(1, "", |_| {});
    let first = case.joined(1);
    assert_eq!((&*first.member_id, first.generation, &*first.leader), ("c-1", 1, "c-1"));
    assert_eq!(first.members.len(), 1);
    case.sync(1, "c-1", 1, &[("c-1", "all")]);
    assert_eq!(case.synced(1), Ok("all".into()));
    case.join(2, "", |_| {});
    assert!(case.answers.is_empty(), "the second waits for the first to join again");
    assert_eq!(case.beat("c-1", 1), ErrorCode::RebalanceInProgress);
    case.join(1, "c-1", |_| {});
    assert_eq!(case.joined(1).members.len(), 2);
    assert_eq!(case.joined(2).members.len(), 0);
    case.sync(2, "c-2", 2, &[]);
    assert_eq!(case.state(), "CompletingRebalance");
    case.sync(1, "c-1", 2, &[("c-1", "a"), ("c-2", "b")]);
    assert_eq!((case.synced(1), case.synced(2)), (Ok("a".into()), Ok("b".into())));
    assert_eq!(case.state(), "Stable");
    assert_eq!(case.beat("c-2", 2), ErrorCode::None);
    assert_eq!(case.beat("c-2", 1), ErrorCode::IllegalGeneration);
    assert_eq!(case.beat("nobody", 2), ErrorCode::UnknownMemberId);
}

#[test]
fn a_silent_member_is_removed_and_the_others_join_again() {
    let mut case = Case::of_two();
    case.advance(600);
    assert_eq!(case.beat("c-1", 2), ErrorCode::None);
    case.advance(600);
    assert_eq!(case.state(), "PreparingRebalance");
    case.join(1, "c-1", |_| {});
    let answer = case.joined(1);
    assert_eq!((answer.generation, answer.members.len()), (3, 1));
    // Nobody speaks up any more.
    case.advance(20_000);
    assert_eq!(case.state(), "Empty");
}

#[test]
fn who_does_not_join_in_time_is_left_behind() {
    let mut case = Case::of_two();
    case.join(3, "", |_| {});
    for _ in 0..4 {
        // Heartbeats alone are not enough.
        case.advance(490);
        assert_eq!(case.beat("c-1", 2), ErrorCode::RebalanceInProgress);
        assert_eq!(case.beat("c-2", 2), ErrorCode::RebalanceInProgress);
    }
    case.advance(100);
    let answer = case.joined(3);
    assert_eq!((answer.generation, answer.members.len(), &*answer.leader), (3, 1, "c-3"));
    // It never asks for its assignment, so the group ends.
    case.advance(2_000);
    assert_eq!(case.state(), "Empty");
}

#[test]
fn the_first_rebalance_waits_for_more_members() {
    let mut case = Case::new();
    case.config.initial_rebalance_delay_ms = 300;
    case.join(1, "", |_| {});
    case.advance(200);
    case.join(2, "", |_| {});
    case.advance(200);
    assert!(case.answers.is_empty(), "somebody new put it off");
    case.advance(200);
    assert_eq!((case.joined(1).generation, case.joined(2).generation), (1, 1));
}

#[test]
fn a_group_and_its_pending_ids_are_bounded() {
    let mut case = Case::of_two();
    case.join(3, "", |_| {});
    case.join(1, "c-1", |_| {});
    case.join(2, "c-2", |_| {});
    case.answers.clear();
    case.join(4, "", |_| {});
    assert_eq!(case.joined(4).error, ErrorCode::GroupMaxSizeReached);
    let mut case = Case::new();
    for caller in 1..=3 {
        case.join(caller, "", |request| request.requires_known_member_id = true);
    }
    let errors: Vec<ErrorCode> = (1..=3).map(|caller| case.joined(caller).error).collect();
    let required = ErrorCode::MemberIdRequired;
    assert_eq!(errors, [required, required, ErrorCode::GroupMaxSizeReached]);
    case.advance(1_000);
    case.join(1, "", |request| request.requires_known_member_id = true);
    assert_eq!(case.joined(1).error, required);
}

#[test]
fn a_static_member_takes_its_place_over() {
    let mut case = Case::new();
    case.join(1, "", |request| request.group_instance_id = Some("i"));
    case.sync(1, "i-1", 1, &[("i-1", "all")]);
    case.answers.clear();
    case.join(2, "", |request| request.group_instance_id = Some("i"));
    let answer = case.joined(2);
    assert_eq!((&*answer.member_id, answer.generation, answer.skips_assignment), ("i-2", 1, true));
    case.join(1, "i-1", |request| request.group_instance_id = Some("i"));
    assert_eq!(case.joined(1).error, ErrorCode::FencedInstanceId);
    case.join(3, "", |request| {
        request.group_instance_id = Some("i");
        request.supports_skipping_assignment = false;
    });
    let answer = case.joined(3);
    assert_eq!((&*answer.member_id, &*answer.leader), ("i-3", "i-2"), "an older client is not told it leads");
}

#[test]
fn a_loaded_group_is_stable_and_its_sessions_begin_anew() {
    let live = Case::of_two();
    let mut case = Case::new();
    for (record, offset) in live.log.iter().zip(0..) {
        case.shard.replay(Offset::new(offset).unwrap(), record);
    }
    case.log = live.log.clone();
    case.shard.apply_loaded(case.now, |_| 0, |_| 0);
    assert_eq!(case.state(), "Stable");
    assert_eq!(case.beat("c-2", 2), ErrorCode::None);
    case.sync(1, "c-2", 2, &[]);
    assert_eq!(case.synced(1), Ok("b".into()));
    case.advance(1_001);
    assert_eq!(case.state(), "Empty");
}

#[test]
fn a_member_that_leaves_is_answered_and_gone() {
    let mut case = Case::of_two();
    case.join(2, "c-2", |request| request.protocols = vec![("range".into(), Bytes::from_static(b"new"))]);
    assert_eq!(case.leave("c-2"), [ErrorCode::None]);
    assert_eq!(case.joined(2).error, ErrorCode::UnknownMemberId);
    assert_eq!(case.leave("c-2"), [ErrorCode::UnknownMemberId]);
    assert_eq!(case.leave("c-1"), [ErrorCode::None]);
    assert_eq!(case.state(), "Empty");
    let deleted = case.shard.decide_group_deleted("g").unwrap();
    assert_eq!(deleted, [GroupRecord::ClassicGroup { group_id: "g".into(), value: None }]);
}

#[test]
fn whoever_waits_is_answered_when_the_shard_goes() {
    let mut case = Case::of_two();
    assert_eq!(case.shard.callers_when_unloaded(), []);
    case.join(7, "", |_| {});
    let refused = JoinAnswer::refused(ErrorCode::NotCoordinator, "c-3");
    assert_eq!(case.shard.callers_when_unloaded(), [(Caller(7), ClassicAnswer::Join(refused))]);
}
