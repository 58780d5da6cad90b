//! Commands of share consumers: share-fetch, share-acknowledge, and waiting for an answer.

use std::fmt::Write;
use std::time::Duration;

use sharemark_protocol::Records;
use sharemark_protocol::messages as m;

use m::share_acknowledge_request::{self as acknowledge, ShareAcknowledgeRequest};
use m::share_fetch_request::{self as fetch, ShareFetchRequest};
use m::share_fetch_response::{PartitionData, ShareFetchResponse};

use super::arguments::{Arguments, CommandError, offset_range};
use super::groups::group_and_member;
use super::names::error;
use super::session::Session;
use crate::records::decode_batches;

const AWAIT_MAX: Duration = Duration::from_secs(30);
/// Long enough for what a busy Kafka does on other threads, such as loading a share partition.
const WAIT_MS: i32 = 1500;

/// Acknowledgements of one partition: the partition's word, then first offset, last offset and types of each range.
pub(super) type PartitionAcks = (String, Vec<(i64, i64, Vec<i8>)>);

/// Reads `t-0 accept 0-3 release 4 types:1/2/3 5-7 t-1 reject 0`.
///
/// # Errors
///
/// Returns the first word that fits nowhere.
pub(super) fn acknowledgements(words: &[String]) -> Result<Vec<PartitionAcks>, CommandError> {
    let mut partitions: Vec<PartitionAcks> = Vec::new();
    let mut types: Option<Vec<i8>> = None;
    for word in words {
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let (first, last) = offset_range(word)?;
            let types = types.clone().ok_or_else(|| format!("`{word}` comes before any type"))?;
            let (_, ranges) =
                partitions.last_mut().ok_or_else(|| format!("`{word}` comes before any partition"))?;
            ranges.push((first, last, types));
        } else if let Some(known) = acknowledge_types(word) {
            types = Some(known?);
        } else {
            partitions.push((word.clone(), Vec::new()));
            types = None;
        }
    }
    Ok(partitions)
}

fn acknowledge_types(word: &str) -> Option<Result<Vec<i8>, CommandError>> {
    match word {
        "gap" => Some(Ok(vec![0])),
        "accept" => Some(Ok(vec![1])),
        "release" => Some(Ok(vec![2])),
        "reject" => Some(Ok(vec![3])),
        "renew" => Some(Ok(vec![4])),
        _ => {
            let list = word.strip_prefix("types:")?;
            Some(
                list.split('/')
                    .filter(|text| !text.is_empty())
                    .map(|text| text.parse().map_err(|_| format!("`{text}` is no acknowledge type")))
                    .collect(),
            )
        }
    }
}

