//! Commands that read the internal topics as any consumer may, and the share coordinator's state.

use std::fmt::Write;

use bytes::Bytes;
use sharemark_protocol::messages as m;
use sharemark_protocol::{Message, Records};

use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use m::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use m::metadata_request::{MetadataRequest, MetadataRequestTopic};
use m::read_share_group_state_request::{self as read, ReadShareGroupStateRequest};
use m::share_snapshot_key::ShareSnapshotKey;
use m::share_snapshot_value::ShareSnapshotValue;
use m::share_update_key::ShareUpdateKey;
use m::share_update_value::ShareUpdateValue;
use m::transaction_log_key::TransactionLogKey;
use m::transaction_log_value::TransactionLogValue;

use super::arguments::{Arguments, CommandError};
use super::names::error;
use super::session::Session;
use super::state_requests::{SharePartitionWord, share_partition};
use crate::records::{Batch, decode_batches};

const SHARE_GROUP_STATE: &str = "__share_group_state";
const TRANSACTION_STATE: &str = "__transaction_state";
/// The newest version that names topics.
const FETCH_VERSION: i16 = 12;
const METADATA_VERSION: i16 = 9;
const LIST_OFFSETS_VERSION: i16 = 6;
/// The timestamp that asks for the first offset.
const EARLIEST: i64 = -2;

/// Reads a whole topic, partition by partition, uncommitted.
pub(super) fn read_topic(session: &mut Session<'_>, topic: &str) -> Result<Vec<Batch>, CommandError> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(topic.to_owned().into()),
            ..MetadataRequestTopic::default()
        }]),
        ..MetadataRequest::default()
    };
    let answer = session.call(&request, METADATA_VERSION)?;
    let partition_count = answer.topics.first().map_or(0, |topic| topic.partitions.len());
    let mut batches = Vec::new();
    for partition in 0..partition_count {
        let partition = i32::try_from(partition).map_err(|error| error.to_string())?;
        let mut offset = first_offset(session, topic, partition)?;
        loop {
            let read = read_from(session, topic, partition, offset)?;
            let Some(last) = read.last() else { break };
            offset = last.last_offset() + 1;
            batches.extend(read);
        }
    }
    Ok(batches)
}

/// Returns where a partition begins: a state topic is pruned.
fn first_offset(session: &mut Session<'_>, topic: &str, partition_index: i32) -> Result<i64, CommandError> {
    let partition = ListOffsetsPartition { partition_index, current_leader_epoch: -1, timestamp: EARLIEST };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic { name: topic.to_owned().into(), partitions: vec![partition] }],
        ..ListOffsetsRequest::default()
    };
    let answer = session.call(&request, LIST_OFFSETS_VERSION)?;
    let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
    Ok(partition.ok_or("no partition in the answer")?.offset.max(0))
}

