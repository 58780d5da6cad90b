//! Commands about what is in a log: produce, fetch, list-offsets, delete-records.

use std::fmt::Write;

use bytes::Bytes;
use sharemark_protocol::messages as m;
use sharemark_protocol::{Records, StrBytes};

use m::delete_records_request::{DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic};
use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use m::fetch_response::PartitionData;
use m::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use m::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};

use super::arguments::{Arguments, CommandError, topic_partition};
use super::names::error;
use super::session::Session;
use crate::records::{Batch, Record, decode_batches};

const TIMEOUT_MS: i32 = 10_000;

/// `produce t-0 [count=1|values=a,empty,null] [keys=a,empty,null] [headers=a:b,c:null] [batches=1] [size=N] [time=0] [producer=p1 [epoch=N]
/// [sequence=N] [plain] [txn=x]] [control] [acks=-1] [version=13]
/// [corrupt=crc|magic|count|last-offset|length|cut|two|empty] [again=VALUE]`
///
/// With `again`, the partition is named a second time, with a record of that value.
pub(super) fn produce(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let (topic_id, topic, partition) = session.partition(&arguments.word("partition")?)?;
    let batch_count = arguments.number("batches", 1)?;
    let mut batch = Batch::of_records(records(arguments)?, session.names.time(arguments.number("time", 0)?));
    batch.control = arguments.flag("control");
    let version: i16 = arguments.number("version", 13)?;
    let mut request = ProduceRequest {
        acks: arguments.number("acks", -1)?,
        timeout_ms: TIMEOUT_MS,
        ..ProduceRequest::default()
    };
    let producer = arguments.option("producer");
    if let Some(producer) = &producer {
        request.transactional_id =
            sign(session, arguments, producer, &(topic.clone(), partition), &mut batch)?;
    }
    let corrupt = arguments.option("corrupt");
    let again = arguments.option("again");
    let mut output = format!("{topic}-{partition}");
    let mut last_error = None;
    for _ in 0..batch_count {
        let records = Some(Records::from(corrupted(&batch, corrupt.as_deref())?));
        let mut partition_data = vec![PartitionProduceData { index: partition, records }];
        if let Some(value) = &again {
            let batch = Batch::of_values([value.clone()], session.names.time(0));
            let records = Some(Records::from(batch.encode()));
            partition_data.push(PartitionProduceData { index: partition, records });
        }
        request.topic_data =
            vec![TopicProduceData { name: session.names.wire(&topic), topic_id, partition_data }];
        let answer = session.call(&request, version)?;
        if again.is_some() {
            let count: usize = answer.responses.iter().map(|topic| topic.partition_responses.len()).sum();
            let _ = write!(output, " answers={count}");
        }
        let result = answer
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first())
            .ok_or("no partition in the answer")?;
        if last_error != Some(result.error_code) {
            let _ = write!(output, " {}", error(result.error_code));
            last_error = Some(result.error_code);
            output.push_str(if result.error_code == 0 { " base_offset=" } else { "" });
        } else if result.error_code == 0 {
            output.push(',');
        }
        if result.error_code != 0 {
            continue;
        }
        let _ = write!(output, "{}", result.base_offset);
        if let Some(name) = &producer {
            batch.base_sequence += batch.last_offset_delta + 1;
            session.producer(name)?.sequences.insert((topic.clone(), partition), batch.base_sequence);
        }
    }
    Ok(output + "\n")
}

