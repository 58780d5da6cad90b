//! Faults that people met in other brokers and clients, each as a small case over the wire; `docs/cases.md` says
//! which case is shown where.
//!
//! What Kafka has is asked of a real Kafka as well, so that each expectation is Kafka's own: of the one at
//! `KAFKA_BOOTSTRAP`, else of one that is started for all cases together.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "cases/brokers.rs"]
mod brokers;

#[path = "cases/admin.rs"]
mod admin;
#[path = "cases/batches.rs"]
mod batches;
#[path = "cases/compat.rs"]
mod compat;
#[path = "cases/coordinators.rs"]
mod coordinators;
#[path = "cases/embedded.rs"]
mod embedded;
#[path = "cases/group_tools.rs"]
mod group_tools;
#[path = "cases/page.rs"]
mod page;
#[path = "cases/robustness.rs"]
mod robustness;
#[path = "cases/share.rs"]
mod share;
#[path = "cases/share_odd.rs"]
mod share_odd;
#[path = "cases/sweep.rs"]
mod sweep;
#[path = "cases/topics.rs"]
mod topics;
#[path = "cases/transactions.rs"]
mod transactions;
