//! Requests that have called another node and wait for its answer before they go on.

use std::collections::BTreeMap;

use super::describe_share_group_offsets::DescribeOffsetsOperation;
use super::group_admin::GroupAdminOperation;
use super::produce::ProduceOperation;
use super::share_acknowledge::AcknowledgeOperation;
use super::stages::StageOperation;
use super::txn_offset_commit::TxnOffsetCommitOperation;

/// Names a waiting request of one node; never used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct OperationId(u64);

/// A request that waits for crossings.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// A ShareAcknowledge or ShareFetch whose acknowledgements are being stored.
    Acknowledge(Box<AcknowledgeOperation>),
    /// A DescribeShareGroupOffsets whose states are being told.
    DescribeShareGroupOffsets(Box<DescribeOffsetsOperation>),
    /// An administrator's request about share groups, whose states are being changed.
    GroupAdmin(Box<GroupAdminOperation>),
    /// A request whose acknowledgements become part of a transaction.
    Stage(Box<StageOperation>),
    /// A Produce whose transaction is being looked up.
    Produce(Box<ProduceOperation>),
    /// A TxnOffsetCommit whose transaction is being looked up.
    TxnOffsetCommit(Box<TxnOffsetCommitOperation>),
}

impl Operation {
    /// Has it wait for more crossings than it knows of, if it counts them.
    pub(super) fn expect_more(&mut self, count: usize) {
        match self {
            Self::DescribeShareGroupOffsets(operation) => operation.expect_more(count),
            Self::GroupAdmin(operation) => operation.expect_more(count),
            Self::Acknowledge(_) | Self::Stage(_) | Self::Produce(_) | Self::TxnOffsetCommit(_) => {}
        }
    }
}

/// The waiting requests of one node. A connection has one request in the broker at a time, which bounds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    next_id: u64,
    waiting: BTreeMap<OperationId, Operation>,
}

impl Operations {
    /// Keeps a request until its crossings are complete.
    pub(super) fn begin(&mut self, operation: Operation) -> OperationId {
        let id = OperationId(self.next_id);
        self.next_id += 1;
        self.waiting.insert(id, operation);
        id
    }

    /// Returns a waiting request.
    pub(super) fn get(&self, id: OperationId) -> Option<&Operation> {
        self.waiting.get(&id)
    }

    /// Returns a waiting request, to note what one of its crossings has brought.
    pub(super) fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.waiting.get_mut(&id)
    }

    /// Returns how many requests wait.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a request out, to go on with it.
    pub(super) fn finish(&mut self, id: OperationId) -> Option<Operation> {
        self.waiting.remove(&id)
    }
}
