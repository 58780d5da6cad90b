//! The members that hold records of a share partition, each under a small number.

use std::sync::Arc;

use super::word::NO_OWNER;

/// Numbers for member ids. A number stays with its member until a sweep finds that nothing refers to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// The ids by number; `None` for a number that is free.
    ids: Vec<Option<Arc<str>>>,
    free: Vec<u16>,
    /// Numbers by hash of the id, with linear probing; a power of two, at most half full.
    table: Vec<u16>,
    /// How many ids may be known before a sweep is worth its cost.
    sweep_at: usize,
    /// The number of the member that acquired last, who is likely to be asked for next.
    recent: u16,
}

/// So many members are known before the first sweep.
const SWEEP_AT_MIN: usize = 64;

impl Members {
    /// Returns the number of `id`, or `None` if it has none.
    #[inline]
    pub(super) fn find(&self, id: &str) -> Option<u16> {
        if self.is(self.recent, id) {
            return Some(self.recent);
        }
        self.look_up(id)
    }

    /// Notes that `number` is likely to be asked for next.
    #[inline]
    pub(super) fn note_recent(&mut self, number: u16) {
        self.recent = number;
    }

    /// Returns whether `number` stands for `id`.
    #[inline]
    fn is(&self, number: u16, id: &str) -> bool {
        self.id(number).is_some_and(|own| is_same(own.as_bytes(), id.as_bytes()))
    }

    #[inline(never)]
    fn look_up(&self, id: &str) -> Option<u16> {
        let mask = self.table.len().checked_sub(1)?;
        let mut slot = hash(id) as usize & mask;
        loop {
            let number = self.table[slot];
            if number == NO_OWNER {
                return None;
            }
            if self.is(number, id) {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the id with this number.
    #[inline]
    pub(super) fn id(&self, number: u16) -> Option<&str> {
        self.ids.get(usize::from(number))?.as_deref()
    }

    /// Returns whether [`Self::sweep`] should be called before the next new id.
    #[inline]
    pub(super) fn wants_sweep(&self) -> bool {
        self.sweep_at.max(SWEEP_AT_MIN) <= self.ids.len() - self.free.len()
    }

    /// Gives `id` a number, or returns `None` when all numbers are in use.
    pub(super) fn add(&mut self, id: &str) -> Option<u16> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => u16::try_from(self.ids.len()).ok().filter(|&number| number != NO_OWNER)?,
        };
        if self.ids.len() <= usize::from(number) {
            self.ids.resize(usize::from(number) + 1, None);
        }
        self.ids[usize::from(number)] = Some(id.into());
        if self.table.len() < 2 * self.ids.len() {
            self.rebuild_table();
        } else {
            self.place(number);
        }
        Some(number)
    }

    /// Frees the numbers for which `is_used` has no `true`.
    pub(super) fn sweep(&mut self, is_used: &[bool]) {
        self.free.clear();
        for (number, id) in self.ids.iter_mut().enumerate() {
            if !is_used.get(number).copied().unwrap_or(false) {
                *id = None;
                // Numbers fit, since `add` made them.
                self.free.push(number as u16);
            }
        }
        self.sweep_at = 2 * (self.ids.len() - self.free.len());
        self.rebuild_table();
    }

    /// Returns a bound above every number in use.
    pub(super) fn number_bound(&self) -> usize {
        self.ids.len()
    }

    fn rebuild_table(&mut self) {
        let len = (2 * self.ids.len()).next_power_of_two().max(8);
        self.table.clear();
        self.table.resize(len, NO_OWNER);
        for number in 0..self.ids.len() {
            if self.ids[number].is_some() {
                self.place(number as u16);
            }
        }
    }

    fn place(&mut self, number: u16) {
        let mask = self.table.len() - 1;
        let mut slot = self.id(number).map_or(0, hash) as usize & mask;
        while self.table[slot] != NO_OWNER {
            slot = (slot + 1) & mask;
        }
        self.table[slot] = number;
    }
}

/// Compares two ids, without a call those of 16 to 24 bytes, which clients make: 22 bytes, 16 random ones in base64.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match (one.first_chunk::<16>(), other.first_chunk::<16>(), one.last_chunk::<8>(), other.last_chunk::<8>())
    {
        (Some(one_head), Some(other_head), Some(one_tail), Some(other_tail)) if one.len() <= 24 => {
            let heads = u128::from_le_bytes(*one_head) ^ u128::from_le_bytes(*other_head);
            let tails = u64::from_le_bytes(*one_tail) ^ u64::from_le_bytes(*other_tail);
            heads | u128::from(tails) == 0
        }
        _ => one == other,
    }
}

/// Hashes an id: eight bytes at a time, the same in every run.
#[inline]
fn hash(id: &str) -> u64 {
    let mut hash = id.len() as u64;
    let mut rest = id.as_bytes();
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        hash = mix(hash, u64::from_le_bytes(*chunk));
        rest = tail;
    }
    // The last eight bytes again, as far as there are so many: cheaper than one byte at a time.
    if let Some(chunk) = id.as_bytes().last_chunk() {
        hash = mix(hash, u64::from_le_bytes(*chunk));
    } else {
        for &byte in rest {
            hash = mix(hash, u64::from(byte));
        }
    }
    hash ^ hash >> 32
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
