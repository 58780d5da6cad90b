use super::*;

#[test]
fn a_first_member_makes_the_group_at_epoch_2_and_gets_its_partition_at_3() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    assert_eq!(world.heartbeat("A", 0, Some(&["t"])), Ok((2, Some(held(&[])))));
    assert_eq!(world.types_since(0), [10, 11, 13, 12, 14, 15]);
    let length = world.log.len();
    world.confirm();
    assert_eq!(world.heartbeat("A", 2, None), Ok((3, Some(held(&[(t, &[0])])))));
    assert_eq!(world.types_since(length), [15, 11, 13, 12, 14]);
    let length = world.log.len();
    assert_eq!(world.heartbeat("A", 3, None), Ok((3, None)));
    assert_eq!(world.types_since(length), []);
    assert_eq!(world.heartbeat("A", 3, Some(&["t"])), Ok((3, Some(held(&[(t, &[0])])))));
    assert_eq!(world.types_since(length), []);
}

#[test]
fn the_previous_epoch_stays_good_until_the_next_change() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    world.join("A", &["t"]);
    assert_eq!(world.heartbeat("A", 2, None), Ok((3, None)));
    assert_eq!(world.heartbeat("A", 3, None), Ok((3, None)));
}

#[test]
fn requests_are_checked_in_kafkas_order() {
    let mut world = World::new();
    let invalid = Err(ErrorCode::InvalidRequest);
    assert_eq!(world.heartbeat("", 0, Some(&["t"])), invalid);
    assert_eq!(world.heartbeat(" \t", 0, Some(&["t"])), invalid);
    assert_eq!(world.heartbeat("A", 0, None), invalid);
    assert_eq!(world.heartbeat("A", 0, Some(&[])), invalid);
    assert_eq!(world.heartbeat("A", -2, Some(&["t"])), invalid);
    assert_eq!(world.send(&ShareHeartbeat { group_id: "", ..request("A", 5) }), invalid);
    assert_eq!(world.send(&ShareHeartbeat { rack_id: Some(""), ..request("A", 5) }), invalid);
    assert_eq!(world.heartbeat("A", 1, None), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(world.heartbeat("A", -1, None), Err(ErrorCode::GroupIdNotFound));
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    assert_eq!(world.heartbeat("B", 1, None), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.heartbeat("B", -1, None), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.heartbeat("B", -2, None), invalid);
    assert!(world.log.len() == 5, "what is refused writes nothing");
}

#[test]
fn too_many_topics_are_refused() {
    let mut world = World::new();
    let names = ["t"; LIMITS.subscribed_topics_max + 1];
    assert_eq!(world.heartbeat("A", 0, Some(&names)), Err(ErrorCode::InvalidRequest));
    assert!(world.heartbeat("A", 0, Some(&names[1..])).is_ok());
}

#[test]
fn an_epoch_that_is_neither_current_nor_previous_is_fenced() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.join("A", &["t"]);
    world.cluster.set("t", 2);
    let (epoch, _) = world.heartbeat("A", 3, None).unwrap();
    assert_eq!(epoch, 4);
    world.confirm();
    assert_eq!(world.heartbeat("A", 4, None).unwrap().0, 5);
    for epoch in [1, 2, 3, 6, i32::MAX] {
        assert_eq!(world.heartbeat("A", epoch, None), Err(ErrorCode::FencedMemberEpoch), "{epoch}");
    }
    // A member that lost track comes back under its id, keeps its epoch and is told everything.
    assert_eq!(world.heartbeat("A", 0, Some(&["t"])), Ok((5, Some(held(&[(t, &[0, 1])])))));
}

#[test]
fn a_full_group_takes_nobody_but_its_members() {
    let mut world = World::new();
    for member_id in ["A", "B", "C"] {
        world.heartbeat(member_id, 0, Some(&["t"])).unwrap();
    }
    assert_eq!(world.heartbeat("D", 0, Some(&["t"])), Err(ErrorCode::GroupMaxSizeReached));
    assert_eq!(world.heartbeat("D", 4, None), Err(ErrorCode::GroupMaxSizeReached));
    assert!(world.heartbeat("A", 0, Some(&["t"])).is_ok());
    world.heartbeat("B", -1, None).unwrap();
    assert!(world.heartbeat("D", 0, Some(&["t"])).is_ok());
}

