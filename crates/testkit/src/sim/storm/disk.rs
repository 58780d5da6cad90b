//! A disk that knows what was flushed.

use std::collections::VecDeque;

use sharemark::broker::{Broker, FlushNumber};

/// Takes numbered flushes. An eager one has each durable at once; a lazy one when it is told to sync, and a crash before
/// that loses the flush. Logs live in the broker, so what a flush leaves behind is the broker as it was after it: its
/// soft state is for whoever restarts it to drop.
pub(super) struct Disk {
    is_lazy: bool,
    /// The broker after the last durable flush, and the number of that.
    durable: Option<(FlushNumber, Box<Broker>)>,
    /// Flushes that are not durable, with the broker after each.
    taken: VecDeque<(FlushNumber, Box<Broker>)>,
}

impl Disk {
    pub(super) const fn new(is_lazy: bool) -> Self {
        Self { is_lazy, durable: None, taken: VecDeque::new() }
    }

    pub(super) const fn is_lazy(&self) -> bool {
        self.is_lazy
    }

    /// Takes a flush; returns its number if it is durable at once.
    pub(super) fn take(&mut self, number: FlushNumber, after: &Broker) -> Option<FlushNumber> {
        if !self.is_lazy {
            return Some(number);
        }
        self.taken.push_back((number, Box::new(after.clone())));
        None
    }

    /// Returns how many flushes are not durable.
    pub(super) fn lag(&self) -> usize {
        self.taken.len()
    }

    /// Makes all flushes durable; returns the number of the last.
    pub(super) fn sync(&mut self) -> Option<FlushNumber> {
        let (number, broker) = self.taken.drain(..).next_back()?;
        self.durable = Some((number, broker));
        Some(number)
    }

    /// Loses what is not durable; returns what is left, with the number of its last flush. The first `kept` flushes under
    /// way have reached the disk, though nobody was told. As long as nothing is durable there is nothing to start again
    /// on, and nothing is lost.
    pub(super) fn crash(&mut self, kept: usize) -> Option<(FlushNumber, Broker)> {
        if let Some(last) = self.taken.drain(..kept).next_back() {
            self.durable = Some(last);
        }
        let (number, broker) = self.durable.as_ref()?;
        self.taken.clear();
        Some((*number, (**broker).clone()))
    }
}
