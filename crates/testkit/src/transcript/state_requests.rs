//! Commands that ask a share coordinator as leaders and group coordinators do.

use std::fmt::Write;

use sharemark_protocol::messages as m;
use sharemark_protocol::{StrBytes, TopicId};

use m::delete_share_group_state_request::{self as delete, DeleteShareGroupStateRequest};
use m::initialize_share_group_state_request::{self as initialize, InitializeShareGroupStateRequest};
use m::read_share_group_state_summary_request::{self as summary, ReadShareGroupStateSummaryRequest};
use m::write_share_group_state_request::{self as write, WriteShareGroupStateRequest};

use super::arguments::{Arguments, CommandError, offset_range};
use super::names::error;
use super::session::Session;

const NO_PARTITION: &str = "no partition in the answer";

/// `[group=g] t-0`: a share partition as a command names it.
pub(super) struct SharePartitionWord {
    /// The group's id of this run.
    pub(super) group_id: StrBytes,
    /// The partition as it was written.
    pub(super) word: String,
    /// The topic.
    pub(super) topic_id: TopicId,
    /// The partition of it.
    pub(super) partition: i32,
}

/// Reads which share partition a command is about.
pub(super) fn share_partition(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<SharePartitionWord, CommandError> {
    let group = arguments.text("group", "g");
    let word = arguments.word("partition")?;
    let (topic_id, _, partition) = session.partition(&word)?;
    Ok(SharePartitionWord { group_id: session.names.wire(&group), word, topic_id, partition })
}

/// `initialize-share-state [group=g] t-0 [state-epoch=0] [start=-1]`
pub(super) fn initialize_share_state(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let SharePartitionWord { group_id, word, topic_id, partition } = share_partition(session, arguments)?;
    let partition = initialize::PartitionData {
        partition,
        state_epoch: arguments.number("state-epoch", 0)?,
        start_offset: arguments.number("start", -1)?,
    };
    let request = InitializeShareGroupStateRequest {
        group_id,
        topics: vec![initialize::InitializeStateData { topic_id, partitions: vec![partition] }],
    };
    let answer = session.call(&request, 0)?;
    let result = answer.results.first().and_then(|topic| topic.partitions.first()).ok_or(NO_PARTITION)?;
    Ok(format!("{word} {}\n", error(result.error_code)))
}

/// `write-share-state [group=g] t-0 [state-epoch=0] [leader-epoch=0] [start=0] [complete=-1] [0-4:2x1 ...] [version=1]`
pub(super) fn write_share_state(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let SharePartitionWord { group_id, word, topic_id, partition } = share_partition(session, arguments)?;
    let state_batches =
        arguments.words_until("").iter().map(|word| state_batch(word)).collect::<Result<Vec<_>, _>>()?;
    let partition = write::PartitionData {
        partition,
        state_epoch: arguments.number("state-epoch", 0)?,
        leader_epoch: arguments.number("leader-epoch", 0)?,
        start_offset: arguments.number("start", 0)?,
        delivery_complete_count: arguments.number("complete", -1)?,
        state_batches,
    };
    let request = WriteShareGroupStateRequest {
        group_id,
        topics: vec![write::WriteStateData { topic_id, partitions: vec![partition] }],
    };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let result = answer.results.first().and_then(|topic| topic.partitions.first()).ok_or(NO_PARTITION)?;
    Ok(format!("{word} {}\n", error(result.error_code)))
}

/// Reads `0-4:2x1`: offsets, state and delivery count.
fn state_batch(word: &str) -> Result<write::StateBatch, CommandError> {
    let bad = || format!("`{word}` is no state of a range, such as 0-4:2x1");
    let (range, rest) = word.split_once(':').ok_or_else(bad)?;
    let (state, count) = rest.split_once('x').ok_or_else(bad)?;
    let (first_offset, last_offset) = offset_range(range)?;
    Ok(write::StateBatch {
        first_offset,
        last_offset,
        delivery_state: state.parse().map_err(|_| bad())?,
        delivery_count: count.parse().map_err(|_| bad())?,
        ..write::StateBatch::default()
    })
}

/// `delete-share-state [group=g] t-0`
pub(super) fn delete_share_state(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let SharePartitionWord { group_id, word, topic_id, partition } = share_partition(session, arguments)?;
    let request = DeleteShareGroupStateRequest {
        group_id,
        topics: vec![delete::DeleteStateData {
            topic_id,
            partitions: vec![delete::PartitionData { partition }],
        }],
    };
    let answer = session.call(&request, 0)?;
    let result = answer.results.first().and_then(|topic| topic.partitions.first()).ok_or(NO_PARTITION)?;
    Ok(format!("{word} {}\n", error(result.error_code)))
}

/// `read-share-summary [group=g] t-0 [leader-epoch=0] [version=1]`
pub(super) fn read_share_summary(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let SharePartitionWord { group_id, word, topic_id, partition } = share_partition(session, arguments)?;
    let partition = summary::PartitionData { partition, leader_epoch: arguments.number("leader-epoch", 0)? };
    let request = ReadShareGroupStateSummaryRequest {
        group_id,
        topics: vec![summary::ReadStateSummaryData { topic_id, partitions: vec![partition] }],
    };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let result = answer.results.first().and_then(|topic| topic.partitions.first()).ok_or(NO_PARTITION)?;
    let mut output = format!("{word} {}", error(result.error_code));
    if result.error_code == 0 {
        let _ = write!(
            output,
            " state_epoch={} leader_epoch={} start={} complete={}",
            result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
        );
    }
    Ok(output + "\n")
}
