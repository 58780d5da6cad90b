//! Commands about share groups: membership, description, offsets.

use std::fmt::Write;

use sharemark_protocol::StrBytes;
use sharemark_protocol::messages as m;

use m::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use m::delete_groups_request::DeleteGroupsRequest;
use m::delete_share_group_offsets_request::{
    DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic,
};
use m::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
};
use m::find_coordinator_request::FindCoordinatorRequest;
use m::list_groups_request::ListGroupsRequest;
use m::share_group_describe_request::ShareGroupDescribeRequest;
use m::share_group_heartbeat_request::ShareGroupHeartbeatRequest;
use m::share_group_heartbeat_response::ShareGroupHeartbeatResponse;

use super::arguments::{Arguments, CommandError, topic_partition};
use super::names::error;
use super::session::Session;

const JOIN_TRIES: u32 = 400;
const JOIN_STEP_MS: u64 = 25;

/// The group and the member of a command, by default `g` and `A`.
pub(super) fn group_and_member(arguments: &mut Arguments) -> (String, String) {
    (arguments.text("group", "g"), arguments.text("member", "A"))
}

fn beat(
    session: &mut Session<'_>,
    (group, member): &(String, String),
    epoch: i32,
    topics: Option<Vec<StrBytes>>,
    rack: Option<String>,
) -> Result<ShareGroupHeartbeatResponse, CommandError> {
    let request = ShareGroupHeartbeatRequest {
        group_id: session.names.wire(group),
        member_id: member.clone().into(),
        member_epoch: epoch,
        rack_id: rack.map(Into::into),
        subscribed_topic_names: topics,
    };
    let answer = session.call(&request, 1)?;
    if answer.error_code == 0 {
        let assigned = answer.assignment.as_ref().map(|assignment| assigned(session, assignment));
        let known = session.member(group, member);
        known.epoch = answer.member_epoch;
        if let Some(assigned) = assigned {
            known.assigned = assigned;
        }
    }
    Ok(answer)
}

fn assigned(
    session: &Session<'_>,
    assignment: &m::share_group_heartbeat_response::Assignment,
) -> Vec<(String, i32)> {
    let mut partitions: Vec<(String, i32)> = assignment
        .topic_partitions
        .iter()
        .flat_map(|topic| {
            let name = session.names.topic(topic.topic_id);
            topic.partitions.iter().map(move |partition| (name.clone(), *partition))
        })
        .collect();
    partitions.sort();
    partitions
}

/// Returns the partitions, or only how many they are: which members get which depends on Kafka's hashes.
pub(super) fn shown_partitions(partitions: &[(String, i32)], counted: bool) -> String {
    if partitions.is_empty() {
        return "none".into();
    }
    if counted {
        return format!("{} partitions", partitions.len());
    }
    let names: Vec<String> = partitions.iter().map(|(topic, index)| format!("{topic}-{index}")).collect();
    names.join(",")
}

fn subscription(session: &Session<'_>, arguments: &mut Arguments) -> Option<Vec<StrBytes>> {
    arguments.list("topics").map(|topics| topics.iter().map(|topic| session.names.wire(topic)).collect())
}

