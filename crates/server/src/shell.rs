//! Threads, sockets, the clock and the command line around the deterministic core.
//!
//! Connection tasks on a small tokio runtime read frames, decode them and check what needs no state; one owner
//! thread runs the core; the tasks encode and write the answers.

mod cli;
mod clock;
mod connection;
mod control;
mod demo;
mod desk;
mod embedded;
mod frames;
mod journal;
mod machine;
mod meters;
mod owner;
mod requests;
mod server;

pub use cli::run_cli;
pub use control::{ClockView, ControlError};
pub use requests::RequestView;
pub use server::{NodeAddresses, Server, ServerBuilder, ServerError};
