//! Commands of an administrator: epochs, configs as a whole, directories, elections, reassignments, features.

use std::fmt::Write;

use sharemark_protocol::messages as m;

use m::alter_configs_request::{AlterConfigsRequest, AlterConfigsResource, AlterableConfig};
use m::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use m::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use m::describe_log_dirs_request::{DescribableLogDirTopic, DescribeLogDirsRequest};
use m::describe_quorum_request::{DescribeQuorumRequest, PartitionData, TopicData};
use m::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use m::list_partition_reassignments_request::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};
use m::metadata_request::MetadataRequest;
use m::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use sharemark_protocol::StrBytes;

use super::arguments::{Arguments, CommandError, topic_partition};
use super::names::error;
use super::session::Session;
use super::topics::resource_type;

const TIMEOUT_MS: i32 = 10_000;
const METADATA_VERSION: i16 = 9;

/// Adds what Kafka says to an error, without what belongs to this run alone.
pub(super) fn with_message(session: &Session<'_>, code: i16, message: Option<&StrBytes>) -> String {
    match message.map(|text| session.names.shown(text)) {
        None => error(code),
        Some(text) => format!("{} {text:?}", error(code)),
    }
}

/// `leader-epoch-end t-0 epoch=N [current=N] [version=4]`
pub(super) fn leader_epoch_end(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let (topic, partition) = topic_partition(&arguments.word("partition")?)?;
    let request = OffsetForLeaderEpochRequest {
        replica_id: arguments.number("replica", -1)?,
        topics: vec![OffsetForLeaderTopic {
            topic: session.names.wire(&topic),
            partitions: vec![OffsetForLeaderPartition {
                partition,
                current_leader_epoch: arguments.number("current", -1)?,
                leader_epoch: arguments.number("epoch", 0)?,
            }],
        }],
    };
    let answer = session.call(&request, arguments.number("version", 4)?)?;
    let topic = answer.topics.first().ok_or("no topic in the answer")?;
    let end = topic.partitions.first().ok_or("no partition in the answer")?;
    Ok(format!(
        "{}-{} {} epoch={} end={}\n",
        session.names.shown(&topic.topic),
        end.partition,
        error(end.error_code),
        end.leader_epoch,
        end.end_offset
    ))
}

/// `replace-configs topic|group|broker NAME [validate-only] [null=a,b] [version=2] [config=value ...]`
pub(super) fn replace_configs(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let kind = arguments.word("resource type")?;
    let name = arguments.word("resource name")?;
    let own = own_node(session)?;
    let resource_name = match kind.as_str() {
        "broker" if name == "all" => StrBytes::default(),
        "broker" if name == "own" => own.to_string().into(),
        "broker" => name.into(),
        _ => session.names.wire(&name),
    };
    let validate_only = arguments.flag("validate-only");
    let version = arguments.number("version", 2)?;
    let nulls = arguments.list("null").unwrap_or_default();
    let nulls = nulls.into_iter().map(|name| AlterableConfig { name: name.into(), value: None });
    let values = arguments.rest().into_iter();
    let values = values.map(|(name, value)| AlterableConfig { name: name.into(), value: Some(value.into()) });
    let request = AlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: resource_type(&kind)?,
            resource_name,
            configs: nulls.chain(values).collect(),
        }],
        validate_only,
    };
    let answer = session.call(&request, version)?;
    session.settle();
    let result = answer.responses.first().ok_or("no resource in the answer")?;
    let told = with_message(session, result.error_code, result.error_message.as_ref());
    Ok(told.replace(&format!("expected {own},"), "expected own,") + "\n")
}

fn own_node(session: &mut Session<'_>) -> Result<i32, CommandError> {
    let answer = session.call(&MetadataRequest::default(), METADATA_VERSION)?;
    Ok(answer.brokers.first().ok_or("no broker in the answer")?.node_id)
}

/// Reads partition words, and gathers them by topic as their names are on the wire.
fn by_topic(session: &Session<'_>, words: &[String]) -> Result<Vec<(StrBytes, Vec<i32>)>, CommandError> {
    let mut topics: Vec<(StrBytes, Vec<i32>)> = Vec::new();
    for word in words {
        let (topic, partition) = topic_partition(word)?;
        let name = session.names.wire(&topic);
        match topics.iter_mut().find(|(known, _)| *known == name) {
            Some((_, partitions)) => partitions.push(partition),
            None => topics.push((name, vec![partition])),
        }
    }
    Ok(topics)
}

/// `log-dirs [t-0 ...] [version=5]`: where the partitions are, and whether they hold anything.
pub(super) fn log_dirs(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let words = arguments.words_until("");
    let topics = by_topic(session, &words)?
        .into_iter()
        .map(|(topic, partitions)| DescribableLogDirTopic { topic, partitions });
    let request = DescribeLogDirsRequest { topics: Some(topics.collect()) };
    let version = arguments.number("version", 5)?;
    let answer = session.call(&request, version)?;
    let mut lines = Vec::new();
    for dir in &answer.results {
        for topic in &dir.topics {
            for partition in &topic.partitions {
                lines.push(format!(
                    "{}-{} {} lag={} future={}\n",
                    session.names.shown(&topic.name),
                    partition.partition_index,
                    if 0 < partition.partition_size { "full" } else { "empty" },
                    partition.offset_lag,
                    partition.is_future_key
                ));
            }
        }
    }
    lines.sort();
    let told = answer.results.iter().all(|dir| 0 <= dir.usable_bytes && dir.usable_bytes <= dir.total_bytes);
    let dirs: Vec<String> = answer.results.iter().map(|dir| error(dir.error_code)).collect();
    let head = format!("{} dirs={} space-told={told}\n", error(answer.error_code), dirs.join(","));
    Ok(head + &lines.concat())
}

