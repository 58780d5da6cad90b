//! The command that fetches incrementally (KIP-227).

use sharemark_protocol::messages as m;

use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};

use super::arguments::{Arguments, CommandError};
use super::log::{isolation_level, show_fetched};
use super::names::error;
use super::session::Session;

/// A fetch session as a client knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchSession {
    /// The id that the broker gave it; 0 asks for a new one.
    id: i32,
    /// The epoch of the next request.
    epoch: i32,
}

/// `fetch-session NAME [t-0@OFFSET ...] [forget=t-0] [epoch=N] [id=N] [isolation=uncommitted] [wait=0]
/// [version=18]`: partitions are added to the session, or changed in it.
pub(super) fn fetch_session(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("session")?;
    let known = session.fetch_sessions.get(&name).copied().unwrap_or_default();
    let mut request = FetchRequest {
        replica_id: -1,
        isolation_level: isolation_level(arguments)?,
        max_wait_ms: arguments.number("wait", 0)?,
        min_bytes: arguments.number("min-bytes", 1)?,
        max_bytes: 50 << 20,
        session_id: arguments.number("id", known.id)?,
        session_epoch: arguments.number("epoch", known.epoch)?,
        ..FetchRequest::default()
    };
    let version = arguments.number("version", 18)?;
    for word in arguments.list("forget").unwrap_or_default() {
        let (topic_id, topic, partition) = session.partition(&word)?;
        let topic = session.names.wire(&topic);
        request.forgotten_topics_data.push(ForgottenTopic { topic, topic_id, partitions: vec![partition] });
    }
    for word in arguments.words_until("") {
        let (partition, offset) = word.split_once('@').ok_or("a partition with an offset, such as t-0@5")?;
        let (topic_id, topic, partition) = session.partition(partition)?;
        let partition = FetchPartition {
            partition,
            current_leader_epoch: -1,
            fetch_offset: offset.parse().map_err(|_| format!("`{offset}` is no offset"))?,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        };
        let topic = session.names.wire(&topic);
        request.topics.push(FetchTopic { topic, topic_id, partitions: vec![partition] });
    }
    let answer = session.call(&request, version)?;
    if answer.error_code != 0 {
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    let next = FetchSession {
        id: answer.session_id,
        epoch: if answer.session_id == 0 { 0 } else { request.session_epoch.max(0) + 1 },
    };
    session.fetch_sessions.insert(name, next);
    let mut partitions = Vec::new();
    for topic in &answer.responses {
        let by_name = session.names.shown(&topic.topic);
        let name = if by_name.is_empty() { session.names.topic(topic.topic_id) } else { by_name };
        for partition in &topic.partitions {
            let name = format!("{name}-{}", partition.partition_index);
            partitions.push(show_fetched(session, &name, partition)?);
        }
    }
    partitions.sort(); // Kafka rotates them, so that none starves.
    let state = if answer.session_id == 0 { "none" } else { "open" };
    Ok(format!("NONE session={state}\n{}", partitions.concat()))
}
