//! Commands about classic groups.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use sharemark_protocol::StrBytes;
use sharemark_protocol::messages as m;

use m::describe_groups_request::DescribeGroupsRequest;
use m::heartbeat_request::HeartbeatRequest;
use m::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use m::join_group_response::JoinGroupResponse;
use m::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use m::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use m::sync_group_response::SyncGroupResponse;

use super::arguments::{Arguments, CommandError, topic_partition};
use super::embedded;
use super::groups::group_and_member;
use super::names::error;
use super::session::Session;
use crate::client::Request;

const AWAIT_MAX: Duration = Duration::from_secs(20);
const SESSION_TIMEOUT_MS: i32 = 10_000;
const REBALANCE_TIMEOUT_MS: i32 = 20_000;
/// The text that stands for no id, where the member's own is not wanted.
const NOBODY: &str = "-";

/// A member of a classic group as a client knows it.
#[derive(Clone, Debug, Default)]
pub struct ClassicMember {
    /// The id that it was told.
    pub id: String,
    /// The generation that it joined last.
    pub generation: i32,
}

/// Returns the id that a request names: that of the member, unless `id=` says another (`-` for none).
fn wire_id(session: &Session<'_>, who: &(String, String), arguments: &mut Arguments) -> StrBytes {
    match arguments.option("id") {
        Some(id) if id == NOBODY => StrBytes::new(),
        Some(id) => {
            let known = session.classic_members.get(&(who.0.clone(), id.clone()));
            known.map_or_else(|| id.as_str().into(), |known| known.id.as_str().into())
        }
        None => session.classic_members.get(who).map_or_else(StrBytes::new, |known| known.id.as_str().into()),
    }
}

/// Returns what a member id is called here.
pub(super) fn shown_id(session: &Session<'_>, group: &str, id: &str) -> String {
    if id.is_empty() {
        return NOBODY.to_owned();
    }
    let mut members = session.classic_members.iter();
    let known = members.find(|((of, _), known)| of == group && known.id == id);
    known.map_or_else(|| "unknown".to_owned(), |((_, name), _)| name.clone())
}

/// `join-group [group=g] [member=A] [id=-] [instance=i] [protocols=range] [type=consumer] [topics=t] [says=text]
/// [owned=t-0,t-1] [subscription=0] [session=10000] [rebalance=20000] [version=9] [async]`
///
/// `says` is the metadata under each protocol in place of a consumer's subscription to `topics`, which names what the
/// member has from its version 1 on. With `async` the answer is for `await-join`. Each member has a connection of its
/// own.
pub(super) fn join_group(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let link = Session::link_name(arguments, &who.1);
    let version: i16 = arguments.number("version", 9)?;
    let topics = arguments.list("topics").unwrap_or_default();
    let owned = arguments.list("owned").unwrap_or_default();
    let owned = owned.iter().map(|word| topic_partition(word)).collect::<Result<Vec<_>, _>>()?;
    let subscription_version = arguments.number("subscription", 0)?;
    let metadata = match arguments.option("says") {
        Some(text) => Bytes::from(text),
        None => embedded::subscription(&session.names, &topics, &owned, subscription_version),
    };
    let protocols = arguments.list("protocols").unwrap_or_else(|| vec!["range".to_owned()]);
    let request = JoinGroupRequest {
        group_id: session.names.wire(&who.0),
        session_timeout_ms: arguments.number("session", SESSION_TIMEOUT_MS)?,
        rebalance_timeout_ms: arguments.number("rebalance", REBALANCE_TIMEOUT_MS)?,
        member_id: wire_id(session, &who, arguments),
        group_instance_id: arguments.option("instance").map(Into::into),
        protocol_type: arguments.text("type", "consumer").into(),
        protocols: protocols
            .into_iter()
            .map(|name| JoinGroupRequestProtocol { name: name.into(), metadata: metadata.clone() })
            .collect(),
        reason: None,
    };
    if arguments.flag("async") {
        session.send_on(&link, &request, version)?;
        return Ok(String::new());
    }
    let answer = session.call_on(&link, &request, version)?;
    Ok(joined(session, &who, &answer))
}

