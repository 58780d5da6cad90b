//! Random operations: replay at every prefix of the log equals what was live.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sharemark_protocol::{ErrorCode, Producer, ProducerEpoch, TopicPartition};

use super::harness::{Harness, V0, V1, V2};
use crate::{
    AddPartitions, EndTxn, Marker, MarkerProgress, Outcome, TransactionRecord, TransactionVersion,
    TxnCoordinatorShard,
};

const IDS: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Step {
    Init {
        id: usize,
        known: Option<i16>,
    },
    Add {
        id: usize,
        epoch: i16,
        partition: i32,
    },
    End {
        id: usize,
        epoch: i16,
        outcome: Outcome,
    },
    /// Hands out markers; they stay out.
    Poll,
    /// Answers one of the markers handed out so far, for the first time or again.
    Confirm {
        pick: usize,
    },
    Fail {
        pick: usize,
    },
    Complete,
    Sweep,
    Clock {
        ms: i64,
    },
    FailAppend,
    Recover,
}

/// Epochs relative to the current one.
fn epoch() -> impl Strategy<Value = i16> {
    prop_oneof![6 => Just(0_i16), 2 => Just(-1), 1 => Just(1)]
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..IDS.len();
    let outcome = prop_oneof![Just(Outcome::Commit), Just(Outcome::Abort)];
    prop_oneof![
        2 => (id.clone(), proptest::option::of(epoch())).prop_map(|(id, known)| Step::Init { id, known }),
        6 => (id.clone(), epoch(), 0..3).prop_map(|(id, epoch, partition)| Step::Add { id, epoch, partition }),
        4 => (id, epoch(), outcome).prop_map(|(id, epoch, outcome)| Step::End { id, epoch, outcome }),
        4 => Just(Step::Poll),
        6 => (0..8_usize).prop_map(|pick| Step::Confirm { pick }),
        1 => (0..8_usize).prop_map(|pick| Step::Fail { pick }),
        4 => Just(Step::Complete),
        1 => Just(Step::Sweep),
        2 => prop_oneof![-50..2_000_i64, Just(200_000_i64)].prop_map(|ms| Step::Clock { ms }),
        1 => Just(Step::FailAppend),
        1 => Just(Step::Recover),
    ]
}

struct World {
    harness: Harness,
    /// Markers handed out, one per partition, newest last.
    handed_out: Vec<(Marker, TopicPartition)>,
    /// The outcome that was decided, by transactional id and the offset of the PREPARE record.
    decided: BTreeMap<(String, i64), Outcome>,
}

impl World {
    fn new(version: TransactionVersion) -> Self {
        Self { harness: Harness::new(version), handed_out: Vec::new(), decided: BTreeMap::new() }
    }

