//! The "simple" assignor of share groups.
//!
//! Where a partition cannot have a member of its own, members share it: with `m` members and `p` partitions
//! every partition gets `ceil(m / p)` members, and the places made so are dealt out such that no two members'
//! shares differ by more than one. What a member holds it keeps as far as that allows. If all members subscribe
//! to the same topics, the partitions of all topics are dealt out together, else those of each topic apart.

use std::collections::{BTreeSet, VecDeque};

use sharemark_protocol::TopicId;

use crate::TopicPartitions;

/// One member as the assignor sees it.
pub(crate) struct MemberSpec<'a> {
    /// The subscribed topics that exist.
    pub(crate) subscribed: BTreeSet<TopicId>,
    /// What it has so far.
    pub(crate) target: Option<&'a TopicPartitions>,
}

/// Deals `assignable` out and returns the share of each member, in the order of `members`.
///
/// `even` says that all members subscribe to the same names.
pub(crate) fn assign(
    members: &[MemberSpec<'_>],
    even: bool,
    assignable: &TopicPartitions,
) -> Vec<TopicPartitions> {
    let mut shares = vec![TopicPartitions::new(); members.len()];
    let subscribed: BTreeSet<TopicId> =
        members.iter().flat_map(|member| member.subscribed.iter().copied()).collect();
    let partitions_of = |topic_id: &TopicId| {
        let partitions = assignable.get(topic_id).into_iter().flatten();
        let topic_id = *topic_id;
        partitions.map(move |partition| (topic_id, *partition))
    };
    if even {
        let everyone: Vec<usize> = (0..members.len()).collect();
        let partitions: Vec<_> = subscribed.iter().flat_map(partitions_of).collect();
        deal(&partitions, &everyone, members, &mut shares);
        return shares;
    }
    for topic_id in &subscribed {
        let takers: Vec<usize> =
            (0..members.len()).filter(|index| members[*index].subscribed.contains(topic_id)).collect();
        let partitions: Vec<_> = partitions_of(topic_id).collect();
        deal(&partitions, &takers, members, &mut shares);
    }
    shares
}

/// Deals sorted `partitions` out to the members `takers`.
fn deal(
    partitions: &[(TopicId, i32)],
    takers: &[usize],
    members: &[MemberSpec<'_>],
    shares: &mut [TopicPartitions],
) {
    if partitions.is_empty() || takers.is_empty() {
        return;
    }
    let mut table = Table::new(partitions.len(), takers.len());
    for (taker, member) in takers.iter().enumerate() {
        for (topic_id, held) in members[*member].target.into_iter().flatten() {
            for partition in held {
                if let Ok(place) = partitions.binary_search(&(*topic_id, *partition)) {
                    table.give(place, taker);
                }
            }
        }
    }
    table.take_from_overfull();
    table.take_overshared();
    table.fill();
    for (taker, member) in takers.iter().enumerate() {
        for place in &table.held[taker] {
            let (topic_id, partition) = partitions[*place];
            shares[*member].entry(topic_id).or_default().insert(partition);
        }
    }
}

/// Who holds which partition, both by their index.
struct Table {
    /// How many members each partition is to have.
    sharing: usize,
    /// How many partitions each member is to have.
    quota: Vec<usize>,
    /// The members of each partition.
    holders: Vec<BTreeSet<usize>>,
    /// The partitions of each member.
    held: Vec<BTreeSet<usize>>,
}

impl Table {
    fn new(partition_count: usize, member_count: usize) -> Self {
        let sharing = member_count.div_ceil(partition_count);
        let place_count = sharing * partition_count;
        let upto = |index: usize| (place_count * index).div_ceil(member_count);
        Self {
            sharing,
            quota: (0..member_count).map(|index| upto(index + 1) - upto(index)).collect(),
            holders: vec![BTreeSet::new(); partition_count],
            held: vec![BTreeSet::new(); member_count],
        }
    }

    fn give(&mut self, partition: usize, member: usize) {
        self.holders[partition].insert(member);
        self.held[member].insert(partition);
    }

    fn take(&mut self, partition: usize, member: usize) {
        self.holders[partition].remove(&member);
        self.held[member].remove(&partition);
    }

    /// Takes what members have above their quota, first what others have as well.
    fn take_from_overfull(&mut self) {
        for member in 0..self.held.len() {
            let Some(excess) = self.held[member].len().checked_sub(self.quota[member]) else {
                continue;
            };
            let mut partitions: Vec<usize> = self.held[member].iter().copied().collect();
            partitions
                .sort_by_key(|partition| std::cmp::Reverse((self.holders[*partition].len(), *partition)));
            for partition in partitions.into_iter().take(excess) {
                self.take(partition, member);
            }
        }
    }

    /// Takes partitions from members where they have more than they are to have.
    fn take_overshared(&mut self) {
        for partition in 0..self.holders.len() {
            while self.sharing < self.holders[partition].len() {
                let Some(member) = self.holders[partition].first().copied() else { break };
                self.take(partition, member);
            }
        }
    }

    /// Gives every partition its members, and so every member its quota.
    fn fill(&mut self) {
        let mut unfilled: VecDeque<usize> =
            (0..self.held.len()).filter(|member| self.has_room(*member)).collect();
        for partition in 0..self.holders.len() {
            let mut passed = Vec::new();
            while self.holders[partition].len() < self.sharing {
                let Some(member) = unfilled.pop_front() else { break };
                if self.held[member].contains(&partition) {
                    passed.push(member);
                    continue;
                }
                self.give(partition, member);
                if self.has_room(member) {
                    unfilled.push_back(member);
                }
            }
            for member in passed.into_iter().rev() {
                unfilled.push_front(member);
            }
        }
        for partition in 0..self.holders.len() {
            while self.holders[partition].len() < self.sharing {
                self.swap_in(partition);
            }
        }
        assert!(self.is_fair(), "every partition has its members and every member its share");
    }

    /// Finds a member for a partition that all members with room hold already: another member takes it, and
    /// hands one of its own to a member with room.
    fn swap_in(&mut self, partition: usize) {
        for member in (0..self.held.len()).filter(|member| self.has_room(*member)) {
            for other in (0..self.holders.len()).filter(|other| !self.held[member].contains(other)) {
                let mut givers = self.holders[other].difference(&self.holders[partition]);
                if let Some(giver) = givers.next().copied() {
                    self.take(other, giver);
                    self.give(other, member);
                    self.give(partition, giver);
                    return;
                }
            }
        }
        // A member with room lacks some partition, which is full; so it has more holders than this one, and
        // one of those does not hold this one.
        unreachable!("a partition that lacks members can be swapped in");
    }

    fn has_room(&self, member: usize) -> bool {
        self.held[member].len() < self.quota[member]
    }

    fn is_fair(&self) -> bool {
        self.holders.iter().all(|holders| holders.len() == self.sharing)
            && self.held.iter().zip(&self.quota).all(|(held, quota)| held.len() == *quota)
    }
}

#[cfg(test)]
mod tests;
