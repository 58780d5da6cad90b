//! Record batches of magic 2, borrowed: what the header says, and what a broker writes into it in place.

mod build;
mod check;
mod compression;
mod cursor;
mod records;

use bytes::{Bytes, BytesMut};
use sharemark_protocol::{ErrorCode, LeaderEpoch, Offset, Producer, Timestamp};

pub use build::{BatchBuilder, HeaderPair, end_transaction_marker};
pub use check::{CheckLimits, CheckedBatch, check_produced, transactional_producer};
pub use compression::Compression;
pub use records::{Header, Headers, MarkerRecord, Record, RecordIter, Records};

pub(crate) use build::{BatchFields, write_batch, write_record};

/// The size of a batch's header in bytes, up to the first record.
pub const HEADER_SIZE: usize = 61;
/// The bytes before the part that the length field counts.
pub(crate) const LENGTH_PREFIX: usize = 12;

pub(crate) const AT_LENGTH: usize = 8;
pub(crate) const AT_LEADER_EPOCH: usize = 12;
pub(crate) const AT_MAGIC: usize = 16;
pub(crate) const AT_CRC: usize = 17;
pub(crate) const AT_ATTRIBUTES: usize = 21;
pub(crate) const AT_LAST_OFFSET_DELTA: usize = 23;
pub(crate) const AT_BASE_TIMESTAMP: usize = 27;
pub(crate) const AT_MAX_TIMESTAMP: usize = 35;
pub(crate) const AT_PRODUCER_ID: usize = 43;
pub(crate) const AT_PRODUCER_EPOCH: usize = 51;
pub(crate) const AT_BASE_SEQUENCE: usize = 53;
pub(crate) const AT_RECORD_COUNT: usize = 57;

pub(crate) const LOG_APPEND_TIME_BIT: i16 = 0x08;
pub(crate) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(crate) const CONTROL_BIT: i16 = 0x20;
pub(crate) const DELETE_HORIZON_BIT: i16 = 0x40;

/// What the header of a batch says, decoded once: the row that a log keeps for each batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BatchHeader {
    /// The offset of the first record, also when compaction has removed that record.
    pub base_offset: Offset,
    /// The offset of the last record, also when compaction has removed that record.
    pub last_offset: Offset,
    /// The leader that wrote the batch; `None` before an append.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The largest timestamp of a record, -1 if they have none.
    pub max_timestamp: Timestamp,
    /// Who wrote it, if the producer is idempotent or transactional.
    pub producer: Option<Producer>,
    /// The sequence number of the first record, if there is one.
    pub base_sequence: Option<i32>,
    /// How many records there are; fewer than offsets after compaction.
    pub record_count: u32,
    /// The size in bytes, header included.
    pub size: u32,
    /// How the records are compressed.
    pub compression: Compression,
    /// Whether timestamps are those of the append.
    pub log_append_time: bool,
    /// Whether the batch belongs to a transaction.
    pub transactional: bool,
    /// Whether the batch holds control records instead of data.
    pub control: bool,
}

impl BatchHeader {
    /// Returns the sequence number of the last record, if there is one. It wraps to 0 after `i32::MAX`.
    pub fn last_sequence(&self) -> Option<i32> {
        let delta = self.last_offset.since(self.base_offset);
        let last = i64::from(self.base_sequence?) + delta;
        i32::try_from(last & i64::from(i32::MAX)).ok()
    }
}

/// A batch of magic 2 whose length field agrees with the bytes it was made of.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER_SIZE],
}

