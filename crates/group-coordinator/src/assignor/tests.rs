use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;

fn topic(index: u8) -> TopicId {
    TopicId::from_bytes([index; 16])
}

fn partitions(topics: &[(u8, i32)]) -> TopicPartitions {
    topics.iter().map(|(index, count)| (topic(*index), (0..*count).collect())).collect()
}

fn deal_evenly(
    member_count: usize,
    before: &[TopicPartitions],
    topics: &[(u8, i32)],
) -> Vec<TopicPartitions> {
    let members: Vec<MemberSpec<'_>> = (0..member_count)
        .map(|index| MemberSpec {
            subscribed: topics.iter().map(|(index, _)| topic(*index)).collect(),
            target: before.get(index),
        })
        .collect();
    assign(&members, true, &partitions(topics))
}

fn size(share: &TopicPartitions) -> usize {
    share.values().map(BTreeSet::len).sum()
}

/// Returns how many partitions of `before` members lost.
fn lost(before: &[TopicPartitions], after: &[TopicPartitions]) -> usize {
    before
        .iter()
        .zip(after)
        .flat_map(|(before, after)| before.iter().map(move |(id, held)| (held, after.get(id))))
        .map(|(held, kept)| {
            held.iter().filter(|partition| kept.is_none_or(|kept| !kept.contains(partition))).count()
        })
        .sum()
}

#[test]
fn members_take_turns() {
    let shares = deal_evenly(2, &[], &[(1, 4)]);
    assert_eq!(shares[0][&topic(1)], BTreeSet::from([0, 2]));
    assert_eq!(shares[1][&topic(1)], BTreeSet::from([1, 3]));
}

#[test]
fn partitions_are_shared_when_members_outnumber_them() {
    for (member_count, partition_count, sharing) in
        [(1, 1, 1), (2, 1, 2), (3, 2, 2), (4, 3, 2), (7, 3, 3), (200, 1, 200)]
    {
        let shares = deal_evenly(member_count, &[], &[(1, partition_count)]);
        for partition in 0..partition_count {
            let holders = shares.iter().filter(|share| share[&topic(1)].contains(&partition)).count();
            assert_eq!(holders, sharing, "{member_count} members, {partition_count} partitions");
        }
    }
}

#[test]
fn nothing_is_dealt_when_nothing_can_be() {
    assert_eq!(deal_evenly(0, &[], &[(1, 2)]), []);
    assert_eq!(deal_evenly(2, &[], &[]), [TopicPartitions::new(), TopicPartitions::new()]);
}

#[test]
fn a_member_that_joins_takes_no_more_than_its_share() {
    let before = deal_evenly(2, &[], &[(1, 6)]);
    let after = deal_evenly(3, &before, &[(1, 6)]);
    assert_eq!(lost(&before, &after), 2);
    assert_eq!(after.iter().map(size).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn what_stays_possible_stays() {
    let before = deal_evenly(3, &[], &[(1, 3)]);
    let after = deal_evenly(3, &before, &[(1, 3), (2, 3)]);
    assert_eq!(lost(&before, &after), 0);
    assert_eq!(deal_evenly(3, &after, &[(1, 3), (2, 3)]), after);
}

#[test]
fn a_partition_that_members_with_room_hold_already_is_swapped_in() {
    // Kafka's own loop would leave partition 1 with one member too few here.
    let held = |list: &[i32]| TopicPartitions::from([(topic(1), list.iter().copied().collect())]);
    let before = [held(&[1]), held(&[0]), held(&[0])];
    let after = deal_evenly(3, &before, &[(1, 2)]);
    let holders = |partition| after.iter().filter(|share| share[&topic(1)].contains(&partition)).count();
    assert_eq!((holders(0), holders(1)), (2, 2));
}

#[test]
fn uneven_subscriptions_are_dealt_topic_by_topic() {
    let subscriptions = [vec![1_u8], vec![2], vec![1, 2]];
    let members: Vec<MemberSpec<'_>> = subscriptions
        .iter()
        .map(|topics| MemberSpec {
            subscribed: topics.iter().map(|index| topic(*index)).collect(),
            target: None,
        })
        .collect();
    let shares = assign(&members, false, &partitions(&[(1, 4), (2, 2)]));
    let count = |member: usize, index| shares[member].get(&topic(index)).map_or(0, BTreeSet::len);
    assert_eq!((count(0, 1), count(2, 1)), (2, 2));
    assert_eq!((count(1, 2), count(2, 2)), (1, 1));
    assert_eq!((count(0, 2), count(1, 1)), (0, 0));
}

fn any_topics() -> impl Strategy<Value = BTreeMap<u8, i32>> {
    btree_map(0..4_u8, 1..9_i32, 0..4)
}

/// A target from any earlier time: it may name topics and partitions that are gone.
fn any_target() -> impl Strategy<Value = TopicPartitions> {
    btree_map(0..5_u8, btree_set(0..10_i32, 1..10), 0..4)
        .prop_map(|target| target.into_iter().map(|(index, held)| (topic(index), held)).collect())
}

/// Checks that each partition has its number of members and that shares differ by one at most.
fn check_fair(
    assignable: &TopicPartitions,
    takers: &[usize],
    shares: &[TopicPartitions],
    topics: &BTreeSet<TopicId>,
) {
    let partition_count: usize = topics.iter().filter_map(|id| assignable.get(id)).map(BTreeSet::len).sum();
    if partition_count == 0 || takers.is_empty() {
        return;
    }
    let sharing = takers.len().div_ceil(partition_count);
    for topic_id in topics {
        for partition in assignable.get(topic_id).into_iter().flatten() {
            let holds =
                |share: &TopicPartitions| share.get(topic_id).is_some_and(|held| held.contains(partition));
            assert_eq!(shares.iter().filter(|share| holds(share)).count(), sharing);
        }
    }
    let sizes: Vec<usize> = takers
        .iter()
        .map(|taker| topics.iter().filter_map(|id| shares[*taker].get(id)).map(BTreeSet::len).sum())
        .collect();
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least <= 1, "{sizes:?}");
}

proptest! {
    #[test]
    fn even_shares_are_fair(topics in any_topics(), before in vec(any_target(), 1..9)) {
        let list: Vec<(u8, i32)> = topics.into_iter().collect();
        let shares = deal_evenly(before.len(), &before, &list);
        let takers: Vec<usize> = (0..before.len()).collect();
        let all = list.iter().map(|(index, _)| topic(*index)).collect();
        check_fair(&partitions(&list), &takers, &shares, &all);
        prop_assert_eq!(deal_evenly(before.len(), &shares, &list), shares, "a fair assignment stays");
    }

    #[test]
    fn uneven_shares_are_fair_in_every_topic(
        topics in any_topics(),
        members in vec((btree_set(0..4_u8, 0..4), any_target()), 1..9),
    ) {
        let list: Vec<(u8, i32)> = topics.into_iter().collect();
        let specs: Vec<MemberSpec<'_>> = members
            .iter()
            .map(|(names, target)| MemberSpec {
                subscribed: names.iter().map(|index| topic(*index)).collect(),
                target: Some(target),
            })
            .collect();
        let shares = assign(&specs, false, &partitions(&list));
        for index in 0..4 {
            let takers: Vec<usize> =
                (0..members.len()).filter(|member| members[*member].0.contains(&index)).collect();
            check_fair(&partitions(&list), &takers, &shares, &BTreeSet::from([topic(index)]));
        }
        for ((names, _), share) in members.iter().zip(&shares) {
            prop_assert!(share.keys().all(|id| names.iter().any(|index| topic(*index) == *id)));
        }
    }
}