/// `move-replicas own|PATH t-0 ... [version=2]`
pub(super) fn move_replicas(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let path = arguments.word("directory")?;
    let path: StrBytes = if path == "own" {
        let request = DescribeLogDirsRequest { topics: Some(Vec::new()) };
        session.call(&request, 5)?.results.first().ok_or("no directory in the answer")?.log_dir.clone()
    } else {
        path.into()
    };
    let words = arguments.words_until("");
    let topics = by_topic(session, &words)?
        .into_iter()
        .map(|(name, partitions)| AlterReplicaLogDirTopic { name, partitions });
    let request =
        AlterReplicaLogDirsRequest { dirs: vec![AlterReplicaLogDir { path, topics: topics.collect() }] };
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    let mut lines = Vec::new();
    for topic in &answer.results {
        for partition in &topic.partitions {
            let name = session.names.shown(&topic.topic_name);
            lines.push(format!("{name}-{} {}\n", partition.partition_index, error(partition.error_code)));
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// `elect preferred|unclean|N t-0 ... [version=2]`
pub(super) fn elect(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let election_type = match arguments.word("type of election")?.as_str() {
        "preferred" => 0,
        "unclean" => 1,
        other => other.parse().map_err(|_| format!("`{other}` is no type of election"))?,
    };
    let words = arguments.words_until("");
    let topics = by_topic(session, &words)?
        .into_iter()
        .map(|(topic, partitions)| TopicPartitions { topic, partitions });
    let request = ElectLeadersRequest {
        election_type,
        topic_partitions: Some(topics.collect()),
        timeout_ms: TIMEOUT_MS,
    };
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    let mut output = format!("{}\n", error(answer.error_code));
    for topic in &answer.replica_election_results {
        for partition in &topic.partition_result {
            let told = with_message(session, partition.error_code, partition.error_message.as_ref());
            let name = session.names.shown(&topic.topic);
            let _ = writeln!(output, "{name}-{} {told}", partition.partition_id);
        }
    }
    Ok(output)
}

/// `reassign t-0=own,8 t-1=none t-2=empty ... [fixed-count] [version=1]`
pub(super) fn reassign(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let fixed_count = arguments.flag("fixed-count");
    let version = arguments.number("version", 1)?;
    let own = own_node(session)?;
    let mut topics: Vec<ReassignableTopic> = Vec::new();
    for (word, replicas) in arguments.rest() {
        let (topic, partition_index) = topic_partition(&word)?;
        let replicas = match replicas.as_str() {
            "none" => None,
            "empty" => Some(Vec::new()),
            ids => {
                let ids = ids.split(',').map(|id| if id == "own" { Ok(own) } else { id.parse() });
                Some(ids.collect::<Result<_, _>>().map_err(|_| format!("{replicas} are no nodes"))?)
            }
        };
        let partition = ReassignablePartition { partition_index, replicas };
        let name = session.names.wire(&topic);
        match topics.iter_mut().find(|topic| topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(ReassignableTopic { name, partitions: vec![partition] }),
        }
    }
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: TIMEOUT_MS,
        allow_replication_factor_change: !fixed_count,
        topics,
    };
    let answer = session.call(&request, version)?;
    let mut output = with_message(session, answer.error_code, answer.error_message.as_ref()) + "\n";
    for topic in &answer.responses {
        for partition in &topic.partitions {
            let told = with_message(session, partition.error_code, partition.error_message.as_ref());
            let told = told.replace(&format!("broker {own} "), "broker own ");
            let name = session.names.shown(&topic.name);
            let _ = writeln!(output, "{name}-{} {told}", partition.partition_index);
        }
    }
    Ok(output)
}

/// `list-reassignments [t-0 ...]`
pub(super) fn list_reassignments(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let words = arguments.words_until("");
    let topics = by_topic(session, &words)?
        .into_iter()
        .map(|(name, partition_indexes)| ListPartitionReassignmentsTopics { name, partition_indexes });
    let request = ListPartitionReassignmentsRequest {
        timeout_ms: TIMEOUT_MS,
        topics: (!words.is_empty()).then(|| topics.collect()),
    };
    let answer = session.call(&request, 0)?;
    let told = with_message(session, answer.error_code, answer.error_message.as_ref());
    Ok(format!("{told} on-their-way={}\n", answer.topics.len()))
}

/// `describe-quorum [__cluster_metadata-0 ...] [version=2]`
pub(super) fn describe_quorum(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let words = arguments.words_until("");
    let topics = by_topic(session, &words)?.into_iter().map(|(topic_name, partitions)| TopicData {
        topic_name,
        partitions: partitions.into_iter().map(|partition_index| PartitionData { partition_index }).collect(),
    });
    let request = DescribeQuorumRequest { topics: topics.collect() };
    let own = own_node(session)?;
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    let mut output = with_message(session, answer.error_code, answer.error_message.as_ref()) + "\n";
    for topic in &answer.topics {
        for partition in &topic.partitions {
            let told = with_message(session, partition.error_code, partition.error_message.as_ref());
            let name = session.names.shown(&topic.topic_name);
            let _ = write!(output, "{name}-{} {told}", partition.partition_index);
            if partition.error_code == 0 {
                let voters: Vec<_> = partition.current_voters.iter().map(|voter| voter.replica_id).collect();
                let up_to_date = partition
                    .current_voters
                    .iter()
                    .all(|voter| voter.log_end_offset == partition.high_watermark);
                let _ = write!(
                    output,
                    " led-by-own={} own-alone-votes={} up-to-date={up_to_date} observers={}",
                    partition.leader_id == own,
                    voters == [own],
                    partition.observers.len()
                );
            }
            output.push('\n');
        }
    }
    Ok(output)
}
