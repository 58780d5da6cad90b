use super::*;

const FIRST: ConnectionId = ConnectionId(1);
const SECOND: ConnectionId = ConnectionId(2);

fn key(group_id: &str, member_id: &str) -> ShareSessionKey {
    ShareSessionKey { group_id: group_id.into(), member_id: member_id.into() }
}

fn partition(index: i32) -> TopicIdPartition {
    TopicIdPartition { topic_id: sharemark_protocol::TopicId::from_bytes([7; 16]), partition: index }
}

fn sessions_up_to(session_count_max: usize) -> ShareSessions {
    ShareSessions::new(ShareSessionsConfig { session_count_max, partition_count_max: 100 })
}

fn fetch(key: &ShareSessionKey, epoch: i32) -> SessionFetch<'_> {
    SessionFetch { key, epoch, has_acknowledgements: false, partitions: &[], forgotten: &[] }
}

/// Decides a fetch and applies it, as the broker does.
fn run(
    sessions: &mut ShareSessions,
    fetch: SessionFetch<'_>,
    connection: ConnectionId,
) -> Result<SessionPlan, ErrorCode> {
    let plan = sessions.decide_fetch(&fetch)?;
    sessions.apply(&plan, fetch.partitions, fetch.forgotten, connection);
    sessions.check_invariants();
    Ok(plan)
}

fn acknowledge(
    sessions: &mut ShareSessions,
    key: &ShareSessionKey,
    epoch: i32,
) -> Result<SessionPlan, ErrorCode> {
    let plan = sessions.decide_acknowledge(key, epoch)?;
    sessions.apply(&plan, &[], &[], SECOND);
    sessions.check_invariants();
    Ok(plan)
}

/// Opens a session with partitions 0 to `count` - 1.
fn open(sessions: &mut ShareSessions, key: &ShareSessionKey, count: i32, connection: ConnectionId) {
    let partitions = (0..count).map(partition).collect::<Vec<_>>();
    let open = SessionFetch { partitions: &partitions, ..fetch(key, 0) };
    assert_eq!(run(sessions, open, connection), Ok(SessionPlan::Open(key.clone())));
}

fn names(sessions: &ShareSessions, key: &ShareSessionKey, epoch: i32) -> Vec<i32> {
    sessions.rotated(key, epoch).map(|partition| partition.partition).collect()
}

#[test]
fn a_request_without_a_session_is_refused() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    for epoch in [1, 3, 7, i32::MAX, -1, -2, i32::MIN] {
        assert_eq!(run(&mut sessions, fetch(&a, epoch), FIRST), Err(ErrorCode::ShareSessionNotFound));
        assert_eq!(acknowledge(&mut sessions, &a, epoch), Err(ErrorCode::ShareSessionNotFound));
    }
}

#[test]
fn an_acknowledge_request_never_opens_a_session() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    assert_eq!(acknowledge(&mut sessions, &a, 0), Err(ErrorCode::InvalidShareSessionEpoch));
    open(&mut sessions, &a, 1, FIRST);
    assert_eq!(acknowledge(&mut sessions, &a, 0), Err(ErrorCode::InvalidShareSessionEpoch));
    assert!(acknowledge(&mut sessions, &a, 1).is_ok());
}

#[test]
fn opening_with_acknowledgements_is_refused_and_the_old_session_goes_on() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    let bad = SessionFetch { has_acknowledgements: true, ..fetch(&a, 0) };
    assert_eq!(run(&mut sessions, bad, FIRST), Err(ErrorCode::InvalidRequest));
    open(&mut sessions, &a, 1, FIRST);
    assert_eq!(run(&mut sessions, bad, FIRST), Err(ErrorCode::InvalidRequest));
    assert_eq!(run(&mut sessions, fetch(&a, 1), FIRST), Ok(SessionPlan::Continue(a.clone())));
}

#[test]
fn a_wrong_epoch_is_refused_and_the_right_one_still_works() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
    for epoch in [1, 3, i32::MAX, -2, i32::MIN] {
        let refused = Err(ErrorCode::InvalidShareSessionEpoch);
        assert_eq!(run(&mut sessions, fetch(&a, epoch), FIRST), refused);
        assert_eq!(acknowledge(&mut sessions, &a, epoch), refused);
    }
    assert_eq!(run(&mut sessions, fetch(&a, 2), FIRST), Ok(SessionPlan::Continue(a)));
}

