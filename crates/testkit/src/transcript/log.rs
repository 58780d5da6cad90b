//! Commands about what is in a log: produce, fetch, list-offsets, delete-records.

use std::fmt::Write;

use bytes::Bytes;
use sharemark_protocol::Records;
use sharemark_protocol::messages as m;

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

/// `produce t-0 [count=1|values=a,b,null] [keys=a,b,null] [batches=1] [size=N] [time=0] [producer=p1 [epoch=N]
/// [sequence=N] [plain] [txn=x]] [acks=-1] [version=13]`
pub(super) fn produce(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let (topic_id, topic, partition) = session.partition(&arguments.word("partition")?)?;
    let batch_count = arguments.number("batches", 1)?;
    let mut batch = Batch::of_records(records(arguments)?, session.names.time(arguments.number("time", 0)?));
    let mut request = ProduceRequest::default();
    request.acks = arguments.number("acks", -1)?;
    request.timeout_ms = TIMEOUT_MS;
    let version: i16 = arguments.number("version", 13)?;
    let plain = arguments.flag("plain");
    let producer_name = arguments.option("producer");
    if let Some(name) = &producer_name {
        let producer = session.producer(name)?.clone();
        batch.producer_id = producer.id;
        batch.producer_epoch = arguments.number("epoch", producer.epoch)?;
        batch.transactional = producer.transactional_id.is_some() && !plain;
        let next = producer.sequences.get(&(topic.clone(), partition)).copied().unwrap_or(0);
        batch.base_sequence = arguments.number("sequence", next)?;
        let transactional_id = arguments.option("txn").or(producer.transactional_id);
        request.transactional_id = transactional_id.filter(|_| !plain).map(|id| session.names.wire(&id));
    }
    let mut output = format!("{topic}-{partition}");
    let mut last_error = None;
    for _ in 0..batch_count {
        request.topic_data = vec![TopicProduceData {
            name: session.names.wire(&topic),
            topic_id,
            partition_data: vec![PartitionProduceData {
                index: partition,
                records: Some(Records::from(batch.encode())),
            }],
        }];
        let answer = session.call(&request, version)?;
        let result = answer
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first())
            .ok_or("no partition in the answer")?;
        if last_error != Some(result.error_code) {
            let _ = write!(output, " {}", error(result.error_code));
            last_error = Some(result.error_code);
            if result.error_code == 0 {
                output.push_str(" base_offset=");
            }
        } else if result.error_code == 0 {
            output.push(',');
        }
        if result.error_code == 0 {
            let _ = write!(output, "{}", result.base_offset);
            batch.base_sequence += batch.last_offset_delta + 1;
            if let Some(name) = &producer_name {
                let sequences = &mut session.producer(name)?.sequences;
                sequences.insert((topic.clone(), partition), batch.base_sequence);
            } else {
                batch.base_sequence = -1;
            }
        }
    }
    Ok(output + "\n")
}

fn records(arguments: &mut Arguments) -> Result<Vec<Record>, CommandError> {
    let count: usize = arguments.number("count", 1)?;
    let size: Option<usize> = arguments.number_if_given("size")?;
    let values = arguments.list("values").unwrap_or_else(|| {
        (0..count).map(|index| size.map_or_else(|| format!("v{index}"), |size| "x".repeat(size))).collect()
    });
    let keys = arguments.list("keys").unwrap_or_default();
    let step: i64 = arguments.number("time-step", 0)?;
    Ok(values
        .iter()
        .enumerate()
        .map(|(index, value)| Record {
            key: keys.get(index).and_then(|key| nullable(key)),
            value: nullable(value),
            headers: Vec::new(),
            timestamp_delta: step * i64::try_from(index).unwrap_or(i64::MAX),
        })
        .collect())
}

fn nullable(text: &str) -> Option<Bytes> {
    (text != "null").then(|| Bytes::copy_from_slice(text.as_bytes()))
}

fn shown_value(value: Option<&Bytes>) -> String {
    match value {
        None => "null".into(),
        Some(value) if 20 < value.len() => format!("({} bytes)", value.len()),
        Some(value) => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Returns the option `isolation=committed|uncommitted` as on the wire.
fn isolation_level(arguments: &mut Arguments) -> Result<i8, CommandError> {
    match arguments.text("isolation", "uncommitted").as_str() {
        "uncommitted" => Ok(0),
        "committed" => Ok(1),
        other => Err(format!("isolation={other} is neither committed nor uncommitted")),
    }
}

/// `fetch t-0 [offset=0] [isolation=uncommitted] [wait=0] [min-bytes=1] [max-bytes=N] [version=18]`
pub(super) fn fetch(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let (topic_id, topic, partition) = session.partition(&arguments.word("partition")?)?;
    let mut request = FetchRequest::default();
    request.replica_id = -1;
    request.isolation_level = isolation_level(arguments)?;
    request.max_wait_ms = arguments.number("wait", 0)?;
    request.min_bytes = arguments.number("min-bytes", 1)?;
    request.max_bytes = 50 << 20;
    request.session_epoch = -1;
    request.topics = vec![FetchTopic {
        topic: session.names.wire(&topic),
        topic_id,
        partitions: vec![FetchPartition {
            partition,
            current_leader_epoch: arguments.number("leader-epoch", -1)?,
            fetch_offset: arguments.number("offset", 0)?,
            partition_max_bytes: arguments.number("max-bytes", 1 << 20)?,
            ..FetchPartition::default()
        }],
    }];
    let answer = session.call(&request, arguments.number("version", 18)?)?;
    if answer.error_code != 0 {
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    let data = answer
        .responses
        .first()
        .and_then(|topic| topic.partitions.first())
        .ok_or("no partition in the answer")?;
    show_fetched(session, &format!("{topic}-{partition}"), data)
}

fn show_fetched(session: &mut Session<'_>, name: &str, data: &PartitionData) -> Result<String, CommandError> {
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
        if record.key.is_some() {
            line = line + &shown_value(record.key.as_ref()) + ":";
        }
        line += &shown_value(record.value.as_ref());
    }
    line + "\n"
}

/// `list-offsets t-0 [at=latest|earliest|max-timestamp|earliest-local|@MS] [isolation=uncommitted] [version=11]`
pub(super) fn list_offsets(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
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
    let mut request = ListOffsetsRequest::default();
    request.replica_id = -1;
    request.isolation_level = isolation_level(arguments)?;
    request.timeout_ms = TIMEOUT_MS;
    request.topics = vec![ListOffsetsTopic {
        name: session.names.wire(&topic),
        partitions: vec![ListOffsetsPartition {
            partition_index: partition,
            current_leader_epoch: arguments.number("leader-epoch", -1)?,
            timestamp,
        }],
    }];
    let answer = session.call(&request, arguments.number("version", 11)?)?;
    let result =
        answer.topics.first().and_then(|topic| topic.partitions.first()).ok_or("no partition in the answer")?;
    let mut output = format!("{word} {}", error(result.error_code));
    if result.error_code == 0 {
        let time = session.names.shown_time(result.timestamp);
        let _ = write!(output, " offset={} time={time}", result.offset);
    }
    Ok(output + "\n")
}

/// `delete-records t-0 before=7`
pub(super) fn delete_records(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
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
    let result =
        answer.topics.first().and_then(|topic| topic.partitions.first()).ok_or("no partition in the answer")?;
    Ok(format!("{word} {} log_start={}\n", error(result.error_code), result.low_watermark))
}