#[test]
fn a_full_shard_takes_no_new_group() {
    let mut world = World::new();
    for group_id in ["g1", "g2", "g3"] {
        let names = Some(vec!["t"]);
        world.send(&ShareHeartbeat { group_id, subscribed_topic_names: names, ..request("A", 0) }).unwrap();
    }
    assert_eq!(world.heartbeat("A", 0, Some(&["t"])), Err(ErrorCode::GroupMaxSizeReached));
    let altered = world.shard.decide_alter_offsets("g", &[], &world.cluster);
    assert_eq!(altered.unwrap_err().error, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn members_share_out_partitions_and_move_on_at_their_own_heartbeats() {
    let mut world = World::new();
    let t = world.cluster.set("t", 2);
    let (a, _) = world.join("A", &["t"]);
    let (b, told) = world.heartbeat("B", 0, Some(&["t"])).unwrap();
    assert_eq!((b, told.map(|told| told[&t].len())), (4, Some(1)));
    let (a, told) = world.heartbeat("A", a, None).unwrap();
    assert_eq!((a, told.map(|told| told[&t].len())), (4, Some(1)));
    assert_eq!(world.epochs(), (4, 4));
}

#[test]
fn more_members_than_partitions_share_them() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.join("A", &["t"]);
    for member_id in ["B", "C"] {
        let (_, told) = world.heartbeat(member_id, 0, Some(&["t"])).unwrap();
        assert_eq!(told, Some(held(&[(t, &[0])])));
    }
}

#[test]
fn a_changed_subscription_changes_the_assignment_and_a_repeated_one_nothing() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    let u = world.cluster.set("u", 1);
    let (epoch, _) = world.join("A", &["t"]);
    let (epoch, told) = world.heartbeat("A", epoch, Some(&["t", "u"])).unwrap();
    assert_eq!(told, Some(held(&[(t, &[0])])));
    world.confirm();
    let (epoch, told) = world.heartbeat("A", epoch, None).unwrap();
    assert_eq!(told, Some(held(&[(t, &[0]), (u, &[0])])));
    let (epoch, told) = world.heartbeat("A", epoch, Some(&["u"])).unwrap();
    assert_eq!(told, Some(held(&[(u, &[0])])));
    let length = world.log.len();
    assert_eq!(world.heartbeat("A", epoch, Some(&["u", "u"])).unwrap().0, epoch);
    assert_eq!(world.types_since(length), []);
}

#[test]
fn a_changed_address_is_written_down_without_a_new_epoch() {
    let mut world = World::new();
    let (epoch, _) = world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let length = world.log.len();
    let moved = ShareHeartbeat { client_host: "/10.0.0.1", rack_id: Some("r"), ..request("A", epoch) };
    assert_eq!(world.send(&moved), Ok((epoch, None)));
    assert_eq!(world.types_since(length), [10]);
    let member = &world.describe().members[0];
    assert_eq!((&*member.metadata.client_host, member.metadata.rack_id.as_deref()), ("/10.0.0.1", Some("r")));
}

#[test]
fn the_assignment_interval_holds_a_new_assignment_back() {
    let mut world = World::new();
    world.config.assignment_interval_ms = 1_000;
    let t = world.cluster.set("t", 1);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.confirm();
    world.now = world.now.plus_ms(999);
    assert_eq!(world.heartbeat("A", 2, None), Ok((2, None)));
    assert_eq!(world.epochs(), (3, 2));
    // Who joins meanwhile follows the assignment that stands.
    assert_eq!(world.heartbeat("B", 0, Some(&["t"])), Ok((2, Some(held(&[])))));
    world.now = world.now.plus_ms(1);
    assert_eq!(world.heartbeat("A", 2, None), Ok((4, Some(held(&[(t, &[0])])))));
    assert_eq!(world.epochs(), (4, 4));
}

