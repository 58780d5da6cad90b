//! Reads the protocol's types from a frame.

use bytes::Bytes;

use super::{DecodeError, Element};
use crate::{Records, StrBytes, TopicId};

/// The longest string that Kafka reads or writes, in bytes.
pub(super) const STRING_BYTES_MAX: usize = 0x7fff;

/// What the arrays of one message may take up in memory, beside `MEMORY_PER_BYTE` for each byte read.
const MEMORY_BYTES_BASE: usize = 4 << 20;

/// How much memory a byte of the frame may become: real messages stay below 10, long arrays of empty
/// strings or structures reach 100 and are refused.
const MEMORY_PER_BYTE: usize = 16;

/// Reads a frame from front to back. Strings and byte fields it returns are slices of the frame.
///
/// No count or length is believed before it was compared with the bytes left.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    frame: &'a Bytes,
    rest: &'a [u8],
    memory_left: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `frame`.
    pub fn new(frame: &'a Bytes) -> Self {
        let memory_left = MEMORY_BYTES_BASE.saturating_add(frame.len().saturating_mul(MEMORY_PER_BYTE));
        Self { frame, rest: frame, memory_left }
    }

    /// Returns how many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Checks that nothing is left over.
    ///
    /// # Errors
    ///
    /// If bytes are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::TrailingBytes) }
    }

    fn read_array_of<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*head)
    }

    fn read_slice(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads a bool: any byte but 0 is true.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.read_i8()? != 0)
    }

    /// Reads an int8.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_i8(&mut self) -> Result<i8, DecodeError> {
        self.read_array_of().map(i8::from_be_bytes)
    }

    /// Reads an int16.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_i16(&mut self) -> Result<i16, DecodeError> {
        self.read_array_of().map(i16::from_be_bytes)
    }

    /// Reads a uint16.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_u16(&mut self) -> Result<u16, DecodeError> {
        self.read_array_of().map(u16::from_be_bytes)
    }

    /// Reads an int32.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_i32(&mut self) -> Result<i32, DecodeError> {
        self.read_array_of().map(i32::from_be_bytes)
    }

    /// Reads an int64.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_i64(&mut self) -> Result<i64, DecodeError> {
        self.read_array_of().map(i64::from_be_bytes)
    }

    /// Reads a float64.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_f64(&mut self) -> Result<f64, DecodeError> {
        self.read_array_of().map(f64::from_be_bytes)
    }

    /// Reads a uuid.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_uuid(&mut self) -> Result<[u8; 16], DecodeError> {
        self.read_array_of()
    }

    /// Reads a uuid that is a topic's id.
    ///
    /// # Errors
    ///
    /// If the bytes end.
    pub fn read_topic_id(&mut self) -> Result<TopicId, DecodeError> {
        self.read_array_of().map(TopicId::from_bytes)
    }

    /// Reads an unsigned number of one to five bytes, seven bits each, lowest first.
    ///
    /// # Errors
    ///
    /// If the bytes end, or the fifth byte says that more follow.
    pub fn read_unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.read_array_of()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::InvalidVarint)
    }

    /// Reads a length or count that is an int32, or one more as a varint in a flexible version.
    /// Returns `None` for null.
    fn read_length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        if flexible {
            let above = self.read_unsigned_varint()?;
            return Ok(above.checked_sub(1).map(|length| length as usize));
        }
        Ok(usize::try_from(self.read_i32()?).ok())
    }

    /// Reads a string that may not be null.
    ///
    /// # Errors
    ///
    /// If it is null, too long, not UTF-8, or not all there.
    pub fn read_string(&mut self, flexible: bool) -> Result<StrBytes, DecodeError> {
        self.read_nullable_string(flexible, false)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// Reads a string that may be null in some versions, and in this one if `nullable`.
    ///
    /// # Errors
    ///
    /// If it is null against `nullable`, too long, not UTF-8, or not all there.
    pub fn read_nullable_string(
        &mut self,
        flexible: bool,
        nullable: bool,
    ) -> Result<Option<StrBytes>, DecodeError> {
        let length = if flexible { self.read_length(true)? } else { usize::try_from(self.read_i16()?).ok() };
        let Some(length) = check_null(length, nullable)? else {
            return Ok(None);
        };
        if STRING_BYTES_MAX < length {
            return Err(DecodeError::StringTooLong);
        }
        let text = self.read_slice(length)?;
        let text = StrBytes::from_utf8(self.frame.slice_ref(text)).ok_or(DecodeError::NotUtf8)?;
        Ok(Some(text))
    }

    /// Reads a byte field that may not be null.
    ///
    /// # Errors
    ///
    /// If it is null or not all there.
    pub fn read_bytes(&mut self, flexible: bool) -> Result<Bytes, DecodeError> {
        self.read_nullable_bytes(flexible, false)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// Reads a byte field that may be null in some versions, and in this one if `nullable`.
    ///
    /// # Errors
    ///
    /// If it is null against `nullable`, or not all there.
    pub fn read_nullable_bytes(
        &mut self,
        flexible: bool,
        nullable: bool,
    ) -> Result<Option<Bytes>, DecodeError> {
        let length = self.read_length(flexible)?;
        let Some(length) = check_null(length, nullable)? else {
            return Ok(None);
        };
        Ok(Some(self.frame.slice_ref(self.read_slice(length)?)))
    }

    /// Reads record batches, without a look inside, that may not be null.
    ///
    /// # Errors
    ///
    /// If they are null or not all there.
    pub fn read_records(&mut self, flexible: bool) -> Result<Records, DecodeError> {
        self.read_bytes(flexible).map(Records::from)
    }

    /// Reads record batches, without a look inside, that may be null in this version if `nullable`.
    ///
    /// # Errors
    ///
    /// If they are null against `nullable`, or not all there.
    pub fn read_nullable_records(
        &mut self,
        flexible: bool,
        nullable: bool,
    ) -> Result<Option<Records>, DecodeError> {
        Ok(self.read_nullable_bytes(flexible, nullable)?.map(Records::from))
    }

    /// Reads an array that may not be null.
    pub(crate) fn read_array<T: Element>(
        &mut self,
        version: i16,
        flexible: bool,
    ) -> Result<Vec<T>, DecodeError> {
        self.read_nullable_array(version, flexible, false)?.ok_or(DecodeError::UnexpectedNull)
    }

    /// Reads an array that may be null in some versions, and in this one if `nullable`.
    pub(crate) fn read_nullable_array<T: Element>(
        &mut self,
        version: i16,
        flexible: bool,
        nullable: bool,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        const { assert!(0 < T::SIZE_MIN, "an element takes at least a byte") };
        let count = self.read_length(flexible)?;
        let Some(count) = check_null(count, nullable)? else {
            return Ok(None);
        };
        if self.rest.len() / T::SIZE_MIN < count {
            return Err(DecodeError::CountTooLarge);
        }
        let memory = count.saturating_mul(size_of::<T>());
        self.memory_left = self.memory_left.checked_sub(memory).ok_or(DecodeError::TooMuchMemory)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(T::decode(version, flexible, self)?);
        }
        Ok(Some(elements))
    }

    /// Reads a structure that may be null in some versions, and in this one if `nullable`.
    pub(crate) fn read_nullable_struct<T: Element>(
        &mut self,
        version: i16,
        flexible: bool,
        nullable: bool,
    ) -> Result<Option<T>, DecodeError> {
        // A structure has its mark only in versions where it may be null.
        if nullable && self.read_i8()? < 0 {
            return Ok(None);
        }
        T::decode(version, flexible, self).map(Some)
    }

    /// Reads a nullable structure in a tagged field. There its mark is a varint, 0 for null, unlike
    /// the int8 elsewhere, -1 for null.
    pub(crate) fn read_tagged_nullable_struct<T: Element>(
        &mut self,
        version: i16,
    ) -> Result<Option<T>, DecodeError> {
        if self.read_unsigned_varint()? == 0 {
            return Ok(None);
        }
        T::decode(version, true, self).map(Some)
    }

    /// Reads the tagged fields behind a structure; `read` gets each tag with a reader of its bytes, and
    /// returns false for a tag that it does not know.
    pub(crate) fn read_tags(
        &mut self,
        mut read: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        // Each round takes at least two bytes, so a hostile count runs into the end.
        for _ in 0..self.read_unsigned_varint()? {
            let tag = self.read_unsigned_varint()?;
            let size = self.read_unsigned_varint()? as usize;
            let rest = self.read_slice(size)?;
            let mut field = Reader { frame: self.frame, rest, memory_left: self.memory_left };
            if read(tag, &mut field)? {
                field.finish()?;
            }
            self.memory_left = field.memory_left;
        }
        Ok(())
    }

    /// Skips the tagged fields behind a structure that knows none.
    pub(crate) fn skip_tags(&mut self) -> Result<(), DecodeError> {
        self.read_tags(|_, _| Ok(false))
    }
}

fn check_null(length: Option<usize>, nullable: bool) -> Result<Option<usize>, DecodeError> {
    if length.is_none() && !nullable {
        return Err(DecodeError::UnexpectedNull);
    }
    Ok(length)
}