fn read_from(
    session: &mut Session<'_>,
    topic: &str,
    partition: i32,
    fetch_offset: i64,
) -> Result<Vec<Batch>, CommandError> {
    let partition = FetchPartition {
        partition,
        current_leader_epoch: -1,
        fetch_offset,
        partition_max_bytes: 4 << 20,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        replica_id: -1,
        max_bytes: 4 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: topic.to_owned().into(),
            partitions: vec![partition],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = session.call(&request, FETCH_VERSION)?;
    let data = answer
        .responses
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    if data.error_code != 0 {
        return Err(format!("{topic}: {}", error(data.error_code)));
    }
    let bytes = data.records.as_ref().map(Records::to_bytes).unwrap_or_default();
    decode_batches(&bytes).map_err(|error| error.to_string())
}

/// Keeps the lines that an earlier look at `what` has not shown.
pub(super) fn unseen(session: &mut Session<'_>, what: String, lines: Vec<String>) -> String {
    let seen = session.seen.insert(what, lines.len()).unwrap_or(0);
    let fresh = lines.get(seen..).unwrap_or_default().concat();
    if fresh.is_empty() { "nothing new\n".into() } else { fresh }
}

/// `share-log [group=g] [markers] [whole]`: what `__share_group_state` got for the group since the last look, or with
/// `whole` all that it holds.
///
/// With `markers`, also the ends of transactions, of whatever group.
pub(super) fn share_log(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let with_markers = arguments.flag("markers");
    let whole = arguments.flag("whole");
    session.settle(); // Lapsed locks are written without anybody waiting.
    let mut lines = Vec::new();
    for batch in read_topic(session, SHARE_GROUP_STATE)? {
        if let Some(committed) = batch.marker() {
            if with_markers {
                let producer = session.names.producer(batch.producer_id);
                let outcome = if committed { "COMMIT" } else { "ABORT" };
                lines.push(format!("marker {outcome} {producer}/{}\n", batch.producer_epoch));
            }
            continue;
        }
        let owner = if batch.transactional {
            format!(" transactional {}/{}", session.names.producer(batch.producer_id), batch.producer_epoch)
        } else {
            String::new()
        };
        for record in &batch.records {
            if let Some(line) = share_record(session, &group, record.key.as_ref(), record.value.as_ref())? {
                lines.push(format!("{line}{owner}\n"));
            }
        }
    }
    if whole {
        return Ok(lines.concat());
    }
    Ok(unseen(session, format!("share-log {group}"), lines))
}

fn share_record(
    session: &mut Session<'_>,
    group: &str,
    key: Option<&Bytes>,
    value: Option<&Bytes>,
) -> Result<Option<String>, CommandError> {
    let group = session.names.wire(group);
    let bad =
        |error: sharemark_protocol::DecodeError| format!("a bad record of {SHARE_GROUP_STATE}: {error}");
    let Some(key) = key else { return Ok(None) };
    if key.starts_with(&[0, 0]) {
        let key = ShareSnapshotKey::from_key_bytes(key).map_err(bad)?;
        if key.group_id != group {
            return Ok(None);
        }
        let name = format!("{}-{}", session.names.topic(key.topic_id), key.partition);
        let Some(value) = value else { return Ok(Some(format!("{name} tombstone"))) };
        let (_, value) = ShareSnapshotValue::from_versioned_bytes(value).map_err(bad)?;
        let mut line = format!(
            "{name} snapshot={} leader_epoch={} start={} complete={}",
            value.snapshot_epoch, value.leader_epoch, value.start_offset, value.delivery_complete_count
        );
        for batch in &value.state_batches {
            line += &batch_text(
                batch.first_offset,
                batch.last_offset,
                batch.delivery_state,
                batch.delivery_count,
            );
            let staged = (batch.staged_ack_type, batch.staged_delivery_state);
            line += &owner_text(session, batch.staged_producer_id, batch.staged_producer_epoch, staged);
        }
        return Ok(Some(line));
    }
    let key = ShareUpdateKey::from_key_bytes(key).map_err(bad)?;
    let Some(value) = value.filter(|_| key.group_id == group) else { return Ok(None) };
    let (_, value) = ShareUpdateValue::from_versioned_bytes(value).map_err(bad)?;
    let mut line = format!(
        "{}-{} update={} leader_epoch={} start={} complete={}",
        session.names.topic(key.topic_id),
        key.partition,
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count
    );
    for batch in &value.state_batches {
        line +=
            &batch_text(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count);
        let staged = (batch.staged_ack_type, batch.staged_delivery_state);
        line += &owner_text(session, batch.staged_producer_id, batch.staged_producer_epoch, staged);
    }
    Ok(Some(line))
}

fn batch_text(first: i64, last: i64, state: i8, count: i16) -> String {
    format!(" {first}-{last}:{}x{count}", state_text(state))
}

/// The owner of a pending batch, such as `(id1/0 accept->ACKNOWLEDGED)`; nothing where none of it is set.
fn owner_text(session: &mut Session<'_>, id: i64, epoch: i16, (ack_type, state): (i8, i8)) -> String {
    if (id, epoch, ack_type, state) == (-1, -1, -1, -1) {
        return String::new();
    }
    let ack_type = match ack_type {
        0 => "gap".to_owned(),
        1 => "accept".to_owned(),
        3 => "reject".to_owned(),
        other => other.to_string(),
    };
    format!("({}/{epoch} {ack_type}->{})", session.names.producer(id), state_text(state))
}

const fn state_text(state: i8) -> &'static str {
    match state {
        0 => "AVAILABLE",
        1 => "ACQUIRED",
        2 => "ACKNOWLEDGED",
        3 => "ARCHIVING",
        4 => "ARCHIVED",
        5 => "TX_PENDING",
        _ => "UNKNOWN",
    }
}

