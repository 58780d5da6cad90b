//! The journal: all that enters the core, in the order in which it takes it, and what it says to that; and the replay
//! that runs a journal on a core of its own and looks for the first difference. `docs/journal.md` has the layout.

mod config;
mod fault;
mod layout;
mod reader;
mod recorder;
mod replay;

pub(super) use layout::End;
pub(super) use recorder::Recorder;
pub(super) use replay::replay;

/// What a journal begins with.
const MAGIC: &[u8; 8] = b"SHMKJRNL";

/// The layout of all that follows, which this program writes and reads.
const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
