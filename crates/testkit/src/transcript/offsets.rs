//! Commands about committed offsets, plain and in transactions.

use sharemark_protocol::messages as m;
use sharemark_protocol::{StrBytes, TopicId};

use m::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use m::offset_commit_request::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use m::offset_delete_request::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use m::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use m::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

use super::arguments::{Arguments, CommandError, topic_partition};
use super::names::error;
use super::session::Session;
use super::txn::{identity, wire_id};

const COMMIT_VERSION_WITH_IDS: i16 = 10;
const TXN_COMMIT_VERSION_WITH_IDS: i16 = 6;
const FETCH_VERSION_WITH_GROUPS: i16 = 8;
const FETCH_VERSION_WITH_IDS: i16 = 10;

/// An offset to commit: `t-0@5`, with a text `t-0@5:text`.
struct Offered {
    topic: String,
    partition: i32,
    offset: i64,
    text: Option<String>,
}

fn offered(words: &[String]) -> Result<Vec<Offered>, CommandError> {
    let read = |word: &String| {
        let (place, rest) = word.split_once('@').ok_or_else(|| format!("`{word}` is no t-0@5"))?;
        let (topic, partition) = topic_partition(place)?;
        let (offset, text) = match rest.split_once(':') {
            Some((offset, text)) => (offset, Some(text.to_owned())),
            None => (rest, None),
        };
        let offset = offset.parse().map_err(|_| format!("`{offset}` is no offset"))?;
        Ok(Offered { topic, partition, offset, text })
    };
    words.iter().map(read).collect()
}

/// The id of a topic for a version that names topics by it; one that no topic has for an unknown name.
fn topic_id(session: &Session<'_>, topic: &str) -> TopicId {
    session.names.topic_id(topic).unwrap_or_else(|| TopicId::from_bytes([0x7e; 16]))
}

/// Returns what a topic of an answer is called, by whichever of the two the answer has.
fn topic_name(session: &Session<'_>, name: &StrBytes, id: TopicId) -> String {
    if name.is_empty() { session.names.topic(id) } else { session.names.shown(name) }
}

/// The member that a request names: a classic one that joined here, or the given texts.
fn committer(
    session: &Session<'_>,
    group: &str,
    arguments: &mut Arguments,
) -> Result<(StrBytes, i32, Option<StrBytes>), CommandError> {
    let instance = arguments.option("instance").map(Into::into);
    let given: Option<i32> = arguments.number_if_given("generation")?;
    let Some(member) = arguments.option("member") else {
        return Ok((StrBytes::new(), given.unwrap_or(-1), instance));
    };
    let known = session.classic_members.get(&(group.to_owned(), member.clone()));
    let (id, generation) = known.map_or((member.as_str(), -1), |known| (&known.id, known.generation));
    Ok((id.into(), given.unwrap_or(generation), instance))
}

/// `commit-offsets [group=g] t-0@5 t-1@6:text ... [member=A] [generation=N] [instance=i] [retention=MS]
/// [epoch=N] [version=10]`
pub(super) fn commit_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let version: i16 = arguments.number("version", COMMIT_VERSION_WITH_IDS)?;
    let (member_id, generation, group_instance_id) = committer(session, &group, arguments)?;
    let mut request = OffsetCommitRequest {
        group_id: session.names.wire(&group),
        generation_id_or_member_epoch: generation,
        member_id,
        group_instance_id,
        retention_time_ms: arguments.number("retention", -1)?,
        topics: Vec::new(),
    };
    let committed_leader_epoch = arguments.number("epoch", -1)?;
    for offered in offered(&arguments.words_until(""))? {
        let name = session.names.wire(&offered.topic);
        let partition = OffsetCommitRequestPartition {
            partition_index: offered.partition,
            committed_offset: offered.offset,
            committed_leader_epoch,
            committed_metadata: offered.text.map(Into::into),
        };
        let last = request.topics.last_mut().filter(|topic| topic.name == name);
        match last {
            Some(topic) => topic.partitions.push(partition),
            None => request.topics.push(OffsetCommitRequestTopic {
                topic_id: topic_id(session, &offered.topic),
                name,
                partitions: vec![partition],
            }),
        }
    }
    let answer = session.call(&request, version)?;
    let mut output = String::new();
    for topic in &answer.topics {
        let name = topic_name(session, &topic.name, topic.topic_id);
        for partition in &topic.partitions {
            output += &format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code));
        }
    }
    Ok(output)
}