/// `share-fetch [group=g] [member=A] [epoch=N] [t-0 ...] [forget=t-0] [max-records=500] [batch-size=500]
/// [max-bytes=N] [min-bytes=1] [mode=0] [wait=1500] [renewing] [lock] [version=2] [async] [ack ACKS]`
pub(super) fn share_fetch(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let (group, member) = group_and_member(arguments);
    let link = Session::link_name(arguments, &member);
    let known = session.member(&group, &member).clone();
    let epoch = arguments.number("epoch", known.session_epoch)?;
    let renew = arguments.flag("renewing");
    let in_background = arguments.flag("async");
    let lock = arguments.flag("lock");
    let mut partitions: Vec<PartitionAcks> =
        arguments.words_until("ack").into_iter().map(|word| (word, Vec::new())).collect();
    if epoch == 0 && partitions.is_empty() {
        partitions =
            known.assigned.iter().map(|(topic, index)| (format!("{topic}-{index}"), Vec::new())).collect();
    }
    partitions.extend(acknowledgements(&arguments.words_until(""))?);
    let mut request = ShareFetchRequest {
        group_id: nullable(&group).map(|group| session.names.wire(group)),
        member_id: nullable(&member).map(Into::into),
        share_session_epoch: epoch,
        max_wait_ms: arguments.number("wait", if renew { 0 } else { WAIT_MS })?,
        min_bytes: arguments.number("min-bytes", i32::from(!renew))?,
        max_bytes: arguments.number("max-bytes", if renew { 0 } else { 50 << 20 })?,
        max_records: arguments.number("max-records", if renew { 0 } else { 500 })?,
        batch_size: arguments.number("batch-size", 500)?,
        share_acquire_mode: arguments.number("mode", 0)?,
        is_renew_ack: renew,
        ..ShareFetchRequest::default()
    };
    for (word, ranges) in partitions {
        add_to_fetch(session, &mut request, &word, ranges)?;
    }
    for word in arguments.list("forget").unwrap_or_default() {
        let (topic_id, _, partition) = session.partition(&word)?;
        request.forgotten_topics_data.push(fetch::ForgottenTopic { topic_id, partitions: vec![partition] });
    }
    let version = arguments.number("version", 2)?;
    session.member(&group, &member).session_epoch = epoch; // Until the answer says that it was used up.
    if in_background {
        session.send_on(&link, &request, version)?;
        return Ok(String::new());
    }
    let answer = session.call_on(&link, &request, version)?;
    if epoch == -1 {
        session.settle(); // The records are released on another thread.
    }
    show_fetch(session, &group, &member, lock, &answer)
}

fn nullable(text: &str) -> Option<&str> {
    match text {
        "null" => None,
        "empty" => Some(""),
        _ => Some(text),
    }
}

fn add_to_fetch(
    session: &mut Session<'_>,
    request: &mut ShareFetchRequest,
    word: &str,
    ranges: Vec<(i64, i64, Vec<i8>)>,
) -> Result<(), CommandError> {
    let (topic_id, _, partition_index) = session.partition(word)?;
    let acknowledgement_batches = ranges
        .into_iter()
        .map(|(first_offset, last_offset, acknowledge_types)| fetch::AcknowledgementBatch {
            first_offset,
            last_offset,
            acknowledge_types,
        })
        .collect();
    let partition = fetch::FetchPartition { partition_index, acknowledgement_batches };
    match request.topics.iter_mut().find(|topic| topic.topic_id == topic_id) {
        Some(topic) => topic.partitions.push(partition),
        None => request.topics.push(fetch::FetchTopic { topic_id, partitions: vec![partition] }),
    }
    Ok(())
}

/// Notes that a share session's epoch was used, if the answer says so.
fn use_epoch(session: &mut Session<'_>, group: &str, member: &str, error_code: i16) {
    let known = session.member(group, member);
    if error_code == 0 {
        known.session_epoch = match known.session_epoch {
            -1 => 0,
            i32::MAX => 1,
            epoch => epoch + 1,
        };
    }
}

fn show_fetch(
    session: &mut Session<'_>,
    group: &str,
    member: &str,
    lock: bool,
    answer: &ShareFetchResponse,
) -> Result<String, CommandError> {
    use_epoch(session, group, member, answer.error_code);
    let mut lines = Vec::new();
    for topic in &answer.responses {
        let name = session.names.topic(topic.topic_id);
        for partition in &topic.partitions {
            lines.push(show_partition(&format!("{name}-{}", partition.partition_index), partition)?);
        }
    }
    lines.sort();
    if answer.error_code != 0 || lines.is_empty() {
        lines.insert(0, format!("{} nothing\n", error(answer.error_code)));
    }
    if lock {
        lines.push(format!("lock_ms={}\n", answer.acquisition_lock_timeout_ms));
    }
    Ok(lines.concat())
}

