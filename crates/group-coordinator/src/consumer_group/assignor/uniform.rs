//! The "uniform" assignor for members that all subscribe to the same topics.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sharemark_protocol::TopicId;

use super::MemberSpec;
use crate::TopicPartitions;

/// Deals all topics out together; members keep what they have as far as their quota goes.
pub(super) fn assign(
    members: &[MemberSpec<'_>],
    partition_counts: &BTreeMap<TopicId, i32>,
) -> Vec<TopicPartitions> {
    let mut shares = vec![TopicPartitions::new(); members.len()];
    let Some(subscribed) = members.first().map(|member| &member.subscribed) else { return shares };
    let held: BTreeSet<(TopicId, i32)> = members.iter().flat_map(targets).collect();
    let all: Vec<(TopicId, i32)> = subscribed
        .iter()
        .filter_map(|topic_id| Some((*topic_id, *partition_counts.get(topic_id)?)))
        .flat_map(|(topic_id, count)| (0..count).map(move |partition| (topic_id, partition)))
        .collect();
    let mut free: VecDeque<(TopicId, i32)> = all.iter().copied().filter(|it| !held.contains(it)).collect();
    let quota = all.len() / members.len();
    // How many members get one partition more than the others.
    let mut extra = all.len() % members.len();
    let mut unfilled = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let mut room = quota + usize::from(0 < extra);
        for (topic_id, partition) in targets(member).filter(|(topic_id, _)| subscribed.contains(topic_id)) {
            if room == 0 {
                free.push_back((topic_id, partition));
                continue;
            }
            room -= 1;
            shares[index].entry(topic_id).or_default().insert(partition);
        }
        // The extra place goes to a member that fills it anyway, as long as there are enough others to choose from.
        let others_suffice = extra < members.len() - index;
        let gives_extra_up = 0 < extra && 0 < room && others_suffice;
        let room = room - usize::from(gives_extra_up);
        extra -= usize::from(0 < extra && !gives_extra_up);
        if 0 < room {
            unfilled.push((index, room));
        }
    }
    for (index, room) in unfilled {
        for (topic_id, partition) in free.drain(..room.min(free.len())) {
            shares[index].entry(topic_id).or_default().insert(partition);
        }
    }
    assert!(free.is_empty(), "every partition has a member");
    shares
}

fn targets<'a>(member: &MemberSpec<'a>) -> impl Iterator<Item = (TopicId, i32)> + use<'a> {
    let topics = member.target.into_iter().flatten();
    topics.flat_map(|(topic_id, partitions)| partitions.iter().map(|partition| (*topic_id, *partition)))
}
