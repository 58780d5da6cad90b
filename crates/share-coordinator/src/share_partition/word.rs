//! One record's part of the lock table, packed into eight bytes.

use crate::RecordState;

/// The state of a record, or of a whole batch that is in one state.
///
/// From the lowest bit: state (3), in transition (1), lock lapsed meanwhile (1), delivery count (15),
/// owner (16), lock (28). The owner is a member of the share partition's member table while the record is
/// acquired and an entry of its owner table while it is pending in a transaction. The lock is the low bits
/// of the deadline in milliseconds while acquired; while pending, the milliseconds that were left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Word(u64);

const STATE_BITS: u64 = 0b111;
const TRANSITION: u64 = 1 << 3;
const LAPSED: u64 = 1 << 4;
const COUNT_SHIFT: u32 = 5;
const COUNT_BITS: u64 = 0x7fff;
const OWNER_SHIFT: u32 = 20;
const OWNER_BITS: u64 = 0xffff;
const LOCK_SHIFT: u32 = 36;
const LOCK_BITS: u64 = (1 << 28) - 1;

/// An owner that no table hands out.
pub(super) const NO_OWNER: u16 = u16::MAX;

/// The longest lock: half of what the lock bits tell apart, about 37 hours.
pub(super) const LOCK_DURATION_MS_MAX: i64 = (1 << 27) - 1;

/// For each state, by its id, the set of states that it may become.
const NEXT_STATES: [u8; 8] = {
    let mut table = [0; 8];
    let mut from = 0;
    while from < RecordState::ALL.len() {
        let mut to = 0;
        while to < RecordState::ALL.len() {
            if RecordState::ALL[from].can_become(RecordState::ALL[to]) {
                table[from] |= 1 << to;
            }
            to += 1;
        }
        from += 1;
    }
    table
};

/// For each state, by its id, the set of states that may become it.
const PREVIOUS_STATES: [u8; 6] = {
    let mut table = [0; 6];
    let mut to = 0;
    while to < table.len() {
        let mut from = 0;
        while from < RecordState::ALL.len() {
            if RecordState::ALL[from].can_become(RecordState::ALL[to]) {
                table[to] |= 1 << from;
            }
            from += 1;
        }
        to += 1;
    }
    table
};

impl Word {
    /// Returns a record that nobody holds.
    pub(super) const fn new(state: RecordState, delivery_count: i16) -> Self {
        Self(state as u64 | count_bits(delivery_count) | (NO_OWNER as u64) << OWNER_SHIFT)
    }

    /// Returns a record that `owner` holds until `deadline_ms`.
    pub(super) const fn acquired(delivery_count: i16, owner: u16, deadline_ms: i64) -> Self {
        Self(
            RecordState::Acquired as u64
                | count_bits(delivery_count)
                | (owner as u64) << OWNER_SHIFT
                | lock_bits(deadline_ms) << LOCK_SHIFT,
        )
    }

    /// Returns a record that waits for a transaction; `lock_ms_left` is what its lock still had.
    pub(super) const fn pending(delivery_count: i16, owner: u16, lock_ms_left: i64) -> Self {
        Self(
            RecordState::TxPending as u64
                | count_bits(delivery_count)
                | (owner as u64) << OWNER_SHIFT
                | lock_bits(lock_ms_left) << LOCK_SHIFT,
        )
    }

    /// Returns the state.
    pub(super) fn state(self) -> RecordState {
        match self.0 & STATE_BITS {
            0 => RecordState::Available,
            1 => RecordState::Acquired,
            2 => RecordState::Acknowledged,
            3 => RecordState::Archiving,
            4 => RecordState::Archived,
            _ => RecordState::TxPending,
        }
    }

    /// Returns whether the record may be acquired.
    pub(super) const fn is_available(self) -> bool {
        self.0 & (STATE_BITS | TRANSITION) == RecordState::Available as u64
    }

    /// Returns whether nothing can happen to the record any more.
    pub(super) const fn is_final(self) -> bool {
        let state = self.0 & (STATE_BITS | TRANSITION);
        state == RecordState::Acknowledged as u64 || state == RecordState::Archived as u64
    }

    /// Returns whether the table of transitions lets this record become `next`.
    pub(super) const fn can_become(self, next: RecordState) -> bool {
        NEXT_STATES[(self.0 & STATE_BITS) as usize] >> next as u32 & 1 == 1
    }

