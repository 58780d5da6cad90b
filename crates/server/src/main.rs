//! The `sharemark` program.

fn main() {}
