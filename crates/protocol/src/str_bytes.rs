//! Strings that are slices of the frame they came in.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// A UTF-8 string held as a slice of a frame; a clone copies no text.
///
/// Comparisons look at the bytes alone, which order and match as the text does.
#[derive(Clone, Default)]
pub struct StrBytes(Bytes);

impl StrBytes {
    /// Returns the empty string.
    pub const fn new() -> Self {
        Self(Bytes::new())
    }

    /// Wraps a text that lives as long as the program.
    pub const fn from_static(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }

    /// Wraps `bytes`, or returns `None` if they are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Option<Self> {
        std::str::from_utf8(&bytes).ok()?;
        Some(Self(bytes))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        // Each door checks the bytes, so this check never fails; it costs a pass over a short text.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the text as bytes, without a check.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns how many bytes the text has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies the text, so that it no longer keeps the frame alive.
    pub fn to_arc(&self) -> Arc<str> {
        Arc::from(self.as_str())
    }
}

impl Deref for StrBytes {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for StrBytes {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for StrBytes {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for StrBytes {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for StrBytes {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<&Arc<str>> for StrBytes {
    fn from(text: &Arc<str>) -> Self {
        Self::from(&**text)
    }
}

impl From<&StrBytes> for Arc<str> {
    fn from(text: &StrBytes) -> Self {
        text.to_arc()
    }
}

impl PartialEq for StrBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for StrBytes {}

impl PartialEq<str> for StrBytes {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for StrBytes {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialOrd for StrBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StrBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for StrBytes {
    /// Hashes as `str` does, since a `str` may be borrowed from it.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for StrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for StrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests;
