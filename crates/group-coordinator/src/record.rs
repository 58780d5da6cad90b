//! What the coordinator writes to `__consumer_offsets`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{MemberEpoch, Timestamp, TopicId};

use crate::{GroupEpoch, TopicPartitions};

mod classic;
mod codec;
mod consumer;

pub use classic::{ClassicGroupMember, ClassicGroupMetadata, CommittedOffset};
pub use consumer::{
    ClassicMemberMetadata, ConsumerAssignmentMetadata, ConsumerGroupMetadata, ConsumerGroupRecord,
    ConsumerMemberAssignment, ConsumerMemberMetadata, ConsumerMemberState, PartitionEpochs,
    ResolvedRegularExpression,
};

/// One record of `__consumer_offsets`. A missing value is a tombstone.
///
/// Types 0 and 1 are committed offsets, 2 is a classic group, 3 to 8 and 16 are consumer groups, 10 to 15 are
/// share groups.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GroupRecord {
    /// Types 3 to 8 and 16: a consumer group.
    Consumer(ConsumerGroupRecord),
    /// Type 1, and 0 when it is read: an offset was committed, or is gone.
    OffsetCommit {
        /// The group.
        group_id: Arc<str>,
        /// The topic's name.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// What was committed.
        value: Option<CommittedOffset>,
    },
    /// Type 2: the state of a classic group; its tombstone removes the group.
    ClassicGroup {
        /// The group.
        group_id: Arc<str>,
        /// Its generation.
        value: Option<ClassicGroupMetadata>,
    },
    /// Type 10: a member joined, changed its subscription, or is gone.
    ShareGroupMemberMetadata {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// What the member said of itself.
        value: Option<ShareMemberMetadata>,
    },
    /// Type 11: the group's epoch was raised; its tombstone removes the group.
    ShareGroupMetadata {
        /// The group.
        group_id: Arc<str>,
        /// The new epoch.
        value: Option<ShareGroupMetadata>,
    },
    /// Type 12: the target assignment was computed for this epoch.
    ShareGroupTargetAssignmentMetadata {
        /// The group.
        group_id: Arc<str>,
        /// When and for which epoch.
        value: Option<ShareAssignmentMetadata>,
    },
    /// Type 13: what the target assignment gives to a member.
    ShareGroupTargetAssignmentMember {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// The partitions.
        value: Option<TopicPartitions>,
    },
    /// Type 14: what a member was told, and its epoch.
    ShareGroupCurrentMemberAssignment {
        /// The group.
        group_id: Arc<str>,
        /// The member.
        member_id: Arc<str>,
        /// Epochs and partitions.
        value: Option<ShareMemberAssignment>,
    },
    /// Type 15: which share partitions have a state, will have one, or are losing it.
    ShareGroupStatePartitionMetadata {
        /// The group.
        group_id: Arc<str>,
        /// The partitions.
        value: Option<ShareStatePartitions>,
    },
}

/// What a member of a share group says of itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShareMemberMetadata {
    /// The rack, if it named one.
    pub rack_id: Option<Arc<str>>,
    /// The client id of its requests.
    pub client_id: Arc<str>,
    /// The address its requests come from, with Java's leading slash.
    pub client_host: Arc<str>,
    /// The names of the topics it wants, which need not exist.
    pub subscribed_topic_names: BTreeSet<Arc<str>>,
}

/// The head of a share group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShareGroupMetadata {
    /// Its epoch.
    pub epoch: GroupEpoch,
    /// The hash over the metadata of all subscribed topics that exist; 0 for none.
    pub metadata_hash: i64,
}

/// The head of a target assignment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShareAssignmentMetadata {
    /// The group epoch it was computed for.
    pub epoch: GroupEpoch,
    /// When; `None` if the next may be computed at once.
    pub timestamp: Option<Timestamp>,
}

/// What a member of a share group was told to consume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShareMemberAssignment {
    /// The epoch it was told.
    pub member_epoch: MemberEpoch,
    /// The epoch before, still accepted since the answer may have been lost; `None` if there was none.
    pub previous_member_epoch: Option<MemberEpoch>,
    /// The partitions.
    pub partitions: TopicPartitions,
}

/// The share partitions of a group at the share coordinator.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ShareStatePartitions {
    /// Those that the share coordinator was asked to initialise.
    pub initialising: BTreeMap<TopicId, StateTopic>,
    /// Those that it confirmed; only these are assigned.
    pub initialised: BTreeMap<TopicId, StateTopic>,
    /// The names of topics whose state is being deleted.
    pub deleting: BTreeMap<TopicId, Arc<str>>,
}

/// Partitions of one topic that have, or will have, a share-partition state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StateTopic {
    /// The topic's name.
    pub name: Arc<str>,
    /// The partitions, never empty.
    pub partitions: BTreeSet<i32>,
}

impl GroupRecord {
    /// Returns the group that the record concerns.
    pub fn group_id(&self) -> &Arc<str> {
        match self {
            Self::Consumer(record) => record.group_id(),
            Self::OffsetCommit { group_id, .. }
            | Self::ClassicGroup { group_id, .. }
            | Self::ShareGroupMemberMetadata { group_id, .. }
            | Self::ShareGroupMetadata { group_id, .. }
            | Self::ShareGroupTargetAssignmentMetadata { group_id, .. }
            | Self::ShareGroupTargetAssignmentMember { group_id, .. }
            | Self::ShareGroupCurrentMemberAssignment { group_id, .. }
            | Self::ShareGroupStatePartitionMetadata { group_id, .. } => group_id,
        }
    }

    /// Returns whether the record removes what it names.
    pub const fn is_tombstone(&self) -> bool {
        match self {
            Self::Consumer(record) => record.is_tombstone(),
            Self::OffsetCommit { value, .. } => value.is_none(),
            Self::ClassicGroup { value, .. } => value.is_none(),
            Self::ShareGroupMemberMetadata { value, .. } => value.is_none(),
            Self::ShareGroupMetadata { value, .. } => value.is_none(),
            Self::ShareGroupTargetAssignmentMetadata { value, .. } => value.is_none(),
            Self::ShareGroupTargetAssignmentMember { value, .. } => value.is_none(),
            Self::ShareGroupCurrentMemberAssignment { value, .. } => value.is_none(),
            Self::ShareGroupStatePartitionMetadata { value, .. } => value.is_none(),
        }
    }

    /// Returns the number that starts the record's key.
    pub const fn record_type(&self) -> i16 {
        match self {
            Self::Consumer(record) => record.record_type(),
            Self::OffsetCommit { .. } => 1,
            Self::ClassicGroup { .. } => 2,
            Self::ShareGroupMemberMetadata { .. } => 10,
            Self::ShareGroupMetadata { .. } => 11,
            Self::ShareGroupTargetAssignmentMetadata { .. } => 12,
            Self::ShareGroupTargetAssignmentMember { .. } => 13,
            Self::ShareGroupCurrentMemberAssignment { .. } => 14,
            Self::ShareGroupStatePartitionMetadata { .. } => 15,
        }
    }
}
