//! A broker for testing Kafka queues and transactions.

pub mod config;
