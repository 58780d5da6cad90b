//! Sharemark: a broker for testing Kafka queues and transactions.
//!
//! [`broker`] is the deterministic core, [`config`] what can be configured; `shell` gives them threads, sockets, a
//! clock and a command line.

pub mod broker;
pub mod config;
#[cfg(feature = "shell")]
pub mod shell;

pub use broker::{
    Fault, FaultAction, FaultPoint, FaultView, LeaderView, NodeState, RecordsView, SharePartitionView,
    TransactionInspection,
};
pub use sharemark_protocol::{ApiKey, ErrorCode, NodeId};
pub use sharemark_share_coordinator::RecordState;
pub use sharemark_txn_coordinator::TransactionState;
#[cfg(feature = "shell")]
pub use shell::{ClockView, ControlError, NodeAddresses, RequestView, Server, ServerBuilder, ServerError};
