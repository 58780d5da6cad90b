//! Groups: who belongs to them, and what each member is assigned.
//!
//! One [`GroupCoordinatorShard`] stands over each partition of `__consumer_offsets` and keeps the groups whose
//! id hashes to it, with their committed offsets. All types of groups share one namespace of ids; each type has
//! a variant of `Group`, a file named after it and record types of its own in [`GroupRecord`].
//!
//! A request is decided without changing anything, its records are appended to the log and replayed, then what
//! is not in the log (sessions, crossings that are out) is applied:
//!
//! ```text
//! decide_share_heartbeat -> append -> replay (each record) -> apply_share_heartbeat -> answer
//!                                                          -> cross to the share coordinator
//!     decide_states_initialised, decide_states_not_initialised <- its completion or failure, a later input
//! ```

mod assignor;
mod classic_group;
mod config;
mod consumer_group;
mod embedded;
mod epoch;
mod group_deadlines;
mod offsets;
mod record;
mod refusal;
mod sessions;
mod shard;
mod share_group;
mod topics;

pub use classic_group::{
    Caller, ClassicAnswer, ClassicGroupConfig, ClassicHeartbeat, ClassicHeartbeatDecision, ClassicPlan,
    CommitDecision, CommitOffsets, DescribedClassicGroup, DescribedClassicMember, JoinAnswer, JoinGroup,
    JoinedMember, LeaveAnswer, LeavingMember, OffsetToCommit, SyncAnswer, SyncGroup,
};
pub use config::{ConsumerGroupConfig, GroupCoordinatorConfig, MigrationPolicy, ShareGroupConfig};
pub use consumer_group::{
    ConsumerAssignor, ConsumerGroupState, ConsumerHeartbeat, ConsumerHeartbeatAnswer,
    ConsumerHeartbeatDecision, ConsumerHeartbeatPlan, DescribedConsumer, DescribedConsumerGroup,
};
pub use epoch::GroupEpoch;
pub use record::{
    ClassicGroupMember, ClassicGroupMetadata, ClassicMemberMetadata, CommittedOffset,
    ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord, ConsumerMemberAssignment,
    ConsumerMemberMetadata, ConsumerMemberState, GroupRecord, PartitionEpochs, ResolvedRegularExpression,
    ShareAssignmentMetadata, ShareGroupMetadata, ShareMemberAssignment, ShareMemberMetadata,
    ShareStatePartitions, StateTopic,
};
pub use refusal::Refusal;
pub use shard::{ExpiredMember, FetchedOffset, GroupCoordinatorShard, ListedGroup, OffsetDeleteDecision};
pub use share_group::{
    AlterOffsetsDecision, AlterOffsetsTopic, AlteredTopic, DeleteGroupDecision, DeleteOffsetsDecision,
    DeleteShareStates, DescribedMember, DescribedShareGroup, HeartbeatPlan, InitialiseShareStates,
    InitialiseTopic, MEMBER_ID_LENGTH_MAX, ShareGroupState, ShareHeartbeat, ShareHeartbeatAnswer,
    ShareHeartbeatDecision,
};
pub use topics::{TopicFacts, TopicPartitions, Topics, group_hash, topic_hash};
