//! The verbs that look.

use super::ControlError;
use crate::broker::{LeaderView, Missing, SharePartitionView, TransactionInspection};
use crate::shell::desk::Desk;
use crate::shell::requests::RequestView;

impl From<Missing> for ControlError {
    fn from(missing: Missing) -> Self {
        let text = match missing {
            Missing::Partition => "there is no such partition",
            Missing::SharePartition => "no state of that partition is stored for such a group",
            Missing::Transaction => "no coordinator knows such a transactional id",
        };
        Self::NotFound(text.to_owned())
    }
}

/// Shows the share partition of a group in a partition of a topic.
pub(in crate::shell) fn share_partition(
    desk: &mut dyn Desk,
    group_id: &str,
    topic: &str,
    partition: i32,
) -> Result<SharePartitionView, ControlError> {
    let now = desk.clock().now();
    Ok(desk.broker().inspect_share_partition(now, group_id, topic, partition)?)
}

/// Shows all transactional ids.
pub(in crate::shell) fn transactions(
    desk: &mut dyn Desk,
) -> Result<Vec<TransactionInspection>, ControlError> {
    let now = desk.clock().now();
    Ok(desk.broker().inspect_transactions(now))
}

/// Shows one transactional id.
pub(in crate::shell) fn transaction(
    desk: &mut dyn Desk,
    transactional_id: &str,
) -> Result<TransactionInspection, ControlError> {
    let now = desk.clock().now();
    Ok(desk.broker().inspect_transaction(now, transactional_id)?)
}

/// Shows who leads what.
pub(in crate::shell) fn leaders(desk: &mut dyn Desk) -> Result<Vec<LeaderView>, ControlError> {
    Ok(desk.broker().inspect_leaders())
}

/// Shows the last requests.
pub(in crate::shell) fn requests(
    desk: &mut dyn Desk,
    count: usize,
) -> Result<Vec<RequestView>, ControlError> {
    Ok(desk.requests().last(count))
}
