//! A broker and a crowd of clients in one process, with a clock of their own: what they do follows from a seed.
//!
//! ```text
//! clients -> world (broker, clock, connections) -> answers -> oracle: what may be true now
//! ```
//!
//! After each step the broker checks itself, and what clients were told is held against what they were told before.
//! At the end every transaction is ended, every lock runs out, and outputs and acknowledgements must fit together.

mod clients;
mod finish;
mod oracle;
mod random;
mod requests;
mod steps;
pub mod storm;
mod world;

pub use self::random::Random;

use self::steps::Run;

/// How many steps pass between two looks at whether replay equals live.
const REPLAY_CHECK_INTERVAL: usize = 16;

/// Runs `step_count` random steps from `seed`, and then the end.
///
/// # Panics
///
/// If something is wrong. Equal arguments take equal steps.
pub fn run(seed: u64, step_count: usize) {
    let mut run = Run::new(seed);
    for step in 0..step_count {
        run.step();
        run.world.check();
        if step % REPLAY_CHECK_INTERVAL == 0 {
            run.world.check_replay();
        }
    }
    run.finish();
}