fn joined(session: &mut Session<'_>, who: &(String, String), answer: &JoinGroupResponse) -> String {
    let with_id = ["NONE", "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"];
    let is_told_an_id = with_id.contains(&error(answer.error_code).as_str()) && !answer.member_id.is_empty();
    if is_told_an_id {
        let known = session.classic_members.entry(who.clone()).or_default();
        known.id = answer.member_id.to_string();
        known.generation = answer.generation_id;
    }
    let mut output =
        format!("{} member={}", error(answer.error_code), shown_id(session, &who.0, &answer.member_id));
    if answer.error_code == 0 {
        let mut members: Vec<String> = answer
            .members
            .iter()
            .map(|member| {
                let place = member.group_instance_id.as_ref().map(|place| format!("/{place}"));
                format!("{}{}", shown_id(session, &who.0, &member.member_id), place.unwrap_or_default())
            })
            .collect();
        members.sort();
        let _ = write!(
            output,
            " generation={} type={} protocol={} leader={} members={}",
            answer.generation_id,
            answer.protocol_type.as_deref().unwrap_or("null"),
            answer.protocol_name.as_deref().unwrap_or("null"),
            shown_id(session, &who.0, &answer.leader),
            if members.is_empty() { NOBODY.to_owned() } else { members.join(",") },
        );
        if answer.skip_assignment {
            output.push_str(" skips-assignment");
        }
    }
    output + "\n"
}

/// Says whether an answer came in time, if that is asked for.
fn in_time(session: &Session<'_>, sent_ms: u64, from: u64, to: Option<u64>) -> String {
    let Some(to) = to else { return String::new() };
    let after = session.elapsed_ms().saturating_sub(sent_ms);
    if from <= after && after <= to { "in time\n".to_owned() } else { format!("after {after} ms\n") }
}

/// Receives the answer to what a member has asked with `async`, and says whether it came in time.
fn receive_waiting<R: Request>(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
    member: &str,
    none: &'static str,
) -> Result<(R::Response, String), CommandError> {
    let link = Session::link_name(arguments, member);
    let (from, to) = (arguments.number("from", 0)?, arguments.number_if_given("to")?);
    let (answer, sent_ms) = session.receive_on::<R>(&link, AWAIT_MAX)?.ok_or(none)?;
    let times = in_time(session, sent_ms, from, to);
    Ok((answer, times))
}

/// `await-join [group=g] [member=A] [from=MS] [to=MS]`: the answer of an earlier `join-group ... async`.
pub(super) fn await_join(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let none = "no answer to the waiting join-group";
    let (answer, times) = receive_waiting::<JoinGroupRequest>(session, arguments, &who.1, none)?;
    Ok(joined(session, &who, &answer) + &times)
}

/// `sync-group [group=g] [member=A] [id=-] [instance=i] [generation=N] [assign=A:x,B:y] [assigns=A:t-0+t-1] [partitions]
/// [type=consumer] [protocol=range] [version=5] [async]`: a text for each member, or partitions as consumers assign
/// them; `-` as type or protocol for none. `partitions` shows those of the answer.
pub(super) fn sync_group(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let link = Session::link_name(arguments, &who.1);
    let version: i16 = arguments.number("version", 5)?;
    let generation = session.classic_members.get(&who).map_or(-1, |known| known.generation);
    let given = |text: String| Some(text).filter(|text| text != NOBODY).map(Into::into);
    let texts = arguments.list("assign").unwrap_or_default().into_iter().map(|word| (word, false));
    let partitions = arguments.list("assigns").unwrap_or_default().into_iter().map(|word| (word, true));
    let mut assignments = Vec::new();
    for (word, is_decoded) in texts.chain(partitions) {
        let (member, text) = word.split_once(':').ok_or("assign=MEMBER:TEXT,...")?;
        let known = session.classic_members.get(&(who.0.clone(), member.to_owned()));
        let member_id = known.map_or_else(|| member.into(), |known| known.id.as_str().into());
        let assignment = if is_decoded {
            embedded::assignment(&session.names, text)?
        } else {
            Bytes::from(text.to_owned())
        };
        assignments.push(SyncGroupRequestAssignment { member_id, assignment });
    }
    let decodes = arguments.flag("partitions");
    let request = SyncGroupRequest {
        group_id: session.names.wire(&who.0),
        generation_id: arguments.number("generation", generation)?,
        member_id: wire_id(session, &who, arguments),
        group_instance_id: arguments.option("instance").map(Into::into),
        protocol_type: given(arguments.text("type", "consumer")),
        protocol_name: given(arguments.text("protocol", "range")),
        assignments,
    };
    if arguments.flag("async") {
        session.send_on(&link, &request, version)?;
        return Ok(String::new());
    }
    let answer = session.call_on(&link, &request, version)?;
    Ok(synced(session, &answer, decodes))
}

fn synced(session: &Session<'_>, answer: &SyncGroupResponse, decodes: bool) -> String {
    if answer.error_code != 0 {
        return format!("{}\n", error(answer.error_code));
    }
    format!(
        "NONE type={} protocol={} assignment={}\n",
        answer.protocol_type.as_deref().unwrap_or("null"),
        answer.protocol_name.as_deref().unwrap_or("null"),
        shown_assignment(session, &answer.assignment, decodes)
    )
}

