//! Reads a journal entry by entry, and believes nothing that its checksum does not cover.

use std::fmt;
use std::io::{self, Read};

use bytes::Bytes;

use super::layout::Kind;
use super::{MAGIC, VERSION};

/// Why a file is no journal that this program reads.
#[derive(Debug)]
pub(in crate::shell) enum JournalError {
    /// It does not begin as one.
    NotAJournal,
    /// It has another layout.
    Version(u32),
    /// It cannot be read.
    Read(io::Error),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAJournal => f.write_str("it is not a journal"),
            Self::Version(version) => {
                write!(f, "it has version {version} of the layout; this program reads version {VERSION}")
            }
            Self::Read(error) => write!(f, "it cannot be read: {error}"),
        }
    }
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::shell) struct Place {
    /// Counts entries, from 1.
    pub(in crate::shell) entry: u64,
    /// The byte of the file that it begins at.
    pub(in crate::shell) byte: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} (at byte {})", self.entry, self.byte)
    }
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    /// An entry.
    Entry(Kind, Bytes),
    /// The file ends between two entries.
    Nothing,
    /// The file ends within an entry.
    Cut,
    /// The checksum is wrong, or nothing has that kind.
    Damaged,
}

/// Reads the entries of a journal.
#[derive(Debug)]
pub(super) struct JournalReader<R> {
    source: R,
    next: Place,
}

impl<R: Read> JournalReader<R> {
    pub(super) fn new(mut source: R) -> Result<Self, JournalError> {
        let head = read_up_to(&mut source, MAGIC.len() as u64 + 4)?;
        let version = head.strip_prefix(MAGIC).and_then(|version| version.first_chunk::<4>());
        let version = u32::from_be_bytes(*version.ok_or(JournalError::NotAJournal)?);
        if version != VERSION {
            return Err(JournalError::Version(version));
        }
        Ok(Self { source, next: Place { entry: 1, byte: head.len() as u64 } })
    }

    /// Returns the place of what [`Self::read_next`] will return.
    pub(super) const fn place(&self) -> Place {
        self.next
    }

    pub(super) fn read_next(&mut self) -> Result<Next, JournalError> {
        let head = read_up_to(&mut self.source, 8)?;
        let Some((length, checksum)) = head.split_first_chunk::<4>() else {
            return Ok(if head.is_empty() { Next::Nothing } else { Next::Cut });
        };
        let Some(checksum) = checksum.first_chunk::<4>() else { return Ok(Next::Cut) };
        let size = u32::from_be_bytes(*length);
        let entry = read_up_to(&mut self.source, size.into())?;
        if entry.len() as u64 != u64::from(size) {
            return Ok(Next::Cut);
        }
        if crc32c::crc32c_append(crc32c::crc32c(length), &entry) != u32::from_be_bytes(*checksum) {
            return Ok(Next::Damaged);
        }
        let Some(kind) = entry.first().and_then(|kind| Kind::from_wire(*kind)) else {
            return Ok(Next::Damaged);
        };
        self.next = Place { entry: self.next.entry + 1, byte: self.next.byte + 8 + u64::from(size) };
        Ok(Next::Entry(kind, Bytes::from(entry).slice(1..)))
    }
}

/// Reads so many bytes, or as many as there are; memory is taken as they come.
fn read_up_to(source: &mut impl Read, count: u64) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    source.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}
