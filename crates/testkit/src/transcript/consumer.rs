//! Commands about consumer groups of KIP-848: membership, description, and the records that tell of them.

use std::fmt::Write;

use sharemark_group_coordinator::{
    ClassicGroupMetadata, ClassicMemberMetadata, ConsumerGroupRecord, ConsumerMemberAssignment,
    ConsumerMemberMetadata, GroupRecord, PartitionEpochs,
};
use sharemark_protocol::messages as m;
use sharemark_protocol::{StrBytes, TopicId};

use m::consumer_group_describe_request::ConsumerGroupDescribeRequest;
use m::consumer_group_describe_response::{Assignment as DescribedAssignment, Member as DescribedMember};
use m::consumer_group_heartbeat_request::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use m::consumer_group_heartbeat_response::Assignment;

use super::arguments::{Arguments, CommandError, topic_partition};
use super::classic::shown_id;
use super::embedded;
use super::groups::{group_and_member, shown_partitions};
use super::internal::{read_topic, unseen};
use super::names::error;
use super::session::Session;

const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// How long a member that joins says it takes to give partitions up, unless it says otherwise.
const REBALANCE_TIMEOUT_MS: i32 = 300_000;

/// `consumer-heartbeat [group=g] [member=A] [epoch=N] [topics=t,u] [regex=t.*] [instance=i] [rack=r] [assignor=range]
/// [timeout=60000] [owned=t-0,t-1] [owned] [full] [bare] [version=1] [interval] [counted] [no-epoch] [show-member]`
///
/// One that joins tells its timeout and that it owns nothing, unless it is `bare`. A `full` one repeats all it was
/// told of its assignment. `owned` without a list says that it has nothing; `regex` takes the expression back.
pub(super) fn consumer_heartbeat(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let request = request(session, &who, arguments)?;
    let version = arguments.number("version", 1)?;
    let (interval, counted) = (arguments.flag("interval"), arguments.flag("counted"));
    let (with_epoch, with_member) = (!arguments.flag("no-epoch"), arguments.flag("show-member"));
    let answer = session.call(&request, version)?;
    let mut output = error(answer.error_code);
    if answer.error_code != 0 {
        return Ok(output + "\n");
    }
    let told = answer.assignment.as_ref().map(|assignment| assigned(session, assignment));
    let known = session.member(&who.0, &who.1);
    known.epoch = answer.member_epoch;
    if let Some(told) = &told {
        known.assigned.clone_from(told);
    }
    if with_epoch {
        let _ = write!(output, " epoch={}", answer.member_epoch);
    }
    let shown =
        told.as_deref().map_or_else(|| "unchanged".to_owned(), |told| shown_partitions(told, counted));
    let _ = write!(output, " assignment={shown}");
    if interval {
        let _ = write!(output, " interval_ms={}", answer.heartbeat_interval_ms);
    }
    if with_member {
        let member_id = answer.member_id.as_deref().unwrap_or("null");
        let shown = if member_id == who.1 { member_id } else { "another" };
        let _ = write!(output, " member={shown}");
    }
    Ok(output + "\n")
}

fn request(
    session: &mut Session<'_>,
    who: &(String, String),
    arguments: &mut Arguments,
) -> Result<ConsumerGroupHeartbeatRequest, CommandError> {
    let known = session.member(&who.0, &who.1).clone();
    let member_epoch = arguments.number("epoch", known.epoch)?;
    let tells_defaults = member_epoch == 0 && !arguments.flag("bare");
    let is_full = arguments.flag("full");
    let owned = match arguments.list("owned") {
        Some(list) => Some(list.iter().map(|it| topic_partition(it)).collect::<Result<Vec<_>, _>>()?),
        None if arguments.flag("owned") || tells_defaults => Some(Vec::new()),
        None => is_full.then_some(known.assigned),
    };
    let owned = owned.map(|owned| owned_topics(session, &owned)).transpose()?;
    let timeout = arguments.number_if_given("timeout")?;
    let default_timeout = if tells_defaults || is_full { REBALANCE_TIMEOUT_MS } else { -1 };
    let regex = match arguments.option("regex") {
        Some(regex) => Some(StrBytes::from(regex.replace('~', &session.names.wire("~")[1..]))),
        None => arguments.flag("regex").then(StrBytes::default),
    };
    let names = arguments.list("topics");
    Ok(ConsumerGroupHeartbeatRequest {
        group_id: session.names.wire(&who.0),
        member_id: if who.1 == "none" { StrBytes::default() } else { who.1.clone().into() },
        member_epoch,
        instance_id: arguments.option("instance").map(Into::into),
        rack_id: arguments.option("rack").map(Into::into),
        rebalance_timeout_ms: timeout.unwrap_or(default_timeout),
        subscribed_topic_names: names
            .map(|names| names.iter().map(|name| session.names.wire(name)).collect()),
        subscribed_topic_regex: regex,
        server_assignor: arguments.option("assignor").map(Into::into),
        topic_partitions: owned,
    })
}

