use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

const fn topic(number: u8) -> TopicId {
    TopicId::from_bytes([number; 16])
}

fn set(list: &[i32]) -> BTreeSet<i32> {
    list.iter().copied().collect()
}

fn spec<'a>(topics: &[u8], target: Option<&'a TopicPartitions>) -> MemberSpec<'a> {
    MemberSpec { instance_id: None, subscribed: topics.iter().map(|number| topic(*number)).collect(), target }
}

#[test]
fn ranges_go_to_instances_first() {
    let counts = BTreeMap::from([(topic(1), 5)]);
    let mut members = vec![spec(&[1], None), spec(&[1], None), spec(&[1], None)];
    members[2].instance_id = Some("i");
    let shares = ConsumerAssignor::Range.assign(&members, true, &counts);
    let parts: Vec<_> = shares.iter().map(|share| share[&topic(1)].clone()).collect();
    assert_eq!(parts, [set(&[2, 3]), set(&[4]), set(&[0, 1])]);
}

#[test]
fn what_a_member_has_it_keeps() {
    let counts = BTreeMap::from([(topic(1), 4)]);
    let held = TopicPartitions::from([(topic(1), set(&[0, 1, 2, 3]))]);
    let members = [spec(&[1], None), spec(&[1], Some(&held))];
    let shares = ConsumerAssignor::Uniform.assign(&members, true, &counts);
    assert_eq!(shares[1][&topic(1)], set(&[0, 1]));
    assert_eq!(shares[0][&topic(1)], set(&[2, 3]));
}

#[test]
fn nobody_gets_what_nobody_has() {
    let members = [spec(&[], None), spec(&[1], None)];
    for assignor in [ConsumerAssignor::Range, ConsumerAssignor::Uniform] {
        for even in [false, true] {
            let shares = assignor.assign(&members, even, &BTreeMap::new());
            assert_eq!(shares, [TopicPartitions::new(), TopicPartitions::new()]);
        }
        assert_eq!(assignor.assign(&[], true, &BTreeMap::new()), []);
    }
}

/// Checks that each partition of a subscribed topic has one owner, who subscribes to it.
fn check(members: &[MemberSpec<'_>], counts: &BTreeMap<TopicId, i32>, shares: &[TopicPartitions]) {
    for (topic_id, count) in counts {
        let takers = members.iter().filter(|member| member.subscribed.contains(topic_id)).count();
        for partition in 0..*count {
            let has = |share: &TopicPartitions| share.get(topic_id).is_some_and(|it| it.contains(&partition));
            let owners: Vec<usize> = (0..members.len()).filter(|index| has(&shares[*index])).collect();
            assert_eq!(owners.len(), usize::from(0 < takers));
            assert!(owners.iter().all(|index| members[*index].subscribed.contains(topic_id)));
        }
    }
    for share in shares {
        for (topic_id, partitions) in share {
            assert!(!partitions.is_empty(), "no topic without partitions");
            assert!(partitions.iter().all(|partition| (0..counts[topic_id]).contains(partition)));
        }
    }
}

fn sizes(shares: &[TopicPartitions]) -> Vec<usize> {
    shares.iter().map(|share| share.values().map(BTreeSet::len).sum()).collect()
}

proptest! {
    /// Groups grow, shrink and change their subscriptions, each assignment starting from the one before.
    #[test]
    fn every_partition_has_one_owner(
        rounds in vec(vec(btree_set(0..4_u8, 0..4), 0..6), 1..5),
        counts in vec(1..7_i32, 4),
        range in any::<bool>(),
    ) {
        let assignor = if range { ConsumerAssignor::Range } else { ConsumerAssignor::Uniform };
        let counts: BTreeMap<TopicId, i32> = (0..4).map(topic).zip(counts).collect();
        let mut before: Vec<TopicPartitions> = Vec::new();
        for subscriptions in rounds {
            let members: Vec<MemberSpec<'_>> = subscriptions
                .iter()
                .enumerate()
                .map(|(index, topics)| {
                    let topics: Vec<u8> = topics.iter().copied().collect();
                    spec(&topics, before.get(index))
                })
                .collect();
            let even = members.iter().zip(members.iter().skip(1)).all(|(a, b)| a.subscribed == b.subscribed);
            let shares = assignor.assign(&members, even, &counts);
            check(&members, &counts, &shares);
            if even && assignor == ConsumerAssignor::Uniform {
                let sizes = sizes(&shares);
                prop_assert!(sizes.iter().max().unwrap_or(&0) - sizes.iter().min().unwrap_or(&0) <= 1);
            }
            before = shares;
        }
    }
}
