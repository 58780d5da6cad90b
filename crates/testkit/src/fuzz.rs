//! What the fuzz targets run: plain functions from bytes, which panic when something is wrong.
//!
//! The files that once found something are replayed by an ordinary test.

mod commands;
mod connections;
mod frames;
mod messages;
mod prelude;
mod produced;
mod recorder;
mod records;
mod state_records;

pub use commands::{COMMAND_LEN, run_commands};
pub use connections::Connections;
pub use frames::{FrameEvent, FrameEvents, frame_events, run_frames};
pub use messages::run_messages;
pub use prelude::prelude;
pub use recorder::record;
pub use records::run_records;
pub use state_records::run_state_records;

pub use sharemark_share_model::run_operations;

/// A fuzz target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    ("commands", run_commands),
    ("frames", run_frames),
    ("messages", run_messages),
    ("records", run_records),
    ("share_partition", run_operations),
    ("state_records", run_state_records),
];

#[cfg(test)]
mod tests;