#[test]
fn each_accepted_request_of_either_kind_uses_up_one_epoch() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    let with_acknowledgements = SessionFetch { has_acknowledgements: true, ..fetch(&a, 2) };
    assert!(acknowledge(&mut sessions, &a, 1).is_ok());
    assert!(run(&mut sessions, with_acknowledgements, FIRST).is_ok());
    assert!(acknowledge(&mut sessions, &a, 3).is_ok());
    assert!(run(&mut sessions, fetch(&a, 4), FIRST).is_ok());
}

#[test]
fn after_the_highest_epoch_comes_one() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 3, FIRST);
    sessions.sessions.get_mut(&a).unwrap().set_next_epoch(i32::MAX);
    assert_eq!(names(&sessions, &a, i32::MAX).len(), 3);
    assert!(run(&mut sessions, fetch(&a, i32::MAX), FIRST).is_ok());
    for epoch in [i32::MIN, 0x7fff_fffe, 2] {
        let refused = Err(ErrorCode::InvalidShareSessionEpoch);
        assert_eq!(run(&mut sessions, fetch(&a, epoch), FIRST), refused);
    }
    assert!(acknowledge(&mut sessions, &a, 1).is_ok());
}

#[test]
fn opening_again_replaces_the_session_and_releases_nothing() {
    let mut sessions = sessions_up_to(1);
    let a = key("g", "a");
    open(&mut sessions, &a, 5, FIRST);
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
    open(&mut sessions, &a, 2, SECOND);
    assert_eq!(names(&sessions, &a, 0), [0, 1]);
    assert_eq!(run(&mut sessions, fetch(&a, 2), FIRST), Err(ErrorCode::InvalidShareSessionEpoch));
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
    // The new session belongs to the connection that opened it.
    assert_eq!(sessions.close_connection(FIRST), ClosedConnection::default());
    assert_eq!(sessions.close_connection(SECOND).sessions.len(), 1);
}

#[test]
fn closing_yields_the_partitions_of_the_session() {
    for is_fetch in [true, false] {
        let mut sessions = sessions_up_to(10);
        let a = key("g", "a");
        open(&mut sessions, &a, 3, FIRST);
        let plan = if is_fetch {
            run(&mut sessions, SessionFetch { has_acknowledgements: true, ..fetch(&a, -1) }, FIRST)
        } else {
            acknowledge(&mut sessions, &a, -1)
        };
        assert_eq!(plan, Ok(SessionPlan::Close(a.clone())));
        let closed = sessions.close(&a).unwrap();
        assert_eq!(
            closed,
            ClosedSession {
                key: a.clone(),
                partitions: (0..3).map(partition).collect(),
                forgets_group: false
            }
        );
        assert_eq!(sessions.close(&a), None);
        sessions.check_invariants();
        assert_eq!(run(&mut sessions, fetch(&a, 1), FIRST), Err(ErrorCode::ShareSessionNotFound));
        assert_eq!(acknowledge(&mut sessions, &a, -1), Err(ErrorCode::ShareSessionNotFound));
    }
}

#[test]
fn closing_releases_also_what_the_last_request_forgets() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 3, FIRST);
    let gone = [partition(1)];
    assert!(run(&mut sessions, SessionFetch { forgotten: &gone, ..fetch(&a, -1) }, FIRST).is_ok());
    let closed = sessions.close(&a).unwrap();
    assert_eq!(closed.partitions, (0..3).map(partition).collect::<Vec<_>>());
}

#[test]
fn at_the_limit_no_session_is_opened_and_none_makes_room() {
    let mut sessions = sessions_up_to(2);
    let (a, b, c) = (key("g", "a"), key("g", "b"), key("h", "c"));
    open(&mut sessions, &a, 1, FIRST);
    open(&mut sessions, &b, 1, FIRST);
    assert_eq!(run(&mut sessions, fetch(&c, 0), SECOND), Err(ErrorCode::ShareSessionLimitReached));
    assert_eq!(sessions.session_count(), 2);
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
    sessions.close(&b);
    open(&mut sessions, &c, 1, SECOND);
}

#[test]
fn a_session_ends_with_its_connection_whoever_used_it() {
    let mut sessions = sessions_up_to(10);
    let (a, b) = (key("g", "a"), key("g", "b"));
    open(&mut sessions, &a, 2, FIRST);
    open(&mut sessions, &b, 1, SECOND);
    assert!(run(&mut sessions, fetch(&a, 1), SECOND).is_ok());
    assert!(run(&mut sessions, fetch(&a, 2), SECOND).is_ok());
    let closed = sessions.close_connection(FIRST);
    let partitions = vec![partition(0), partition(1)];
    assert_eq!(closed.sessions, [ClosedSession { key: a.clone(), partitions, forgets_group: false }]);
    assert!(closed.emptied_groups.is_empty(), "the group has another session");
    assert_eq!(run(&mut sessions, fetch(&a, 3), SECOND), Err(ErrorCode::ShareSessionNotFound));
    assert_eq!(sessions.close_connection(SECOND).emptied_groups, [b.group_id]);
    sessions.check_invariants();
}

