//! The bytes of record batches, in as many pieces as they are stored in.

use bytes::{Bytes, BytesMut};

/// Record batches as bytes: a rope of slices, so that stored batches are answered without a copy.
///
/// Two ropes are equal when their bytes are, however they are cut.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The first piece, here so that the usual single piece needs no allocation.
    first: Bytes,
    more: Vec<Bytes>,
}

impl Records {
    /// Returns no records.
    pub const fn new() -> Self {
        Self { first: Bytes::new(), more: Vec::new() }
    }

    /// Adds a piece at the end; an empty one adds nothing.
    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if self.first.is_empty() {
            self.first = piece;
        } else {
            self.more.push(piece);
        }
    }

    /// Returns how many bytes all pieces have.
    pub fn len(&self) -> usize {
        self.pieces().map(Bytes::len).sum()
    }

    /// Returns whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the pieces in order; none of them is empty.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).filter(|piece| !piece.is_empty()).chain(&self.more)
    }

    /// Returns all bytes as one slice; copies only if there are several pieces.
    pub fn to_bytes(&self) -> Bytes {
        if self.more.is_empty() {
            return self.first.clone();
        }
        let mut all = BytesMut::with_capacity(self.len());
        for piece in self.pieces() {
            all.extend_from_slice(piece);
        }
        all.freeze()
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Self {
        Self { first: bytes, more: Vec::new() }
    }
}

impl FromIterator<Bytes> for Records {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut records = Self::new();
        for piece in pieces {
            records.push(piece);
        }
        records
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for Records {}

#[cfg(test)]
mod tests;