    /// Returns whether `owner` holds the record and no change of it is under way.
    pub(super) const fn is_held_by(self, owner: u16) -> bool {
        let mask = STATE_BITS | TRANSITION | OWNER_BITS << OWNER_SHIFT;
        self.0 & mask == RecordState::Acquired as u64 | (owner as u64) << OWNER_SHIFT
    }

    /// Returns whether the record is acquired and no change of it is under way.
    pub(super) const fn is_held(self) -> bool {
        self.0 & (STATE_BITS | TRANSITION) == RecordState::Acquired as u64
    }

    /// Returns whether the record is pending and no change of it is under way.
    pub(super) const fn is_pending(self) -> bool {
        self.0 & (STATE_BITS | TRANSITION) == RecordState::TxPending as u64
    }

    /// Returns whether a change is being stored.
    pub(super) const fn is_in_transition(self) -> bool {
        self.0 & TRANSITION != 0
    }

    /// Returns whether the lock ran out while a change was being stored.
    pub(super) const fn is_lapsed(self) -> bool {
        self.0 & LAPSED != 0
    }

    /// Returns the delivery count.
    pub(super) const fn delivery_count(self) -> i16 {
        (self.0 >> COUNT_SHIFT & COUNT_BITS) as i16
    }

    /// Returns the owner.
    pub(super) const fn owner(self) -> u16 {
        (self.0 >> OWNER_SHIFT & OWNER_BITS) as u16
    }

    /// Returns the milliseconds until the lock ends, seen from `now_ms`; negative when it has ended.
    ///
    /// Right as long as the lock ended less than [`LOCK_DURATION_MS_MAX`] ago.
    pub(super) const fn lock_ms_left(self, now_ms: i64) -> i64 {
        let difference = (self.0 >> LOCK_SHIFT).wrapping_sub(lock_bits(now_ms));
        // The sign is that of 28 bits.
        ((difference << LOCK_SHIFT) as i64) >> LOCK_SHIFT
    }

    /// Returns when the lock ends; `base_ms` is the soonest end of any lock.
    pub(super) const fn deadline_ms(self, base_ms: i64) -> i64 {
        let difference = (self.0 >> LOCK_SHIFT).wrapping_sub(lock_bits(base_ms));
        base_ms + (difference & LOCK_BITS) as i64
    }

    /// Returns the milliseconds that a pending record's lock still had when it was staged.
    pub(super) const fn staged_lock_ms_left(self) -> i64 {
        (self.0 >> LOCK_SHIFT) as i64
    }

    /// Returns the record with a lock that ends at `deadline_ms`.
    pub(super) const fn with_deadline(self, deadline_ms: i64) -> Self {
        Self(self.0 & !(LOCK_BITS << LOCK_SHIFT) | lock_bits(deadline_ms) << LOCK_SHIFT)
    }

    /// Returns the record in transition.
    pub(super) const fn with_transition(self) -> Self {
        Self(self.0 | TRANSITION)
    }

    /// Returns the record with the mark that its lock ran out in transition.
    pub(super) const fn with_lapse(self) -> Self {
        Self(self.0 | LAPSED)
    }

    /// Returns the record with its change over.
    pub(super) const fn without_transition(self) -> Self {
        Self(self.0 & !(TRANSITION | LAPSED))
    }
}

/// Which records may be put into a new state: those in a state that may become it, in transition or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Precondition(u16);

impl Precondition {
    /// Returns the condition for records that become `next`.
    pub(super) const fn of(next: RecordState, in_transition: bool) -> Self {
        // One bit for each value of the state bits and the transition bit.
        let states = PREVIOUS_STATES[next as usize] as u16;
        Self(if in_transition { states << 8 } else { states })
    }

    /// Returns whether `word` may be put into the new state.
    pub(super) const fn allows(self, word: Word) -> bool {
        self.0 >> (word.0 & (STATE_BITS | TRANSITION)) & 1 == 1
    }
}

const fn count_bits(delivery_count: i16) -> u64 {
    assert!(0 <= delivery_count, "a delivery count is never negative");
    (delivery_count as u64) << COUNT_SHIFT
}

const fn lock_bits(ms: i64) -> u64 {
    ms as u64 & LOCK_BITS
}

#[cfg(test)]
mod tests;