#[test]
fn a_connection_may_open_several_sessions() {
    let mut sessions = sessions_up_to(10);
    open(&mut sessions, &key("g", "a"), 1, FIRST);
    open(&mut sessions, &key("h", "b"), 1, FIRST);
    let closed = sessions.close_connection(FIRST);
    assert_eq!(closed.sessions.len(), 2);
    assert_eq!(closed.emptied_groups, ["g".into(), "h".into()]);
    assert_eq!(sessions.session_count(), 0);
}

#[test]
fn a_group_is_forgotten_when_the_connection_of_its_last_session_closes() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    sessions.close(&a);
    sessions.check_invariants();
    assert_eq!(sessions.close_connection(SECOND), ClosedConnection::default());
    assert_eq!(sessions.close_connection(FIRST).emptied_groups, ["g".into()]);

    // Not if the group is back by then.
    open(&mut sessions, &a, 1, FIRST);
    sessions.close(&a);
    open(&mut sessions, &a, 1, SECOND);
    assert!(sessions.close_connection(FIRST).emptied_groups.is_empty());
    assert_eq!(sessions.session_count(), 1);
    sessions.check_invariants();
}

#[test]
fn groups_that_come_and_go_on_one_connection_do_not_pile_up() {
    let mut sessions = sessions_up_to(2);
    for index in 0..100 {
        let a = key(&format!("g{index}"), "a");
        open(&mut sessions, &a, 1, FIRST);
        let closed = sessions.close(&a);
        assert_eq!(
            closed.map(|closed| closed.forgets_group),
            Some(2 <= index),
            "one too many is forgotten at once"
        );
        sessions.check_invariants();
    }
    assert_eq!(sessions.left_group_count, 2);
    assert_eq!(sessions.close_connection(FIRST).emptied_groups.len(), 2);
    sessions.check_invariants();
}

#[test]
fn a_request_refused_later_has_used_up_its_epoch() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    // The broker applies the plan, then finds a bad acquire mode.
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
    assert_eq!(run(&mut sessions, fetch(&a, 1), FIRST), Err(ErrorCode::InvalidShareSessionEpoch));
}

#[test]
fn a_decision_alone_uses_up_nothing() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    assert!(sessions.decide_fetch(&fetch(&a, 1)).is_ok());
    assert!(sessions.decide_acknowledge(&a, 1).is_ok());
    assert!(run(&mut sessions, fetch(&a, 1), FIRST).is_ok());
}

#[test]
fn sessions_belong_to_group_and_member() {
    let mut sessions = sessions_up_to(10);
    let (a, b, c) = (key("g", "a"), key("h", "a"), key("g", "b"));
    open(&mut sessions, &a, 1, FIRST);
    assert_eq!(run(&mut sessions, fetch(&b, 1), FIRST), Err(ErrorCode::ShareSessionNotFound));
    assert_eq!(run(&mut sessions, fetch(&c, 1), FIRST), Err(ErrorCode::ShareSessionNotFound));
    assert!(sessions.has_sessions("g"));
    assert!(!sessions.has_sessions("h"));
    assert!(!sessions.has_sessions(""));
}

#[test]
fn the_same_member_has_a_session_of_its_own_at_each_node() {
    let (mut one, mut other) = (sessions_up_to(10), sessions_up_to(10));
    let a = key("g", "a");
    let (p0, p1) = ([partition(0)], [partition(1)]);
    run(&mut one, SessionFetch { partitions: &p0, ..fetch(&a, 0) }, FIRST).unwrap();
    run(&mut other, SessionFetch { partitions: &p1, ..fetch(&a, 0) }, FIRST).unwrap();
    assert_eq!(one.close(&a).unwrap().partitions, p0);
    assert!(run(&mut other, fetch(&a, 1), FIRST).is_ok());
}

