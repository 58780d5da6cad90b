//! How messages become bytes and bytes messages.
//!
//! Kafka's classes refuse to encode a value that a version cannot carry. Here an answer must not be
//! lost to that, so `encode` leaves out a field that the version lacks, writes "empty" for a null that
//! the version forbids, and cuts a string at 32,767 bytes, the longest that Kafka reads.

mod element;
mod error;
mod reader;
mod writer;

use std::ops::RangeInclusive;

use bytes::Bytes;

pub(crate) use element::Element;
pub use error::DecodeError;
pub use reader::Reader;
pub use writer::Writer;

/// The first flexible version of a message that has none.
pub const NEVER_FLEXIBLE: i16 = i16::MAX;

/// A message of the protocol, or a key or value of an internal topic.
pub trait Message: Sized {
    /// Names the message as Kafka's schema does.
    const NAME: &'static str;
    /// The API key, or the record type of a coordinator's record; -1 for a message with neither.
    const API_KEY: i16;
    /// The versions that can be encoded and decoded.
    const VERSIONS_VALID: RangeInclusive<i16>;
    /// The first version with compact lengths and tagged fields, or [`NEVER_FLEXIBLE`].
    const FIRST_FLEXIBLE: i16;

    /// Appends the message to `out`, in the form of `version`.
    fn encode(&self, version: i16, out: &mut Writer);

    /// Reads one message of version `version`.
    ///
    /// # Errors
    ///
    /// If the version is unknown or the bytes are no such message.
    fn decode(version: i16, reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Returns the message as bytes, in the form of `version`.
    fn to_bytes(&self, version: i16) -> Bytes {
        let mut out = Writer::new();
        self.encode(version, &mut out);
        out.into_bytes()
    }

    /// Reads a message that takes up all of `bytes`.
    ///
    /// # Errors
    ///
    /// As `decode`, and if bytes are left over.
    fn from_bytes(version: i16, bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let message = Self::decode(version, &mut reader)?;
        reader.finish()?;
        Ok(message)
    }

    /// Returns the message behind its version as an int16: the form of values in internal topics and
    /// of the consumer protocol's data.
    fn to_versioned_bytes(&self, version: i16) -> Bytes {
        let mut out = Writer::new();
        out.write_i16(version);
        self.encode(version, &mut out);
        out.into_bytes()
    }

    /// Reads a message behind its version, and returns both.
    ///
    /// # Errors
    ///
    /// As `from_bytes`.
    fn from_versioned_bytes(bytes: &Bytes) -> Result<(i16, Self), DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = reader.read_i16()?;
        let message = Self::decode(version, &mut reader)?;
        reader.finish()?;
        Ok((version, message))
    }

    /// Returns a coordinator record's key: the record type as an int16, then the fields of version 0.
    fn to_key_bytes(&self) -> Bytes {
        let mut out = Writer::new();
        out.write_i16(Self::API_KEY);
        self.encode(0, &mut out);
        out.into_bytes()
    }

    /// Reads a coordinator record's key.
    ///
    /// # Errors
    ///
    /// As `from_bytes`, and if the key is of another record type.
    fn from_key_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.read_i16()? != Self::API_KEY {
            return Err(DecodeError::UnexpectedRecordType);
        }
        let message = Self::decode(0, &mut reader)?;
        reader.finish()?;
        Ok(message)
    }
}

/// What generic code may do with a message that it knows by name.
#[derive(Clone, Debug)]
pub struct MessageCodec {
    /// The name of Kafka's schema.
    pub name: &'static str,
    /// See [`Message::API_KEY`].
    pub api_key: i16,
    /// See [`Message::VERSIONS_VALID`].
    pub versions_valid: RangeInclusive<i16>,
    /// See [`Message::FIRST_FLEXIBLE`].
    pub first_flexible: i16,
    /// Decodes all of the bytes as the given version and encodes the outcome again.
    pub transcode: fn(i16, &Bytes) -> Result<Bytes, DecodeError>,
    /// Encodes the message of defaults as the given version.
    pub encode_default: fn(i16) -> Bytes,
}

impl MessageCodec {
    /// Returns the codec of `M`.
    pub(crate) const fn of<M: Message + Default>() -> Self {
        Self {
            name: M::NAME,
            api_key: M::API_KEY,
            versions_valid: M::VERSIONS_VALID,
            first_flexible: M::FIRST_FLEXIBLE,
            transcode: |version, bytes| Ok(M::from_bytes(version, bytes)?.to_bytes(version)),
            encode_default: |version| M::default().to_bytes(version),
        }
    }
}

/// Checks that `version` is one of `M`'s.
pub(crate) fn check_version<M: Message>(version: i16) -> Result<(), DecodeError> {
    if M::VERSIONS_VALID.contains(&version) { Ok(()) } else { Err(DecodeError::UnsupportedVersion) }
}

#[cfg(test)]
mod tests;
