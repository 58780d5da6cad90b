//! Why bytes make no sense.

use std::fmt;

/// Says why bytes are not the message that was expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DecodeError {
    /// The bytes end inside a field.
    UnexpectedEnd,
    /// A count claims more elements than the bytes left can hold.
    CountTooLarge,
    /// The arrays of the message would take up far more memory than a sane message of its length.
    TooMuchMemory,
    /// A string is longer than Kafka reads.
    StringTooLong,
    /// A string is not UTF-8.
    NotUtf8,
    /// A field is null that must not be.
    UnexpectedNull,
    /// A variable-length number does not end within its five bytes.
    InvalidVarint,
    /// Bytes are left behind the message, or in a tagged field.
    TrailingBytes,
    /// The API key is unknown.
    UnknownApi,
    /// The message has no such version.
    UnsupportedVersion,
    /// The key of a coordinator's record is of another type.
    UnexpectedRecordType,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "the bytes end inside a field",
            Self::CountTooLarge => "a count is larger than the bytes left allow",
            Self::TooMuchMemory => "the arrays take up too much memory",
            Self::StringTooLong => "a string is longer than 32767 bytes",
            Self::NotUtf8 => "a string is not utf-8",
            Self::UnexpectedNull => "a field is null that must not be",
            Self::InvalidVarint => "a variable-length number has no end",
            Self::TrailingBytes => "bytes are left over",
            Self::UnknownApi => "the api key is unknown",
            Self::UnsupportedVersion => "the version is not supported",
            Self::UnexpectedRecordType => "the record is of another type",
        })
    }
}

impl std::error::Error for DecodeError {}
