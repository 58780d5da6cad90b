//! Making of batches: by coordinators, for markers, by compaction and in tests.

use bytes::{BufMut, BytesMut};
use sharemark_protocol::{LeaderEpoch, Offset, Producer, ProducerId, Timestamp};

use super::cursor::{put_varlong, varlong_size};
use super::{
    AT_ATTRIBUTES, AT_LENGTH, BatchView, CONTROL_BIT, CheckedBatch, Compression, DELETE_HORIZON_BIT,
    HEADER_SIZE, Header, LENGTH_PREFIX, TRANSACTIONAL_BIT, patch_crc,
};

/// A header to write: its key, and its value if there is one.
pub type HeaderPair<'a> = (&'a [u8], Option<&'a [u8]>);

/// Collects records and makes one batch of them.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    records: Vec<u8>,
    record_count: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    max_timestamp_delta: i32,
    has_null_key: bool,
    producer: Option<Producer>,
    base_sequence: i32,
    attributes: i16,
    compression: Compression,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchBuilder {
    /// Begins a plain batch: no producer, no transaction, not compressed.
    pub const fn new() -> Self {
        Self {
            records: Vec::new(),
            record_count: 0,
            base_timestamp: Timestamp::from_ms(-1),
            max_timestamp: Timestamp::from_ms(-1),
            max_timestamp_delta: 0,
            has_null_key: false,
            producer: None,
            base_sequence: -1,
            attributes: 0,
            compression: Compression::None,
        }
    }

    /// Names the producer and the sequence number of the first record.
    #[must_use]
    pub const fn producer(mut self, producer: Producer, base_sequence: i32) -> Self {
        self.producer = Some(producer);
        self.base_sequence = base_sequence;
        self
    }

    /// Makes the batch part of its producer's transaction.
    #[must_use]
    pub const fn transactional(mut self) -> Self {
        self.attributes |= TRANSACTIONAL_BIT;
        self
    }

    /// Compresses the records.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Returns how many records there are so far.
    pub const fn record_count(&self) -> usize {
        self.record_count as usize
    }

    /// Returns how large the batch is so far, before compression.
    pub const fn size(&self) -> usize {
        HEADER_SIZE + self.records.len()
    }

    /// Adds a record.
    pub fn push(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderPair<'_>],
    ) {
        if self.record_count == 0 {
            self.base_timestamp = timestamp;
        }
        if self.max_timestamp < timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_delta = self.record_count;
        }
        self.has_null_key |= key.is_none();
        let timestamp_delta = timestamp.ms().wrapping_sub(self.base_timestamp.ms());
        let headers = headers.iter().map(|&(key, value)| Header { key, value });
        write_record(self.record_count, timestamp_delta, key, value, headers, &mut self.records);
        self.record_count += 1;
    }

    /// Adds a record unless the batch would then be larger than `size_bytes_max` before compression. The first one
    /// is always added. Returns whether it was.
    pub fn push_within(
        &mut self,
        size_bytes_max: usize,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[HeaderPair<'_>],
    ) -> bool {
        let records_len = self.records.len();
        let (max_timestamp, max_timestamp_delta) = (self.max_timestamp, self.max_timestamp_delta);
        let has_null_key = self.has_null_key;
        self.push(timestamp, key, value, headers);
        if self.record_count == 1 || self.size() <= size_bytes_max {
            return true;
        }
        self.records.truncate(records_len);
        self.record_count -= 1;
        (self.max_timestamp, self.max_timestamp_delta) = (max_timestamp, max_timestamp_delta);
        self.has_null_key = has_null_key;
        false
    }

    /// Adds a record, by value.
    #[must_use]
    pub fn record(mut self, timestamp: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        self.push(timestamp, key, value, &[]);
        self
    }

    /// Makes the batch, as a client would send it.
    ///
    /// # Panics
    ///
    /// If there is no record.
    pub fn build(&self) -> BytesMut {
        assert!(0 < self.record_count, "a batch to append holds a record");
        let fields = BatchFields {
            base_offset: Offset::ZERO,
            leader_epoch: None,
            attributes: self.attributes,
            last_offset_delta: self.record_count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer: self.producer,
            base_sequence: self.base_sequence,
            record_count: self.record_count,
        };
        write_batch(&fields, self.compression, &self.records)
    }

    /// Makes the batch, ready to append. What was built here needs no walk.
    ///
    /// # Panics
    ///
    /// If there is no record.
    pub fn build_checked(&self) -> CheckedBatch {
        CheckedBatch::trusted(self.build(), self.max_timestamp, self.max_timestamp_delta, self.has_null_key)
    }
}

