//! Committed offsets of all groups of a shard, and those that wait for the end of a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{Offset, ProducerId, TopicId};

use crate::record::CommittedOffset;

/// Something for each partition that a group has to do with, by topic.
pub(crate) type ByPartition<T> = BTreeMap<Arc<str>, BTreeMap<i32, T>>;

/// A committed offset with the place of its record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StoredOffset {
    pub(crate) value: CommittedOffset,
    /// Where its record is in the log: of two commits the later record counts, whichever was decided last.
    record: Offset,
}

/// The offsets of one shard, exactly what its log says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Offsets {
    /// By group.
    committed: BTreeMap<Arc<str>, ByPartition<StoredOffset>>,
    /// By the producer whose transaction is open, then by group.
    pending: BTreeMap<ProducerId, BTreeMap<Arc<str>, ByPartition<StoredOffset>>>,
    /// Who has something pending, by group.
    open: BTreeMap<Arc<str>, ByPartition<BTreeSet<ProducerId>>>,
    /// How many there are, pending ones included.
    count: usize,
}

impl Offsets {
    /// Applies the record of a committed offset, as part of a transaction if there is a producer. A tombstone
    /// takes away what is pending too.
    pub(crate) fn replay(
        &mut self,
        record: Offset,
        producer: Option<ProducerId>,
        group_id: &Arc<str>,
        place: (&Arc<str>, i32),
        value: Option<&CommittedOffset>,
    ) {
        let (topic, partition) = place;
        let Some(value) = value else {
            self.remove(group_id, topic, partition);
            return;
        };
        let stored = StoredOffset { value: value.clone(), record };
        let by_group = match producer {
            None => &mut self.committed,
            Some(producer) => {
                let open = self.open.entry(group_id.clone()).or_default();
                open.entry(topic.clone()).or_default().entry(partition).or_default().insert(producer);
                self.pending.entry(producer).or_default()
            }
        };
        let partitions = by_group.entry(group_id.clone()).or_default().entry(topic.clone()).or_default();
        if partitions.insert(partition, stored).is_none() {
            self.count += 1;
        }
    }

    fn remove(&mut self, group_id: &str, topic: &str, partition: i32) {
        if take(&mut self.committed, group_id, topic, partition).is_some() {
            self.count -= 1;
        }
        let producers = take(&mut self.open, group_id, topic, partition).unwrap_or_default();
        for producer in producers {
            let Some(groups) = self.pending.get_mut(&producer) else { continue };
            if take(groups, group_id, topic, partition).is_some() {
                self.count -= 1;
            }
            if groups.is_empty() {
                self.pending.remove(&producer);
            }
        }
    }

    /// Applies the end of a producer's transaction: what it left pending counts from now on, or never did.
    pub(crate) fn replay_end_transaction_marker(&mut self, producer: ProducerId, committed: bool) {
        let groups = self.pending.remove(&producer).unwrap_or_default();
        for (group_id, topics) in groups {
            for (topic, partitions) in topics {
                for (partition, stored) in partitions {
                    self.close(producer, &group_id, &topic, partition);
                    self.count -= 1;
                    if committed {
                        self.materialize(&group_id, &topic, partition, stored);
                    }
                }
            }
        }
    }

    fn close(&mut self, producer: ProducerId, group_id: &str, topic: &str, partition: i32) {
        let Some(mut producers) = take(&mut self.open, group_id, topic, partition) else { return };
        producers.remove(&producer);
        if !producers.is_empty() {
            let topics = self.open.entry(group_id.into()).or_default();
            topics.entry(topic.into()).or_default().insert(partition, producers);
        }
    }

