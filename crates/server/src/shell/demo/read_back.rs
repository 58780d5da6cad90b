//! Reads a topic back as a client with isolation level read_committed does, and counts its transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use sharemark_log::batch::{BatchView, MarkerRecord, Records, split};
use sharemark_protocol::messages::fetch_response::AbortedTransaction;
use sharemark_protocol::{ErrorCode, ProducerId, TopicId};

use super::client::{Client, DemoError, check};
use super::topics::{Isolation, fetch};

/// A record as it was read back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ReadRecord {
    /// Its offset.
    pub(super) offset: i64,
    /// Its key; empty if it has none.
    pub(super) key: Bytes,
    /// Its value; `None` for a tombstone.
    pub(super) value: Option<Bytes>,
}

/// A count of transactions and of the records in them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    pub(super) transactions: usize,
    pub(super) records: usize,
}

/// What a topic holds, as a client with isolation level read_committed sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadBack {
    /// The records that such a client is given.
    pub(super) records: Vec<ReadRecord>,
    /// What COMMIT markers end.
    pub(super) committed: Tally,
    /// What ABORT markers end.
    pub(super) aborted: Tally,
    /// The producers whose transaction goes on at this place of the log, each with its records so far.
    open: BTreeMap<ProducerId, usize>,
    /// Producers whose transaction was aborted, until their marker is reached.
    aborting: BTreeSet<ProducerId>,
}

/// Reads all that is stable in the first partition of a topic.
pub(super) fn read_back(client: &mut Client, topic_id: TopicId) -> Result<ReadBack, DemoError> {
    let mut read = ReadBack::default();
    let mut offset = 0;
    loop {
        let data = fetch(client, topic_id, 0, offset, Isolation::ReadCommitted)?;
        check("Fetch", data.error_code)?;
        let aborted = data.aborted_transactions.unwrap_or_default();
        let next = read.add(&data.records.unwrap_or_default().to_bytes(), aborted)?;
        match next {
            Some(next) => offset = next,
            None if data.last_stable_offset <= offset => return Ok(read),
            None => return Err(DemoError::Nonsense("Fetch stops before the last stable offset")),
        }
    }
}

impl ReadBack {
    /// Returns what a reader was given, as if it had been read.
    #[cfg(test)]
    pub(super) fn of_records(records: Vec<ReadRecord>) -> Self {
        Self { records, ..Self::default() }
    }

    /// Adds what one fetch brought; returns the offset after it, if it brought anything.
    pub(super) fn add(
        &mut self,
        batches: &Bytes,
        mut aborted: Vec<AbortedTransaction>,
    ) -> Result<Option<i64>, DemoError> {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        let mut aborted = VecDeque::from(aborted);
        let mut next = None;
        for batch in split(batches) {
            let header = BatchView::new(&batch).and_then(|view| view.header()).map_err(unreadable)?;
            while aborted.front().is_some_and(|first| first.first_offset <= header.last_offset.get()) {
                let producer = aborted.pop_front().map(|first| ProducerId::new(first.producer_id));
                self.aborting.extend(producer);
            }
            let producer = header.producer.filter(|_| header.transactional).map(|producer| producer.id);
            if header.control {
                self.end(producer, &batch)?;
            } else {
                if let Some(producer) = producer {
                    *self.open.entry(producer).or_default() +=
                        usize::try_from(header.record_count).unwrap_or(0);
                }
                if producer.is_none_or(|producer| !self.aborting.contains(&producer)) {
                    records_of(&batch, &mut self.records)?;
                }
            }
            next = Some(header.last_offset.get() + 1);
        }
        Ok(next)
    }

    /// Counts the transaction that a marker ends, if there is one.
    fn end(&mut self, producer: Option<ProducerId>, marker: &Bytes) -> Result<(), DemoError> {
        let Some(producer) = producer else { return Ok(()) };
        self.aborting.remove(&producer);
        let Some(count) = self.open.remove(&producer) else { return Ok(()) };
        let records = Records::read(marker, usize::MAX).map_err(unreadable)?;
        let first = records.iter().next().and_then(Result::ok);
        let marker = first.and_then(|record| MarkerRecord::read(&record));
        let marker = marker.ok_or(DemoError::Nonsense("a control batch holds no marker"))?;
        let tally = if marker.committed { &mut self.committed } else { &mut self.aborted };
        tally.transactions += 1;
        tally.records += count;
        Ok(())
    }
}

/// Appends the records of one batch to `out`.
pub(super) fn records_of(batch: &Bytes, out: &mut Vec<ReadRecord>) -> Result<(), DemoError> {
    let records = Records::read(batch, usize::MAX).map_err(unreadable)?;
    for record in &records {
        let record = record.map_err(unreadable)?;
        out.push(ReadRecord {
            offset: record.offset.get(),
            key: record.key.map(|key| records.slice(key)).unwrap_or_default(),
            value: record.value.map(|value| records.slice(value)),
        });
    }
    Ok(())
}

pub(super) const fn unreadable(error: ErrorCode) -> DemoError {
    DemoError::Refused { call: "reading a batch", error }
}
