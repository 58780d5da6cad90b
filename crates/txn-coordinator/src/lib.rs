//! Producer ids, epochs, transactions and the markers they owe: the shard of `__transaction_state`.
//!
//! A shard is one partition of that topic. `decide_*` judges a request and returns the record to append;
//! `replay` applies it, live and at recovery alike; markers owed are a queue that `replay` fills.

mod config;
mod markers;
mod producer_ids;
mod record;
mod shard;
mod state;
mod supported_operation;
mod sweep;
mod version;

pub use config::TxnConfig;
pub use markers::{Marker, MarkerKey, MarkerProgress};
pub use producer_ids::{ProducerIdBlock, ProducerIdCounter, ProducerIds};
pub use record::{TransactionRecord, TransactionRecordError, TransactionValue};
pub use shard::{
    AddPartitions, EndTxn, EndTxnPlan, InitProducerId, InitProducerIdPlan, ListFilter, TransactionListing,
    TransactionOutcome, TransactionView, TxnCoordinatorShard,
};
pub use state::{Outcome, TransactionState};
pub use supported_operation::SupportedOperation;
pub use version::{
    FENCED_SINCE, INIT_PRODUCER_ID_FENCED_SINCE, TransactionVersion, fenced_error_for, known_producer,
};