#[test]
fn a_partition_joins_by_being_named_and_stays_until_forgotten() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 2, FIRST);
    // Named for its acknowledgements only: it joins all the same.
    let (p9, p1) = ([partition(9)], [partition(1)]);
    let named = SessionFetch { has_acknowledgements: true, partitions: &p9, ..fetch(&a, 1) };
    run(&mut sessions, named, FIRST).unwrap();
    assert_eq!(names(&sessions, &a, 0), [0, 1, 9]);
    run(&mut sessions, SessionFetch { partitions: &p1, ..fetch(&a, 2) }, FIRST).unwrap();
    assert_eq!(names(&sessions, &a, 0), [0, 1, 9]);
    run(&mut sessions, SessionFetch { forgotten: &p9, ..fetch(&a, 3) }, FIRST).unwrap();
    assert_eq!(names(&sessions, &a, 0), [0, 1]);
    // Named and forgotten at once: it has left.
    let both = SessionFetch { partitions: &p9, forgotten: &p9, ..fetch(&a, 4) };
    run(&mut sessions, both, FIRST).unwrap();
    assert_eq!(names(&sessions, &a, 0), [0, 1]);
    // What is acknowledged by the other request does not join.
    acknowledge(&mut sessions, &a, 5).unwrap();
    run(&mut sessions, SessionFetch { forgotten: &p1, ..fetch(&a, 6) }, FIRST).unwrap();
    assert_eq!(sessions.close(&a).unwrap().partitions, [partition(0)]);
}

#[test]
fn every_partition_gets_its_turn_first() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 3, FIRST);
    assert_eq!(names(&sessions, &a, 0), [0, 1, 2]);
    assert_eq!(names(&sessions, &a, 1), [1, 2, 0]);
    assert_eq!(names(&sessions, &a, 2), [2, 0, 1]);
    assert_eq!(names(&sessions, &a, 3), [0, 1, 2]);
    let empty = key("g", "none");
    open(&mut sessions, &empty, 0, FIRST);
    assert!(names(&sessions, &empty, 5).is_empty());
    let firsts: BTreeSet<i32> = (1..=3).map(|epoch| names(&sessions, &a, epoch)[0]).collect();
    assert_eq!(firsts, BTreeSet::from([0, 1, 2]));
}

#[test]
fn an_answer_lists_what_is_new_or_has_something_to_tell() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 2, FIRST);
    let (p0, p1, p7) = (partition(0), partition(1), partition(7));
    let nothing = PartitionOutcome::default();
    let records = PartitionOutcome { has_records: true, ..nothing };
    let error = PartitionOutcome { has_error: true, ..nothing };
    let acknowledged = PartitionOutcome { has_acknowledgements: true, ..nothing };
    assert!(sessions.apply_answer(&a, p0, nothing), "new ones are listed");
    assert!(!sessions.apply_answer(&a, p0, nothing));
    assert!(sessions.apply_answer(&a, p0, records));
    assert!(sessions.apply_answer(&a, p0, acknowledged));
    assert!(!sessions.apply_answer(&a, p0, nothing));
    // One whose state was still being read was not asked about, and is new in the next answer.
    assert!(sessions.apply_answer(&a, p1, nothing));
    // An error repeats until it goes away, and its end is told once.
    assert!(sessions.apply_answer(&a, p1, error));
    assert!(sessions.apply_answer(&a, p1, error));
    assert!(sessions.apply_answer(&a, p1, nothing));
    assert!(!sessions.apply_answer(&a, p1, nothing));
    // A partition that is not in the session may still be acknowledged.
    assert!(sessions.apply_answer(&a, p7, acknowledged));
    assert!(!sessions.apply_answer(&a, p7, nothing));
    // So may one while its session ends.
    sessions.close(&a);
    assert!(sessions.apply_answer(&a, p0, acknowledged));
}

#[test]
fn a_session_holds_no_more_partitions_than_allowed() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    let many = (0..101).map(partition).collect::<Vec<_>>();
    let too_many = SessionFetch { partitions: &many, ..fetch(&a, 0) };
    assert_eq!(run(&mut sessions, too_many, FIRST), Err(ErrorCode::InvalidRequest));
    open(&mut sessions, &a, 100, FIRST);
    let (known, unknown) = ([partition(3)], [partition(100)]);
    let over = SessionFetch { partitions: &unknown, ..fetch(&a, 1) };
    assert_eq!(run(&mut sessions, over, FIRST), Err(ErrorCode::InvalidRequest));
    assert!(run(&mut sessions, SessionFetch { partitions: &known, ..fetch(&a, 1) }, FIRST).is_ok());
}

#[test]
fn after_a_restart_the_session_is_unknown() {
    let mut sessions = sessions_up_to(10);
    let a = key("g", "a");
    open(&mut sessions, &a, 1, FIRST);
    sessions = sessions_up_to(10);
    assert_eq!(acknowledge(&mut sessions, &a, 1), Err(ErrorCode::ShareSessionNotFound));
    open(&mut sessions, &a, 1, FIRST);
    sessions.clear();
    sessions.check_invariants();
    assert_eq!(run(&mut sessions, fetch(&a, 1), FIRST), Err(ErrorCode::ShareSessionNotFound));
}