fn show_partition(name: &str, partition: &PartitionData) -> Result<String, CommandError> {
    let mut line = format!("{name} {}", error(partition.error_code));
    if partition.acknowledge_error_code != 0 {
        let _ = write!(line, " acknowledge={}", error(partition.acknowledge_error_code));
    }
    if !partition.acquired_records.is_empty() {
        line.push_str(" acquired");
    }
    for range in &partition.acquired_records {
        let _ = write!(line, " {}-{}x{}", range.first_offset, range.last_offset, range.delivery_count);
    }
    let batches = decode_batches(&records_of(&partition.records)).map_err(|error| error.to_string())?;
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for batch in &batches {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == batch.base_offset => *last = batch.last_offset(),
            Some(_) | None => runs.push((batch.base_offset, batch.last_offset())),
        }
    }
    if !runs.is_empty() {
        line.push_str(" records");
    }
    for (first, last) in runs {
        let _ = write!(line, " {first}-{last}");
    }
    Ok(line + "\n")
}

fn records_of(records: &Records) -> bytes::Bytes {
    records.to_bytes()
}

/// `await [group=g] [member=A] [from=MS] [to=MS]`: the answer of an earlier `share-fetch ... async`.
///
/// With `from` and `to`, prints whether it came between those times after it was asked for.
pub(super) fn await_answer(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let (group, member) = group_and_member(arguments);
    let link = Session::link_name(arguments, &member);
    let from = arguments.number("from", 0)?;
    let to: Option<u64> = arguments.number_if_given("to")?;
    let (answer, sent_ms) = session
        .receive_on::<ShareFetchRequest>(&link, AWAIT_MAX)?
        .ok_or("no answer to the waiting share-fetch")?;
    let after = session.elapsed_ms().saturating_sub(sent_ms);
    let mut output = show_fetch(session, &group, &member, false, &answer)?;
    if let Some(to) = to {
        let in_time = from <= after && after <= to;
        output += &if in_time { "in time\n".to_owned() } else { format!("after {after} ms\n") };
    }
    Ok(output)
}

/// `share-acknowledge [group=g] [member=A] [epoch=N] [renewing] [lock] [version=2] ACKS`
pub(super) fn share_acknowledge(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let (group, member) = group_and_member(arguments);
    let link = Session::link_name(arguments, &member);
    let epoch = session.member(&group, &member).session_epoch;
    let epoch = arguments.number("epoch", epoch)?;
    let lock = arguments.flag("lock");
    let mut request = ShareAcknowledgeRequest {
        group_id: nullable(&group).map(|group| session.names.wire(group)),
        member_id: nullable(&member).map(Into::into),
        share_session_epoch: epoch,
        is_renew_ack: arguments.flag("renewing"),
        topics: Vec::new(),
    };
    for (word, ranges) in acknowledgements(&arguments.words_until(""))? {
        let (topic_id, _, partition_index) = session.partition(&word)?;
        let acknowledgement_batches = ranges
            .into_iter()
            .map(|(first_offset, last_offset, acknowledge_types)| acknowledge::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types,
            })
            .collect();
        let partition = acknowledge::AcknowledgePartition { partition_index, acknowledgement_batches };
        match request.topics.iter_mut().find(|topic| topic.topic_id == topic_id) {
            Some(topic) => topic.partitions.push(partition),
            None => {
                request.topics.push(acknowledge::AcknowledgeTopic { topic_id, partitions: vec![partition] })
            }
        }
    }
    session.member(&group, &member).session_epoch = epoch;
    let answer = session.call_on(&link, &request, arguments.number("version", 2)?)?;
    if epoch == -1 {
        session.settle(); // The records are released on another thread.
    }
    use_epoch(session, &group, &member, answer.error_code);
    let mut lines = Vec::new();
    for topic in &answer.responses {
        let name = session.names.topic(topic.topic_id);
        for partition in &topic.partitions {
            lines.push(format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code)));
        }
    }
    lines.sort();
    if answer.error_code != 0 || lines.is_empty() {
        lines.insert(0, format!("{} nothing\n", error(answer.error_code)));
    }
    if lock {
        lines.push(format!("lock_ms={}\n", answer.acquisition_lock_timeout_ms));
    }
    Ok(lines.concat())
}