/// `txn-log x`: what `__transaction_state` got for the transactional id since the last look.
pub(super) fn txn_log(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let id = arguments.word("transactional id")?;
    let wire_id = session.names.wire(&id);
    let bad =
        |error: sharemark_protocol::DecodeError| format!("a bad record of {TRANSACTION_STATE}: {error}");
    let mut lines = Vec::new();
    for batch in read_topic(session, TRANSACTION_STATE)? {
        for record in &batch.records {
            let Some(key) = &record.key else { continue };
            if TransactionLogKey::from_key_bytes(key).map_err(bad)?.transactional_id != wire_id {
                continue;
            }
            lines.push(match &record.value {
                None => "tombstone\n".to_owned(),
                Some(value) => {
                    let (version, value) = TransactionLogValue::from_versioned_bytes(value).map_err(bad)?;
                    transaction_record(session, version, &value)
                }
            });
        }
    }
    Ok(unseen(session, format!("txn-log {id}"), lines))
}

fn transaction_record(session: &mut Session<'_>, version: i16, value: &TransactionLogValue) -> String {
    let status = match value.transaction_status {
        0 => "Empty",
        1 => "Ongoing",
        2 => "PrepareCommit",
        3 => "PrepareAbort",
        4 => "CompleteCommit",
        5 => "CompleteAbort",
        6 => "Dead",
        7 => "PrepareEpochFence",
        _ => "unknown",
    };
    let mut line = format!(
        "v{version} {status} producer={}/{} previous={} next={}/{} client_version={} timeout_ms={}",
        session.names.producer(value.producer_id),
        value.producer_epoch,
        session.names.producer(value.previous_producer_id),
        session.names.producer(value.next_producer_id),
        value.next_producer_epoch,
        value.client_transaction_version,
        value.transaction_timeout_ms
    );
    match &value.transaction_partitions {
        None => line.push_str(" partitions=null"),
        Some(topics) => {
            let mut names: Vec<String> = topics
                .iter()
                .flat_map(|topic| {
                    let name = session.names.shown(&topic.topic);
                    topic.partition_ids.iter().map(move |partition| format!("{name}-{partition}"))
                })
                .collect();
            names.sort();
            let _ = write!(line, " partitions={}", names.join(","));
        }
    }
    line + "\n"
}

/// `read-share-state [group=g] t-0 [leader-epoch=0]`: the request by which a leader reads its state.
pub(super) fn read_share_state(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let SharePartitionWord { group_id, word, topic_id, partition } = share_partition(session, arguments)?;
    session.settle();
    let partition = read::PartitionData { partition, leader_epoch: arguments.number("leader-epoch", 0)? };
    let request = ReadShareGroupStateRequest {
        group_id,
        topics: vec![read::ReadStateData { topic_id, partitions: vec![partition] }],
    };
    let answer = session.call(&request, 0)?;
    let result = answer
        .results
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    let mut output = format!("{word} {}", error(result.error_code));
    if result.error_code == 0 {
        let _ = write!(output, " start={}", result.start_offset);
        for batch in &result.state_batches {
            output += &batch_text(
                batch.first_offset,
                batch.last_offset,
                batch.delivery_state,
                batch.delivery_count,
            );
        }
    }
    Ok(output + "\n")
}
