//! Share partitions, share sessions and the state they keep.

mod acknowledge_type;
mod record_state;
mod state_batch;

pub use acknowledge_type::AcknowledgeType;
pub use record_state::RecordState;
pub use state_batch::{Staged, StateBatch};
