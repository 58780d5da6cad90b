use super::*;

fn starts(crossing: &InitialiseShareStates) -> Vec<(TopicId, i32, Option<Offset>)> {
    let topics = crossing.topics.iter();
    topics
        .flat_map(|topic| {
            topic.partitions.iter().map(|(partition, start)| (topic.topic_id, *partition, *start))
        })
        .collect()
}

#[test]
fn new_topics_start_by_policy_and_added_partitions_at_the_beginning() {
    let mut world = World::new();
    let t = world.cluster.set("t", 2);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let crossing = &world.asked[0];
    assert_eq!(crossing.state_epoch.get(), 2);
    assert_eq!(starts(crossing), [(t, 0, None), (t, 1, None)]);
    world.confirm();
    let (epoch, _) = world.heartbeat("A", 2, None).unwrap();
    world.cluster.set("t", 3);
    let (epoch, told) = world.heartbeat("A", epoch, None).unwrap();
    assert_eq!((epoch, told), (4, None));
    let crossing = &world.asked[0];
    assert_eq!((crossing.state_epoch.get(), starts(crossing)), (4, vec![(t, 2, Some(Offset::ZERO))]));
    world.confirm();
    assert_eq!(world.heartbeat("A", epoch, None), Ok((5, Some(held(&[(t, &[0, 1, 2])])))));
}

#[test]
fn only_confirmed_partitions_are_assigned() {
    let mut world = World::new();
    let t = world.cluster.set("t", 2);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let records = world.shard.decide_states_initialised("g", &held(&[(t, &[1])]));
    world.append(records);
    assert_eq!(world.heartbeat("A", 2, None), Ok((3, Some(held(&[(t, &[1])])))));
    world.confirm();
    assert_eq!(world.heartbeat("A", 3, None), Ok((4, Some(held(&[(t, &[0, 1])])))));
    let initialised = world.shard.initialised_partitions("g").unwrap();
    assert_eq!((&*initialised[&t].name, initialised[&t].partitions.len()), ("t", 2));
}

#[test]
fn a_confirmation_that_comes_twice_changes_nothing() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let crossing = world.asked[0].clone();
    world.confirm();
    assert_eq!(world.shard.decide_states_initialised("g", &crossing.partitions()), []);
    assert_eq!(world.shard.decide_states_not_initialised("g", &crossing.partitions()), []);
    assert_eq!(world.shard.decide_states_initialised("gone", &crossing.partitions()), []);
}

#[test]
fn a_failed_initialisation_is_asked_for_at_the_next_heartbeat() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    let crossing = world.asked.remove(0);
    let records = world.shard.decide_states_not_initialised("g", &crossing.partitions());
    world.append(records);
    world.heartbeat("A", 2, None).unwrap();
    assert_eq!(starts(&world.asked[0]), [(t, 0, None)]);
}

#[test]
fn a_crossing_that_half_fails_keeps_what_was_done() {
    let mut world = World::new();
    let t = world.cluster.set("t", 2);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.asked.clear();
    let done = world.shard.decide_states_initialised("g", &held(&[(t, &[0])]));
    world.append(done);
    let failed = world.shard.decide_states_not_initialised("g", &held(&[(t, &[1])]));
    world.append(failed);
    assert_eq!(world.heartbeat("A", 2, None).unwrap().1, Some(held(&[(t, &[0])])));
    assert_eq!(starts(&world.asked[0]), [(t, 1, Some(Offset::ZERO))]);
}

#[test]
fn an_initialisation_without_an_answer_is_asked_for_again_after_a_while() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.asked.clear();
    world.now = world.now.plus_ms(CONFIG.initialize_retry_interval_ms - 1);
    world.heartbeat("A", 2, None).unwrap();
    assert_eq!(world.asked, []);
    world.now = world.now.plus_ms(1);
    world.heartbeat("A", 2, None).unwrap();
    assert_eq!(world.asked.len(), 1);
    world.heartbeat("A", 2, None).unwrap();
    assert_eq!(world.asked.len(), 1);
    // A coordinator that takes over cannot know whether it was asked.
    world.restart();
    world.heartbeat("A", 2, None).unwrap();
    assert_eq!(world.asked.len(), 2);
    world.confirm();
    assert_eq!(world.heartbeat("A", 2, None).unwrap().0, 3);
}

#[test]
fn a_topic_that_appears_is_assigned_within_two_heartbeats() {
    let mut world = World::new();
    let (epoch, told) = world.heartbeat("A", 0, Some(&["t"])).unwrap();
    assert_eq!((epoch, told), (2, Some(held(&[]))));
    assert_eq!(world.asked, []);
    let t = world.cluster.set("t", 1);
    let length = world.log.len();
    assert_eq!(world.heartbeat("A", 2, None), Ok((3, None)));
    assert_eq!(world.types_since(length), [11, 12, 14, 15]);
    world.confirm();
    assert_eq!(world.heartbeat("A", 3, None), Ok((4, Some(held(&[(t, &[0])])))));
}

#[test]
fn an_unrelated_topic_changes_nothing() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    let (epoch, _) = world.join("A", &["t"]);
    let length = world.log.len();
    world.cluster.set("u", 1);
    assert_eq!(world.heartbeat("A", epoch, None), Ok((epoch, None)));
    assert_eq!(world.types_since(length), []);
}

#[test]
fn a_deleted_topic_leaves_the_assignment_and_the_states() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.cluster.set("u", 1);
    let (epoch, _) = world.join("A", &["t", "u"]);
    let length = world.log.len();
    world.delete_topic("u");
    assert_eq!(world.types_since(length), [15]);
    assert_eq!(world.heartbeat("A", epoch, None), Ok((epoch + 1, Some(held(&[(t, &[0])])))));
    assert_eq!(world.shard.initialised_partitions("g").unwrap().len(), 1);
    world.restart();
    assert_eq!(world.shard.initialised_partitions("g").unwrap().len(), 1);
}

#[test]
fn a_confirmation_for_a_deleted_topic_is_passed_over() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.delete_topic("t");
    let length = world.log.len();
    world.confirm();
    assert_eq!(world.types_since(length), []);
    assert_eq!(world.shard.initialised_partitions("g").unwrap().len(), 0);
}

#[test]
fn a_topic_made_anew_under_its_name_starts_afresh() {
    let mut world = World::new();
    let old = world.cluster.set("t", 1);
    let (epoch, _) = world.join("A", &["t"]);
    world.delete_topic("t");
    let new = world.cluster.set("t", 1);
    assert_ne!(old, new);
    let (epoch, told) = world.heartbeat("A", epoch, None).unwrap();
    assert_eq!(told, Some(held(&[])));
    assert_eq!(starts(&world.asked[0]), [(new, 0, None)]);
    world.confirm();
    assert_eq!(world.heartbeat("A", epoch, None).unwrap().1, Some(held(&[(new, &[0])])));
}
