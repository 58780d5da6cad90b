//! Groups: who belongs to them, and what each member is assigned.
//!
//! One [`GroupCoordinatorShard`] stands over each partition of `__consumer_offsets` and keeps the groups whose
//! id hashes to it. All types of groups share one namespace of ids; share groups (KIP-932) are the only type
//! that is built. Consumer groups (KIP-848), classic groups and committed offsets get a variant of `Group`,
//! a file beside `share_group.rs` and record types of their own in [`GroupRecord`].
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
mod config;
mod consumer_group;
mod epoch;
mod record;
mod refusal;
mod sessions;
mod shard;
mod share_group;
mod topics;

pub use config::{GroupCoordinatorConfig, ShareGroupConfig};
pub use consumer_group::ConsumerGroupState;
pub use epoch::GroupEpoch;
pub use record::{
    ClassicMemberMetadata, ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord,
    ConsumerMemberAssignment, ConsumerMemberMetadata, ConsumerMemberState, GroupRecord, PartitionEpochs,
    ResolvedRegularExpression, ShareAssignmentMetadata, ShareGroupMetadata, ShareMemberAssignment,
    ShareMemberMetadata, ShareStatePartitions, StateTopic,
};
pub use refusal::Refusal;
pub use shard::{ExpiredMember, GroupCoordinatorShard, ListedGroup};
pub use share_group::{
    AlterOffsetsDecision, AlterOffsetsTopic, AlteredTopic, DeleteGroupDecision, DeleteOffsetsDecision,
    DeleteShareStates, DescribedMember, DescribedShareGroup, HeartbeatPlan, InitialiseShareStates,
    InitialiseTopic, ShareGroupState, ShareHeartbeat, ShareHeartbeatAnswer, ShareHeartbeatDecision,
};
pub use topics::{TopicFacts, TopicPartitions, Topics, group_hash, topic_hash};