/// `fetch-offsets [group=g] t-0 t-1 ... | all [stable] [version=10]`
pub(super) fn fetch_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let version: i16 = arguments.number("version", FETCH_VERSION_WITH_IDS)?;
    let require_stable = arguments.flag("stable");
    let all = arguments.flag("all");
    let mut topics: Vec<OffsetFetchRequestTopics> = Vec::new();
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        let name = session.names.wire(&topic);
        match topics.iter_mut().find(|topic| topic.name == name) {
            Some(topic) => topic.partition_indexes.push(partition),
            None => topics.push(OffsetFetchRequestTopics {
                topic_id: topic_id(session, &topic),
                name,
                partition_indexes: vec![partition],
            }),
        }
    }
    let group_id = session.names.wire(&group);
    let request = if version < FETCH_VERSION_WITH_GROUPS {
        let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopic {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
        });
        let topics = (!all).then(|| topics.collect());
        OffsetFetchRequest { group_id, topics, require_stable, ..OffsetFetchRequest::default() }
    } else {
        let group = OffsetFetchRequestGroup {
            group_id,
            topics: (!all).then_some(topics),
            ..OffsetFetchRequestGroup::default()
        };
        OffsetFetchRequest { groups: vec![group], require_stable, ..OffsetFetchRequest::default() }
    };
    let answer = session.call(&request, version)?;
    let mut lines = Vec::new();
    let mut push =
        |name: &str, partition: i32, offset: i64, epoch: i32, text: &Option<StrBytes>, code: i16| {
            let found = match (code, offset) {
                (0, -1) => "none".to_owned(),
                (0, offset) => format!("{offset} epoch={epoch} text={}", text.as_deref().unwrap_or("null")),
                (code, _) => error(code),
            };
            lines.push(format!("{name}-{partition} {found}\n"));
        };
    for topic in &answer.topics {
        let name = session.names.shown(&topic.name);
        for it in &topic.partitions {
            let epoch = it.committed_leader_epoch;
            push(&name, it.partition_index, it.committed_offset, epoch, &it.metadata, it.error_code);
        }
    }
    let mut code = answer.error_code;
    for group in &answer.groups {
        code = group.error_code;
        for topic in &group.topics {
            let name = topic_name(session, &topic.name, topic.topic_id);
            for it in &topic.partitions {
                let epoch = it.committed_leader_epoch;
                push(&name, it.partition_index, it.committed_offset, epoch, &it.metadata, it.error_code);
            }
        }
    }
    if all {
        lines.sort();
    }
    Ok(if lines.is_empty() || code != 0 { format!("{} nothing\n", error(code)) } else { lines.concat() })
}

