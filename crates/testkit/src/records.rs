//! Record batches (format v2), written and read without the product's own code, so that the two can disagree.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

const MAGIC: u8 = 2;
const HEADER_SIZE: usize = 61;
const CRC_START: usize = 17;
const CRC_END: usize = 21;
const LENGTH_END: usize = 12;
const COMPRESSION_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 0b1000;
const TRANSACTIONAL: i16 = 0b1_0000;
const CONTROL: i16 = 0b10_0000;

/// One record as a test wants it, or as it was read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// The key; `None` is null.
    pub key: Option<Bytes>,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
    /// Headers in order; a value of `None` is null.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
}

/// A batch to write, or one that was read. Sentinels are as on the wire, since tests send wrong ones on purpose.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Batch {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record, less `base_offset`.
    pub last_offset_delta: i32,
    /// Leader epoch.
    pub leader_epoch: i32,
    /// Producer id, or -1.
    pub producer_id: i64,
    /// Producer epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Whether it is part of a transaction.
    pub transactional: bool,
    /// Whether it holds a transaction marker.
    pub control: bool,
    /// Whether the broker set the time.
    pub log_append_time: bool,
    /// Compression code, 0 to 4. Only batches with 0 can be written, or read for their records.
    pub compression: i16,
    /// Timestamp of the first record.
    pub base_timestamp: i64,
    /// Largest timestamp.
    pub max_timestamp: i64,
    /// The records, empty when compressed.
    pub records: Vec<Record>,
}

impl Batch {
    /// Returns a plain batch of these values, as a client sends it.
    pub fn of_values<V: Into<Bytes>>(values: impl IntoIterator<Item = V>, timestamp: i64) -> Self {
        let records =
            values.into_iter().map(|value| Record { value: Some(value.into()), ..Record::default() });
        Self::of_records(records.collect(), timestamp)
    }

    /// Returns a plain batch of these records, as a client sends it.
    pub fn of_records(records: Vec<Record>, base_timestamp: i64) -> Self {
        let last_delta = records.iter().map(|record| record.timestamp_delta).max().unwrap_or(0);
        Self {
            base_offset: 0,
            last_offset_delta: i32::try_from(records.len()).unwrap_or(i32::MAX) - 1,
            leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            log_append_time: false,
            compression: 0,
            base_timestamp,
            max_timestamp: base_timestamp + last_delta,
            records,
        }
    }

    /// Returns the offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    /// Returns the batch as on the wire, uncompressed, with a right length and CRC.
    pub fn encode(&self) -> Bytes {
        let mut body = BytesMut::new();
        for (index, record) in self.records.iter().enumerate() {
            let encoded = encode_record(record, index);
            put_varint(&mut body, to_i64(encoded.len()));
            body.put_slice(&encoded);
        }
        let mut batch = BytesMut::with_capacity(HEADER_SIZE + body.len());
        batch.put_i64(self.base_offset);
        batch.put_i32(to_i32(HEADER_SIZE - LENGTH_END + body.len()));
        batch.put_i32(self.leader_epoch);
        batch.put_u8(MAGIC);
        batch.put_u32(0);
        batch.put_i16(self.attributes());
        batch.put_i32(self.last_offset_delta);
        batch.put_i64(self.base_timestamp);
        batch.put_i64(self.max_timestamp);
        batch.put_i64(self.producer_id);
        batch.put_i16(self.producer_epoch);
        batch.put_i32(self.base_sequence);
        batch.put_i32(to_i32(self.records.len()));
        batch.put_slice(&body);
        let crc = crc32c::crc32c(&batch[CRC_END..]);
        batch[CRC_START..CRC_END].copy_from_slice(&crc.to_be_bytes());
        batch.freeze()
    }

    fn attributes(&self) -> i16 {
        let mut attributes = self.compression & COMPRESSION_MASK;
        for (set, bit) in [
            (self.log_append_time, LOG_APPEND_TIME),
            (self.transactional, TRANSACTIONAL),
            (self.control, CONTROL),
        ] {
            if set {
                attributes |= bit;
            }
        }
        attributes
    }