/// Writes a batch, wrong in one way if `how` says so; the CRC is right unless it is what is wrong.
fn corrupted(batch: &Batch, how: Option<&str>) -> Result<Bytes, CommandError> {
    const LENGTH: usize = 11;
    const MAGIC: usize = 16;
    const CRC: usize = 17;
    const LAST_OFFSET_DELTA: usize = 26;
    const RECORD_COUNT: usize = 60;
    let mut bytes = batch.encode().to_vec();
    match how {
        None => {}
        Some("crc") => bytes[CRC] ^= 1,
        Some("magic") => bytes[MAGIC] = 1,
        Some("length") => bytes[LENGTH] ^= 1,
        Some("count") => bytes[RECORD_COUNT] ^= 1,
        Some("last-offset") => bytes[LAST_OFFSET_DELTA] ^= 1,
        Some("cut") => bytes.truncate(bytes.len() - 1),
        Some("two") => bytes.extend(batch.encode()),
        Some("empty") => bytes.clear(),
        Some(other) => return Err(format!("corrupt={other} is no way to be wrong")),
    }
    if matches!(how, Some("count" | "last-offset")) {
        let crc = crc32c::crc32c(&bytes[CRC + 4..]);
        bytes[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }
    Ok(bytes.into())
}

/// Puts a producer's id, epoch and sequence into a batch, and returns the transactional id for the request.
fn sign(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
    name: &str,
    partition: &(String, i32),
    batch: &mut Batch,
) -> Result<Option<StrBytes>, CommandError> {
    let producer = session.producer(name)?.clone();
    let plain = arguments.flag("plain");
    batch.producer_id = producer.id;
    batch.producer_epoch = arguments.number("epoch", producer.epoch)?;
    batch.transactional = producer.transactional_id.is_some() && !plain;
    batch.base_sequence =
        arguments.number("sequence", producer.sequences.get(partition).copied().unwrap_or(0))?;
    let transactional_id = arguments.option("txn").or(producer.transactional_id);
    Ok(transactional_id.filter(|_| !plain).map(|id| session.names.wire(&id)))
}

fn records(arguments: &mut Arguments) -> Result<Vec<Record>, CommandError> {
    let count: usize = arguments.number("count", 1)?;
    let size: Option<usize> = arguments.number_if_given("size")?;
    let values = arguments.list("values").unwrap_or_else(|| {
        (0..count).map(|index| size.map_or_else(|| format!("v{index}"), |size| "x".repeat(size))).collect()
    });
    let keys = arguments.list("keys").unwrap_or_default();
    let step: i64 = arguments.number("time-step", 0)?;
    let header = |text: &String| {
        let (name, value) = text.split_once(':').ok_or("a header is a name, a colon, a value")?;
        Ok((name.to_owned(), nullable(value)))
    };
    let headers: Vec<(String, Option<Bytes>)> = arguments
        .list("headers")
        .unwrap_or_default()
        .iter()
        .map(header)
        .collect::<Result<_, CommandError>>()?;
    Ok(values
        .iter()
        .enumerate()
        .map(|(index, value)| Record {
            key: keys.get(index).and_then(|key| nullable(key)),
            value: nullable(value),
            headers: headers.clone(),
            timestamp_delta: step * i64::try_from(index).unwrap_or(i64::MAX),
        })
        .collect())
}

fn nullable(text: &str) -> Option<Bytes> {
    match text {
        "null" => None,
        "empty" => Some(Bytes::new()),
        _ => Some(Bytes::copy_from_slice(text.as_bytes())),
    }
}

fn shown_value(value: Option<&Bytes>) -> String {
    match value {
        None => "null".into(),
        Some(value) if 20 < value.len() => format!("({} bytes)", value.len()),
        Some(value) => {
            let text = String::from_utf8_lossy(value);
            if text.chars().any(char::is_control) {
                text.escape_default().to_string()
            } else {
                text.into_owned()
            }
        }
    }
}

/// Returns the option `isolation=committed|uncommitted` as on the wire.
pub(super) fn isolation_level(arguments: &mut Arguments) -> Result<i8, CommandError> {
    match arguments.text("isolation", "uncommitted").as_str() {
        "uncommitted" => Ok(0),
        "committed" => Ok(1),
        other => Err(format!("isolation={other} is neither committed nor uncommitted")),
    }
}

/// `read t-0 [offset=0] [isolation=uncommitted]`: fetches until nothing more comes, as a consumer does. A single fetch
/// stops where Kafka's segments do.
pub(super) fn read(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let (topic_id, topic, partition) = session.partition(&arguments.word("partition")?)?;
    let isolation_level = isolation_level(arguments)?;
    let mut offset = arguments.number("offset", 0)?;
    let mut output = String::new();
    loop {
        let fetched = FetchPartition {
            partition,
            current_leader_epoch: -1,
            fetch_offset: offset,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        };
        let name = session.names.wire(&topic);
        let request = FetchRequest {
            replica_id: -1,
            isolation_level,
            min_bytes: 1,
            max_bytes: 50 << 20,
            session_epoch: -1,
            topics: vec![FetchTopic { topic: name, topic_id, partitions: vec![fetched] }],
            ..FetchRequest::default()
        };
        let answer = session.call(&request, 18)?;
        let data = answer.responses.first().and_then(|topic| topic.partitions.first());
        let data = data.ok_or("no partition in the answer")?;
        let bytes = data.records.as_ref().map(Records::to_bytes).unwrap_or_default();
        let batches = decode_batches(&bytes).map_err(|error| error.to_string())?;
        let Some(last) = batches.last() else {
            return Ok(format!("{output}{topic}-{partition} {} next={offset}\n", error(data.error_code)));
        };
        offset = last.last_offset() + 1;
        for batch in &batches {
            output += &show_batch(session, batch);
        }
    }
}

/// `fetch t-0 [offset=0] [isolation=uncommitted] [wait=0] [min-bytes=1] [max-bytes=N] [apart] [headers]
/// [again=OFFSET] [version=18]`
///
/// With `again`, the partition is named a second time, with another offset. With `apart`, and with `headers`, a line
/// for each record, whatever batch it came in.
pub(super) fn fetch(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let apart = arguments.flag("apart");
    let with_headers = arguments.flag("headers");
    let again: Option<i64> = arguments.number_if_given("again")?;
    let (topic_id, topic, partition) = session.partition(&arguments.word("partition")?)?;
    let fetched = FetchPartition {
        partition,
        current_leader_epoch: arguments.number("leader-epoch", -1)?,
        fetch_offset: arguments.number("offset", 0)?,
        partition_max_bytes: arguments.number("max-bytes", 1 << 20)?,
        ..FetchPartition::default()
    };
    let mut partitions = vec![fetched.clone()];
    partitions.extend(again.map(|fetch_offset| FetchPartition { fetch_offset, ..fetched }));
    let request = FetchRequest {
        replica_id: -1,
        isolation_level: isolation_level(arguments)?,
        max_wait_ms: arguments.number("wait", 0)?,
        min_bytes: arguments.number("min-bytes", 1)?,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: session.names.wire(&topic), topic_id, partitions }],
        ..FetchRequest::default()
    };
    let answer = session.call(&request, arguments.number("version", 18)?)?;
    if answer.error_code != 0 {
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    let data = answer
        .responses
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    let mut output = show_fetched(session, &format!("{topic}-{partition}"), data)?;
    if again.is_some() {
        let count: usize = answer.responses.iter().map(|topic| topic.partitions.len()).sum();
        let _ = writeln!(output, "answers={count}");
    }
    if !apart && !with_headers {
        return Ok(output);
    }
    let bytes = data.records.as_ref().map(Records::to_bytes).unwrap_or_default();
    let batches = decode_batches(&bytes).map_err(|error| error.to_string())?;
    let records = batches.iter().map(|batch| show_apart(session, batch, with_headers));
    Ok(output.lines().take(1).map(|line| format!("{line}\n")).chain(records).collect())
}