/// `fetch-group-offsets g:t-0,t-1 h:all ... [stable] [version=10]`: of several groups in one request.
pub(super) fn fetch_group_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let version: i16 = arguments.number("version", FETCH_VERSION_WITH_IDS)?;
    let require_stable = arguments.flag("stable");
    let mut groups = Vec::new();
    for word in arguments.words_until("") {
        let (group, places) = word.split_once(':').ok_or_else(|| format!("`{word}` is no g:t-0,t-1"))?;
        let mut topics = Vec::new();
        for place in places.split(',').filter(|place| *place != "all") {
            let (topic, partition) = topic_partition(place)?;
            let (topic_id, name) = (topic_id(session, &topic), session.names.wire(&topic));
            topics.push(OffsetFetchRequestTopics { topic_id, name, partition_indexes: vec![partition] });
        }
        groups.push(OffsetFetchRequestGroup {
            group_id: session.names.wire(group),
            topics: (places != "all").then_some(topics),
            ..OffsetFetchRequestGroup::default()
        });
    }
    let request = OffsetFetchRequest { groups, require_stable, ..OffsetFetchRequest::default() };
    let answer = session.call(&request, version)?;
    let mut output = String::new();
    for group in &answer.groups {
        output += &format!("{} {}\n", session.names.shown(&group.group_id), error(group.error_code));
        let mut lines = Vec::new();
        for topic in &group.topics {
            let name = topic_name(session, &topic.name, topic.topic_id);
            for it in &topic.partitions {
                let (partition, offset) = (it.partition_index, it.committed_offset);
                lines.push(format!("  {name}-{partition} {} {offset}\n", error(it.error_code)));
            }
        }
        lines.sort();
        output += &lines.concat();
    }
    Ok(output)
}

/// `delete-offsets [group=g] t-0 t-1 ...`
pub(super) fn delete_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let mut request =
        OffsetDeleteRequest { group_id: session.names.wire(&group), ..OffsetDeleteRequest::default() };
    for word in arguments.words_until("") {
        let (topic, partition_index) = topic_partition(&word)?;
        let name = session.names.wire(&topic);
        let partition = OffsetDeleteRequestPartition { partition_index };
        match request.topics.iter_mut().find(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => request.topics.push(OffsetDeleteRequestTopic { name, partitions: vec![partition] }),
        }
    }
    let answer = session.call(&request, 0)?;
    if answer.error_code != 0 {
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    let mut lines = Vec::new();
    for topic in &answer.topics {
        let name = session.names.shown(&topic.name);
        for partition in &topic.partitions {
            lines.push(format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code)));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// `add-offsets p1 [group=g] [epoch=N] [txn=x] [id=p2] [version=4]`
pub(super) fn add_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let group = arguments.text("group", "g");
    let producer = identity(session, &name, arguments)?;
    let request = AddOffsetsToTxnRequest {
        transactional_id: wire_id(session, &producer),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        group_id: session.names.wire(&group),
    };
    let answer = session.call(&request, arguments.number("version", 4)?)?;
    Ok(format!("{}\n", error(answer.error_code)))
}

/// `txn-commit-offsets p1 [group=g] t-0@5 ... [member=A] [generation=N] [instance=i] [epoch=N] [txn=x] [id=p2]
/// [version=6]`
pub(super) fn txn_commit_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("producer")?;
    let group = arguments.text("group", "g");
    let producer = identity(session, &name, arguments)?;
    let version: i16 = arguments.number("version", TXN_COMMIT_VERSION_WITH_IDS)?;
    let (member_id, generation, group_instance_id) = committer(session, &group, arguments)?;
    let mut request = TxnOffsetCommitRequest {
        transactional_id: wire_id(session, &producer),
        group_id: session.names.wire(&group),
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        generation_id_or_member_epoch: generation,
        member_id,
        group_instance_id,
        topics: Vec::new(),
    };
    for offered in offered(&arguments.words_until(""))? {
        let name = session.names.wire(&offered.topic);
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: offered.partition,
            committed_offset: offered.offset,
            committed_leader_epoch: -1,
            committed_metadata: offered.text.map(Into::into),
        };
        match request.topics.iter_mut().find(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => request.topics.push(TxnOffsetCommitRequestTopic {
                topic_id: topic_id(session, &offered.topic),
                name,
                partitions: vec![partition],
            }),
        }
    }
    let answer = session.call(&request, version)?;
    let mut output = String::new();
    for topic in &answer.topics {
        let name = topic_name(session, &topic.name, topic.topic_id);
        for partition in &topic.partitions {
            output += &format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code));
        }
    }
    Ok(output)
}
