//! One run of a transcript: what commands remember between them, and how a request goes out.

use std::collections::BTreeMap;
use std::time::Duration;

use sharemark_protocol::TopicId;
use sharemark_protocol::messages::metadata_request::MetadataRequest;

use super::arguments::{Arguments, CommandError, topic_partition};
use super::classic::ClassicMember;
use super::fetch_session::FetchSession;
use super::names::Names;
use super::target::{Kind, Received, Target};
use super::{
    admin, classic, cluster, consumer, fetch_session, groups, internal, log, offsets, share, state_requests,
    topics, txn,
};
use crate::client::{Request, decode_response, encode_request};

/// What a command prints when the broker closes the connection instead of answering.
pub(super) const CLOSED: &str = "connection closed\n";
/// How long an answer may take.
pub(super) const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
const METADATA_VERSION: i16 = 9;
const SETTLE_TRIES: u32 = 200;
const SETTLE_STEP_MS: u64 = 25;
/// The connection of commands that name none, unless `via` says another.
const MAIN: &str = "main";

/// A producer as a client knows it.
#[derive(Clone, Debug, Default)]
pub struct Producer {
    /// The transactional id, if it has one.
    pub transactional_id: Option<String>,
    /// The producer id.
    pub id: i64,
    /// The epoch.
    pub epoch: i16,
    /// The next sequence for each partition.
    pub sequences: BTreeMap<(String, i32), i32>,
}

/// A member of a share group as a client knows it.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// The epoch for the next heartbeat.
    pub epoch: i32,
    /// The epoch for the next request of the share session.
    pub session_epoch: i32,
    /// What it was assigned.
    pub assigned: Vec<(String, i32)>,
}

/// A request whose answer has not been read.
#[derive(Clone, Debug)]
struct Pending {
    version: i16,
    correlation_id: i32,
    /// When it was sent, by the target's time.
    sent_ms: u64,
}

#[derive(Debug, Default)]
struct Link {
    index: usize,
    correlation_id: i32,
    pending: Option<Pending>,
}

/// What the commands of one run share.
pub struct Session<'a> {
    target: &'a mut dyn Target,
    /// Names for what differs between runs.
    pub names: Names,
    links: BTreeMap<String, Link>,
    /// The connection of commands that name none.
    main: String,
    /// Producers by their name in the transcript.
    pub producers: BTreeMap<String, Producer>,
    /// Members by group and member.
    pub members: BTreeMap<(String, String), Member>,
    /// Members of classic groups by group and member.
    pub classic_members: BTreeMap<(String, String), ClassicMember>,
    /// Fetch sessions by their name in the transcript.
    pub fetch_sessions: BTreeMap<String, FetchSession>,
    /// How much of an internal topic each command has shown.
    pub seen: BTreeMap<String, usize>,
}

