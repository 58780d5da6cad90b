//! The records of consumer groups (KIP-848): types 3 to 8 and 16.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::{MemberEpoch, Timestamp, TopicId};

use crate::{GroupEpoch, TopicPartitions};

mod codec;

/// Partitions by the id of their topic, each with the epoch at which a member got it. No set of partitions is empty.
pub type PartitionEpochs = BTreeMap<TopicId, BTreeMap<i32, i32>>;

/// One record of a consumer group. A missing value is a tombstone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConsumerGroupRecord {
    /// Type 3: the group's epoch was raised; its tombstone removes the group.
    Metadata {
        /// The group.
        group_id: Arc<str>,
        /// The new epoch.
        value: Option<ConsumerGroupMetadata>,
    },
    /// Type 4: the topics' metadata, which Kafka 4.0 wrote and which later ones remove.
    PartitionMetadata {
        /// The group.
        group_id: Arc<str>,
        /// The value's bytes, which mean nothing any more.
        value: Option<Bytes>,
    },
    /// Type 5: a member joined, changed what it says of itself, or is gone.
    MemberMetadata {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// What the member said of itself.
        value: Option<ConsumerMemberMetadata>,
    },
    /// Type 6: the target assignment was computed for this epoch.
    TargetAssignmentMetadata {
        /// The group.
        group_id: Arc<str>,
        /// When and for which epoch.
        value: Option<ConsumerAssignmentMetadata>,
    },
    /// Type 7: what the target assignment gives to a member.
    TargetAssignmentMember {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// The partitions.
        value: Option<TopicPartitions>,
    },
    /// Type 8: how far a member is on its way to its target.
    CurrentMemberAssignment {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// Epochs and partitions.
        value: Option<ConsumerMemberAssignment>,
    },
    /// Type 16: which topics a regular expression matches.
    RegularExpression {
        /// The group.
        group_id: Arc<str>,
        /// The expression as a member wrote it.
        regex: Arc<str>,
        /// The topics.
        value: Option<ResolvedRegularExpression>,
    },
}

/// The head of a consumer group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConsumerGroupMetadata {
    /// Its epoch.
    pub epoch: GroupEpoch,
    /// The hash over the metadata of all subscribed topics that exist; 0 for none.
    pub metadata_hash: i64,
}

/// What a member of a consumer group says of itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerMemberMetadata {
    /// The instance, if the member is static.
    pub instance_id: Option<Arc<str>>,
    /// The rack, if it named one.
    pub rack_id: Option<Arc<str>>,
    /// The client id of its requests.
    pub client_id: Arc<str>,
    /// The address its requests come from, with Java's leading slash.
    pub client_host: Arc<str>,
    /// The names of the topics it wants, which need not exist.
    pub subscribed_topic_names: BTreeSet<Arc<str>>,
    /// The expression that names further topics; empty if it took one back.
    pub subscribed_topic_regex: Option<Arc<str>>,
    /// How long it may take to give partitions up, in milliseconds; `None` if it never said.
    pub rebalance_timeout_ms: Option<i32>,
    /// The assignor it asks for.
    pub server_assignor: Option<Arc<str>>,
    /// What it sent in its `JoinGroup`, if it speaks the classic protocol.
    pub classic: Option<ClassicMemberMetadata>,
}

/// What a consumer group keeps of a member that speaks the classic protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassicMemberMetadata {
    /// After what silence it is removed, in milliseconds.
    pub session_timeout_ms: i32,
    /// The names of its assignors, each with its subscription's bytes.
    pub supported_protocols: Vec<(Arc<str>, Bytes)>,
}

/// The head of a target assignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConsumerAssignmentMetadata {
    /// The group epoch it was computed for.
    pub epoch: GroupEpoch,
    /// When; `None` if the next may be computed at once.
    pub timestamp: Option<Timestamp>,
}

/// How far a member is on its way to its target.
///
/// ```text
///                    +------------------- a new target takes partitions -------------------+
///                    v                                                                     |
///   Stable -> UnrevokedPartitions -- given up --> UnreleasedPartitions -- all free --> Stable
///     |                            (or at once to Stable)       ^
///     +------------ a new target's partitions are with others --+
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConsumerMemberState {
    /// It has what its target gives it.
    Stable,
    /// It was told to give partitions up and has not said that it did.
    UnrevokedPartitions,
    /// It waits for partitions that others have not given up.
    UnreleasedPartitions,
    /// A number that this broker does not know: the member has to join anew.
    Unknown,
}

/// What a member of a consumer group was told to consume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerMemberAssignment {
    /// The epoch it was told; -2 for a static member that will come back.
    pub member_epoch: MemberEpoch,
    /// The epoch before, still accepted from a member that has no more than it was told; `None` if there was none.
    pub previous_member_epoch: Option<MemberEpoch>,
    /// How far it is.
    pub state: ConsumerMemberState,
    /// The partitions it has.
    pub assigned: PartitionEpochs,
    /// The partitions it was told to give up.
    pub pending_revocation: PartitionEpochs,
}

/// The topics that a regular expression matched.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResolvedRegularExpression {
    /// Their names.
    pub topics: BTreeSet<Arc<str>>,
    /// The version of the cluster's topics that was searched.
    pub version: i64,
    /// When, in milliseconds since the epoch.
    pub timestamp_ms: i64,
}

impl ConsumerGroupRecord {
    /// Returns the group that the record concerns.
    pub fn group_id(&self) -> &Arc<str> {
        match self {
            Self::Metadata { group_id, .. }
            | Self::PartitionMetadata { group_id, .. }
            | Self::MemberMetadata { group_id, .. }
            | Self::TargetAssignmentMetadata { group_id, .. }
            | Self::TargetAssignmentMember { group_id, .. }
            | Self::CurrentMemberAssignment { group_id, .. }
            | Self::RegularExpression { group_id, .. } => group_id,
        }
    }

    /// Returns whether the record removes what it names.
    pub const fn is_tombstone(&self) -> bool {
        match self {
            Self::Metadata { value, .. } => value.is_none(),
            Self::PartitionMetadata { value, .. } => value.is_none(),
            Self::MemberMetadata { value, .. } => value.is_none(),
            Self::TargetAssignmentMetadata { value, .. } => value.is_none(),
            Self::TargetAssignmentMember { value, .. } => value.is_none(),
            Self::CurrentMemberAssignment { value, .. } => value.is_none(),
            Self::RegularExpression { value, .. } => value.is_none(),
        }
    }

    /// Returns the number that starts the record's key.
    pub const fn record_type(&self) -> i16 {
        match self {
            Self::Metadata { .. } => 3,
            Self::PartitionMetadata { .. } => 4,
            Self::MemberMetadata { .. } => 5,
            Self::TargetAssignmentMetadata { .. } => 6,
            Self::TargetAssignmentMember { .. } => 7,
            Self::CurrentMemberAssignment { .. } => 8,
            Self::RegularExpression { .. } => 16,
        }
    }
}
