//! Compaction leaves what readers of committed records and producers rely on.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write { id: Option<i64>, transactional: bool, keys: Vec<u8>, tombstone: bool },
    Mark { id: i64, committed: bool, transaction_version: i8 },
    Compact { later_ms: i64, whole: bool },
    Delete { permille: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    let keys = proptest::collection::vec(0..5_u8, 1..4);
    prop_oneof![
        6 => (proptest::option::of(1..4_i64), any::<bool>(), keys, any::<bool>()).prop_map(
            |(id, transactional, keys, tombstone)| Step::Write { id, transactional, keys, tombstone }
        ),
        4 => (1..4_i64, any::<bool>(), 1..3_i8).prop_map(|(id, committed, transaction_version)| Step::Mark {
            id, committed, transaction_version
        }),
        2 => (0..1500_i64, any::<bool>()).prop_map(|(later_ms, whole)| Step::Compact { later_ms, whole }),
        1 => (0..300_i64).prop_map(|permille| Step::Delete { permille }),
    ]
}

/// Returns what a reader of committed records holds at the end: the last value of each key.
fn table(log: &Log) -> BTreeMap<Bytes, Bytes> {
    let batches = read(log, log.log_start().get(), Isolation::ReadCommitted);
    let mut table = BTreeMap::new();
    let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return table };
    let mut aborted = Vec::new();
    let range = OffsetRange::new(first.extent.range.first(), last.extent.range.last()).unwrap();
    log.aborted_transactions(range, &mut aborted);
    for batch in &batches {
        let BatchExtent { range, producer, transactional, control, .. } = batch.extent;
        let is_aborted = transactional
            && aborted.iter().any(|aborted| {
                Some(aborted.producer_id) == producer.map(|producer| producer.id)
                    && aborted.first_offset <= range.first()
                    && range.first() <= aborted.last_offset
            });
        if control || is_aborted {
            continue;
        }
        for (offset, key, value) in records(std::slice::from_ref(batch)) {
            if log.log_start() <= at(offset) {
                match value {
                    Some(value) => table.insert(key.unwrap(), value),
                    None => table.remove(&key.unwrap()),
                };
            }
        }
    }
    table
}

/// Returns what tells a producer's next sequence number, without what only a live log knows.
fn producers(log: &Log) -> Vec<(Producer, Option<i32>, Option<Offset>)> {
    let mut out = Vec::new();
    log.describe_producers(&mut out);
    out.iter().map(|state| (state.producer, state.last_sequence, state.open_since)).collect()
}

#[derive(Default)]
struct Clients {
    epochs: [i16; 4],
    sequences: [i32; 4],
    value: u32,
}

fn run(log: &mut Log, clients: &mut Clients, now: &mut Timestamp, step: &Step) {
    match step {
        Step::Write { id, transactional, keys, tombstone } => {
            let mut builder = BatchBuilder::new();
            if let Some(id) = *id {
                let slot = id as usize;
                builder = builder.producer(producer(id, clients.epochs[slot]), clients.sequences[slot]);
                if *transactional || log.has_open_transaction(producer(id, clients.epochs[slot])) {
                    builder = builder.transactional();
                }
                clients.sequences[slot] += keys.len() as i32;
            }
            for key in keys {
                clients.value += 1;
                let value = clients.value.to_be_bytes();
                builder.push(*now, Some(&[*key]), (!tombstone).then_some(&value[..]), &[]);
            }
            try_append_with(log, &builder, CLIENT, *now).unwrap();
        }
        Step::Mark { id, committed, transaction_version } => {
            let slot = *id as usize;
            if 2 <= *transaction_version {
                clients.epochs[slot] += 1;
                clients.sequences[slot] = 0;
            }
            let known = log.producer_epoch(ProducerId::new(*id)).is_some();
            end_transaction(log, producer(*id, clients.epochs[slot]), *committed, *transaction_version)
                .unwrap();
            if !known {
                clients.sequences[slot] = 0; // After nothing but a marker a producer starts at 0.
            }
        }
        Step::Compact { later_ms, whole } => {
            *now = now.plus_ms(*later_ms);
            let before = (table(log), log.offsets(), producers(log));
            let scope = if *whole { CompactionScope::Whole } else { CompactionScope::ClosedSegments };
            log.compact(*now, scope, &mut Vec::new());
            log.check_invariants();
            assert_eq!((table(log), log.offsets(), producers(log)), before);
        }
        Step::Delete { permille } => {
            let start = log.log_start().get();
            log.delete_records(at(start + (log.log_end().get() - start) * permille / 1000), &mut Vec::new());
            log.check_invariants();
        }
    }
}

proptest! {
    #[test]
    fn tables_and_producers_outlive_compaction(steps in proptest::collection::vec(step(), 1..60)) {
        let config = LogConfig { segment_size_bytes_max: 600, ..config() };
        let mut log = log_with(config);
        let (mut clients, mut now) = (Clients::default(), NOW);
        for step in &steps {
            run(&mut log, &mut clients, &mut now, step);
        }
        if log.log_start() == Offset::ZERO {
            let again = replayed(&log);
            prop_assert_eq!(producers(&again), producers(&log));
            prop_assert_eq!(again.offsets(), log.offsets());
            prop_assert_eq!(table(&again), table(&log));
        }
    }
}
