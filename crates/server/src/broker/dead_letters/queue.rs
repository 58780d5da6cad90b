//! The copies that a share partition leader has under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{LeaderEpoch, OffsetRange, SharePartitionKey, StateEpoch, Timestamp, TopicId};

/// Names a run of records that is being copied; never used twice at one node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in super::super) struct DeadLetterId(u64);

/// Why a record became a dead letter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in super::super) enum Cause {
    /// A member rejected it.
    Rejected,
    /// It was delivered as often as the group allows.
    DeliveredTooOften,
}

impl Cause {
    /// Returns the text that the copy carries.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Rejected => "Offset rejected by client.",
            Self::DeliveredTooOften => "Offset delivery count exceeded the threshold.",
        }
    }
}

/// A run of records that is being copied.
#[derive(Clone, Debug)]
pub(super) struct DeadLetter {
    /// The share partition.
    pub(super) key: SharePartitionKey,
    /// The epochs of its state and of its leader.
    pub(super) epochs: (StateEpoch, LeaderEpoch),
    /// The records.
    pub(super) range: OffsetRange,
    /// Those that are not copied yet.
    pub(super) left: OffsetRange,
    /// How often they were delivered.
    pub(super) delivery_count: i16,
    /// Why they are dead.
    pub(super) cause: Cause,
    /// How many attempts in a row have failed.
    pub(super) attempts: u32,
    /// When it is tried again, if it waits for that.
    retry_at: Option<Timestamp>,
}

/// The runs of one node that are being copied. Each holds records in flight, whose number bounds them.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct DeadLetters {
    next_id: u64,
    under_way: BTreeMap<DeadLetterId, DeadLetter>,
    by_share_partition: BTreeMap<SharePartitionKey, BTreeSet<DeadLetterId>>,
    retries: BTreeSet<(Timestamp, DeadLetterId)>,
    /// What was rejected and stored as such, until its copies begin.
    rejected: BTreeMap<SharePartitionKey, Vec<OffsetRange>>,
    /// Groups that have no session any more, to be forgotten when their last copy is made.
    to_forget: BTreeSet<Arc<str>>,
}

impl DeadLetters {
    /// Notes that records about to be copied were rejected.
    pub(in super::super) fn note_rejected(&mut self, key: &SharePartitionKey, ranges: Vec<OffsetRange>) {
        if !ranges.is_empty() {
            self.rejected.entry(key.clone()).or_default().extend(ranges);
        }
    }

    /// Takes in those of `waiting`, runs with their delivery counts, that are not under way.
    ///
    /// Of what nobody is known to have rejected (it was found at load) a count of `limit` tells the cause.
    pub(super) fn begin(
        &mut self,
        key: &SharePartitionKey,
        epochs: (StateEpoch, LeaderEpoch),
        waiting: &[(OffsetRange, i16)],
        limit: i16,
    ) -> Vec<DeadLetterId> {
        let rejected = self.rejected.remove(key).unwrap_or_default();
        let known: Vec<OffsetRange> = self.ranges_of(key).collect();
        let mut begun = Vec::new();
        for &(range, delivery_count) in waiting {
            for new in without(range, &known) {
                let by_count =
                    if delivery_count < limit { Cause::Rejected } else { Cause::DeliveredTooOften };
                let others = without(new, &rejected);
                let known = without(new, &others).into_iter().map(|range| (range, Cause::Rejected));
                let mut parts: Vec<_> =
                    known.chain(others.into_iter().map(|range| (range, by_count))).collect();
                parts.sort_unstable_by_key(|(range, _)| range.first());
                for (range, cause) in parts {
                    let left = range;
                    let letter = DeadLetter {
                        key: key.clone(),
                        epochs,
                        range,
                        left,
                        delivery_count,
                        cause,
                        attempts: 0,
                        retry_at: None,
                    };
                    begun.push(self.add(letter));
                }
            }
        }
        begun
    }

    fn add(&mut self, letter: DeadLetter) -> DeadLetterId {
        let id = DeadLetterId(self.next_id);
        self.next_id += 1;
        self.by_share_partition.entry(letter.key.clone()).or_default().insert(id);
        self.under_way.insert(id, letter);
        id
    }

