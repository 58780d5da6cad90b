//! The "range" assignor.

use std::collections::BTreeMap;

use sharemark_protocol::TopicId;

use super::MemberSpec;
use crate::TopicPartitions;

/// What of a topic is still to be dealt out.
struct Left {
    next: i32,
    quota: i32,
    /// How many members get one more than the quota.
    extra: i32,
}

/// Deals each topic out in ranges: static members first, in the order of their instances, then the others.
pub(super) fn assign(
    members: &[MemberSpec<'_>],
    partition_counts: &BTreeMap<TopicId, i32>,
) -> Vec<TopicPartitions> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| (members[*index].instance_id.is_none(), members[*index].instance_id, *index));
    let mut left: BTreeMap<TopicId, Left> = BTreeMap::new();
    for (topic_id, count) in partition_counts {
        let takers = members.iter().filter(|member| member.subscribed.contains(topic_id)).count();
        let Ok(takers) = i32::try_from(takers) else { continue };
        if 0 < takers {
            left.insert(*topic_id, Left { next: 0, quota: count / takers, extra: count % takers });
        }
    }
    let mut shares = vec![TopicPartitions::new(); members.len()];
    for index in order {
        for topic_id in &members[index].subscribed {
            let Some(left) = left.get_mut(topic_id) else { continue };
            let count = left.quota + i32::from(0 < left.extra);
            left.extra = (left.extra - 1).max(0);
            if 0 < count {
                shares[index].insert(*topic_id, (left.next..left.next + count).collect());
                left.next += count;
            }
        }
    }
    shares
}