/// `join [group=g] [member=A] topics=t,u [counted]`: heartbeats until it is assigned something.
pub(super) fn join(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let topics = subscription(session, arguments);
    let counted = arguments.flag("counted");
    let mut answer = beat(session, &who, 0, topics, None)?;
    for _ in 0..JOIN_TRIES {
        let member = session.member(&who.0, &who.1);
        if answer.error_code != 0 || !member.assigned.is_empty() {
            break;
        }
        let epoch = member.epoch;
        session.advance(JOIN_STEP_MS);
        answer = beat(session, &who, epoch, None, None)?;
    }
    if answer.error_code != 0 {
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    let assigned = shown_partitions(&session.member(&who.0, &who.1).assigned, counted);
    Ok(format!("NONE assigned={assigned}\n"))
}

/// `heartbeat [group=g] [member=A] [epoch=N] [topics=t,u] [rack=r] [interval] [counted] [no-epoch]`
pub(super) fn heartbeat(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let epoch = session.member(&who.0, &who.1).epoch;
    let epoch = arguments.number("epoch", epoch)?;
    let topics = subscription(session, arguments);
    let rack = arguments.option("rack");
    let interval = arguments.flag("interval");
    let with_epoch = !arguments.flag("no-epoch");
    let counted = arguments.flag("counted");
    let answer = beat(session, &who, epoch, topics, rack)?;
    let mut output = error(answer.error_code);
    if answer.error_code == 0 {
        let assignment = answer.assignment.as_ref().map_or_else(
            || "unchanged".to_owned(),
            |assignment| shown_partitions(&assigned(session, assignment), counted),
        );
        if with_epoch {
            let _ = write!(output, " epoch={}", answer.member_epoch);
        }
        let _ = write!(output, " assignment={assignment}");
        if interval {
            let _ = write!(output, " interval_ms={}", answer.heartbeat_interval_ms);
        }
    }
    Ok(output + "\n")
}

/// `leave [group=g] [member=A]`
pub(super) fn leave(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let answer = beat(session, &who, -1, None, None)?;
    Ok(format!("{} epoch={}\n", error(answer.error_code), answer.member_epoch))
}

/// `describe-share-group g [counted] [no-epoch]`
pub(super) fn describe_share_group(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.word("group")?;
    let counted = arguments.flag("counted");
    let with_epoch = !arguments.flag("no-epoch");
    let request = ShareGroupDescribeRequest {
        group_ids: vec![session.names.wire(&group)],
        include_authorized_operations: false,
    };
    let answer = session.call(&request, 1)?;
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
    let mut members: Vec<String> = group
        .members
        .iter()
        .map(|member| {
            let mut partitions: Vec<(String, i32)> = member
                .assignment
                .topic_partitions
                .iter()
                .flat_map(|topic| {
                    let name = session.names.shown(&topic.topic_name);
                    topic.partitions.iter().map(move |partition| (name.clone(), *partition))
                })
                .collect();
            partitions.sort();
            let mut topics: Vec<String> =
                member.subscribed_topic_names.iter().map(|name| session.names.shown(name)).collect();
            topics.sort();
            format!(
                "{}{} client={} topics={} assigned={}\n",
                &*member.member_id,
                epoch("epoch", member.member_epoch),
                &*member.client_id,
                topics.join(","),
                shown_partitions(&partitions, counted)
            )
        })
        .collect();
    members.sort();
    output += &members.concat();
    Ok(output)
}

/// `list-groups [types=share] [states=Stable]`: those of this run.
pub(super) fn list_groups(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let filter = |list: Option<Vec<String>>| list.unwrap_or_default().into_iter().map(Into::into).collect();
    let request = ListGroupsRequest {
        states_filter: filter(arguments.list("states")),
        types_filter: filter(arguments.list("types")),
    };
    let answer = session.call(&request, 5)?;
    let mut lines: Vec<String> = answer
        .groups
        .iter()
        .filter(|group| session.names.is_ours(&group.group_id))
        .map(|group| {
            let name = session.names.shown(&group.group_id);
            format!(
                "{name} type={} state={} protocol={}\n",
                &*group.group_type, &*group.group_state, &*group.protocol_type
            )
        })
        .collect();
    lines.sort();
    Ok(format!("{}\n{}", error(answer.error_code), lines.concat()))
}

/// `describe-share-offsets [group=g] [t-0 ...] [version=1]`
pub(super) fn describe_share_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    session.settle();
    let group = arguments.text("group", "g");
    let mut request_group =
        DescribeShareGroupOffsetsRequestGroup { group_id: session.names.wire(&group), topics: None };
    for word in arguments.words_until("") {
        let (topic, partition) = topic_partition(&word)?;
        request_group.topics.get_or_insert_default().push(DescribeShareGroupOffsetsRequestTopic {
            topic_name: session.names.wire(&topic),
            partitions: vec![partition],
        });
    }
    let request = DescribeShareGroupOffsetsRequest { groups: vec![request_group] };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let group = answer.groups.first().ok_or("no group in the answer")?;
    if group.error_code != 0 {
        return Ok(format!("{}\n", error(group.error_code)));
    }
    let mut lines = Vec::new();
    for topic in &group.topics {
        let name = session.names.shown(&topic.topic_name);
        for partition in &topic.partitions {
            let mut line = format!("{name}-{} {}", partition.partition_index, error(partition.error_code));
            if partition.error_code == 0 {
                let _ = write!(line, " start_offset={} lag={}", partition.start_offset, partition.lag);
            }
            lines.push(line + "\n");
        }
    }
    lines.sort();
    Ok(if lines.is_empty() { "NONE nothing\n".into() } else { lines.concat() })
}