fn shown_assignment(session: &Session<'_>, bytes: &Bytes, decodes: bool) -> String {
    if decodes { embedded::shown_assignment(&session.names, bytes) } else { text_of(bytes) }
}

/// Returns bytes that a transcript gave as a text.
fn text_of(bytes: &Bytes) -> String {
    if bytes.is_empty() { NOBODY.to_owned() } else { String::from_utf8_lossy(bytes).into_owned() }
}

/// `await-sync [group=g] [member=A] [from=MS] [to=MS]`: the answer of an earlier `sync-group ... async`.
pub(super) fn await_sync(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let none = "no answer to the waiting sync-group";
    let (answer, times) = receive_waiting::<SyncGroupRequest>(session, arguments, &who.1, none)?;
    Ok(synced(session, &answer, false) + &times)
}

/// `group-heartbeat [group=g] [member=A] [id=-] [instance=i] [generation=N] [version=4]`
pub(super) fn group_heartbeat(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let who = group_and_member(arguments);
    let generation = session.classic_members.get(&who).map_or(-1, |known| known.generation);
    let request = HeartbeatRequest {
        group_id: session.names.wire(&who.0),
        generation_id: arguments.number("generation", generation)?,
        member_id: wire_id(session, &who, arguments),
        group_instance_id: arguments.option("instance").map(Into::into),
    };
    let answer = session.call(&request, arguments.number("version", 4)?)?;
    Ok(format!("{}\n", error(answer.error_code)))
}

/// `leave-group [group=g] A B/instance -/instance ... [version=5]`: members with their places, or places alone.
pub(super) fn leave_group(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let group = arguments.text("group", "g");
    let version: i16 = arguments.number("version", 5)?;
    let mut members = Vec::new();
    for word in arguments.words_until("") {
        let (name, place) = match word.split_once('/') {
            Some((name, place)) => (name, Some(place)),
            None => (word.as_str(), None),
        };
        let known = session.classic_members.get(&(group.clone(), name.to_owned()));
        let member_id = match known {
            Some(known) => known.id.as_str().into(),
            None if name == NOBODY => StrBytes::new(),
            None => name.into(),
        };
        members.push(MemberIdentity { member_id, group_instance_id: place.map(Into::into), reason: None });
    }
    let mut request =
        LeaveGroupRequest { group_id: session.names.wire(&group), members, ..LeaveGroupRequest::default() };
    if version < 3 {
        let first = request.members.first().ok_or("a member leaves")?;
        request.member_id = first.member_id.clone();
        request.members.clear();
    }
    let answer = session.call(&request, version)?;
    let mut output = format!("{}\n", error(answer.error_code));
    for member in &answer.members {
        let place = member.group_instance_id.as_ref().map(|place| format!("/{place}"));
        let name = shown_id(session, &group, &member.member_id);
        output += &format!("{name}{} {}\n", place.unwrap_or_default(), error(member.error_code));
    }
    Ok(output)
}

/// `describe-groups g h ... [operations] [partitions] [version=6]`: `partitions` shows what consumers are assigned.
pub(super) fn describe_groups(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let version: i16 = arguments.number("version", 6)?;
    let (with_operations, decodes) = (arguments.flag("operations"), arguments.flag("partitions"));
    let groups = arguments.words_until("");
    let request = DescribeGroupsRequest {
        groups: groups.iter().map(|group| session.names.wire(group)).collect(),
        include_authorized_operations: with_operations,
    };
    let answer = session.call(&request, version)?;
    let mut output = String::new();
    for group in &answer.groups {
        let name = session.names.shown(&group.group_id);
        let _ = write!(
            output,
            "{name} {} state={} type={} protocol={}",
            error(group.error_code),
            shown_text(&group.group_state),
            shown_text(&group.protocol_type),
            shown_text(&group.protocol_data)
        );
        if let Some(message) = &group.error_message {
            let _ = write!(output, " message=`{}`", session.names.shown(message));
        }
        if with_operations {
            let _ = write!(output, " operations={}", group.authorized_operations);
        }
        output.push('\n');
        let mut members: Vec<String> = group
            .members
            .iter()
            .map(|member| {
                format!(
                    "{} instance={} client={} host={} metadata={} assignment={}\n",
                    shown_id(session, &name, &member.member_id),
                    member.group_instance_id.as_deref().unwrap_or("null"),
                    &*member.client_id,
                    &*member.client_host,
                    if member.member_metadata.is_empty() { "no" } else { "yes" },
                    shown_assignment(session, &member.member_assignment, decodes)
                )
            })
            .collect();
        members.sort();
        output += &members.concat();
    }
    Ok(output)
}

fn shown_text(text: &str) -> &str {
    if text.is_empty() { NOBODY } else { text }
}