#[test]
fn a_leave_removes_the_member_and_a_second_one_is_unknown() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    let (epoch, _) = world.join("A", &["t"]);
    assert_eq!(epoch, 3);
    let length = world.log.len();
    assert_eq!(world.heartbeat("A", -1, None), Ok((-1, None)));
    assert_eq!(world.types_since(length), [-14, -13, -10, 11, 12]);
    assert_eq!(world.heartbeat("A", -1, None), Err(ErrorCode::UnknownMemberId));
    assert_eq!(world.describe().state, ShareGroupState::Empty);
    assert_eq!(world.epochs(), (4, 4));
    assert_eq!(world.shard.poll_timeout(), None);
}

#[test]
fn one_of_two_leaves_and_the_other_takes_over() {
    let mut world = World::new();
    let t = world.cluster.set("t", 2);
    world.join("A", &["t"]);
    let (b, _) = world.heartbeat("B", 0, Some(&["t"])).unwrap();
    let length = world.log.len();
    world.heartbeat("A", -1, None).unwrap();
    assert_eq!(world.types_since(length), [-14, -13, -10, 11]);
    assert_eq!(world.heartbeat("B", b, None), Ok((5, Some(held(&[(t, &[0, 1])])))));
}

#[test]
fn a_silent_member_is_removed_when_its_session_ends() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    let (epoch, _) = world.join("A", &["t"]);
    let deadline = world.now.plus_ms(world.config.session_timeout_ms);
    assert_eq!(world.shard.poll_timeout(), Some(deadline));
    world.now = world.now.plus_ms(world.config.session_timeout_ms - 1);
    assert_eq!(world.expire(), [""; 0]);
    world.heartbeat("B", 0, Some(&["t"])).unwrap();
    world.now = deadline;
    assert_eq!(world.expire(), ["A"]);
    assert_eq!(world.heartbeat("A", epoch, None), Err(ErrorCode::UnknownMemberId));
    world.now = world.now.plus_ms(world.config.session_timeout_ms);
    assert_eq!(world.expire(), ["B"]);
    // The last member gone, the epochs are equal.
    let (group, assignment) = world.epochs();
    assert_eq!(group, assignment);
    assert_eq!(world.describe().state, ShareGroupState::Empty);
}

#[test]
fn a_heartbeat_extends_the_session() {
    let mut world = World::new();
    let (epoch, _) = world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.now = world.now.plus_ms(40_000);
    world.heartbeat("A", epoch, None).unwrap();
    world.now = world.now.plus_ms(44_999);
    assert_eq!(world.expire(), [""; 0]);
}

#[test]
fn a_restart_keeps_members_and_gives_them_a_whole_session() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    let (epoch, told) = world.join("A", &["t"]);
    world.now = world.now.plus_ms(44_999);
    world.restart();
    assert_eq!(world.shard.poll_timeout(), Some(world.now.plus_ms(45_000)));
    assert_eq!(world.heartbeat("A", epoch, None), Ok((epoch, None)));
    assert_eq!(told, Some(held(&[(t, &[0])])));
}

#[test]
fn a_member_is_checked_for_a_transaction() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    let check = |world: &World, group_id: &str, member_id: &str, epoch| {
        world.shard.check_member(group_id, member_id, MemberEpoch::new(epoch))
    };
    assert_eq!(check(&world, "g", "A", 1), Err(ErrorCode::GroupIdNotFound));
    world.join("A", &["t"]);
    assert_eq!(check(&world, "h", "A", 3), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(check(&world, "g", "B", 3), Err(ErrorCode::UnknownMemberId));
    assert_eq!(check(&world, "g", "A", 3), Ok(()));
    assert_eq!(check(&world, "g", "A", 2), Ok(()));
    for epoch in [-1, 0, 1, 4] {
        assert_eq!(check(&world, "g", "A", epoch), Err(ErrorCode::FencedMemberEpoch), "{epoch}");
    }
}

#[test]
fn epoch_0_is_no_previous_epoch_for_a_transaction() {
    let mut world = World::new();
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let checked = world.shard.check_member("g", "A", MemberEpoch::new(0));
    assert_eq!(checked, Err(ErrorCode::FencedMemberEpoch));
}

#[test]
fn an_assignment_at_time_0_comes_back_from_its_bytes() {
    let mut world = World::new();
    world.now = Timestamp::from_ms(0);
    world.cluster.set("t", 1);
    world.join("A", &["t"]);
    world.restart();
}