/// `alter-share-offsets [group=g] t-0 to=3`
pub(super) fn alter_share_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let (topic, partition) = topic_partition(&arguments.word("partition")?)?;
    let request = AlterShareGroupOffsetsRequest {
        group_id: session.names.wire(&group),
        topics: vec![AlterShareGroupOffsetsRequestTopic {
            topic_name: session.names.wire(&topic),
            partitions: vec![AlterShareGroupOffsetsRequestPartition {
                partition_index: partition,
                start_offset: arguments.number("to", -1)?,
            }],
        }],
    };
    let answer = session.call(&request, 0)?;
    let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
    let mut output = error(answer.error_code);
    if let Some(partition) = partition {
        let _ = write!(output, " {topic}-{} {}", partition.partition_index, error(partition.error_code));
    }
    Ok(output + "\n")
}

/// `delete-share-offsets [group=g] t u ...`
pub(super) fn delete_share_offsets(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let topics = arguments
        .words_until("")
        .iter()
        .map(|topic| DeleteShareGroupOffsetsRequestTopic { topic_name: session.names.wire(topic) })
        .collect();
    let request = DeleteShareGroupOffsetsRequest { group_id: session.names.wire(&group), topics };
    let answer = session.call(&request, 0)?;
    let mut lines: Vec<String> = answer
        .responses
        .iter()
        .map(|topic| format!("{} {}\n", session.names.shown(&topic.topic_name), error(topic.error_code)))
        .collect();
    lines.sort();
    Ok(format!("{}\n{}", error(answer.error_code), lines.concat()))
}

/// `delete-groups g h ...`
pub(super) fn delete_groups(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let groups = arguments.words_until("");
    let request =
        DeleteGroupsRequest { groups_names: groups.iter().map(|group| session.names.wire(group)).collect() };
    let answer = session.call(&request, 2)?;
    let mut lines: Vec<String> = answer
        .results
        .iter()
        .map(|result| format!("{} {}\n", session.names.shown(&result.group_id), error(result.error_code)))
        .collect();
    lines.sort();
    Ok(lines.concat())
}

/// `find-coordinator KEY type=group|txn|share|N [version=6]`
pub(super) fn find_coordinator(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let key = arguments.word("key")?;
    let key_type = match arguments.text("type", "group").as_str() {
        "group" => 0,
        "txn" => 1,
        "share" => 2,
        other => other.parse().map_err(|_| format!("type={other} is no coordinator type"))?,
    };
    let mut request = FindCoordinatorRequest { key_type, ..FindCoordinatorRequest::default() };
    let version: i16 = arguments.number("version", 6)?;
    if version < 4 {
        request.key = key.into();
        let answer = session.call(&request, version)?;
        return Ok(format!("{}\n", error(answer.error_code)));
    }
    request.coordinator_keys = vec![key.into()];
    let answer = session.call(&request, version)?;
    let codes: Vec<String> =
        answer.coordinators.iter().map(|coordinator| error(coordinator.error_code) + "\n").collect();
    Ok(codes.concat())
}
