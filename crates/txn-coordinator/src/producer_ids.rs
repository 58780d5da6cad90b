//! Where producer ids come from.

use std::collections::VecDeque;

use sharemark_protocol::{ErrorCode, Producer, ProducerEpoch, ProducerId};

/// How many ids a block has, as in Kafka.
const BLOCK_LEN: i64 = 1000;

/// A run of producer ids that belongs to one node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProducerIdBlock {
    first: i64,
}

impl ProducerIdBlock {
    /// Returns the lowest id of the block.
    pub const fn first(self) -> ProducerId {
        ProducerId::new(self.first)
    }

    /// Returns the highest id of the block.
    pub const fn last(self) -> ProducerId {
        ProducerId::new(self.first + (BLOCK_LEN - 1))
    }
}

/// The cluster's counter: hands out each block once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProducerIdCounter {
    next_first: i64,
}

impl ProducerIdCounter {
    /// Starts the counter of a new cluster.
    pub const fn new() -> Self {
        Self { next_first: 0 }
    }

    /// Goes on where a counter stopped: `next` is what [`Self::next_id`] returned.
    ///
    /// # Panics
    ///
    /// If `next` is negative.
    pub fn resume(next: ProducerId) -> Self {
        assert!(0 <= next.get(), "a producer id is never negative");
        Self { next_first: next.get() }
    }

    /// Returns the lowest id that no block holds yet; the cluster's metadata keep it.
    pub const fn next_id(&self) -> ProducerId {
        ProducerId::new(self.next_first)
    }

    /// Makes sure that `seen`, found in a log, is never handed out again.
    pub fn skip_past(&mut self, seen: ProducerId) {
        self.next_first = self.next_first.max(seen.get().saturating_add(1));
    }

    /// Hands out the next block.
    ///
    /// # Errors
    ///
    /// `UnknownServerError` when no block is left, which takes nine million million million ids.
    pub fn allocate_block(&mut self) -> Result<ProducerIdBlock, ErrorCode> {
        let next = self.next_first.checked_add(BLOCK_LEN).ok_or(ErrorCode::UnknownServerError)?;
        let block = ProducerIdBlock { first: self.next_first };
        self.next_first = next;
        Ok(block)
    }
}

impl Default for ProducerIdCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// One node's source of producer ids: the rest of its block, and the next one once that was asked for.
///
/// A decision that needs a new id takes it even when its append fails afterwards: ids are never reused.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProducerIds {
    /// The unused parts of at most two blocks, as the next id and the last.
    blocks: VecDeque<(i64, i64)>,
}

impl ProducerIds {
    /// Starts without a block.
    pub const fn new() -> Self {
        Self { blocks: VecDeque::new() }
    }

    /// Returns whether the last block at hand is nearly used up, so that the next should be asked for: at one
    /// tenth left, as Kafka does.
    pub fn needs_block(&self) -> bool {
        let left: i64 = self.blocks.iter().map(|&(next, last)| last - next + 1).sum();
        left <= BLOCK_LEN / 10
    }

    /// Adds a block that the cluster handed out.
    ///
    /// # Panics
    ///
    /// If no block is needed.
    pub fn add_block(&mut self, block: ProducerIdBlock) {
        assert!(self.needs_block(), "a block is added when one is needed");
        self.blocks.push_back((block.first().get(), block.last().get()));
    }

    /// Takes one id.
    ///
    /// # Errors
    ///
    /// `CoordinatorLoadInProgress` when the block is used up and the next has not come, as Kafka answers.
    pub fn take(&mut self) -> Result<ProducerId, ErrorCode> {
        let (next, last) = self.blocks.front_mut().ok_or(ErrorCode::CoordinatorLoadInProgress)?;
        let id = *next;
        *next += 1;
        if *last < *next {
            self.blocks.pop_front();
        }
        Ok(ProducerId::new(id))
    }

    /// Takes one id for a producer without transactions: InitProducerId with no transactional id.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub fn take_idempotent(&mut self) -> Result<Producer, ErrorCode> {
        Ok(Producer { id: self.take()?, epoch: ProducerEpoch::new(0) })
    }
}

#[cfg(test)]
mod tests;
