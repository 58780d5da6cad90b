mod harness;
mod producers;
mod property;
mod recovery;
mod rows;
mod timeouts;
mod views;
