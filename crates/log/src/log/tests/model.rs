//! The log against a list of records that knows of each whether it counts.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Plain { count: usize },
    Write { id: i64, count: usize, transactional: bool, epoch_shift: i16, sequence_shift: i32 },
    Repeat { back: usize },
    Mark { id: i64, committed: bool, epoch_shift: i16, transaction_version: i8 },
    Delete { permille: i64 },
    Replay,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1..4_i64;
    prop_oneof![
        2 => (1..4_usize).prop_map(|count| Step::Plain { count }),
        6 => (id.clone(), 1..4_usize, any::<bool>(), prop_oneof![8 => Just(0), 1 => -1..3_i16],
              prop_oneof![8 => Just(0), 1 => -3..4])
            .prop_map(|(id, count, transactional, epoch_shift, sequence_shift)| {
                Step::Write { id, count, transactional, epoch_shift, sequence_shift }
            }),
        2 => (1..8_usize).prop_map(|back| Step::Repeat { back }),
        4 => (id, any::<bool>(), -1..3_i16, 1..3_i8).prop_map(|(id, committed, epoch_shift, transaction_version)| {
            Step::Mark { id, committed, epoch_shift, transaction_version }
        }),
        1 => (0..1000_i64).prop_map(|permille| Step::Delete { permille }),
        1 => Just(Step::Replay),
    ]
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Plain,
    Open,
    Committed,
    Aborted,
    Marker,
}

#[derive(Clone, Copy, Debug, Default)]
struct NaiveProducer {
    epoch: i16,
    next_sequence: Option<i32>,
    known: bool,
    open: bool,
}

/// Every record ever appended, and what became of it.
#[derive(Default)]
struct Naive {
    records: Vec<(Fate, i64)>,
    start: usize,
    producers: [NaiveProducer; 4],
    /// Producer id, epoch, first sequence, count, base offset, whether transactional.
    batches: Vec<(i64, i16, i32, usize, usize, bool)>,
}

impl Naive {
    fn stable(&self) -> usize {
        let open = self.records.iter().position(|&(fate, _)| fate == Fate::Open);
        open.unwrap_or(self.records.len()).max(self.start)
    }

    fn remembered(&self, id: i64, epoch: i16, sequence: i32, count: usize) -> Option<usize> {
        let producer = &self.producers[id as usize];
        let own = self.batches.iter().rev().filter(|batch| (batch.0, batch.1) == (id, epoch)).take(5);
        let found = own.clone().find(|batch| (batch.2, batch.3) == (sequence, count))?;
        // A marker with a new epoch makes it forget.
        (producer.known && producer.epoch == epoch && producer.next_sequence.is_some()).then_some(found.4)
    }

