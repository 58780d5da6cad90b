//! Reads along in the logs of the coordinators, and holds every record against what came before it.
//!
//! ```text
//! __transaction_state -> which partitions are registered, which ends are decided
//! __share_group_state -> a naive copy of the states: what may follow what
//! ```
//!
//! The logs are all that is durable, so what they say in order is what a cluster may ever have believed.

mod states;

use std::collections::{BTreeMap, BTreeSet};

use sharemark::broker::{Broker, ObservedPartition, ObservedRecord};
use sharemark_protocol::{
    Offset, Producer, ProducerEpoch, ProducerId, SharePartitionKey, TopicIdPartition, TopicPartition,
};
use sharemark_share_coordinator::StateRecord;
use sharemark_txn_coordinator::{Outcome, TransactionRecord, TransactionState};

use self::states::Shadows;
use super::coverage::{Coverage, Event};

pub(super) const TRANSACTION_STATE: &str = "__transaction_state";
pub(super) const SHARE_GROUP_STATE: &str = "__share_group_state";

/// The decided end of a producer's transactions below an epoch.
#[derive(Clone, Copy, Debug)]
struct Decision {
    below: ProducerEpoch,
    committed: bool,
    /// Where it stands in its log.
    place: (i32, Offset),
    /// When it was read.
    round: u64,
}

/// What is known of a transaction.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Transaction {
    partitions: BTreeSet<TopicPartition>,
    committed: Option<bool>,
    pending: BTreeSet<(SharePartitionKey, i64)>,
}

/// What the logs have said so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether all that is read is printed, for whoever looks for a fault.
    prints: bool,
    /// How often there was something to read. What is read in one round was written in one input of the broker; in
    /// which order it wrote to different logs is not seen.
    round: u64,
    /// The next offset to read of each partition.
    next: BTreeMap<TopicIdPartition, Offset>,
    decisions: BTreeMap<ProducerId, Vec<Decision>>,
    /// The partitions of open transactions.
    registered: BTreeMap<Producer, BTreeSet<TopicPartition>>,
    /// What somebody was told to be staged. A stage whose outcome its leader never learned is taken back by it.
    told: BTreeSet<(Producer, SharePartitionKey, i64)>,
    /// The partition of `__transaction_state` that knows a producer.
    coordinated: BTreeMap<ProducerId, i32>,
    pub(super) shadows: Shadows,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { prints: std::env::var("SIM_TRACE").is_ok(), ..Self::default() }
    }

    /// Reads what is new.
    ///
    /// # Panics
    ///
    /// If the logs say something that must not be.
    pub(super) fn catch_up(&mut self, broker: &Broker, coverage: &mut Coverage) {
        self.round += 1;
        let partitions = broker.observe_partitions();
        for partition in partitions.iter().filter(|it| it.topic == TRANSACTION_STATE) {
            for record in self.news(broker, partition.at, partition.log_end) {
                let decoded = TransactionRecord::decode(&record.key, record.value.as_ref());
                let decoded = decoded.unwrap_or_else(|error| panic!("a transaction can be read: {error}"));
                if self.prints {
                    println!(
                        "  {TRANSACTION_STATE}-{} {} {decoded:?}",
                        partition.at.partition, record.offset
                    );
                }
                self.note_transaction(partition.at.partition, record.offset, &decoded);
            }
        }
        for partition in partitions.iter().filter(|it| it.topic == SHARE_GROUP_STATE) {
            for record in self.news(broker, partition.at, partition.log_end) {
                if self.prints {
                    print_state(partition.at.partition, &record);
                }
                let Self { decisions, registered, told, round, shadows, .. } = self;
                let judge = Judge { decisions, registered, told, round: *round };
                shadows.note(partition.at.partition, &record, &judge, coverage);
            }
            if self.shadows.note_start(partition.at.partition, partition.log_start) {
                coverage.note(Event::PruneWhilePending);
            }
        }
    }

    fn news(&mut self, broker: &Broker, at: TopicIdPartition, end: Offset) -> Vec<ObservedRecord> {
        let next = self.next.entry(at).or_insert(Offset::ZERO);
        if end <= *next {
            return Vec::new();
        }
        let records = broker.observe_log(at, *next);
        *next = end;
        records
    }

    /// Begins anew after a crash that left `left` of the logs: what was not durable has never been.
    pub(super) fn begin_anew(
        &mut self,
        broker: &Broker,
        left: &[ObservedPartition],
        coverage: &mut Coverage,
    ) {
        let transactions = left.iter().filter(|it| it.topic == TRANSACTION_STATE);
        let ends: BTreeMap<i32, Offset> = transactions.map(|it| (it.at.partition, it.log_end)).collect();
        for decisions in self.decisions.values_mut() {
            // Those of before are kept, since compaction may have taken their records.
            decisions
                .retain(|decision| ends.get(&decision.place.0).is_some_and(|end| decision.place.1 < *end));
        }
        self.registered.clear();
        self.next.clear();
        self.shadows.begin_anew();
        self.round += 1;
        self.catch_up(broker, coverage);
        self.shadows.end_loading();
    }

    fn note_transaction(&mut self, partition: i32, offset: Offset, record: &TransactionRecord) {
        let Some(value) = &record.value else { return };
        self.coordinated.insert(value.producer.id, partition);
        if value.state == TransactionState::Ongoing {
            self.registered.insert(value.producer, value.partitions.clone());
        }
        let Some(outcome) = value.state.prepared() else { return };
        let decisions = self.decisions.entry(value.producer.id).or_default();
        if decisions.iter().any(|decision| decision.place == (partition, offset)) {
            return; // It is read again after a crash.
        }
        decisions.push(Decision {
            below: value.producer.epoch,
            committed: outcome == Outcome::Commit,
            place: (partition, offset),
            round: self.round,
        });
    }

    /// Notes that somebody was told that a record is staged.
    pub(super) fn note_told(&mut self, producer: Producer, key: &SharePartitionKey, offset: i64) {
        self.told.insert((producer, key.clone(), offset));
    }

    /// Returns how a producer's transaction was decided to end.
    pub(super) fn outcome_of(&self, producer: Producer) -> Option<bool> {
        let Self { decisions, registered, told, round, .. } = self;
        Judge { decisions, registered, told, round: *round }.outcome_of(producer)
    }

    /// Returns what is known of every transaction that was ever registered.
    pub(super) fn transactions(&self) -> BTreeMap<Producer, Transaction> {
        let all = self.registered.iter().map(|(producer, partitions)| {
            let committed = self.outcome_of(*producer);
            let pending = BTreeSet::new();
            (*producer, Transaction { partitions: partitions.clone(), committed, pending })
        });
        let mut all: BTreeMap<Producer, Transaction> = all.collect();
        for (key, _, offset, staged) in self.shadows.pending() {
            if let Some(transaction) = all.get_mut(&staged.producer) {
                transaction.pending.insert((key.clone(), offset));
            }
        }
        all
    }

    /// Returns the markers of all transactions that were ever decided.
    pub(super) fn ended(&self) -> Vec<(Producer, bool)> {
        let decisions = self.decisions.iter().flat_map(|(id, decisions)| {
            decisions.iter().map(|it| (Producer { id: *id, epoch: it.below }, it.committed))
        });
        decisions.collect()
    }

    /// Returns the partition of `__transaction_state` that knows a producer.
    pub(super) fn coordinator_of(&self, producer: ProducerId) -> Option<i32> {
        self.coordinated.get(&producer).copied()
    }
}

