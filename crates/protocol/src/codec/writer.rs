//! Writes the protocol's types into a frame.

use bytes::Bytes;

use super::Element;
use super::reader::STRING_BYTES_MAX;
use crate::{Records, StrBytes, TopicId};

/// Pieces of records up to this length are copied; a longer one becomes a piece of the frame.
const COPIED_BYTES_MAX: usize = 4096;

/// Collects a frame: bytes of its own, and between them slices of stored record batches.
#[derive(Debug, Default)]
pub struct Writer {
    own: Vec<u8>,
    /// Foreign slices, each with the place in `own` that it stands before.
    inserted: Vec<(usize, Bytes)>,
    inserted_bytes: usize,
}

impl Writer {
    /// Starts with nothing.
    pub const fn new() -> Self {
        Self { own: Vec::new(), inserted: Vec::new(), inserted_bytes: 0 }
    }

    /// Starts with room for `capacity` bytes beside those of records.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { own: Vec::with_capacity(capacity), inserted: Vec::new(), inserted_bytes: 0 }
    }

    /// Returns how many bytes were written.
    pub fn len(&self) -> usize {
        self.own.len() + self.inserted_bytes
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the frame as pieces, for a vectored write; none is empty.
    pub fn into_pieces(self) -> Vec<Bytes> {
        let own = Bytes::from(self.own);
        let mut pieces = Vec::with_capacity(2 * self.inserted.len() + 1);
        let mut start = 0;
        for (at, slice) in self.inserted {
            if start < at {
                pieces.push(own.slice(start..at));
            }
            pieces.push(slice);
            start = at;
        }
        if start < own.len() {
            pieces.push(own.slice(start..));
        }
        pieces
    }

    /// Returns the frame in one piece; copies if slices of records are in it.
    pub fn into_bytes(self) -> Bytes {
        if self.inserted.is_empty() {
            return Bytes::from(self.own);
        }
        let mut all = Vec::with_capacity(self.len());
        for piece in self.into_pieces() {
            all.extend_from_slice(&piece);
        }
        Bytes::from(all)
    }

    /// Writes the length of all that follows into the four bytes that the frame began with.
    pub(crate) fn patch_frame_length(&mut self) {
        // A frame cannot be longer than its limit in the broker's config, which is an int32.
        let length = i32::try_from(self.len() - 4).unwrap_or(i32::MAX);
        if let Some(head) = self.own.first_chunk_mut::<4>() {
            *head = length.to_be_bytes();
        }
    }

    /// Writes a bool.
    pub fn write_bool(&mut self, value: bool) {
        self.own.push(u8::from(value));
    }

    /// Writes an int8.
    pub fn write_i8(&mut self, value: i8) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes an int16.
    pub fn write_i16(&mut self, value: i16) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a uint16.
    pub fn write_u16(&mut self, value: u16) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes an int32.
    pub fn write_i32(&mut self, value: i32) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes an int64.
    pub fn write_i64(&mut self, value: i64) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a float64.
    pub fn write_f64(&mut self, value: f64) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a uuid.
    pub fn write_uuid(&mut self, value: [u8; 16]) {
        self.own.extend_from_slice(&value);
    }

    /// Writes a uuid that is a topic's id.
    pub fn write_topic_id(&mut self, value: TopicId) {
        self.own.extend_from_slice(&value.bytes());
    }

    /// Writes an unsigned number in one to five bytes, seven bits each, lowest first.
    pub fn write_unsigned_varint(&mut self, mut value: u32) {
        while 0x80 <= value {
            self.own.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.own.push(value as u8);
    }

    /// Writes a length or count, or null.
    fn write_length(&mut self, flexible: bool, length: Option<usize>) {
        // Only a count beyond any frame's limit does not fit.
        let length = length.map(|length| i32::try_from(length).unwrap_or(i32::MAX));
        if flexible {
            self.write_unsigned_varint(length.map_or(0, |length| length.cast_unsigned() + 1));
        } else {
            self.write_i32(length.unwrap_or(-1));
        }
    }

    /// Writes a string; what lies beyond 32,767 bytes is cut off.
    pub fn write_string(&mut self, flexible: bool, text: &StrBytes) {
        let text: &[u8] = if text.len() <= STRING_BYTES_MAX {
            text.as_bytes()
        } else {
            let text = text.as_str();
            &text.as_bytes()[..text.floor_char_boundary(STRING_BYTES_MAX)]
        };
        if flexible {
            self.write_length(true, Some(text.len()));
        } else {
            self.write_i16(text.len() as i16); // At most 32,767, by the cut above.
        }
        self.own.extend_from_slice(text);
    }

    /// Writes a string or, if `nullable`, null; else nothing becomes the empty string.
    pub fn write_nullable_string(&mut self, flexible: bool, nullable: bool, text: Option<&StrBytes>) {
        match text {
            Some(text) => self.write_string(flexible, text),
            None if !nullable => self.write_string(flexible, &StrBytes::new()),
            None if flexible => self.write_unsigned_varint(0),
            None => self.write_i16(-1),
        }
    }

    /// Writes a byte field.
    pub fn write_bytes(&mut self, flexible: bool, bytes: &Bytes) {
        self.write_length(flexible, Some(bytes.len()));
        self.own.extend_from_slice(bytes);
    }

    /// Writes a byte field or, if `nullable`, null; else nothing becomes the empty field.
    pub fn write_nullable_bytes(&mut self, flexible: bool, nullable: bool, bytes: Option<&Bytes>) {
        match bytes {
            Some(bytes) => self.write_bytes(flexible, bytes),
            None => self.write_length(flexible, if nullable { None } else { Some(0) }),
        }
    }

    /// Writes record batches; long pieces are not copied.
    pub fn write_records(&mut self, flexible: bool, records: &Records) {
        self.write_length(flexible, Some(records.len()));
        for piece in records.pieces() {
            if piece.len() <= COPIED_BYTES_MAX {
                self.own.extend_from_slice(piece);
            } else {
                self.inserted_bytes += piece.len();
                self.inserted.push((self.own.len(), piece.clone()));
            }
        }
    }

    /// Writes record batches or, if `nullable`, null; else nothing becomes the empty field.
    pub fn write_nullable_records(&mut self, flexible: bool, nullable: bool, records: Option<&Records>) {
        match records {
            Some(records) => self.write_records(flexible, records),
            None => self.write_length(flexible, if nullable { None } else { Some(0) }),
        }
    }

    /// Writes an array.
    pub(crate) fn write_array<T: Element>(&mut self, version: i16, flexible: bool, elements: &[T]) {
        self.write_length(flexible, Some(elements.len()));
        for element in elements {
            element.encode(version, flexible, self);
        }
    }

    /// Writes an array or, if `nullable`, null; else nothing becomes the empty array.
    pub(crate) fn write_nullable_array<T: Element>(
        &mut self,
        version: i16,
        flexible: bool,
        nullable: bool,
        elements: Option<&[T]>,
    ) {
        match elements {
            Some(elements) => self.write_array(version, flexible, elements),
            None => self.write_length(flexible, if nullable { None } else { Some(0) }),
        }
    }

    /// Writes a structure or, if `nullable`, null; else nothing becomes the structure of defaults.
    pub(crate) fn write_nullable_struct<T: Element + Default>(
        &mut self,
        version: i16,
        flexible: bool,
        nullable: bool,
        value: Option<&T>,
    ) {
        match (value, nullable) {
            (Some(value), true) => {
                self.write_i8(1);
                value.encode(version, flexible, self);
            }
            (Some(value), false) => value.encode(version, flexible, self),
            (None, true) => self.write_i8(-1),
            (None, false) => T::default().encode(version, flexible, self),
        }
    }

    /// Writes a nullable structure in a tagged field, where its mark is a varint.
    pub(crate) fn write_tagged_nullable_struct<T: Element>(&mut self, version: i16, value: Option<&T>) {
        match value {
            Some(value) => {
                self.write_unsigned_varint(1);
                value.encode(version, true, self);
            }
            None => self.write_unsigned_varint(0),
        }
    }

    /// Begins the tagged fields behind a structure.
    pub(crate) fn tags(&mut self) -> TagWriter<'_> {
        let count_at = self.own.len();
        self.own.push(0);
        TagWriter { out: self, count_at }
    }

    /// Writes that a structure has no tagged fields.
    pub(crate) fn write_no_tags(&mut self) {
        self.own.push(0);
    }
}

/// Writes the tagged fields of one structure, in ascending order of tags.
pub(crate) struct TagWriter<'a> {
    out: &'a mut Writer,
    count_at: usize,
}

impl TagWriter<'_> {
    /// Writes one field: its tag, its size, and what `write` writes. No schema has 128 of them, so
    /// their count is one byte.
    pub(crate) fn write(&mut self, tag: u32, write: impl FnOnce(&mut Writer)) {
        self.out.own[self.count_at] += 1;
        self.out.write_unsigned_varint(tag);
        let start = self.out.own.len();
        write(self.out);
        // The size goes before the field: written behind it, then turned to the front.
        let end = self.out.own.len();
        let size = u32::try_from(end - start).unwrap_or(u32::MAX);
        self.out.write_unsigned_varint(size);
        let size_length = self.out.own.len() - end;
        self.out.own[start..].rotate_right(size_length);
    }
}
