//! The records of a batch, read lazily and without copies unless they are compressed.

use bytes::Bytes;
use sharemark_protocol::{ErrorCode, Offset, Timestamp};

use super::{BatchView, Compression, HEADER_SIZE};
use crate::batch::cursor::Cursor;

/// The records of one batch, decompressed.
#[derive(Clone, Debug)]
pub struct Records {
    data: Bytes,
    base_offset: Offset,
    base_timestamp: i64,
    /// The timestamp of every record, if it is that of the append.
    append_time: Option<Timestamp>,
    count: u32,
}

impl Records {
    /// Reads the records of `batch`, which is one whole batch.
    ///
    /// # Errors
    ///
    /// - `CorruptMessage` or `InvalidRecord` if the header makes no sense, the codec is unknown, or the
    ///   bytes are not what it writes.
    /// - `MessageTooLarge` if there is more to decompress than `size_bytes_max`.
    pub fn read(batch: &Bytes, size_bytes_max: usize) -> Result<Self, ErrorCode> {
        let view = BatchView::new(batch)?;
        let header = view.header()?;
        let data = match header.compression {
            Compression::None => batch.slice(HEADER_SIZE..view.bytes().len()),
            Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                Bytes::from(header.compression.decompress(view.body(), size_bytes_max)?)
            }
        };
        Ok(Self {
            data,
            base_offset: header.base_offset,
            base_timestamp: view.base_timestamp().ms(),
            append_time: header.log_append_time.then_some(header.max_timestamp),
            count: header.record_count,
        })
    }

    /// Returns the records in the order of their offsets.
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter::new(&self.data, self.base_offset, self.base_timestamp, self.append_time, self.count)
    }

    /// Returns `part`, which is a key or value of one of these records, without a copy.
    ///
    /// # Panics
    ///
    /// If `part` belongs to something else.
    pub fn slice(&self, part: &[u8]) -> Bytes {
        self.data.slice_ref(part)
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = Result<Record<'a>, ErrorCode>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its place in the log.
    pub offset: Offset,
    /// Its time, -1 if it has none.
    pub timestamp: Timestamp,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order; the same key may come more than once.
    pub headers: Headers<'a>,
    /// How many bytes it takes in its batch, uncompressed.
    pub size_bytes: usize,
}

/// A header of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header<'a> {
    /// The key; UTF-8 if the client was right.
    pub key: &'a [u8],
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record that are still to come.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        // Their number and extent were checked when the record was read.
        if self.cursor.is_empty() {
            return None;
        }
        read_header(&mut self.cursor)
    }
}

fn read_header<'a>(cursor: &mut Cursor<'a>) -> Option<Header<'a>> {
    let key = cursor.nullable_run()??;
    Some(Header { key, value: cursor.nullable_run()? })
}

/// The records of a batch that are still to come. After an error it ends.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    cursor: Cursor<'a>,
    base_offset: Offset,
    base_timestamp: i64,
    append_time: Option<Timestamp>,
    left: u32,
    /// Whether the bytes after the last record have been looked at.
    ended: bool,
}

impl<'a> RecordIter<'a> {
    pub(crate) const fn new(
        data: &'a [u8],
        base_offset: Offset,
        base_timestamp: i64,
        append_time: Option<Timestamp>,
        count: u32,
    ) -> Self {
        let cursor = Cursor::new(data);
        Self { cursor, base_offset, base_timestamp, append_time, left: count, ended: false }
    }

    #[inline]
    fn read(&mut self) -> Option<Record<'a>> {
        let left_before = self.cursor.rest().len();
        let size = usize::try_from(self.cursor.varint()?).ok()?;
        let mut body = Cursor::new(self.cursor.take(size)?);
        body.byte()?; // Attributes, of which none is defined.
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = body.nullable_run()?;
        let value = body.nullable_run()?;
        let header_count = body.varint()?;
        let headers = Headers { cursor: Cursor::new(body.rest()) };
        if header_count < 0 {
            return None;
        }
        for _ in 0..header_count {
            read_header(&mut body)?; // Each takes two bytes or more, so a wrong count soon ends the loop.
        }
        if !body.is_empty() {
            return None;
        }
        Some(Record {
            offset: Offset::new(self.base_offset.get().checked_add(i64::from(offset_delta))?)?,
            timestamp: self
                .append_time
                .unwrap_or(Timestamp::from_ms(self.base_timestamp.wrapping_add(timestamp_delta))),
            key,
            value,
            headers,
            size_bytes: left_before - self.cursor.rest().len(),
        })
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, ErrorCode>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.left == 0 {
            self.ended = true;
            return if self.cursor.is_empty() { None } else { Some(Err(ErrorCode::InvalidRecord)) };
        }
        self.left -= 1;
        let record = self.read();
        if record.is_none() {
            self.ended = true;
        }
        Some(record.ok_or(ErrorCode::InvalidRecord))
    }
}

/// What an end-transaction marker says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MarkerRecord {
    /// Whether the transaction was committed; it was aborted otherwise.
    pub committed: bool,
    /// The leader epoch of the transaction log's partition when the marker was sent.
    pub coordinator_epoch: i32,
}

impl MarkerRecord {
    /// Reads a control record, or returns `None` if it does not end a transaction.
    pub fn read(record: &Record<'_>) -> Option<Self> {
        let key = record.key?.first_chunk::<4>()?;
        let value = record.value?.first_chunk::<6>()?;
        let committed = match i16::from_be_bytes([key[2], key[3]]) {
            0 => false,
            1 => true,
            _ => return None,
        };
        let coordinator_epoch = i32::from_be_bytes([value[2], value[3], value[4], value[5]]);
        Some(Self { committed, coordinator_epoch })
    }
}