type Command = fn(&mut Session<'_>, &mut Arguments) -> Result<String, CommandError>;

/// All commands. Those that start with `state` read inner state and run on Sharemark only.
const COMMANDS: &[(&str, Command)] = &[
    ("add-offsets", offsets::add_offsets),
    ("add-partitions", txn::add_partitions),
    ("add-share-acks", txn::add_share_acks),
    ("advance", advance),
    ("alter-configs", topics::alter_configs),
    ("alter-credentials", cluster::alter_credentials),
    ("alter-quotas", cluster::alter_quotas),
    ("alter-share-offsets", groups::alter_share_offsets),
    ("await", share::await_answer),
    ("await-join", classic::await_join),
    ("await-sync", classic::await_sync),
    ("close", close),
    ("commit-offsets", offsets::commit_offsets),
    ("consumer-heartbeat", consumer::consumer_heartbeat),
    ("consumer-log", consumer::consumer_log),
    ("create-partitions", topics::create_partitions),
    ("create-topic", topics::create_topic),
    ("delete-groups", groups::delete_groups),
    ("delete-offsets", offsets::delete_offsets),
    ("delete-records", log::delete_records),
    ("delete-share-offsets", groups::delete_share_offsets),
    ("delete-share-state", state_requests::delete_share_state),
    ("delete-topic", topics::delete_topic),
    ("describe-configs", topics::describe_configs),
    ("describe-consumer-group", consumer::describe_consumer_group),
    ("describe-credentials", cluster::describe_credentials),
    ("describe-groups", classic::describe_groups),
    ("describe-producers", txn::describe_producers),
    ("describe-quorum", admin::describe_quorum),
    ("describe-quotas", cluster::describe_quotas),
    ("describe-share-group", groups::describe_share_group),
    ("describe-share-offsets", groups::describe_share_offsets),
    ("describe-txn", txn::describe_txn),
    ("elect", admin::elect),
    ("end-txn", txn::end_txn),
    ("features", cluster::features),
    ("fetch", log::fetch),
    ("fetch-group-offsets", offsets::fetch_group_offsets),
    ("fetch-offsets", offsets::fetch_offsets),
    ("fetch-session", fetch_session::fetch_session),
    ("find-coordinator", groups::find_coordinator),
    ("group-config", topics::group_config),
    ("group-heartbeat", classic::group_heartbeat),
    ("heartbeat", groups::heartbeat),
    ("init-producer", txn::init_producer),
    ("initialize-share-state", state_requests::initialize_share_state),
    ("join", groups::join),
    ("join-group", classic::join_group),
    ("leader-epoch-end", admin::leader_epoch_end),
    ("leave", groups::leave),
    ("leave-group", classic::leave_group),
    ("list-config-resources", topics::list_config_resources),
    ("list-groups", groups::list_groups),
    ("list-offsets", log::list_offsets),
    ("list-reassignments", admin::list_reassignments),
    ("list-txns", txn::list_txns),
    ("log-dirs", admin::log_dirs),
    ("metadata", topics::metadata),
    ("move-replicas", admin::move_replicas),
    ("open", open),
    ("produce", log::produce),
    ("read", log::read),
    ("read-share-state", internal::read_share_state),
    ("read-share-summary", state_requests::read_share_summary),
    ("reassign", admin::reassign),
    ("replace-configs", admin::replace_configs),
    ("sasl-authenticate", cluster::sasl_authenticate),
    ("sasl-handshake", cluster::sasl_handshake),
    ("seed-txn-share-acknowledge", txn::seed_txn_share_acknowledge),
    ("share-acknowledge", share::share_acknowledge),
    ("share-fetch", share::share_fetch),
    ("share-log", internal::share_log),
    ("spend-epochs", txn::spend_epochs),
    ("sync-group", classic::sync_group),
    ("txn-commit-offsets", offsets::txn_commit_offsets),
    ("txn-log", internal::txn_log),
    ("txn-share-acknowledge", txn::txn_share_acknowledge),
    ("unregister-broker", cluster::unregister_broker),
    ("update-features", cluster::update_features),
    ("write-markers", txn::write_markers),
    ("write-share-state", state_requests::write_share_state),
];

/// Commands whose request Kafka 4.4 does not have.
const SHAREMARK_ONLY: &[&str] = &["add-share-acks", "seed-txn-share-acknowledge", "txn-share-acknowledge"];

/// Returns whether a command can only run on Sharemark.
pub fn is_sharemark_only(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let name = match words.next() {
        Some("via") => words.nth(1),
        name => name,
    };
    let name = name.unwrap_or_default();
    name.starts_with("state") || SHAREMARK_ONLY.contains(&name)
}

impl<'a> Session<'a> {
    /// Starts a run on `target`.
    pub fn new(target: &'a mut dyn Target, names: Names) -> Self {
        Self {
            target,
            names,
            links: BTreeMap::new(),
            main: MAIN.to_owned(),
            producers: BTreeMap::new(),
            members: BTreeMap::new(),
            classic_members: BTreeMap::new(),
            fetch_sessions: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// Runs one command and returns what it prints, each line with its end.
    ///
    /// # Errors
    ///
    /// Returns why the command makes no sense, or that no answer came. An error code is no error here.
    pub fn run(&mut self, command: &str) -> Result<String, CommandError> {
        if let Some(rest) = command.strip_prefix("via ") {
            let (link, rest) = rest.split_once(' ').ok_or("via a connection, a command")?;
            let main = std::mem::replace(&mut self.main, link.to_owned());
            let outcome = self.run(rest);
            self.main = main;
            return outcome;
        }
        let (name, mut arguments) = Arguments::split(command);
        let (_, body) = COMMANDS
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| format!("there is no command `{name}`"))?;
        let output = match body(self, &mut arguments) {
            Err(error) if error == CLOSED => error,
            Err(error) => return Err(error),
            Ok(output) => output,
        };
        arguments.finish()?;
        Ok(output)
    }

    /// Returns whether a real Kafka answers.
    pub fn is_kafka(&self) -> bool {
        self.target.kind() == Kind::Kafka
    }

    /// Lets Kafka finish what it does after an answer; nothing to wait for elsewhere.
    pub fn settle(&mut self) {
        if self.is_kafka() {
            self.target.advance(super::target::SETTLE_MS);
        }
    }

    /// Repeats `done` until it says yes. On Sharemark the first answer must be yes: what an answer promises is so.
    ///
    /// # Errors
    ///
    /// Returns an error that names `what` when it never becomes so.
    pub fn settle_until(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let tries = if self.is_kafka() { SETTLE_TRIES } else { 1 };
        for _ in 0..tries {
            if done(self)? {
                return Ok(());
            }
            if self.is_kafka() {
                self.target.advance(SETTLE_STEP_MS);
            }
        }
        Err(format!("never so: {what}"))
    }

    /// Lets time go by.
    pub fn advance(&mut self, ms: u64) {
        self.target.advance(ms);
    }

    /// Returns the target's time.
    pub fn elapsed_ms(&self) -> u64 {
        self.target.elapsed_ms()
    }

    /// Returns the connection that a command uses: its `on=`, else `default`.
    pub(super) fn link_name(arguments: &mut Arguments, default: &str) -> String {
        arguments.text("on", default)
    }

    /// Sends a request on the main connection and returns its answer.
    ///
    /// # Errors
    ///
    /// As [`Self::call_on`].
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response, CommandError> {
        let main = self.main.clone();
        self.call_on(&main, request, version)
    }

    /// Sends a request on a named connection, which is opened on first use, and returns its answer.
    ///
    /// # Errors
    ///
    /// `CLOSED` when the broker closes the connection, else why there is no answer.
    pub fn call_on<R: Request>(
        &mut self,
        link: &str,
        request: &R,
        version: i16,
    ) -> Result<R::Response, CommandError> {
        self.send_on(link, request, version)?;
        let answer = self.receive_on::<R>(link, ANSWER_WAIT_MAX)?;
        answer.map(|(response, _)| response).ok_or_else(|| format!("no answer to {}", R::NAME))
    }

    /// Sends a request; its answer is for a later [`Self::receive_on`].
    ///
    /// # Errors
    ///
    /// If another answer is still awaited on that connection, or it cannot be opened.
    pub fn send_on<R: Request>(&mut self, name: &str, request: &R, version: i16) -> Result<(), CommandError> {
        let sent_ms = self.target.elapsed_ms();
        if !self.links.contains_key(name) {
            let index = self.target.open()?;
            self.links.insert(name.to_owned(), Link { index, ..Link::default() });
        }
        let link = self.links.get_mut(name).ok_or("no such connection")?;
        if link.pending.is_some() {
            return Err(format!("an answer is still awaited on `{name}`"));
        }
        link.correlation_id += 1;
        link.pending = Some(Pending { version, correlation_id: link.correlation_id, sent_ms });
        self.target.send(link.index, &encode_request(request, version, link.correlation_id))
    }

    /// Reads the awaited answer, with when its request was sent; `None` if it does not come.
    ///
    /// # Errors
    ///
    /// As [`Self::call_on`].
    pub fn receive_on<R: Request>(
        &mut self,
        name: &str,
        wait: Duration,
    ) -> Result<Option<(R::Response, u64)>, CommandError> {
        let link = self.links.get_mut(name).ok_or("no such connection")?;
        let pending = link.pending.clone().ok_or_else(|| format!("nothing is awaited on `{name}`"))?;
        let frame = match self.target.receive(link.index, wait)? {
            Received::Nothing => return Ok(None),
            Received::Closed => {
                self.links.remove(name);
                return Err(CLOSED.to_owned());
            }
            Received::Frame(frame) => frame,
        };
        link.pending = None;
        let (correlation_id, response) = decode_response::<R>(pending.version, &frame)
            .map_err(|error| format!("bad answer to {}: {error}: {frame:?}", R::NAME))?;
        if correlation_id != pending.correlation_id {
            return Err("an answer with another correlation id".into());
        }
        Ok(Some((response, pending.sent_ms)))
    }

    /// Returns a producer.
    ///
    /// # Errors
    ///
    /// If there was no `init-producer` of that name.
    pub fn producer(&mut self, name: &str) -> Result<&mut Producer, CommandError> {
        self.producers.get_mut(name).ok_or_else(|| format!("there is no producer `{name}`"))
    }

    /// Returns a member; a member that never joined may send requests as well.
    pub fn member(&mut self, group: &str, member: &str) -> &mut Member {
        self.members.entry((group.to_owned(), member.to_owned())).or_default()
    }

    /// Reads a partition word and returns it with the topic's id.
    ///
    /// # Errors
    ///
    /// If it is no partition. A topic that was not created here gets an id that no topic has.
    pub fn partition(&mut self, word: &str) -> Result<(TopicId, String, i32), CommandError> {
        let (topic, partition) = topic_partition(word)?;
        let id = self.names.topic_id(&topic).unwrap_or_else(|| TopicId::from_bytes([0x7e; 16]));
        Ok((id, topic, partition))
    }
}

fn advance(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let ms = arguments.word("milliseconds")?.parse().map_err(|_| "milliseconds are a number")?;
    session.advance(ms);
    Ok(String::new())
}

/// `open NAME [node=1]`: a connection, to another node of the cluster if one is named.
fn open(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let name = arguments.word("connection")?;
    let index = match arguments.number_if_given::<i32>("node")? {
        None => session.target.open()?,
        Some(node) => {
            let answer = session.call(&MetadataRequest::default(), METADATA_VERSION)?;
            let broker = answer.brokers.iter().find(|broker| broker.node_id == node);
            let broker = broker.ok_or_else(|| format!("there is no node {node}"))?;
            let port = u16::try_from(broker.port).map_err(|error| error.to_string())?;
            session.target.open_at(&broker.host, port)?
        }
    };
    session.links.insert(name, Link { index, ..Link::default() });
    Ok(String::new())
}

fn close(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let name = arguments.word("connection")?;
    let link = session.links.remove(&name).ok_or_else(|| format!("there is no connection `{name}`"))?;
    session.target.close(link.index);
    // A broker learns of it on another thread than that of the next request.
    session.target.advance(20);
    Ok(String::new())
}