    fn judge(&self, id: i64, epoch: i16, sequence: i32, transactional: bool) -> Result<(), ErrorCode> {
        let producer = &self.producers[id as usize];
        if !producer.known {
            return Ok(());
        }
        if epoch < producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        let expected = if epoch == producer.epoch { producer.next_sequence.unwrap_or(0) } else { 0 };
        if sequence != expected {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        if producer.open && !transactional {
            return Err(ErrorCode::InvalidTxnState);
        }
        Ok(())
    }

    fn write(&mut self, id: i64, epoch: i16, sequence: i32, count: usize, transactional: bool) {
        self.batches.push((id, epoch, sequence, count, self.records.len(), transactional));
        let fate = if transactional { Fate::Open } else { Fate::Plain };
        self.records.extend(std::iter::repeat_n((fate, id), count));
        let open = transactional || self.producers[id as usize].open;
        self.producers[id as usize] =
            NaiveProducer { epoch, next_sequence: Some(sequence + count as i32), known: true, open };
    }

    fn mark(&mut self, id: i64, epoch: i16, committed: bool) {
        for record in &mut self.records {
            if *record == (Fate::Open, id) {
                record.0 = if committed { Fate::Committed } else { Fate::Aborted };
            }
        }
        self.records.push((Fate::Marker, id));
        let producer = &mut self.producers[id as usize];
        if !producer.known || producer.epoch != epoch {
            producer.next_sequence = None;
        }
        (producer.epoch, producer.known, producer.open) = (epoch, true, false);
    }
}

fn run(log: &mut Log, naive: &mut Naive, step: &Step) {
    match *step {
        Step::Plain { count } => {
            assert_eq!(append(log, &plain(count)).base_offset.get(), naive.records.len() as i64);
            naive.records.extend(std::iter::repeat_n((Fate::Plain, 0), count));
        }
        Step::Write { id, count, transactional, epoch_shift, sequence_shift } => {
            let known = naive.producers[id as usize];
            let epoch = (known.epoch + epoch_shift).max(0);
            let natural = if epoch_shift == 0 { known.next_sequence.unwrap_or(0) } else { 0 };
            write(log, naive, (id, epoch, (natural + sequence_shift).max(0), count, transactional));
        }
        Step::Repeat { back } => {
            let Some(index) = naive.batches.len().checked_sub(back) else { return };
            let (id, epoch, sequence, count, _, transactional) = naive.batches[index];
            write(log, naive, (id, epoch, sequence, count, transactional));
        }
        Step::Mark { id, committed, epoch_shift, transaction_version } => {
            let known = naive.producers[id as usize];
            let epoch = (known.epoch + epoch_shift).max(0);
            let outcome = end_transaction(log, producer(id, epoch), committed, transaction_version);
            let fenced = known.known
                && (epoch < known.epoch || (2 <= transaction_version && epoch == known.epoch && known.open));
            assert_eq!(outcome.is_err(), fenced);
            if let Ok(appended) = outcome {
                assert_eq!(appended.offset.get(), naive.records.len() as i64);
                assert_eq!(appended.completed.is_some(), known.open);
                naive.mark(id, epoch, committed);
            }
        }
        Step::Delete { permille } => {
            let start = naive.start as i64;
            let before = start + (log.log_end().get() - start) * permille / 1000;
            log.delete_records(at(before), &mut Vec::new());
            naive.start = before as usize;
        }
        Step::Replay => {
            // Deletion may have taken what a replay would need to know; offsets it never loses.
            let again = replayed(log);
            assert_eq!(
                (again.log_start(), again.log_end()),
                (log.log_start(), log.log_end().max(log.log_start()))
            );
            if naive.start == 0 {
                assert_eq!(again.producers.open_transactions(), log.producers.open_transactions());
                *log = again;
            }
        }
    }
}

fn write(log: &mut Log, naive: &mut Naive, batch: (i64, i16, i32, usize, bool)) {
    let (id, epoch, sequence, count, transactional) = batch;
    let mut builder = plain(count).producer(producer(id, epoch), sequence);
    if transactional {
        builder = builder.transactional();
    }
    let outcome = try_append(log, &builder);
    if let Some(base) = naive.remembered(id, epoch, sequence, count) {
        let appended = outcome.unwrap();
        assert!(appended.is_duplicate);
        assert_eq!(appended.base_offset.get(), base as i64);
        return;
    }
    match naive.judge(id, epoch, sequence, transactional) {
        Err(code) => assert_eq!(outcome, Err(code)),
        Ok(()) => {
            let appended = outcome.unwrap();
            assert!(!appended.is_duplicate);
            assert_eq!(appended.base_offset.get(), naive.records.len() as i64);
            naive.write(id, epoch, sequence, count, transactional);
        }
    }
}

/// Reads as a consumer of committed records does, who leaves out what the list of aborted ones names.
fn committed_offsets(log: &Log) -> Vec<usize> {
    let batches = read(log, log.log_start().get(), Isolation::ReadCommitted);
    let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return Vec::new() };
    let mut aborted = Vec::new();
    let range = OffsetRange::new(first.extent.range.first(), last.extent.range.last()).unwrap();
    log.aborted_transactions(range, &mut aborted);
    let mut offsets = Vec::new();
    for batch in &batches {
        let extent = &batch.extent;
        let is_aborted = extent.transactional
            && aborted.iter().any(|aborted| {
                Some(aborted.producer_id) == extent.producer.map(|producer| producer.id)
                    && aborted.first_offset <= extent.range.first()
                    && extent.range.first() <= aborted.last_offset
            });
        if !extent.control && !is_aborted {
            offsets.extend(extent.range.offsets().map(|offset| offset.get() as usize));
        }
    }
    offsets.retain(|&offset| log.log_start().get() as usize <= offset);
    offsets
}

proptest! {
    #[test]
    fn the_log_agrees_with_the_model(steps in proptest::collection::vec(step(), 1..80)) {
        let mut log = log();
        let mut naive = Naive::default();
        for step in &steps {
            run(&mut log, &mut naive, step);
            log.check_invariants();
            prop_assert_eq!(log.log_end().get(), naive.records.len() as i64);
            prop_assert_eq!(log.last_stable_offset().get(), naive.stable() as i64);
        }
        let seen = committed_offsets(&log);
        let expected: Vec<_> = (naive.start..naive.stable())
            .filter(|&offset| matches!(naive.records[offset].0, Fate::Plain | Fate::Committed))
            .collect();
        prop_assert_eq!(seen, expected);
    }
}
