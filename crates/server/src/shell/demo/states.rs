//! The states of the orders, as `__share_group_state` tells them: the topic is followed like any other.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_log::batch::{BatchView, split};
use sharemark_protocol::{ErrorCode, OffsetRange, SharePartitionKey, TopicId};
use sharemark_share_coordinator::{RecordState, StateBatch, StateChange, StateRecord};

use super::client::{Client, DemoError, check};
use super::read_back::{ReadRecord, records_of, unreadable};
use super::topics::{self, Isolation};

/// The marks of a picture, each with its meaning.
pub(super) const LEGEND: &str = "#  acknowledged: done for good\n\
    t  acknowledged in a transaction that has not ended (TX_PENDING)\n\
    >  handed out to a worker (ACQUIRED)\n\
    .  waits for a worker (AVAILABLE)\n\
    x  given up (ARCHIVED)";

/// What is known of one order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct KnownState {
    /// Its state; one that was never acknowledged in any way is not stored.
    pub(super) state: RecordState,
    /// How often it was handed out.
    pub(super) delivery_count: i16,
}

/// Follows the stored state of one share partition.
#[derive(Debug)]
pub(super) struct States {
    key: SharePartitionKey,
    state_topic: TopicId,
    state_partition: i32,
    position: i64,
    start_offset: i64,
    known: BTreeMap<i64, KnownState>,
}

impl States {
    /// Begins to follow the first partition of `topic_id` in a share group that exists.
    pub(super) fn new(client: &mut Client, group_id: &str, topic_id: TopicId) -> Result<Self, DemoError> {
        let (state_topic, count) = topics::find_topic(client, "__share_group_state")?;
        let key = SharePartitionKey { group_id: group_id.into(), topic_id, partition: 0 };
        let state_partition = key.state_partition(count);
        Ok(Self { key, state_topic, state_partition, position: 0, start_offset: 0, known: BTreeMap::new() })
    }

    /// Returns states as if they had been read.
    #[cfg(test)]
    pub(super) fn of_known(start_offset: i64, known: BTreeMap<i64, RecordState>) -> Self {
        let topic_id = TopicId::ZERO;
        let known = known.into_iter().map(|(at, state)| (at, KnownState { state, delivery_count: 1 }));
        Self {
            key: SharePartitionKey { group_id: "g".into(), topic_id, partition: 0 },
            state_topic: topic_id,
            state_partition: 0,
            position: 0,
            start_offset,
            known: known.collect(),
        }
    }

    /// Reads what has been written since the last call.
    pub(super) fn follow(&mut self, client: &mut Client) -> Result<(), DemoError> {
        loop {
            let (topic, partition) = (self.state_topic, self.state_partition);
            let data = topics::fetch(client, topic, partition, self.position, Isolation::ReadUncommitted)?;
            if data.error_code == ErrorCode::OffsetOutOfRange.code() && self.position < data.log_start_offset
            {
                self.position = data.log_start_offset; // What was there is in a later snapshot.
                continue;
            }
            check("Fetch", data.error_code)?;
            let mut records = Vec::new();
            let before = self.position;
            for batch in split(&data.records.unwrap_or_default().to_bytes()) {
                let header = BatchView::new(&batch).and_then(|view| view.header()).map_err(unreadable)?;
                // The updates after a marker say what it led to, so that markers need not be understood.
                if !header.control {
                    records_of(&batch, &mut records)?;
                }
                self.position = header.last_offset.get() + 1;
            }
            for record in &records {
                self.add(record)?;
            }
            if self.position == before {
                return Ok(());
            }
        }
    }

    fn add(&mut self, record: &ReadRecord) -> Result<(), DemoError> {
        let record = StateRecord::decode(&record.key, record.value.as_ref())
            .map_err(|_| DemoError::Nonsense("a record of __share_group_state cannot be read"))?;
        if record.key != self.key {
            return Ok(());
        }
        let (start_offset, batches) = match &record.change {
            StateChange::Snapshot(snapshot) => (snapshot.start_offset, &snapshot.batches[..]),
            StateChange::Update(update) => (update.start_offset, &update.batches[..]),
            StateChange::Tombstone => (None, &[][..]),
        };
        if let Some(start_offset) = start_offset {
            self.start_offset = start_offset.get();
        }
        for StateBatch { range, state, delivery_count, .. } in batches {
            for offset in offsets(*range) {
                self.known.insert(offset, KnownState { state: *state, delivery_count: *delivery_count });
            }
        }
        Ok(())
    }

    /// Returns what is known of the order at `offset`; `None` if it was never acknowledged in any way.
    pub(super) fn of(&self, offset: i64) -> Option<KnownState> {
        self.known.get(&offset).copied()
    }

    /// Returns whether nothing can happen to the order at `offset` any more.
    pub(super) fn is_final(&self, offset: i64) -> bool {
        offset < self.start_offset || self.of(offset).is_some_and(|known| known.state.is_final())
    }

    /// Draws the orders in one line, `per_mark` of them to a mark, which shows the one that is least far.
    /// `held` are those that the workers have been handed out.
    pub(super) fn picture(&self, offsets: &[i64], held: &BTreeSet<i64>, per_mark: usize) -> String {
        let farness = |offset: &i64| match self.of(*offset).map(|known| known.state) {
            Some(RecordState::Archived | RecordState::Archiving) => (4, 'x'),
            Some(RecordState::Acknowledged) => (3, '#'),
            Some(RecordState::TxPending) => (2, 't'),
            Some(RecordState::Available | RecordState::Acquired) | None if held.contains(offset) => (1, '>'),
            None if *offset < self.start_offset => (3, '#'),
            Some(RecordState::Available | RecordState::Acquired) | None => (0, '.'),
        };
        let marks = offsets.chunks(per_mark).filter_map(|chunk| chunk.iter().map(farness).min());
        marks.map(|(_, mark)| mark).collect()
    }
}

fn offsets(range: OffsetRange) -> impl Iterator<Item = i64> {
    range.first().get()..=range.last().get()
}
