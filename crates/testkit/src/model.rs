//! Naive models: slow, plain, and right to the eye.

pub mod share_partition;
