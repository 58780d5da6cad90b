//! What must be true of the bytes that a client produces, judged without any state, on any thread.

use bytes::{Bytes, BytesMut};
use sharemark_protocol::{ErrorCode, Producer, Timestamp};

use super::build::{BatchFields, write_batch};
use super::{AT_MAGIC, BatchHeader, BatchView, Compression, LENGTH_PREFIX, RecordIter, TRANSACTIONAL_BIT};

/// What bounds the work of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckLimits {
    /// How many bytes the records of one batch may have once decompressed.
    pub decompressed_size_bytes_max: usize,
    /// Whether the request's version knows Zstandard: Produce from version 7 on.
    pub zstd_allowed: bool,
}

/// A batch that has passed its checks and waits to be appended. It owns its bytes and pins no frame.
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    bytes: BytesMut,
    header: BatchHeader,
    pub(crate) max_timestamp: Timestamp,
    pub(crate) min_timestamp: Option<Timestamp>,
    max_timestamp_delta: i32,
    pub(crate) has_null_key: bool,
}

impl CheckedBatch {
    /// Wraps a batch that was built here.
    pub(crate) fn trusted(
        bytes: BytesMut,
        max_timestamp: Timestamp,
        max_timestamp_delta: i32,
        has_null_key: bool,
    ) -> Self {
        let header = BatchView::new(&bytes).and_then(|view| view.header());
        let Ok(header) = header else { unreachable!("a batch that was built here can be read") };
        Self { bytes, header, max_timestamp, min_timestamp: None, max_timestamp_delta, has_null_key }
    }

    /// Returns what the header says. Offsets count from 0 and there is no leader epoch yet.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the largest timestamp of a record, -1 if they have none.
    pub const fn max_timestamp(&self) -> Timestamp {
        self.max_timestamp
    }

    /// Returns how many offsets after the first the first record with the largest timestamp is.
    pub const fn max_timestamp_offset_delta(&self) -> i32 {
        self.max_timestamp_delta
    }

    /// Returns whether a record without key is among them, which a compacted topic refuses.
    pub const fn has_null_key(&self) -> bool {
        self.has_null_key
    }

    /// Returns the bytes as they came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the same records, compressed with another codec.
    ///
    /// # Errors
    ///
    /// - `InvalidRecord` or `MessageTooLarge` if they cannot be decompressed, which was tried before.
    pub(crate) fn recompressed(
        self,
        compression: Compression,
        size_bytes_max: usize,
    ) -> Result<Self, ErrorCode> {
        let view = BatchView::new(&self.bytes)?;
        let records = self.header.compression.decompress(view.body(), size_bytes_max)?;
        let bytes = write_batch(&BatchFields::of(&view, &self.header), compression, &records);
        let header = BatchView::new(&bytes)?.header()?;
        Ok(Self { bytes, header, ..self })
    }

    pub(crate) fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}

/// Checks what a client produces to one partition: exactly one batch, whole, unharmed and consistent.
///
/// The batch is copied out of `records`, so that a frame it came in can go.
///
/// # Errors
///
/// - `CorruptMessage` if a size or the checksum is wrong, or the magic is unknown.
/// - `InvalidRecord` if there is no batch or more than one, it is of an older magic, has offsets set, is a
///   control batch, or its records and its header disagree.
/// - `UnsupportedCompressionType` for Zstandard in a version that does not know it.
/// - `MessageTooLarge` if its records are too large to be decompressed.
pub fn check_produced(records: &Bytes, limits: &CheckLimits) -> Result<CheckedBatch, ErrorCode> {
    let batch = single_batch(records, limits)?;
    let view = BatchView::new(batch)?;
    if view.raw_base_offset() != 0 {
        return Err(ErrorCode::InvalidRecord); // Only a leader gives offsets.
    }
    if !view.crc_is_right() {
        return Err(ErrorCode::CorruptMessage);
    }
    let header = view.header()?;
    // From here on a failure is the client's own doing and a repeat would not help it.
    if i64::from(header.record_count) != i64::from(view.raw_last_offset_delta()) + 1 || header.control {
        return Err(ErrorCode::InvalidRecord);
    }
    let has_producer_id = 0 <= view.raw_producer_id();
    if has_producer_id && (header.producer.is_none() || header.base_sequence.is_none()) {
        return Err(ErrorCode::InvalidRecord);
    }
    let walked = walk(&view, &header, limits)?;
    Ok(CheckedBatch {
        bytes: BytesMut::from(view.bytes()),
        header,
        max_timestamp: walked.max_timestamp,
        min_timestamp: walked.min_timestamp,
        max_timestamp_delta: walked.max_timestamp_delta,
        has_null_key: walked.has_null_key,
    })
}

