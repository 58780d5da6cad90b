//! What a log remembers of idempotent and transactional producers.

use std::collections::{BTreeMap, VecDeque};

use sharemark_protocol::{ErrorCode, Offset, Producer, ProducerEpoch, ProducerId, Timestamp};

use crate::batch::BatchHeader;
use crate::log::Origin;

/// How many batches of a producer are remembered, so that a repeat is known: a client has at most as many
/// requests in flight.
const BATCHES_REMEMBERED: usize = 5;

/// A producer as DescribeProducers shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProducerDescription {
    /// The producer with the highest epoch seen.
    pub producer: Producer,
    /// The last sequence number, if a batch is remembered.
    pub last_sequence: Option<i32>,
    /// The time of its last batch.
    pub last_timestamp: Timestamp,
    /// The epoch of the coordinator that sent its last marker.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction begins.
    pub open_since: Option<Offset>,
}

/// A batch that was appended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Remembered {
    pub(crate) first_sequence: i32,
    pub(crate) last_sequence: i32,
    pub(crate) first_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) timestamp: Timestamp,
}

/// What a log knows of one producer id.
#[derive(Clone, Debug, Eq, PartialEq)]
struct ProducerState {
    epoch: ProducerEpoch,
    /// The last batches of this epoch, oldest first.
    batches: VecDeque<Remembered>,
    last_timestamp: Timestamp,
    coordinator_epoch: Option<i32>,
    open_since: Option<Offset>,
}

impl ProducerState {
    const fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            batches: VecDeque::new(),
            last_timestamp: Timestamp::from_ms(-1),
            coordinator_epoch: None,
            open_since: None,
        }
    }

    fn raise_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    /// Judges the first sequence number of a batch of `epoch`.
    fn check_sequence(&self, epoch: ProducerEpoch, first_sequence: i32) -> Result<(), ErrorCode> {
        let expected = if epoch == self.epoch {
            // After nothing but a marker a producer starts at 0, and so it does after `i32::MAX`.
            self.batches.back().map_or(0, |last| last.last_sequence.checked_add(1).unwrap_or(0))
        } else {
            0
        };
        if first_sequence == expected { Ok(()) } else { Err(ErrorCode::OutOfOrderSequenceNumber) }
    }
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// It is new and in order.
    Append,
    /// It is in the log already.
    Duplicate(Remembered),
}

/// The producers of one log.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Producers {
    states: BTreeMap<ProducerId, ProducerState>,
    /// Counts changes, so that a decision about a producer is carried out before the next change.
    revision: u64,
}

impl Producers {
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the highest epoch seen of a producer.
    pub(crate) fn epoch(&self, id: ProducerId) -> Option<ProducerEpoch> {
        self.states.get(&id).map(|state| state.epoch)
    }

    /// Returns where the open transaction of a producer begins.
    pub(crate) fn open_since(&self, id: ProducerId) -> Option<Offset> {
        self.states.get(&id).and_then(|state| state.open_since)
    }

    /// Returns whether a batch is the last of its producer that is remembered: the one that says, after a
    /// restart, which sequence number comes next, or, if there was only a marker, which epoch it had.
    pub(crate) fn is_last_batch(&self, batch: &BatchHeader) -> bool {
        let Some(producer) = batch.producer else { return false };
        let Some(state) = self.states.get(&producer.id) else { return false };
        match state.batches.back() {
            Some(last) => last.last_offset == batch.last_offset,
            None => batch.control && producer.epoch == state.epoch,
        }
    }

