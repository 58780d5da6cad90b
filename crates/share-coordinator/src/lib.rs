//! Share partitions, share sessions and the state they keep.

mod acknowledge_type;
mod acknowledgement;
mod record_state;
mod shard;
mod share_partition;
mod share_sessions;
mod state_batch;
mod state_record;

pub use acknowledge_type::AcknowledgeType;
pub use acknowledgement::{AcknowledgeRules, AcknowledgementBatch, check_acknowledgements};
pub use record_state::RecordState;
pub use shard::{
    EndTransactionMarker, InitializeState, ReadDecision, ReadState, Resolution, ResolutionPolicy,
    ResolvedPartition, ShareCoordinatorConfig, ShareCoordinatorShard, StateSummary, TransactionOutcome,
    WriteState,
};
pub use share_partition::{
    AcquireMode, AcquireRequest, AcquiredRange, Change, FetchedBatch, FetchedRun, RecordRun, ResolvedRange,
    SharePartition, SharePartitionConfig, StageRules, StatePlan, TransitionId,
};
pub use share_sessions::{
    ClosedConnection, ClosedSession, ConnectionId, PartitionOutcome, SessionFetch, SessionPlan,
    ShareSessionKey, ShareSessions, ShareSessionsConfig,
};
pub use state_batch::{Staged, StateBatch};
pub use state_record::{StateChange, StateRecord, StateRecordError, StateSnapshot, StateUpdate};