fn owned_topics(
    session: &Session<'_>,
    owned: &[(String, i32)],
) -> Result<Vec<TopicPartitions>, CommandError> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for (topic, partition) in owned {
        let topic_id = session.names.topic_id(topic).ok_or_else(|| format!("no topic {topic}"))?;
        match topics.iter_mut().find(|known| known.topic_id == topic_id) {
            Some(known) => known.partitions.push(*partition),
            None => topics.push(TopicPartitions { topic_id, partitions: vec![*partition] }),
        }
    }
    Ok(topics)
}

fn assigned(session: &Session<'_>, assignment: &Assignment) -> Vec<(String, i32)> {
    named(session, assignment.topic_partitions.iter().map(|topic| (topic.topic_id, topic.partitions.clone())))
}

fn named(session: &Session<'_>, topics: impl Iterator<Item = (TopicId, Vec<i32>)>) -> Vec<(String, i32)> {
    let mut partitions: Vec<(String, i32)> = topics
        .flat_map(|(topic_id, partitions)| {
            let name = session.names.topic(topic_id);
            partitions.into_iter().map(move |partition| (name.clone(), partition))
        })
        .collect();
    partitions.sort();
    partitions
}

/// `describe-consumer-group g [version=1] [counted] [no-epoch]`
pub(super) fn describe_consumer_group(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.word("group")?;
    let (counted, with_epoch) = (arguments.flag("counted"), !arguments.flag("no-epoch"));
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![session.names.wire(&name)],
        include_authorized_operations: false,
    };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let group = answer.groups.first().ok_or("no group in the answer")?;
    if group.error_code != 0 {
        return Ok(format!("{}\n", error(group.error_code)));
    }
    let epoch = |name: &str, epoch: i32| if with_epoch { format!(" {name}={epoch}") } else { String::new() };
    let mut output = format!(
        "NONE {}{}{} assignor={}\n",
        &*group.group_state,
        epoch("epoch", group.group_epoch),
        epoch("assignment_epoch", group.assignment_epoch),
        &*group.assignor_name
    );
    let members = group.members.iter();
    let mut members: Vec<String> = members
        .map(|member| {
            let name = member_name(session, &name, &member.member_id);
            let head = format!("{name}{}", epoch("epoch", member.member_epoch));
            head + &described(session, member, counted)
        })
        .collect();
    members.sort();
    output += &members.concat();
    Ok(output)
}

fn described(session: &Session<'_>, member: &DescribedMember, counted: bool) -> String {
    let shown = |assignment: &DescribedAssignment| {
        let topics = assignment.topic_partitions.iter();
        shown_partitions(
            &named(session, topics.map(|topic| (topic.topic_id, topic.partitions.clone()))),
            counted,
        )
    };
    let mut topics: Vec<String> =
        member.subscribed_topic_names.iter().map(|name| session.names.shown(name)).collect();
    topics.sort();
    let mut text = format!(" client={} topics={}", &*member.client_id, topics.join(","));
    if let Some(regex) = &member.subscribed_topic_regex {
        let _ = write!(text, " regex={}", session.names.shown(regex));
    }
    for (name, value) in [("instance", &member.instance_id), ("rack", &member.rack_id)] {
        if let Some(value) = value {
            let _ = write!(text, " {name}={}", &**value);
        }
    }
    let (assigned, target) = (shown(&member.assignment), shown(&member.target_assignment));
    let _ = writeln!(text, " assigned={assigned} target={target} type={}", member.member_type);
    text
}

/// Returns what a member is called here: an id that a broker made is named by the client that has it.
fn member_name(session: &Session<'_>, group: &str, member_id: &str) -> String {
    let known = shown_id(session, group, member_id);
    if known == "unknown" { member_id.to_owned() } else { known }
}

/// `consumer-log [group=g] [sorted]`: what `__consumer_offsets` got of the group's own records since the last look, one
/// line for each; `sorted` where Kafka writes them in the order of a hash table.
pub(super) fn consumer_log(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let name = arguments.text("group", "g");
    let is_sorted = arguments.flag("sorted");
    let group = session.names.wire(&name);
    session.settle(); // What a timer writes nobody waits for.
    let mut lines = Vec::new();
    for batch in read_topic(session, CONSUMER_OFFSETS)? {
        for record in &batch.records {
            let Some(key) = &record.key else { continue };
            // Records of other kinds of groups may be of types that are not known here.
            let line = match GroupRecord::decode(key, record.value.as_ref()) {
                Ok(GroupRecord::Consumer(record)) if **record.group_id() == *group => {
                    record_text(session, &name, &record)
                }
                Ok(GroupRecord::ClassicGroup { group_id, value }) if *group_id == *group => {
                    text("classic", value.as_ref().map(|value| classic_text(session, &name, value)))
                }
                Ok(_) | Err(_) => continue,
            };
            lines.push(line + "\n");
        }
    }
    let shown = unseen(session, format!("consumer-log {}", &*group), lines);
    if !is_sorted {
        return Ok(shown);
    }
    let mut lines: Vec<&str> = shown.split_inclusive('\n').collect();
    lines.sort_unstable();
    Ok(lines.concat())
}