/// Makes the control batch that ends a transaction: 78 bytes.
pub fn end_transaction_marker(
    producer: Producer,
    committed: bool,
    coordinator_epoch: i32,
    timestamp: Timestamp,
) -> CheckedBatch {
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new().producer(producer, -1).transactional();
    builder.attributes |= CONTROL_BIT;
    builder.push(timestamp, Some(&[0, 0, 0, u8::from(committed)]), Some(&value), &[]);
    builder.build_checked()
}

/// The fields of a batch's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchFields {
    pub(crate) base_offset: Offset,
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// Without the codec.
    pub(crate) attributes: i16,
    pub(crate) last_offset_delta: i32,
    pub(crate) base_timestamp: Timestamp,
    pub(crate) max_timestamp: Timestamp,
    pub(crate) producer: Option<Producer>,
    pub(crate) base_sequence: i32,
    pub(crate) record_count: i32,
}

impl BatchFields {
    /// Returns the fields of `batch`, for a batch that replaces it.
    pub(crate) fn of(batch: &BatchView<'_>, header: &super::BatchHeader) -> Self {
        Self {
            base_offset: header.base_offset,
            leader_epoch: header.leader_epoch,
            attributes: batch.attributes() & !(7 | DELETE_HORIZON_BIT),
            last_offset_delta: batch.raw_last_offset_delta(),
            base_timestamp: batch.base_timestamp(),
            max_timestamp: header.max_timestamp,
            producer: header.producer,
            base_sequence: header.base_sequence.unwrap_or(-1),
            record_count: batch.raw_record_count(),
        }
    }
}

/// Writes a batch. Records that do not get smaller by compression, or fail to, stay as they are.
pub(crate) fn write_batch(fields: &BatchFields, compression: Compression, records: &[u8]) -> BytesMut {
    let compressed = match compression {
        Compression::None => None,
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            compression.compress(records).ok()
        }
    };
    let attributes = fields.attributes | compressed.as_ref().map_or(0, |_| compression.attribute_bits());
    let body = compressed.as_deref().unwrap_or(records);
    let mut out = BytesMut::with_capacity(HEADER_SIZE + body.len());
    out.put_i64(fields.base_offset.get());
    out.put_i32(0); // The length, below.
    out.put_i32(fields.leader_epoch.map_or(-1, LeaderEpoch::get));
    out.put_u8(2);
    out.put_u32(0); // The checksum, below.
    debug_assert_eq!(out.len(), AT_ATTRIBUTES, "the checksum covers what comes from here on");
    out.put_i16(attributes);
    out.put_i32(fields.last_offset_delta);
    out.put_i64(fields.base_timestamp.ms());
    out.put_i64(fields.max_timestamp.ms());
    out.put_i64(fields.producer.map_or(-1, |producer| ProducerId::get(producer.id)));
    out.put_i16(fields.producer.map_or(-1, |producer| producer.epoch.get()));
    out.put_i32(fields.base_sequence);
    out.put_i32(fields.record_count);
    out.put_slice(body);
    let length = i32::try_from(out.len() - LENGTH_PREFIX);
    assert!(length.is_ok(), "a batch is smaller than 2 GiB");
    out[AT_LENGTH..AT_LENGTH + 4].copy_from_slice(&length.unwrap_or(0).to_be_bytes());
    patch_crc(&mut out);
    out
}

/// Appends one record to the records of a batch.
pub(crate) fn write_record<'a>(
    offset_delta: i32,
    timestamp_delta: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = Header<'a>> + Clone,
    out: &mut Vec<u8>,
) {
    let header_count = headers.clone().count() as i64;
    let headers_size: usize =
        headers.clone().map(|header| run_size(Some(header.key)) + run_size(header.value)).sum();
    let size = 1
        + varlong_size(timestamp_delta)
        + varlong_size(i64::from(offset_delta))
        + run_size(key)
        + run_size(value)
        + varlong_size(header_count)
        + headers_size;
    put_varlong(out, size as i64);
    out.push(0);
    put_varlong(out, timestamp_delta);
    put_varlong(out, i64::from(offset_delta));
    put_run(out, key);
    put_run(out, value);
    put_varlong(out, header_count);
    for header in headers {
        put_run(out, Some(header.key));
        put_run(out, header.value);
    }
}

fn run_size(run: Option<&[u8]>) -> usize {
    run.map_or(1, |bytes| varlong_size(bytes.len() as i64) + bytes.len())
}

fn put_run(out: &mut Vec<u8>, run: Option<&[u8]>) {
    match run {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}
