//! What an array can hold.

use super::{DecodeError, Reader, Writer};
use crate::{StrBytes, TopicId};

/// An element of an array, or a structure inside another.
pub(crate) trait Element: Sized {
    /// The fewest bytes it takes in any version; never 0, for it bounds what a count may claim.
    const SIZE_MIN: usize;

    /// Appends it to `out`.
    fn encode(&self, version: i16, flexible: bool, out: &mut Writer);

    /// Reads one.
    fn decode(version: i16, flexible: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! fixed_size {
    ($($type:ty, $size:literal, $write:ident, $read:ident;)*) => {
        $(
            impl Element for $type {
                const SIZE_MIN: usize = $size;

                fn encode(&self, _version: i16, _flexible: bool, out: &mut Writer) {
                    out.$write(*self);
                }

                fn decode(_: i16, _: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                    reader.$read()
                }
            }
        )*
    };
}

fixed_size! {
    i8, 1, write_i8, read_i8;
    i16, 2, write_i16, read_i16;
    i32, 4, write_i32, read_i32;
    i64, 8, write_i64, read_i64;
    [u8; 16], 16, write_uuid, read_uuid;
    TopicId, 16, write_topic_id, read_topic_id;
}

impl Element for StrBytes {
    const SIZE_MIN: usize = 1;

    fn encode(&self, _version: i16, flexible: bool, out: &mut Writer) {
        out.write_string(flexible, self);
    }

    fn decode(_: i16, flexible: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.read_string(flexible)
    }
}