impl<'a> BatchView<'a> {
    /// Reads the batch at the start of `bytes`, which may hold more.
    ///
    /// # Errors
    ///
    /// - `CorruptMessage` if that is no complete batch of magic 2.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ErrorCode> {
        let header = bytes.first_chunk::<HEADER_SIZE>().ok_or(ErrorCode::CorruptMessage)?;
        let length = i32::from_be_bytes(field(header, AT_LENGTH));
        let size =
            usize::try_from(length).map_err(|_| ErrorCode::CorruptMessage)?.saturating_add(LENGTH_PREFIX);
        if size < HEADER_SIZE || bytes.len() < size || header[AT_MAGIC] != 2 {
            return Err(ErrorCode::CorruptMessage);
        }
        Ok(Self { bytes: &bytes[..size], header })
    }

    /// Returns the whole batch, and nothing after it.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the part after the header, still compressed.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }

    /// Returns whether the checksum in the header is that of the bytes.
    pub fn crc_is_right(&self) -> bool {
        u32::from_be_bytes(field(self.header, AT_CRC)) == crc32c::crc32c(&self.bytes[AT_ATTRIBUTES..])
    }

    /// Returns the first offset as on the wire.
    pub(crate) fn raw_base_offset(&self) -> i64 {
        i64::from_be_bytes(field(self.header, 0))
    }

    /// Returns the distance of the last offset from the first as on the wire.
    pub(crate) fn raw_last_offset_delta(&self) -> i32 {
        i32::from_be_bytes(field(self.header, AT_LAST_OFFSET_DELTA))
    }

    /// Returns the producer id as on the wire.
    pub(crate) fn raw_producer_id(&self) -> i64 {
        i64::from_be_bytes(field(self.header, AT_PRODUCER_ID))
    }

    /// Returns who wrote the batch, if the producer is idempotent or transactional.
    pub(crate) fn producer(&self) -> Option<Producer> {
        let epoch = i16::from_be_bytes(field(self.header, AT_PRODUCER_EPOCH));
        Producer::from_wire(self.raw_producer_id(), epoch)
    }

    /// Returns the record count as on the wire.
    pub(crate) fn raw_record_count(&self) -> i32 {
        i32::from_be_bytes(field(self.header, AT_RECORD_COUNT))
    }

    /// Returns the attribute bits.
    pub fn attributes(&self) -> i16 {
        i16::from_be_bytes(field(self.header, AT_ATTRIBUTES))
    }

    /// Returns the timestamp that those of the records count from.
    pub fn base_timestamp(&self) -> Timestamp {
        Timestamp::from_ms(i64::from_be_bytes(field(self.header, AT_BASE_TIMESTAMP)))
    }

    /// Returns when tombstones and markers of this batch may go, if compaction has decided that.
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        (self.attributes() & DELETE_HORIZON_BIT != 0).then(|| self.base_timestamp())
    }

    /// Returns the largest timestamp of the batch, -1 if there is none.
    pub fn max_timestamp(&self) -> Timestamp {
        Timestamp::from_ms(i64::from_be_bytes(field(self.header, AT_MAX_TIMESTAMP)))
    }

    /// Decodes the header.
    ///
    /// # Errors
    ///
    /// - `InvalidRecord` if the offsets or the count make no sense, or the codec is unknown.
    pub fn header(&self) -> Result<BatchHeader, ErrorCode> {
        let base_offset = Offset::new(self.raw_base_offset()).ok_or(ErrorCode::InvalidRecord)?;
        let delta = self.raw_last_offset_delta();
        let last = base_offset.get().checked_add(i64::from(delta)).ok_or(ErrorCode::InvalidRecord)?;
        // The highest offset there is stays free, so that the log's end always has a number.
        if delta < 0 || last == i64::MAX {
            return Err(ErrorCode::InvalidRecord);
        }
        let attributes = self.attributes();
        let leader_epoch = i32::from_be_bytes(field(self.header, AT_LEADER_EPOCH));
        let base_sequence = i32::from_be_bytes(field(self.header, AT_BASE_SEQUENCE));
        Ok(BatchHeader {
            base_offset,
            last_offset: base_offset.plus(i64::from(delta)),
            leader_epoch: (0 <= leader_epoch).then(|| LeaderEpoch::new(leader_epoch)),
            max_timestamp: self.max_timestamp(),
            producer: self.producer(),
            base_sequence: (0 <= base_sequence).then_some(base_sequence),
            record_count: u32::try_from(self.raw_record_count()).map_err(|_| ErrorCode::InvalidRecord)?,
            size: u32::try_from(self.bytes.len()).map_err(|_| ErrorCode::InvalidRecord)?,
            compression: Compression::from_attributes(attributes).ok_or(ErrorCode::InvalidRecord)?,
            log_append_time: attributes & LOG_APPEND_TIME_BIT != 0,
            transactional: attributes & TRANSACTIONAL_BIT != 0,
            control: attributes & CONTROL_BIT != 0,
        })
    }
}

/// Splits bytes that hold whole batches, as a log serves them, into the batches.
///
/// It ends before the first bytes that are no complete batch.
pub fn split(bytes: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut rest = bytes.clone();
    std::iter::from_fn(move || {
        let size = BatchView::new(&rest).ok()?.bytes().len();
        Some(rest.split_to(size))
    })
}

/// Writes the place in the log into a batch. Both fields lie outside the checksum.
pub(crate) fn patch_place(bytes: &mut BytesMut, base_offset: Offset, leader_epoch: LeaderEpoch) {
    bytes[..8].copy_from_slice(&base_offset.get().to_be_bytes());
    bytes[AT_LEADER_EPOCH..AT_LEADER_EPOCH + 4].copy_from_slice(&leader_epoch.get().to_be_bytes());
}

/// Writes the timestamp type and the largest timestamp into a batch, and a new checksum.
pub(crate) fn patch_timestamp(bytes: &mut BytesMut, log_append_time: bool, max_timestamp: Timestamp) {
    let mut attributes = i16::from_be_bytes([bytes[AT_ATTRIBUTES], bytes[AT_ATTRIBUTES + 1]]);
    attributes &= !LOG_APPEND_TIME_BIT;
    if log_append_time {
        attributes |= LOG_APPEND_TIME_BIT;
    }
    bytes[AT_ATTRIBUTES..AT_ATTRIBUTES + 2].copy_from_slice(&attributes.to_be_bytes());
    bytes[AT_MAX_TIMESTAMP..AT_MAX_TIMESTAMP + 8].copy_from_slice(&max_timestamp.ms().to_be_bytes());
    patch_crc(bytes);
}

/// Writes the checksum of a batch.
pub(crate) fn patch_crc(bytes: &mut BytesMut) {
    let crc = crc32c::crc32c(&bytes[AT_ATTRIBUTES..]);
    bytes[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_be_bytes());
}

fn field<const SIZE: usize>(header: &[u8; HEADER_SIZE], at: usize) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes.copy_from_slice(&header[at..at + SIZE]);
    bytes
}

#[cfg(test)]
pub(crate) mod tests;