    fn producer_of(&self, id: &str, relative: i16) -> Option<Producer> {
        let mut producer = self.harness.shard.describe(id).ok()?.producer;
        producer.epoch = ProducerEpoch::new((producer.epoch.get() + relative).max(0));
        Some(producer)
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Init { id, known } => {
                let known = known.and_then(|relative| self.producer_of(IDS[id], relative));
                let before = self.harness.log.len();
                if self.harness.init_as(IDS[id], known) == Err(ErrorCode::ProducerFenced) {
                    assert_eq!(self.harness.log.len(), before);
                }
            }
            Step::Add { id, epoch, partition } => self.add(IDS[id], epoch, partition),
            Step::End { id, epoch, outcome } => self.end(IDS[id], epoch, outcome),
            Step::Poll => {
                while let Some(marker) = self.harness.shard.poll_marker(self.harness.now) {
                    let partitions = marker.partitions.iter();
                    self.handed_out.extend(partitions.map(|partition| (marker.clone(), partition.clone())));
                }
            }
            Step::Confirm { pick } => self.confirm(pick),
            Step::Fail { pick } => {
                if let Some((marker, partition)) = self.picked(pick) {
                    self.harness.shard.fail_marker(self.harness.now, &marker.key, &partition);
                }
            }
            Step::Complete => {
                while let Some(key) = self.harness.shard.poll_completion(self.harness.now) {
                    let record = self.harness.shard.decide_complete(self.harness.now, &key).unwrap();
                    if self.harness.append(record).is_err() {
                        self.harness.shard.fail_completion(self.harness.now, &key);
                    }
                }
            }
            Step::Sweep => {
                self.harness.sweep();
            }
            Step::Clock { ms } => self.harness.advance(ms),
            Step::FailAppend => self.harness.failing_appends = 1,
            Step::Recover => self.harness.recover(),
        }
    }

    fn add(&mut self, id: &str, epoch: i16, partition: i32) {
        let Some(producer) = self.producer_of(id, epoch) else { return };
        let request = AddPartitions {
            transactional_id: id,
            producer,
            partitions: &[TopicPartition::new("t", partition)],
            client_version: self.harness.client,
        };
        if let Ok(Some(record)) = self.harness.shard.decide_add_partitions(self.harness.now, &request)
            && self.harness.append(record).is_ok()
        {
            // S-U2: the same request finds its work done.
            let again = self.harness.shard.decide_add_partitions(self.harness.now, &request);
            assert_eq!(again, Ok(None));
        }
    }

    fn end(&mut self, id: &str, epoch: i16, outcome: Outcome) {
        let Some(producer) = self.producer_of(id, epoch) else { return };
        let client_version = self.harness.client;
        let request = EndTxn { transactional_id: id, producer, outcome, client_version };
        let plan = self.harness.shard.decide_end_txn(self.harness.now, &request, &mut self.harness.ids);
        let Ok(plan) = plan else { return };
        let Some(record) = plan.record else {
            assert_eq!(self.harness.shard.describe(id).unwrap().state.completed(), Some(outcome));
            return;
        };
        if self.harness.append(record).is_ok() {
            assert_eq!(self.harness.shard.describe(id).unwrap().state.prepared(), Some(outcome));
        }
    }

    fn picked(&self, pick: usize) -> Option<(Marker, TopicPartition)> {
        self.handed_out.iter().rev().nth(pick).cloned()
    }

    fn confirm(&mut self, pick: usize) {
        let Some((marker, partition)) = self.picked(pick) else { return };
        self.harness.shard.confirm_marker(&marker.key, &partition);
        // Applied twice equals once.
        let again = self.harness.shard.confirm_marker(&marker.key, &partition);
        assert_eq!(again, MarkerProgress::Stale);
    }

    /// Notes what the records from `from` on decide, and checks that nothing decided is taken back.
    fn check_log(&mut self, from: usize) {
        for (offset, record) in (0_i64..).zip(&self.harness.log).skip(from) {
            let Some(value) = &record.value else { continue };
            let id = record.transactional_id.to_string();
            if let Some(outcome) = value.state.prepared() {
                self.decided.insert((id.clone(), offset), outcome);
            }
            if let Some(outcome) = value.state.completed() {
                let last = self.decided.range((id.clone(), 0)..(id, offset)).next_back();
                assert_eq!(last.map(|(_, decided)| *decided), Some(outcome), "an end is the decided one");
            }
        }
    }
}

/// Everything about a shard that its log must tell.
fn durable(shard: &TxnCoordinatorShard, version: TransactionVersion) -> Vec<String> {
    let transactions = shard.transactions.iter().map(|(id, found)| {
        let value = Some(found.value.clone());
        let record = TransactionRecord { transactional_id: id.clone(), value };
        format!("{:?} {:?}", found.recorded_at, record.as_logged(version))
    });
    transactions.chain([format!("{:?}", shard.last_replayed)]).collect()
}

proptest! {
    #[test]
    fn replay_equals_live(
        version in prop_oneof![Just(V0), Just(V1), Just(V2)],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(version);
        // What was live when the log had so many records; a step may append several.
        let mut live = BTreeMap::new();
        for step in &steps {
            let before = world.harness.log.len();
            world.run(step);
            world.harness.shard.check_invariants();
            world.check_log(before);
            live.insert(world.harness.log.len(), durable(&world.harness.shard, version));
        }
        for (record_count, seen) in &live {
            prop_assert_eq!(&durable(&world.harness.recovered(*record_count), version), seen);
        }
        // Whatever happened, every decided end can be brought to its record.
        world.harness.failing_appends = 0;
        world.harness.recover();
        world.harness.settle();
        for id in IDS {
            if let Ok(view) = world.harness.shard.describe(id) {
                prop_assert_eq!(view.state.prepared(), None);
            }
        }
    }
}
