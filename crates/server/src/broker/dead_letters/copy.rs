//! The copies themselves: headers that tell where a record came from, and its key and value if the group wants them.

use std::collections::BTreeMap;

use bytes::Bytes;
use sharemark_log::batch::{BatchBuilder, CheckedBatch, HeaderPair, Records};
use sharemark_log::{Isolation, Log, ReadBatch, ReadLimits};
use sharemark_protocol::{Offset, OffsetRange, TopicIdPartition};

use super::super::Broker;
use super::super::input::Now;
use super::queue::DeadLetter;

/// How many bytes of the source are read at a time.
const READ_SIZE_BYTES_MAX: usize = 1 << 20;

/// Keys and values of records that are copied with them.
#[derive(Debug)]
struct Originals {
    by_offset: BTreeMap<i64, (Option<Bytes>, Option<Bytes>)>,
    size_bytes: usize,
    /// The last offset of which is known what is copied; those after it wait for the next round.
    resolved: i64,
}

/// What reading one batch has come to.
enum Progress {
    /// The next offset to read.
    At(Offset),
    /// No more fits into this round.
    Full,
}

impl Broker {
    /// Makes the next batch of copies, as large as the dead-letter topic takes it, and tells the last offset in it.
    pub(super) fn copy_dead_letters(
        &self,
        now: Now,
        at: TopicIdPartition,
        letter: &DeadLetter,
    ) -> (CheckedBatch, Offset) {
        let topic_name = |id| self.cluster.topic(id).map(|topic| topic.name.clone()).unwrap_or_default();
        let source = TopicIdPartition { topic_id: letter.key.topic_id, partition: letter.key.partition };
        let size_bytes_max = self.cluster.configs.topic(&topic_name(at.topic_id)).max_message_bytes;
        let size_bytes_max = usize::try_from(size_bytes_max).unwrap_or(0);
        let copies = self.cluster.configs.share_group(&letter.key.group_id).dlq_copy_record_enable;
        let log = self.cluster.partition(source).map(|partition| &partition.log).filter(|_| copies);
        let originals = match log {
            Some(log) => Originals::read(log, letter.left, size_bytes_max),
            None => Originals::none(letter.left.last().get()),
        };
        let last = originals.resolved.min(letter.left.last().get()).max(letter.left.first().get());
        let headers = HeaderTexts::new(&topic_name(source.topic_id), letter);
        let mut builder = BatchBuilder::new();
        let mut copied = letter.left.first();
        for offset in letter.left.first().get()..=last {
            let (key, value) = match originals.by_offset.get(&offset) {
                Some((key, value)) => (key.as_deref(), value.as_deref()),
                None => (None, None),
            };
            let text = offset.to_string();
            if !builder.push_within(size_bytes_max, now.clock, key, value, &headers.of(&text)) {
                break;
            }
            copied = Offset::new(offset).unwrap_or(copied);
        }
        (builder.build_checked(), copied)
    }
}

impl Originals {
    const fn none(resolved: i64) -> Self {
        Self { by_offset: BTreeMap::new(), size_bytes: 0, resolved }
    }

    /// Reads keys and values of `range`, up to `size_bytes_max` of them. A record that is larger by itself, and a
    /// compressed batch that is, is passed over; so is everything from where the log cannot be read.
    fn read(log: &Log, range: OffsetRange, size_bytes_max: usize) -> Self {
        let mut originals = Self::none(range.first().get() - 1);
        let limits = ReadLimits {
            size_bytes_max: READ_SIZE_BYTES_MAX,
            at_least_one: true,
            isolation: Isolation::ReadUncommitted,
        };
        let mut next = range.first();
        let mut batches: Vec<ReadBatch> = Vec::new();
        while next <= range.last() && originals.size_bytes < size_bytes_max {
            batches.clear();
            let before = next;
            let is_read = log.read(next, limits, &mut batches).is_ok();
            for batch in &batches {
                match originals.read_batch(&batch.bytes, OffsetRange::new(next, range.last()), size_bytes_max)
                {
                    Some(Progress::At(offset)) => next = next.max(offset),
                    Some(Progress::Full) => return originals,
                    None => break,
                }
            }
            if !is_read || next == before {
                originals.resolved = range.last().get();
                break;
            }
        }
        originals
    }

    /// Takes what it wants from one batch; `None` if that cannot be read.
    fn read_batch(
        &mut self,
        batch: &Bytes,
        wanted: Option<OffsetRange>,
        size_bytes_max: usize,
    ) -> Option<Progress> {
        let wanted = wanted?;
        let mut next = wanted.first();
        let view = sharemark_log::batch::BatchView::new(batch).ok()?;
        let header = view.header().ok()?;
        let records = match Records::read(batch, size_bytes_max) {
            Ok(records) => records,
            Err(_) => {
                let last = wanted.last().min(header.last_offset);
                self.resolve(last);
                return Some(Progress::At(last.next()));
            }
        };
        for record in &records {
            let record = record.ok()?;
            if record.offset < wanted.first() {
                continue;
            }
            if wanted.last() < record.offset {
                break;
            }
            if record.size_bytes <= size_bytes_max {
                if size_bytes_max < self.size_bytes + record.size_bytes {
                    return Some(Progress::Full);
                }
                self.size_bytes += record.size_bytes;
                let part = |part: Option<&[u8]>| part.map(|part| records.slice(part));
                self.by_offset.insert(record.offset.get(), (part(record.key), part(record.value)));
            }
            self.resolve(record.offset);
            next = record.offset.next();
        }
        Some(Progress::At(next))
    }

    fn resolve(&mut self, offset: Offset) {
        self.resolved = self.resolved.max(offset.get());
    }
}

/// What the headers of a run's copies say.
struct HeaderTexts {
    topic: String,
    partition: String,
    group: String,
    delivery_count: String,
    message: &'static str,
}

impl HeaderTexts {
    fn new(topic: &str, letter: &DeadLetter) -> Self {
        Self {
            topic: topic.to_owned(),
            partition: letter.key.partition.to_string(),
            group: letter.key.group_id.to_string(),
            delivery_count: letter.delivery_count.to_string(),
            message: letter.cause.text(),
        }
    }

    /// Returns the headers of the record at the offset that `offset` spells.
    fn of<'a>(&'a self, offset: &'a str) -> [HeaderPair<'a>; 6] {
        [
            ("__dlq.errors.topic", self.topic.as_str()),
            ("__dlq.errors.partition", &self.partition),
            ("__dlq.errors.offset", offset),
            ("__dlq.errors.group", &self.group),
            ("__dlq.errors.delivery.count", &self.delivery_count),
            ("__dlq.errors.message", self.message),
        ]
        .map(|(name, text)| (name.as_bytes(), Some(text.as_bytes())))
    }
}