/// Prints the records of a batch, a line for each.
fn show_apart(session: &Session<'_>, batch: &Batch, with_headers: bool) -> String {
    let mut lines = String::new();
    for (record, offset) in batch.records.iter().zip(batch.base_offset..) {
        let _ = write!(lines, "{offset} {}", shown_record(record));
        for (name, value) in record.headers.iter().filter(|_| with_headers) {
            let value =
                value.as_ref().map_or("null".into(), |value| String::from_utf8_lossy(value).into_owned());
            let _ = write!(lines, " {name}={:?}", session.names.shown(&value));
        }
        lines.push('\n');
    }
    lines
}

fn shown_record(record: &Record) -> String {
    let key = record.key.as_ref().map(|key| shown_value(Some(key)) + ":").unwrap_or_default();
    key + &shown_value(record.value.as_ref())
}

pub(super) fn show_fetched(
    session: &mut Session<'_>,
    name: &str,
    data: &PartitionData,
) -> Result<String, CommandError> {
    let mut output = format!("{name} {}", error(data.error_code));
    if data.error_code != 0 {
        return Ok(output + "\n");
    }
    let _ = write!(
        output,
        " high_watermark={} last_stable_offset={} log_start={}",
        data.high_watermark, data.last_stable_offset, data.log_start_offset
    );
    for aborted in data.aborted_transactions.iter().flatten() {
        let producer = session.names.producer(aborted.producer_id);
        let _ = write!(output, " aborted={producer}@{}", aborted.first_offset);
    }
    output.push('\n');
    let bytes = data.records.as_ref().map(Records::to_bytes).unwrap_or_default();
    for batch in decode_batches(&bytes).map_err(|error| error.to_string())? {
        output += &show_batch(session, &batch);
    }
    Ok(output)
}

