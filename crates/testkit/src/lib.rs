//! What the tests are made of: programs to start, a client of the wire, transcripts.

pub mod client;
pub mod fuzz;
pub mod http;
pub mod process;
pub mod records;
pub mod sim;
pub mod transcript;
