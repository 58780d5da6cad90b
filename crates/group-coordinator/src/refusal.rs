//! Why a request is refused.

use std::fmt;

use sharemark_protocol::ErrorCode;

/// An error for the whole request, with a text for its `ErrorMessage` where there is more to say than the code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The code of the answer.
    pub error: ErrorCode,
    /// The text of the answer.
    pub message: Option<&'static str>,
}

impl Refusal {
    /// Refuses with a code that says it all.
    pub const fn of(error: ErrorCode) -> Self {
        Self { error, message: None }
    }

    /// Refuses with a code and a text.
    pub const fn with(error: ErrorCode, message: &'static str) -> Self {
        Self { error, message: Some(message) }
    }
}

/// Returns whether an id says nothing: Java's `trim` leaves nothing of it.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c <= ' ')
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        match self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
