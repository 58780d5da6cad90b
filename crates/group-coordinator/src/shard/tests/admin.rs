use super::*;
use crate::{AlteredTopic, StateTopic};

/// A group whose only member has left, with one initialised partition of `t`.
fn empty_group() -> (World, TopicId) {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.join("A", &["t"]);
    world.heartbeat("A", -1, None).unwrap();
    (world, t)
}

fn alter<'a>(name: &'a str, starts: &[(i32, i64)]) -> AlterOffsetsTopic<'a> {
    let partitions = starts.iter().map(|(partition, start)| (*partition, Offset::new(*start))).collect();
    AlterOffsetsTopic { name, partitions }
}

impl World {
    fn alter(&mut self, request: &[AlterOffsetsTopic<'_>]) -> Result<Vec<AlteredTopic>, ErrorCode> {
        let decided = self.shard.decide_alter_offsets("g", request, &self.cluster);
        let decision = decided.map_err(|refusal| refusal.error)?;
        self.append(decision.records);
        self.asked.extend(decision.states_to_initialise);
        Ok(decision.topics)
    }

    /// Deletes the group with all that belongs to it and returns what the share coordinator was asked.
    fn delete_group(&mut self) -> Result<Option<DeleteShareStates>, ErrorCode> {
        let decided = self.shard.decide_delete_group("g", &self.cluster);
        let decision = decided.map_err(|refusal| refusal.error)?;
        self.append(decision.records);
        let records = self.shard.decide_group_deleted("g").map_err(|refusal| refusal.error)?;
        self.append(records);
        self.shard.check_invariants();
        Ok(decision.states_to_delete)
    }
}

#[test]
fn groups_are_described_with_their_members() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    let describe =
        |world: &World, group_id| world.shard.describe_share_group(group_id).map_err(|refusal| refusal.error);
    assert_eq!(describe(&world, ""), Err(ErrorCode::InvalidGroupId));
    assert_eq!(describe(&world, "g"), Err(ErrorCode::GroupIdNotFound));
    world.join("A", &["t"]);
    let group = world.describe();
    assert_eq!((group.state.name(), group.assignor_name), ("Stable", "simple"));
    assert_eq!((group.epoch, group.assignment_epoch), (GroupEpoch::new(3), GroupEpoch::new(3)));
    let [member] = &group.members[..] else { panic!("one member") };
    assert_eq!((&*member.member_id, member.epoch.get()), ("A", 3));
    assert_eq!((&*member.metadata.client_id, &*member.metadata.client_host), ("client", "/127.0.0.1"));
    assert!(member.metadata.subscribed_topic_names.contains("t"));
    assert_eq!(member.assigned, held(&[(t, &[0])]));
}

#[test]
fn groups_are_listed_by_state_and_type() {
    let mut world = World::new();
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world
        .send(&ShareHeartbeat { group_id: "e", subscribed_topic_names: Some(vec!["t"]), ..request("A", 0) })
        .unwrap();
    world.send(&ShareHeartbeat { group_id: "e", ..request("A", -1) }).unwrap();
    let ids = |states: &[&str], types: &[&str]| -> Vec<String> {
        world.shard.list_groups(states, types).into_iter().map(|group| group.group_id.to_string()).collect()
    };
    assert_eq!(ids(&[], &[]), ["e", "g"]);
    assert_eq!(ids(&["stable"], &[]), ["g"]);
    assert_eq!(ids(&[" EMPTY "], &["Share"]), ["e"]);
    assert_eq!(ids(&["Empty", "Stable"], &["share"]), ["e", "g"]);
    assert_eq!(ids(&["Dead"], &[]), [""; 0]);
    assert_eq!(ids(&[], &["consumer", "classic"]), [""; 0]);
    let listed = &world.shard.list_groups(&[], &[])[1];
    assert_eq!((&*listed.protocol_type, listed.state, listed.group_type), ("share", "Stable", "share"));
}

#[test]
fn a_group_with_members_is_not_touched() {
    let mut world = World::new();
    world.cluster.set("t", 1);
    world.join("A", &["t"]);
    let refused = ErrorCode::NonEmptyGroup;
    assert_eq!(world.alter(&[alter("t", &[(0, 3)])]), Err(refused));
    assert_eq!(world.delete_group(), Err(refused));
    assert_eq!(world.shard.decide_group_deleted("g").unwrap_err().error, refused);
    let deleted = world.shard.decide_delete_offsets("g", &["t"], &world.cluster);
    assert_eq!(deleted.unwrap_err().error, refused);
}

#[test]
fn an_unknown_group_is_not_deleted() {
    let mut world = World::new();
    assert_eq!(world.delete_group(), Err(ErrorCode::GroupIdNotFound));
    let deleted = world.shard.decide_delete_offsets("g", &["t"], &world.cluster);
    assert_eq!(deleted.unwrap_err().error, ErrorCode::GroupIdNotFound);
    assert_eq!(world.shard.initialised_partitions("g"), None);
}

#[test]
fn offsets_of_an_empty_group_are_altered_at_its_epoch() {
    let (mut world, t) = empty_group();
    let fine = (0, ErrorCode::None);
    let unknown = |partition| (partition, ErrorCode::UnknownTopicOrPartition);
    let topics = world.alter(&[alter("t", &[(0, 7), (1, 7), (-1, 7)]), alter("u", &[(0, 1)])]).unwrap();
    assert_eq!(topics[0].partitions, [fine, unknown(1), unknown(-1)]);
    assert_eq!((topics[0].topic_id, topics[1].topic_id), (t, TopicId::ZERO));
    assert_eq!(topics[1].partitions, [unknown(0)]);
    let crossing = &world.asked[0];
    assert_eq!(crossing.state_epoch.get(), world.epochs().0);
    assert_eq!(crossing.topics[0].partitions, BTreeMap::from([(0, Offset::new(7))]));
    assert_eq!(crossing.topics.len(), 1);
    world.confirm();
    assert!(world.shard.initialised_partitions("g").unwrap().contains_key(&t));
}