    /// Returns whether a control batch is a commit marker, or `None` if it is no such batch.
    pub fn marker(&self) -> Option<bool> {
        let key = self.records.first()?.key.as_ref()?;
        if !self.control || key.len() < 4 {
            return None;
        }
        match i16::from_be_bytes([key[2], key[3]]) {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Why bytes are no record batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BadBatch(&'static str);

impl fmt::Display for BadBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Reads all complete batches; a cut-off last one is left out, as a consumer does.
///
/// # Errors
///
/// Returns what is wrong with the first bad batch.
pub fn decode_batches(mut bytes: &[u8]) -> Result<Vec<Batch>, BadBatch> {
    let mut batches = Vec::new();
    while HEADER_SIZE <= bytes.len() {
        let length = i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let size = usize::try_from(length).map_err(|_| BadBatch("negative length"))? + LENGTH_END;
        if size < HEADER_SIZE {
            return Err(BadBatch("shorter than a header"));
        }
        if bytes.len() < size {
            break;
        }
        batches.push(decode_batch(&bytes[..size])?);
        bytes = &bytes[size..];
    }
    Ok(batches)
}

fn decode_batch(bytes: &[u8]) -> Result<Batch, BadBatch> {
    let mut reader = Reader { bytes };
    let base_offset = reader.i64()?;
    reader.i32()?;
    let leader_epoch = reader.i32()?;
    if reader.take(1)? != [MAGIC] {
        return Err(BadBatch("unknown magic"));
    }
    let crc = reader.i32()?.cast_unsigned();
    if crc32c::crc32c(&bytes[CRC_END..]) != crc {
        return Err(BadBatch("wrong CRC"));
    }
    let attributes = reader.i16()?;
    let mut batch = Batch {
        base_offset,
        leader_epoch,
        last_offset_delta: reader.i32()?,
        base_timestamp: reader.i64()?,
        max_timestamp: reader.i64()?,
        producer_id: reader.i64()?,
        producer_epoch: reader.i16()?,
        base_sequence: reader.i32()?,
        transactional: attributes & TRANSACTIONAL != 0,
        control: attributes & CONTROL != 0,
        log_append_time: attributes & LOG_APPEND_TIME != 0,
        compression: attributes & COMPRESSION_MASK,
        records: Vec::new(),
    };
    let count = reader.i32()?;
    if batch.compression == 0 {
        for _ in 0..count {
            batch.records.push(reader.record()?);
        }
    }
    Ok(batch)
}

fn encode_record(record: &Record, index: usize) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(0);
    put_varint(&mut out, record.timestamp_delta);
    put_varint(&mut out, to_i64(index));
    put_bytes(&mut out, record.key.as_deref());
    put_bytes(&mut out, record.value.as_deref());
    put_varint(&mut out, to_i64(record.headers.len()));
    for (name, value) in &record.headers {
        put_bytes(&mut out, Some(name.as_bytes()));
        put_bytes(&mut out, value.as_deref());
    }
    out
}

fn put_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, to_i64(bytes.len()));
            out.put_slice(bytes);
        }
    }
}

/// Writes a zigzag varint.
pub fn put_varint(out: &mut BytesMut, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while 0x80 <= rest {
        out.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

fn to_i64(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn to_i32(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], BadBatch> {
        let (head, tail) = self.bytes.split_at_checked(size).ok_or(BadBatch("cut off"))?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadBatch> {
        self.take(N)?.try_into().map_err(|_| BadBatch("cut off"))
    }

    fn i16(&mut self) -> Result<i16, BadBatch> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, BadBatch> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, BadBatch> {
        self.array().map(i64::from_be_bytes)
    }

    fn varint(&mut self) -> Result<i64, BadBatch> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err(BadBatch("varint too long"))
    }

    fn nullable_bytes(&mut self) -> Result<Option<Bytes>, BadBatch> {
        let size = self.varint()?;
        if size < 0 {
            return Ok(None);
        }
        let size = usize::try_from(size).map_err(|_| BadBatch("size too large"))?;
        Ok(Some(Bytes::copy_from_slice(self.take(size)?)))
    }

    fn record(&mut self) -> Result<Record, BadBatch> {
        self.varint()?;
        self.take(1)?;
        let timestamp_delta = self.varint()?;
        self.varint()?;
        let key = self.nullable_bytes()?;
        let value = self.nullable_bytes()?;
        let mut headers = Vec::new();
        for _ in 0..self.varint()? {
            let name = self.nullable_bytes()?.unwrap_or_default();
            headers.push((String::from_utf8_lossy(&name).into_owned(), self.nullable_bytes()?));
        }
        Ok(Record { key, value, headers, timestamp_delta })
    }
}

#[cfg(test)]
mod tests;
