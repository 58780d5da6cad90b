//! What actors have said and done, whether or not they were heard.

use std::collections::{BTreeMap, BTreeSet};

use sharemark_protocol::Producer;

use super::actors::Spot;

/// Something that a processor has written to the output topic.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) producer: Producer,
    pub(super) group: &'static str,
    /// The record that it was made from.
    pub(super) source: Spot,
    /// Whether the processor knows that it is written.
    pub(super) is_acknowledged: bool,
}

/// What all actors have said and done.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Records that somebody of a group has asked to accept.
    pub(super) accepted: BTreeSet<(&'static str, Spot)>,
    pub(super) outputs: BTreeMap<String, Output>,
    /// Records that a sink task has put before it accepted them.
    pub(super) put: BTreeSet<Spot>,
}