#[test]
fn altered_offsets_make_a_group_that_members_find_initialised() {
    let mut world = World::new();
    let t = world.cluster.set("t", 1);
    world.alter(&[alter("t", &[(0, -1)])]).unwrap();
    assert_eq!(world.asked[0].topics[0].partitions, BTreeMap::from([(0, None)]));
    world.confirm();
    world.shard.check_invariants();
    assert_eq!((world.describe().state, world.epochs()), (ShareGroupState::Empty, (1, 1)));
    // Nothing is left to initialise, so the first heartbeat brings the partition.
    assert_eq!(world.heartbeat("A", 0, Some(&["t"])), Ok((2, Some(held(&[(t, &[0])])))));
    assert_eq!(world.asked, []);
}

#[test]
fn altering_nothing_that_exists_makes_no_group() {
    let mut world = World::new();
    world.alter(&[alter("u", &[(0, 3)])]).unwrap();
    assert_eq!((world.log.len(), world.asked.len()), (0, 0));
    let altered = world.shard.decide_alter_offsets("", &[], &world.cluster);
    assert_eq!(altered.unwrap_err().error, ErrorCode::InvalidGroupId);
}

#[test]
fn offsets_are_deleted_in_two_halves() {
    let (mut world, t) = empty_group();
    world.cluster.set("u", 1);
    let decide =
        |world: &World| world.shard.decide_delete_offsets("g", &["t", "u", "v"], &world.cluster).unwrap();
    let decision = decide(&world);
    let unknown = |name: &str| (Arc::from(name), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(decision.refused, [unknown("u"), unknown("v")]);
    assert_eq!(decision.accepted, [("t".into(), t)]);
    assert_eq!(decision.states_to_delete.unwrap().partitions, held(&[(t, &[0])]));
    world.append(decision.records);
    assert_eq!(world.shard.initialised_partitions("g").unwrap().len(), 0);
    // The answer was lost: asked again, the same states are deleted.
    let again = decide(&world);
    assert_eq!(again.states_to_delete.unwrap().partitions, held(&[(t, &[0])]));
    let records = world.shard.decide_offsets_deleted("g", &BTreeSet::from([t]));
    world.append(records);
    assert_eq!(decide(&world).accepted, []);
    assert_eq!(world.shard.decide_offsets_deleted("g", &BTreeSet::from([t])), []);
    // A rejoin starts by the reset policy.
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    assert_eq!(world.asked[0].topics[0].partitions, BTreeMap::from([(0, None)]));
}

#[test]
fn a_rejoin_while_states_are_deleted_initialises_them_anew() {
    let (mut world, t) = empty_group();
    let decision = world.shard.decide_delete_offsets("g", &["t"], &world.cluster).unwrap();
    world.append(decision.records);
    let (epoch, _) = world.heartbeat("A", 0, Some(&["t"])).unwrap();
    assert_eq!(world.shard.decide_offsets_deleted("g", &BTreeSet::from([t])), []);
    world.confirm();
    assert_eq!(world.heartbeat("A", epoch, None).unwrap().1, Some(held(&[(t, &[0])])));
}

#[test]
fn a_deleted_group_leaves_nothing_behind_and_its_epoch_goes_last() {
    let (mut world, t) = empty_group();
    let length = world.log.len();
    let asked = world.delete_group().unwrap().unwrap();
    assert_eq!((&*asked.group_id, asked.partitions), ("g", held(&[(t, &[0])])));
    assert_eq!(world.types_since(length), [15, -12, -15, -11]);
    assert_eq!(world.shard.list_groups(&[], &[]), []);
    world.restart();
    assert_eq!(world.heartbeat("A", 5, None), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(world.heartbeat("A", 0, Some(&["t"])).unwrap().0, 2);
    assert_eq!(world.asked[0].topics[0].partitions, BTreeMap::from([(0, None)]));
}

#[test]
fn a_group_deletion_that_was_cut_off_can_be_repeated() {
    let (mut world, t) = empty_group();
    let decision = world.shard.decide_delete_group("g", &world.cluster).unwrap();
    world.append(decision.records);
    world.restart();
    let asked = world.delete_group().unwrap().unwrap();
    assert_eq!(asked.partitions, held(&[(t, &[0])]));
}

#[test]
fn a_group_without_states_is_deleted_at_once() {
    let mut world = World::new();
    world.heartbeat("A", 0, Some(&["t"])).unwrap();
    world.heartbeat("A", -1, None).unwrap();
    assert_eq!(world.delete_group(), Ok(None));
    assert_eq!(world.shard.list_groups(&[], &[]), []);
}

#[test]
fn a_tombstone_of_an_unknown_group_is_passed_over() {
    let mut world = World::new();
    let group_id: Arc<str> = "g".into();
    world.append(vec![
        GroupRecord::ShareGroupCurrentMemberAssignment {
            group_id: group_id.clone(),
            member_id: "A".into(),
            value: None,
        },
        GroupRecord::ShareGroupMetadata { group_id, value: None },
    ]);
    assert_eq!(world.shard.list_groups(&[], &[]), []);
}

#[test]
fn initialised_partitions_carry_their_names() {
    let (world, t) = empty_group();
    let expected = StateTopic { name: "t".into(), partitions: BTreeSet::from([0]) };
    assert_eq!(world.shard.initialised_partitions("g"), Some(&BTreeMap::from([(t, expected)])));
}
