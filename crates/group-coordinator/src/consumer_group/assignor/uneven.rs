//! The "uniform" assignor for members that subscribe to different topics.
//!
//! Members keep what they have and still want; what is free goes to whoever of its subscribers has least; then
//! topic by topic, partitions go from those who have most to those who have least, until nothing more is gained.

use std::collections::BTreeMap;

use sharemark_protocol::TopicId;

use super::MemberSpec;
use crate::TopicPartitions;

/// How often all topics are gone through at most.
const ROUNDS_MAX: usize = 16;

/// Deals partitions out among the subscribers of each topic.
pub(super) fn assign(
    members: &[MemberSpec<'_>],
    partition_counts: &BTreeMap<TopicId, i32>,
) -> Vec<TopicPartitions> {
    let mut table = Table::new(members, partition_counts);
    table.give_free();
    table.balance();
    let mut shares = vec![TopicPartitions::new(); members.len()];
    for (topic_id, owners) in &table.owners {
        for (owner, partition) in owners.iter().zip(0..) {
            if let Some(owner) = owner {
                shares[*owner].entry(*topic_id).or_default().insert(partition);
            }
        }
    }
    shares
}

/// Who has what, members by their index.
struct Table {
    /// Those who subscribe to each topic, in order.
    takers: BTreeMap<TopicId, Vec<usize>>,
    /// The owner of each partition.
    owners: BTreeMap<TopicId, Vec<Option<usize>>>,
    /// How many partitions each member has.
    sizes: Vec<usize>,
}

impl Table {
    fn new(members: &[MemberSpec<'_>], partition_counts: &BTreeMap<TopicId, i32>) -> Self {
        let mut table =
            Self { takers: BTreeMap::new(), owners: BTreeMap::new(), sizes: vec![0; members.len()] };
        for (index, member) in members.iter().enumerate() {
            for topic_id in &member.subscribed {
                let Some(count) = partition_counts.get(topic_id) else { continue };
                table.takers.entry(*topic_id).or_default().push(index);
                let count = usize::try_from(*count).unwrap_or(0);
                table.owners.entry(*topic_id).or_insert_with(|| vec![None; count]);
            }
        }
        for (index, member) in members.iter().enumerate() {
            for (topic_id, partitions) in member.target.into_iter().flatten() {
                if !member.subscribed.contains(topic_id) {
                    continue;
                }
                for partition in partitions {
                    table.give(*topic_id, usize::try_from(*partition).unwrap_or(usize::MAX), index);
                }
            }
        }
        table
    }

    /// Gives a partition to a member, away from whoever has it.
    fn give(&mut self, topic_id: TopicId, partition: usize, member: usize) {
        let place = self.owners.get_mut(&topic_id).and_then(|owners| owners.get_mut(partition));
        let Some(place) = place else { return };
        if let Some(before) = place.replace(member) {
            self.sizes[before] -= 1;
        }
        self.sizes[member] += 1;
    }

    /// Returns the topics in the order in which they are dealt out: first those that give a member most to do.
    fn sorted_topics(&self) -> Vec<TopicId> {
        let mut topics: Vec<(usize, usize, TopicId)> = self
            .owners
            .iter()
            .map(|(topic_id, owners)| (owners.len(), self.takers[topic_id].len(), *topic_id))
            .collect();
        topics.sort_by(|(count, takers, id), (other_count, other_takers, other_id)| {
            // Compares the ratios count / takers, the larger first.
            let ratio = (other_count * takers).cmp(&(count * other_takers));
            ratio.then(takers.cmp(other_takers)).then(id.cmp(other_id))
        });
        topics.into_iter().map(|(_, _, topic_id)| topic_id).collect()
    }

    /// Gives each free partition to the subscriber that has least.
    fn give_free(&mut self) {
        for topic_id in self.sorted_topics() {
            let owners = self.owners[&topic_id].iter().enumerate();
            let free: Vec<usize> =
                owners.filter(|(_, owner)| owner.is_none()).map(|(index, _)| index).collect();
            let ranked = self.ranked(topic_id);
            for partition in free {
                let Some(member) = self.least(&ranked) else { continue };
                self.give(topic_id, partition, member);
            }
        }
    }

    /// Returns the subscribers of a topic, those who have least first. Equals stay in this order from then on.
    fn ranked(&self, topic_id: TopicId) -> Vec<usize> {
        let mut ranked = self.takers[&topic_id].clone();
        ranked.sort_by_key(|member| (self.sizes[*member], *member));
        ranked
    }

    fn least(&self, ranked: &[usize]) -> Option<usize> {
        ranked.iter().copied().enumerate().min_by_key(|(rank, it)| (self.sizes[*it], *rank)).map(|(_, it)| it)
    }

    fn balance(&mut self) {
        let mut topics = self.sorted_topics();
        topics.retain(|topic_id| 1 < self.takers[topic_id].len());
        let mut last_change = None;
        for _ in 0..ROUNDS_MAX {
            for (index, topic_id) in topics.iter().enumerate() {
                if last_change == Some(index) {
                    return; // Nothing changed for a whole round.
                }
                if self.balance_topic(*topic_id) || last_change.is_none() {
                    last_change = Some(index);
                }
            }
        }
    }

    /// Takes partitions of one topic from those who have most; returns whether any moved.
    fn balance_topic(&mut self, topic_id: TopicId) -> bool {
        let ranked = self.ranked(topic_id);
        let sizes =
            ranked.first().zip(ranked.last()).map(|(least, most)| self.sizes[*most] - self.sizes[*least]);
        if sizes.is_none_or(|imbalance| imbalance <= 1) {
            return false;
        }
        // What each member may give away, the last one first.
        let mut given: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (partition, owner) in self.owners[&topic_id].iter().enumerate() {
            if let Some(owner) = owner {
                given.entry(*owner).or_default().push(partition);
            }
        }
        let mut givers = ranked.clone();
        let mut moved = false;
        while let Some((rank, most)) =
            givers.iter().copied().enumerate().max_by_key(|(rank, it)| (self.sizes[*it], *rank))
        {
            let Some(partition) = given.get_mut(&most).and_then(Vec::pop) else {
                givers.swap_remove(rank); // It has nothing of this topic.
                continue;
            };
            let Some(least) = self.least(&ranked) else { break };
            if self.sizes[most] - self.sizes[least] <= 1 {
                break;
            }
            self.give(topic_id, partition, least);
            moved = true;
        }
        moved
    }
}