fn show_batch(session: &mut Session<'_>, batch: &Batch) -> String {
    let mut line = if batch.last_offset_delta == 0 {
        batch.base_offset.to_string()
    } else {
        format!("{}-{}", batch.base_offset, batch.last_offset())
    };
    if 0 <= batch.producer_id {
        let _ = write!(line, " {}/{}", session.names.producer(batch.producer_id), batch.producer_epoch);
    }
    match batch.marker() {
        Some(true) => return line + " COMMIT\n",
        Some(false) => return line + " ABORT\n",
        None => {}
    }
    if 0 <= batch.base_sequence {
        let _ = write!(line, " sequence={}", batch.base_sequence);
    }
    if batch.transactional {
        line.push_str(" transactional");
    }
    for record in &batch.records {
        line.push(' ');
        line += &shown_record(record);
    }
    line + "\n"
}

/// `list-offsets t-0 [at=latest|earliest|max-timestamp|earliest-local|@MS] [isolation=uncommitted] [version=11]`
pub(super) fn list_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let word = arguments.word("partition")?;
    let (topic, partition) = topic_partition(&word)?;
    let at = arguments.text("at", "latest");
    let timestamp = match at.as_str() {
        "latest" => -1,
        "earliest" => -2,
        "max-timestamp" => -3,
        "earliest-local" => -4,
        "latest-tiered" => -5,
        other => {
            let ms = other.strip_prefix('@').and_then(|ms| ms.parse().ok());
            session.names.time(ms.ok_or_else(|| format!("at={other} is no time, such as @1500"))?)
        }
    };
    let asked = ListOffsetsPartition {
        partition_index: partition,
        current_leader_epoch: arguments.number("leader-epoch", -1)?,
        timestamp,
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: isolation_level(arguments)?,
        timeout_ms: TIMEOUT_MS,
        topics: vec![ListOffsetsTopic { name: session.names.wire(&topic), partitions: vec![asked] }],
    };
    let answer = session.call(&request, arguments.number("version", 11)?)?;
    let result = answer
        .topics
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    let mut output = format!("{word} {}", error(result.error_code));
    if result.error_code == 0 {
        let time = session.names.shown_time(result.timestamp);
        let _ = write!(output, " offset={} time={time}", result.offset);
    }
    Ok(output + "\n")
}

/// `delete-records t-0 before=7`
pub(super) fn delete_records(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let word = arguments.word("partition")?;
    let (topic, partition) = topic_partition(&word)?;
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: session.names.wire(&topic),
            partitions: vec![DeleteRecordsPartition {
                partition_index: partition,
                offset: arguments.number("before", -1)?,
            }],
        }],
        timeout_ms: TIMEOUT_MS,
    };
    let answer = session.call(&request, 2)?;
    let result = answer
        .topics
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    Ok(format!("{word} {} log_start={}\n", error(result.error_code), result.low_watermark))
}