/// Returns the producer that `records` name, if they are one transactional batch, whatever else is wrong with it.
pub fn transactional_producer(records: &Bytes, limits: &CheckLimits) -> Option<Producer> {
    let view = BatchView::new(single_batch(records, limits).ok()?).ok()?;
    if view.attributes() & TRANSACTIONAL_BIT == 0 { None } else { view.producer() }
}

/// Returns the only batch of `records`.
fn single_batch<'a>(records: &'a Bytes, limits: &CheckLimits) -> Result<&'a [u8], ErrorCode> {
    let size = framed_size(records)?.ok_or(ErrorCode::InvalidRecord)?;
    let Some((batch, rest)) = records.split_at_checked(size) else {
        return Err(ErrorCode::InvalidRecord); // Cut short: not one batch is there.
    };
    if batch.get(AT_MAGIC) != Some(&2) {
        return Err(ErrorCode::InvalidRecord);
    }
    let codec =
        batch.get(super::AT_ATTRIBUTES + 1).and_then(|&bits| Compression::from_attributes(bits.into()));
    if codec == Some(Compression::Zstd) && !limits.zstd_allowed {
        return Err(ErrorCode::UnsupportedCompressionType);
    }
    if !rest.is_empty() {
        framed_size(rest)?; // The same words as Kafka for a second batch that is broken.
        return Err(ErrorCode::InvalidRecord);
    }
    Ok(batch)
}

/// Returns how large the batch at the start of `bytes` says it is, or `None` if they are too few to tell.
fn framed_size(bytes: &[u8]) -> Result<Option<usize>, ErrorCode> {
    /// The smallest length that a batch or message of any magic can have.
    const LENGTH_MIN: i32 = 14;
    let Some(length) = bytes.get(super::AT_LENGTH..).and_then(|rest| rest.first_chunk::<4>()) else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    if length < LENGTH_MIN {
        return Err(ErrorCode::CorruptMessage);
    }
    let Some(&magic) = bytes.get(AT_MAGIC) else { return Ok(None) };
    if 2 < magic {
        return Err(ErrorCode::CorruptMessage);
    }
    Ok(usize::try_from(length).ok().map(|length| length + LENGTH_PREFIX))
}

/// What a walk over the records found.
struct Walked {
    max_timestamp: Timestamp,
    max_timestamp_delta: i32,
    min_timestamp: Option<Timestamp>,
    has_null_key: bool,
}

fn walk(view: &BatchView<'_>, header: &BatchHeader, limits: &CheckLimits) -> Result<Walked, ErrorCode> {
    let decompressed;
    let data = match header.compression {
        Compression::None => view.body(),
        Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
            decompressed = header.compression.decompress(view.body(), limits.decompressed_size_bytes_max)?;
            &decompressed
        }
    };
    let append_time = header.log_append_time.then_some(header.max_timestamp);
    let records = RecordIter::new(
        data,
        header.base_offset,
        view.base_timestamp().ms(),
        append_time,
        header.record_count,
    );
    let no_timestamp = Timestamp::from_ms(-1);
    let (mut max, mut max_delta, mut min) = (no_timestamp, 0, Timestamp::MAX);
    let mut has_null_key = false;
    for (delta, record) in (0_i32..).zip(records) {
        let record = record?;
        if record.offset.get() != i64::from(delta) {
            return Err(ErrorCode::InvalidRecord);
        }
        has_null_key |= record.key.is_none();
        if max < record.timestamp {
            (max, max_delta) = (record.timestamp, delta);
        }
        if record.timestamp != no_timestamp {
            min = min.min(record.timestamp);
        }
    }
    let min_timestamp = (min != Timestamp::MAX).then_some(min);
    Ok(Walked { max_timestamp: max, max_timestamp_delta: max_delta, min_timestamp, has_null_key })
}