fn print_state(state_partition: i32, record: &ObservedRecord) {
    let (offset, producer) = (record.offset, record.producer);
    match record.marker {
        Some(committed) => {
            println!("  {SHARE_GROUP_STATE}-{state_partition} {offset} marker {committed} {producer:?}");
        }
        None => {
            let decoded = StateRecord::decode(&record.key, record.value.as_ref());
            println!("  {SHARE_GROUP_STATE}-{state_partition} {offset} {producer:?} {decoded:?}");
        }
    }
}

/// Says of transactions what was decided.
pub(super) struct Judge<'a> {
    decisions: &'a BTreeMap<ProducerId, Vec<Decision>>,
    registered: &'a BTreeMap<Producer, BTreeSet<TopicPartition>>,
    told: &'a BTreeSet<(Producer, SharePartitionKey, i64)>,
    round: u64,
}

impl Judge<'_> {
    pub(super) fn outcome_of(&self, producer: Producer) -> Option<bool> {
        self.decision_of(producer).map(|decision| decision.committed)
    }

    /// Returns whether a transaction was decided in an input before the one that is judged.
    pub(super) fn was_decided(&self, producer: Producer) -> bool {
        self.decision_of(producer).is_some_and(|decision| decision.round < self.round)
    }

    fn decision_of(&self, producer: Producer) -> Option<&Decision> {
        let decisions = self.decisions.get(&producer.id)?;
        decisions.iter().find(|decision| producer.epoch < decision.below)
    }

    /// Returns whether somebody was told that a record is staged.
    fn was_told(&self, producer: Producer, key: &SharePartitionKey, offset: i64) -> bool {
        self.told.contains(&(producer, key.clone(), offset))
    }

    pub(super) fn is_registered(&self, producer: Producer, state_partition: i32) -> bool {
        let partition = TopicPartition::new(SHARE_GROUP_STATE, state_partition);
        self.registered.get(&producer).is_some_and(|partitions| partitions.contains(&partition))
    }
}
