//! The transactions that pending records of a share partition wait for, each under a small number.

use std::collections::BTreeMap;

use super::word::NO_OWNER;
use crate::Staged;

/// What a pending record refers to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Owner {
    /// The staged acknowledgement.
    pub(super) staged: Staged,
    /// The member that held the record, [`NO_OWNER`] if that is not known any more.
    pub(super) member: u16,
}

/// Numbers for owners. A number stays in use until a sweep finds that nothing refers to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    slots: Vec<Option<Owner>>,
    free: Vec<u16>,
    numbers: BTreeMap<Owner, u16>,
    sweep_at: usize,
}

/// So many owners are known before the first sweep.
const SWEEP_AT_MIN: usize = 64;

impl Owners {
    /// Returns the number of `owner`, or `None` if it has none.
    pub(super) fn find(&self, owner: &Owner) -> Option<u16> {
        self.numbers.get(owner).copied()
    }

    /// Returns the owner with this number.
    pub(super) fn get(&self, number: u16) -> Option<&Owner> {
        self.slots.get(usize::from(number))?.as_ref()
    }

    /// Returns all owners.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Owner> {
        self.numbers.keys()
    }

    /// Returns whether [`Self::sweep`] should be called before the next new owner.
    pub(super) fn wants_sweep(&self) -> bool {
        self.sweep_at.max(SWEEP_AT_MIN) <= self.numbers.len()
    }

    /// Gives `owner` a number, or returns `None` when all numbers are in use.
    pub(super) fn add(&mut self, owner: Owner) -> Option<u16> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => u16::try_from(self.slots.len()).ok().filter(|&number| number != NO_OWNER)?,
        };
        if self.slots.len() <= usize::from(number) {
            self.slots.resize(usize::from(number) + 1, None);
        }
        self.slots[usize::from(number)] = Some(owner);
        self.numbers.insert(owner, number);
        Some(number)
    }

    /// Frees the numbers for which `is_used` has no `true`.
    pub(super) fn sweep(&mut self, is_used: &[bool]) {
        self.free.clear();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if is_used.get(number).copied().unwrap_or(false) {
                continue;
            }
            if let Some(owner) = slot.take() {
                self.numbers.remove(&owner);
            }
            // Numbers fit, since `add` made them.
            self.free.push(number as u16);
        }
        self.sweep_at = 2 * self.numbers.len();
    }

    /// Returns a bound above every number in use.
    pub(super) fn number_bound(&self) -> usize {
        self.slots.len()
    }
}