fn classic_text(session: &Session<'_>, group: &str, value: &ClassicGroupMetadata) -> String {
    let mut members: Vec<String> = value
        .members
        .iter()
        .map(|member| {
            let place = member.group_instance_id.as_ref().map(|place| format!("/{place}"));
            format!(
                "{}{} client={} session={} rebalance={} assignment={}",
                member_name(session, group, &member.member_id),
                place.unwrap_or_default(),
                member.client_id,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                embedded::shown_assignment(&session.names, &member.assignment)
            )
        })
        .collect();
    members.sort();
    let leader = value.leader.as_ref().map(|leader| member_name(session, group, leader));
    format!(
        "generation={} type={} protocol={} leader={} {}",
        value.generation,
        value.protocol_type,
        value.protocol.as_deref().unwrap_or("null"),
        leader.as_deref().unwrap_or("null"),
        members.join("; ")
    )
}

fn record_text(session: &Session<'_>, group: &str, record: &ConsumerGroupRecord) -> String {
    let name = |member_id| member_name(session, group, member_id);
    match record {
        ConsumerGroupRecord::Metadata { value, .. } => {
            let head = |value: &sharemark_group_coordinator::ConsumerGroupMetadata| {
                let hash = if value.metadata_hash == 0 { "none" } else { "some" };
                format!("epoch={} hash={hash}", value.epoch)
            };
            text("group", value.as_ref().map(head))
        }
        ConsumerGroupRecord::PartitionMetadata { value, .. } => {
            text("partition-metadata", value.as_ref().map(|_| "some".to_owned()))
        }
        ConsumerGroupRecord::MemberMetadata { member_id, value, .. } => {
            let value = value.as_ref().map(|value| member_text(session, value));
            text(&format!("member {}", name(member_id)), value)
        }
        ConsumerGroupRecord::TargetAssignmentMetadata { value, .. } => {
            let head = |value: &sharemark_group_coordinator::ConsumerAssignmentMetadata| {
                let time = if value.timestamp.is_some() { "some" } else { "none" };
                format!("epoch={} time={time}", value.epoch)
            };
            text("target", value.as_ref().map(head))
        }
        ConsumerGroupRecord::TargetAssignmentMember { member_id, value, .. } => {
            let topics = value.as_ref().map(|topics| {
                let topics = topics.iter().map(|(id, list)| (*id, list.iter().copied().collect()));
                shown_partitions(&named(session, topics), false)
            });
            text(&format!("target {}", name(member_id)), topics)
        }
        ConsumerGroupRecord::CurrentMemberAssignment { member_id, value, .. } => {
            let value = value.as_ref().map(|value| current_text(session, value));
            text(&format!("current {}", name(member_id)), value)
        }
        ConsumerGroupRecord::RegularExpression { regex, value, .. } => {
            let topics = value.as_ref().map(|value| {
                let names: Vec<String> = value.topics.iter().map(|name| session.names.shown(name)).collect();
                format!("topics={}", names.join(","))
            });
            text(&format!("regex {}", session.names.shown(regex)), topics)
        }
    }
}

fn text(what: &str, value: Option<String>) -> String {
    format!("{what} {}", value.unwrap_or_else(|| "tombstone".into()))
}

fn member_text(session: &Session<'_>, value: &ConsumerMemberMetadata) -> String {
    let names = value.subscribed_topic_names.iter().map(|name| session.names.shown(name));
    let shown =
        |text: &Option<_>| text.as_deref().map_or("null".to_owned(), |text| session.names.shown(text));
    format!(
        "client={} topics={} regex={} instance={} rack={} assignor={} timeout={}{}",
        value.client_id,
        names.collect::<Vec<_>>().join(","),
        shown(&value.subscribed_topic_regex),
        shown(&value.instance_id),
        shown(&value.rack_id),
        shown(&value.server_assignor),
        value.rebalance_timeout_ms.unwrap_or(-1),
        value.classic.as_ref().map(classic_member_text).unwrap_or_default()
    )
}

fn classic_member_text(classic: &ClassicMemberMetadata) -> String {
    let names: Vec<&str> = classic.supported_protocols.iter().map(|(name, _)| &**name).collect();
    format!(" classic session={} protocols={}", classic.session_timeout_ms, names.join(","))
}

fn current_text(session: &Session<'_>, value: &ConsumerMemberAssignment) -> String {
    let shown = |partitions: &PartitionEpochs| {
        let mut names: Vec<String> = partitions
            .iter()
            .flat_map(|(topic_id, epochs)| {
                let name = session.names.topic(*topic_id);
                epochs.iter().map(move |(partition, epoch)| format!("{name}-{partition}@{epoch}"))
            })
            .collect();
        names.sort();
        if names.is_empty() { "none".to_owned() } else { names.join(",") }
    };
    format!(
        "epoch={} previous={} {:?} assigned={} revoking={}",
        value.member_epoch.get(),
        value.previous_member_epoch.map_or(-1, |epoch| epoch.get()),
        value.state,
        shown(&value.assigned),
        shown(&value.pending_revocation)
    )
}