    fn materialize(&mut self, group_id: &Arc<str>, topic: &Arc<str>, partition: i32, stored: StoredOffset) {
        let topics = self.committed.entry(group_id.clone()).or_default();
        let partitions = topics.entry(topic.clone()).or_default();
        let earlier = partitions.get(&partition).map(|earlier| earlier.record);
        // A plain commit that was written in between stays: compaction could not tell the two apart otherwise.
        if earlier < Some(stored.record) {
            partitions.insert(partition, stored);
            if earlier.is_none() {
                self.count += 1;
            }
        }
    }
    /// Returns the committed offset of a partition.
    pub(crate) fn get(&self, group_id: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        let stored = self.committed.get(group_id)?.get(topic)?.get(&partition)?;
        Some(&stored.value)
    }

    /// Returns the committed offsets of a group.
    pub(crate) fn of_group(&self, group_id: &str) -> Option<&ByPartition<StoredOffset>> {
        self.committed.get(group_id)
    }

    /// Returns whether an open transaction is about to change the offset of a partition.
    pub(crate) fn is_pending(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        let topics = self.open.get(group_id);
        topics
            .and_then(|topics| topics.get(topic))
            .is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// Returns whether an open transaction is about to change any offset of a group.
    pub(crate) fn has_pending(&self, group_id: &str) -> bool {
        self.open.contains_key(group_id)
    }

    /// Returns every partition of a group that has an offset, committed or pending.
    pub(crate) fn places(&self, group_id: &str) -> BTreeSet<(Arc<str>, i32)> {
        let committed = self.committed.get(group_id).into_iter().flat_map(places_of);
        let pending = self.open.get(group_id).into_iter().flat_map(places_of);
        committed.chain(pending).collect()
    }

    /// Returns the group and partition of every offset, committed or pending, that belongs to a topic: by its id, or by
    /// its name where no id was told.
    pub(crate) fn of_topic(&self, topic: &str, id: TopicId) -> BTreeSet<(Arc<str>, i32)> {
        let belongs =
            |stored: &StoredOffset| stored.value.topic_id == TopicId::ZERO || stored.value.topic_id == id;
        let mut found = BTreeSet::new();
        for (group_id, topics) in self.pending.values().flatten().chain(&self.committed) {
            let partitions = topics.get(topic).into_iter().flatten();
            let partitions = partitions.filter(|(_, stored)| belongs(stored));
            found.extend(partitions.map(|(partition, _)| (group_id.clone(), *partition)));
        }
        found
    }

    /// Returns how many offsets there are, pending ones included.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }
    /// Checks that the indexes agree.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        let of = |groups: &BTreeMap<Arc<str>, ByPartition<StoredOffset>>| -> usize {
            groups.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum()
        };
        let pending: usize = self.pending.values().map(of).sum();
        assert!(of(&self.committed) + pending == self.count, "the offsets are counted");
        for (producer, groups) in &self.pending {
            for (group_id, topics) in groups {
                for (topic, partition) in places_of(topics) {
                    let producers = self.open.get(group_id).and_then(|it| it.get(&topic)?.get(&partition));
                    let is_open = producers.is_some_and(|producers| producers.contains(producer));
                    assert!(is_open, "whatever is pending is found by its partition");
                }
            }
        }
        let open = self.open.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        assert!(open.map(BTreeSet::len).sum::<usize>() == pending, "only pending offsets are open");
    }
}

fn places_of<T>(topics: &ByPartition<T>) -> impl Iterator<Item = (Arc<str>, i32)> + '_ {
    topics.iter().flat_map(|(topic, partitions)| partitions.keys().map(|index| (topic.clone(), *index)))
}

/// Takes one entry out, and the maps around it if they are empty then.
fn take<T>(
    groups: &mut BTreeMap<Arc<str>, ByPartition<T>>,
    group_id: &str,
    topic: &str,
    partition: i32,
) -> Option<T> {
    let topics = groups.get_mut(group_id)?;
    let partitions = topics.get_mut(topic)?;
    let taken = partitions.remove(&partition);
    if partitions.is_empty() {
        topics.remove(topic);
    }
    if topics.is_empty() {
        groups.remove(group_id);
    }
    taken
}

#[cfg(test)]
mod tests;
