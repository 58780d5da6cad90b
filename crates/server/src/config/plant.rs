//! Bugs that are built in on purpose, so that tests can show that they are found. Compiled with the cargo feature
//! `plants` alone, which no released program has.

/// A bug to build into the broker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Plant {
    /// An abort makes staged acknowledgements final, as a commit does.
    AbortAcknowledges,
}