    /// Returns the runs of a share partition that are under way.
    pub(in super::super) fn ranges_of(&self, key: &SharePartitionKey) -> impl Iterator<Item = OffsetRange> {
        let ids = self.by_share_partition.get(key).into_iter().flatten();
        ids.filter_map(|id| self.under_way.get(id)).map(|letter| letter.range)
    }

    pub(super) fn get(&self, id: DeadLetterId) -> Option<&DeadLetter> {
        self.under_way.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: DeadLetterId) -> Option<&mut DeadLetter> {
        self.under_way.get_mut(&id)
    }

    /// Has a run tried again at `time`.
    pub(super) fn retry_at(&mut self, time: Timestamp, id: DeadLetterId) {
        if let Some(letter) = self.under_way.get_mut(&id) {
            letter.retry_at = Some(time);
            self.retries.insert((time, id));
        }
    }

    /// Returns when a run is next tried again.
    pub(in super::super) fn first_retry(&self) -> Option<Timestamp> {
        self.retries.first().map(|(time, _)| *time)
    }

    /// Takes out one run that is to be tried again by `now`.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<DeadLetterId> {
        self.first_retry().filter(|time| *time <= now)?;
        let (_, id) = self.retries.pop_first()?;
        if let Some(letter) = self.under_way.get_mut(&id) {
            letter.retry_at = None;
        }
        Some(id)
    }

    /// Takes out a run, and says whether its group is to be forgotten now.
    pub(super) fn finish(&mut self, id: DeadLetterId) -> Option<(DeadLetter, bool)> {
        let letter = self.under_way.remove(&id)?;
        if let Some(ids) = self.by_share_partition.get_mut(&letter.key) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_share_partition.remove(&letter.key);
            }
        }
        let forget = !self.has_group(&letter.key.group_id) && self.to_forget.remove(&letter.key.group_id);
        Some((letter, forget))
    }

    /// Returns whether a group has runs under way; if so it is to be forgotten after the last one.
    pub(in super::super) fn puts_off_forgetting(&mut self, group_id: &Arc<str>) -> bool {
        let has_some = self.has_group(group_id);
        if has_some {
            self.to_forget.insert(group_id.clone());
        }
        has_some
    }

    fn has_group(&self, group_id: &Arc<str>) -> bool {
        let lowest =
            SharePartitionKey { group_id: group_id.clone(), topic_id: TopicId::ZERO, partition: i32::MIN };
        self.by_share_partition.range(lowest..).next().is_some_and(|(key, _)| key.group_id == *group_id)
    }

    /// Gives up the runs of a share partition that is dropped; whoever loads it next finds them again.
    pub(in super::super) fn forget(&mut self, key: &SharePartitionKey) {
        self.rejected.remove(key);
        for id in self.by_share_partition.remove(key).unwrap_or_default() {
            if let Some(time) = self.under_way.remove(&id).and_then(|letter| letter.retry_at) {
                self.retries.remove(&(time, id));
            }
        }
        if !self.has_group(&key.group_id) {
            self.to_forget.remove(&key.group_id);
        }
    }

    /// Gives up everything.
    pub(in super::super) fn clear(&mut self) {
        *self = Self { next_id: self.next_id, ..Self::default() };
    }
}

/// Returns what of `range` lies in none of `others`, ascending.
fn without(range: OffsetRange, others: &[OffsetRange]) -> Vec<OffsetRange> {
    let mut inside: Vec<OffsetRange> = others.iter().filter_map(|other| range.intersection(*other)).collect();
    inside.sort_unstable_by_key(|inside| inside.first());
    let mut rest = Vec::new();
    let mut first = range.first();
    for taken in inside {
        rest.extend(taken.first().previous().and_then(|before| OffsetRange::new(first, before)));
        first = first.max(taken.last().next());
    }
    rest.extend(OffsetRange::new(first, range.last()));
    rest
}

#[cfg(test)]
mod tests;