    /// Judges a data batch of `producer`; see `Log::decide_append` for the errors.
    pub(crate) fn decide_data(
        &self,
        batch: &BatchHeader,
        producer: Producer,
        origin: Origin,
        verified: bool,
        count_max: usize,
    ) -> Result<Verdict, ErrorCode> {
        let state = self.states.get(&producer.id);
        if state.is_none() && count_max <= self.states.len() {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if let Some(state) = state {
            if origin == Origin::Client
                && state.epoch == producer.epoch
                && let Some(known) = find_duplicate(&state.batches, batch)
            {
                return Ok(Verdict::Duplicate(known));
            }
            if producer.epoch < state.epoch {
                return Err(ErrorCode::InvalidProducerEpoch);
            }
        }
        let is_open = state.is_some_and(|state| state.open_since.is_some());
        if batch.transactional && !verified && !(is_open && self.epoch(producer.id) == Some(producer.epoch)) {
            return Err(ErrorCode::InvalidTxnState);
        }
        if origin == Origin::Client
            && let Some(state) = state
        {
            state.check_sequence(producer.epoch, batch.base_sequence.unwrap_or(-1))?;
        }
        if is_open && !batch.transactional {
            return Err(ErrorCode::InvalidTxnState);
        }
        Ok(Verdict::Append)
    }

    /// Judges a marker of `producer`.
    pub(crate) fn decide_marker(
        &self,
        producer: Producer,
        coordinator_epoch: i32,
        transaction_version: i8,
        count_max: usize,
    ) -> Result<(), ErrorCode> {
        let Some(state) = self.states.get(&producer.id) else {
            return if count_max <= self.states.len() {
                Err(ErrorCode::ThrottlingQuotaExceeded)
            } else {
                Ok(())
            };
        };
        // From transaction version 2 on a marker carries the epoch above that of its data. An equal epoch
        // with nothing open is the repeat of a marker whose answer was lost (KAFKA-19999).
        let is_repeat = producer.epoch == state.epoch && state.open_since.is_none();
        let fenced = producer.epoch < state.epoch
            || (2 <= transaction_version && producer.epoch == state.epoch && !is_repeat);
        if fenced {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if Some(coordinator_epoch) < state.coordinator_epoch {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Applies a data batch that is in the log. Returns whether it begins a transaction.
    pub(crate) fn apply_data(&mut self, batch: &BatchHeader, producer: Producer) -> bool {
        self.revision += 1;
        let state = self.states.entry(producer.id).or_insert_with(|| ProducerState::new(producer.epoch));
        state.raise_epoch(producer.epoch);
        if let (Some(first_sequence), Some(last_sequence)) = (batch.base_sequence, batch.last_sequence()) {
            if state.batches.len() == BATCHES_REMEMBERED {
                state.batches.pop_front();
            }
            state.batches.push_back(Remembered {
                first_sequence,
                last_sequence,
                first_offset: batch.base_offset,
                last_offset: batch.last_offset,
                timestamp: batch.max_timestamp,
            });
        }
        state.last_timestamp = batch.max_timestamp;
        // A batch that compaction has emptied stands for nothing that could be open.
        let begins = batch.transactional && state.open_since.is_none() && 0 < batch.record_count;
        if begins {
            state.open_since = Some(batch.base_offset);
        }
        begins
    }

    /// Applies a marker that is in the log. Returns where the transaction that it ends began.
    pub(crate) fn apply_marker(
        &mut self,
        producer: Producer,
        coordinator_epoch: i32,
        timestamp: Timestamp,
    ) -> Option<Offset> {
        self.revision += 1;
        let state = self.states.entry(producer.id).or_insert_with(|| ProducerState::new(producer.epoch));
        state.raise_epoch(producer.epoch);
        state.coordinator_epoch = state.coordinator_epoch.max(Some(coordinator_epoch));
        state.last_timestamp = timestamp;
        state.open_since.take()
    }

    /// Applies a marker that compaction has emptied: the epoch is all that it still says.
    pub(crate) fn apply_empty_marker(&mut self, producer: Producer, timestamp: Timestamp) {
        self.revision += 1;
        let state = self.states.entry(producer.id).or_insert_with(|| ProducerState::new(producer.epoch));
        state.raise_epoch(producer.epoch);
        state.last_timestamp = timestamp;
    }

    /// Forgets producers without open transaction whose last batch is too old.
    pub(crate) fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        let before = self.states.len();
        self.states.retain(|_, state| {
            state.open_since.is_some() || now.ms_since(state.last_timestamp) < expiration_ms
        });
        if self.states.len() != before {
            self.revision += 1;
        }
    }

    /// Appends a description of each producer, by id.
    pub(crate) fn describe(&self, out: &mut Vec<ProducerDescription>) {
        out.extend(self.states.iter().map(|(&id, state)| ProducerDescription {
            producer: Producer { id, epoch: state.epoch },
            last_sequence: state.batches.back().map(|last| last.last_sequence),
            last_timestamp: state.last_timestamp,
            coordinator_epoch: state.coordinator_epoch,
            open_since: state.open_since,
        }));
    }

    /// Returns the open transactions by their first offset.
    pub(crate) fn open_transactions(&self) -> BTreeMap<Offset, ProducerId> {
        self.states.iter().filter_map(|(&id, state)| state.open_since.map(|first| (first, id))).collect()
    }

    pub(crate) fn check_invariants(&self, log_end: Offset) {
        for state in self.states.values() {
            assert!(state.batches.len() <= BATCHES_REMEMBERED, "only the last batches are remembered");
            let mut previous = None;
            for batch in &state.batches {
                assert!(
                    previous < Some(batch.first_offset),
                    "batches are remembered in the order of appends"
                );
                assert!(batch.last_offset < log_end, "only appended batches are remembered");
                previous = Some(batch.last_offset);
            }
        }
    }
}

fn find_duplicate(batches: &VecDeque<Remembered>, batch: &BatchHeader) -> Option<Remembered> {
    let (first, last) = (batch.base_sequence?, batch.last_sequence()?);
    batches.iter().find(|known| known.first_sequence == first && known.last_sequence == last).copied()
}
