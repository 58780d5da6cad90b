//! The tests live beside this file.
