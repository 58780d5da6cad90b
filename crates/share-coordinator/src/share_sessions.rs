//! Share sessions: which partitions a member fetches from one node, and which of its requests comes next.

mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sharemark_protocol::{ErrorCode, TopicIdPartition};

pub use self::session::PartitionOutcome;
use self::session::ShareSession;

/// The settings of share sessions.
#[derive(Clone, Debug)]
pub struct ShareSessionsConfig {
    /// How many sessions one node keeps (`group.share.max.share.sessions`).
    pub session_count_max: usize,
    /// How many partitions one session may hold; beyond, a request is an `INVALID_REQUEST`.
    pub partition_count_max: usize,
}

/// Names a connection to one node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(pub u64);

/// Names a share session: a member of a group, at one node.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ShareSessionKey {
    /// The group's id.
    pub group_id: Arc<str>,
    /// The id that the member chose.
    pub member_id: Arc<str>,
}

/// What a ShareFetch request says about its session.
#[derive(Clone, Copy, Debug)]
pub struct SessionFetch<'a> {
    /// The session that it names.
    pub key: &'a ShareSessionKey,
    /// The epoch as on the wire: 0 opens, -1 closes.
    pub epoch: i32,
    /// Whether it carries acknowledgements.
    pub has_acknowledgements: bool,
    /// The partitions that it names, which join the session.
    pub partitions: &'a [TopicIdPartition],
    /// The partitions that leave the session.
    pub forgotten: &'a [TopicIdPartition],
}

/// What a request does with its session. It is applied by [`ShareSessions::apply`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SessionPlan {
    /// A new session begins, in place of an older one if there is one; that one's locks are kept.
    Open(ShareSessionKey),
    /// The session goes on.
    Continue(ShareSessionKey),
    /// Once its acknowledgements are done the session ends, by [`ShareSessions::close`]. Nothing is fetched.
    Close(ShareSessionKey),
}

/// A session that has ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClosedSession {
    /// Its name.
    pub key: ShareSessionKey,
    /// The partitions in which the locks of the member are to be released.
    pub partitions: Vec<TopicIdPartition>,
    /// Whether the node forgets the share partitions of the group now: it has no session any more, and there are too
    /// many such groups to wait for the end of their connections.
    pub forgets_group: bool,
}

/// What the end of a connection leaves behind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClosedConnection {
    /// The sessions that ended with it.
    pub sessions: Vec<ClosedSession>,
    /// The groups without a session on this node: it forgets their share partitions.
    pub emptied_groups: Vec<Arc<str>>,
}

/// The share sessions of one node.
///
/// A session lives as long as the connection that opened it, however idle; any connection may use it. Neither
/// membership nor assignment matters here.
#[derive(Clone, Debug)]
pub struct ShareSessions {
    config: ShareSessionsConfig,
    sessions: BTreeMap<ShareSessionKey, ShareSession>,
    connections: BTreeMap<ConnectionId, Bound>,
    /// How many groups all of `connections` have left empty.
    left_group_count: usize,
}

/// What is bound to a connection.
#[derive(Clone, Debug, Default)]
struct Bound {
    sessions: BTreeSet<ShareSessionKey>,
    /// Groups whose last session ended before its connection did.
    left_groups: BTreeSet<Arc<str>>,
}

impl ShareSessions {
    /// Makes a node's sessions: none.
    pub fn new(config: ShareSessionsConfig) -> Self {
        Self { config, sessions: BTreeMap::new(), connections: BTreeMap::new(), left_group_count: 0 }
    }

    /// Returns how many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Judges the session epoch of a ShareFetch request.
    ///
    /// # Errors
    ///
    /// - `InvalidRequest` if a request that opens a session carries acknowledgements, or the session would
    ///   hold too many partitions.
    /// - `UnknownServerError` if a request that opens a session names a partition twice.
    /// - `ShareSessionNotFound` if a request does not open a session and there is none.
    /// - `InvalidShareSessionEpoch` if it is not the next request of the session, which stays as it is.
    /// - `ShareSessionLimitReached` if no more sessions fit; clients are to get that late, so that they do
    ///   not spin.
    pub fn decide_fetch(&self, fetch: &SessionFetch<'_>) -> Result<SessionPlan, ErrorCode> {
        if fetch.epoch == 0 {
            return self.decide_open(fetch);
        }
        let session = self.sessions.get(fetch.key).ok_or(ErrorCode::ShareSessionNotFound)?;
        if fetch.epoch == -1 {
            // What it names or forgets besides does not matter, as in Kafka: all that was held is released.
            return Ok(SessionPlan::Close(fetch.key.clone()));
        }
        if fetch.epoch != session.next_epoch() {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        if self.config.partition_count_max < session.partition_count_with(fetch.partitions) {
            return Err(ErrorCode::InvalidRequest);
        }
        Ok(SessionPlan::Continue(fetch.key.clone()))
    }

    fn decide_open(&self, fetch: &SessionFetch<'_>) -> Result<SessionPlan, ErrorCode> {
        if fetch.has_acknowledgements || self.config.partition_count_max < fetch.partitions.len() {
            return Err(ErrorCode::InvalidRequest);
        }
        let is_full = self.config.session_count_max <= self.sessions.len();
        if is_full && !self.sessions.contains_key(fetch.key) {
            return Err(ErrorCode::ShareSessionLimitReached);
        }
        let distinct: BTreeSet<&TopicIdPartition> = fetch.partitions.iter().collect();
        if distinct.len() < fetch.partitions.len() {
            return Err(ErrorCode::UnknownServerError);
        }
        Ok(SessionPlan::Open(fetch.key.clone()))
    }

    /// Judges the session epoch of a ShareAcknowledge request.
    ///
    /// # Errors
    ///
    /// - `ShareSessionNotFound` if there is no such session.
    /// - `InvalidShareSessionEpoch` if it is not the next request of the session; 0 never is.
    pub fn decide_acknowledge(&self, key: &ShareSessionKey, epoch: i32) -> Result<SessionPlan, ErrorCode> {
        if epoch == 0 {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        let session = self.sessions.get(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        if epoch == -1 {
            return Ok(SessionPlan::Close(key.clone()));
        }
        if epoch != session.next_epoch() {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        Ok(SessionPlan::Continue(key.clone()))
    }

    /// Uses up the epoch of a request, and lets its partitions join and leave the session.
    ///
    /// A ShareAcknowledge request brings no partitions: those that it names do not join. A plan to close
    /// changes nothing yet; [`Self::close`] does.
    ///
    /// # Panics
    ///
    /// If the plan was not decided on these sessions as they are.
    pub fn apply(
        &mut self,
        plan: &SessionPlan,
        partitions: &[TopicIdPartition],
        forgotten: &[TopicIdPartition],
        connection: ConnectionId,
    ) {
        match plan {
            SessionPlan::Open(key) => self.open(key, partitions, connection),
            SessionPlan::Continue(key) => {
                let session = self.sessions.get_mut(key);
                assert!(session.is_some(), "a session that goes on is there");
                if let Some(session) = session {
                    session.advance(partitions, forgotten);
                }
            }
            SessionPlan::Close(key) => {
                assert!(self.sessions.contains_key(key), "a session that is to end is there");
            }
        }
    }

    fn open(&mut self, key: &ShareSessionKey, partitions: &[TopicIdPartition], connection: ConnectionId) {
        if let Some(before) = self.sessions.remove(key) {
            self.unbind(key, before.connection());
        }
        assert!(self.sessions.len() < self.config.session_count_max, "sessions stay within their limit");
        self.sessions.insert(key.clone(), ShareSession::new(partitions, connection));
        self.connections.entry(connection).or_default().sessions.insert(key.clone());
    }

    /// Ends a session, once the acknowledgements of the request that closes it are done.
    ///
    /// Locks in partitions that the session has forgotten stay. `None` if there is no such session.
    pub fn close(&mut self, key: &ShareSessionKey) -> Option<ClosedSession> {
        let session = self.sessions.remove(key)?;
        let connection = session.connection();
        self.unbind(key, connection);
        // The node forgets the group's share partitions only when the connection closes, as Kafka does; at once, if
        // there are more such groups than may be sessions.
        let is_empty = !self.has_sessions(&key.group_id);
        let is_remembered = self.left_group_count < self.config.session_count_max;
        if is_empty && is_remembered {
            let bound = self.connections.entry(connection).or_default();
            self.left_group_count += usize::from(bound.left_groups.insert(key.group_id.clone()));
        }
        let forgets_group = is_empty && !is_remembered;
        Some(ClosedSession { key: key.clone(), partitions: session.into_partitions(), forgets_group })
    }

    /// Ends the sessions that `connection` opened, and tells which groups the node may forget.
    pub fn close_connection(&mut self, connection: ConnectionId) -> ClosedConnection {
        let mut closed = ClosedConnection::default();
        let Some(bound) = self.connections.remove(&connection) else {
            return closed;
        };
        self.left_group_count -= bound.left_groups.len();
        let mut groups = bound.left_groups;
        for key in bound.sessions {
            groups.insert(key.group_id.clone());
            if let Some(session) = self.sessions.remove(&key) {
                let partitions = session.into_partitions();
                closed.sessions.push(ClosedSession { key, partitions, forgets_group: false });
            }
        }
        closed.emptied_groups = groups.into_iter().filter(|group| !self.has_sessions(group)).collect();
        closed
    }

    /// Ends all sessions, as when share groups are switched off. Locks are not released by this.
    pub fn clear(&mut self) {
        self.sessions.clear();
        self.connections.clear();
        self.left_group_count = 0;
    }

    /// Returns whether a group has a session on this node.
    pub fn has_sessions(&self, group_id: &str) -> bool {
        let first = ShareSessionKey { group_id: group_id.into(), member_id: "".into() };
        self.sessions.range(first..).next().is_some_and(|(key, _)| &*key.group_id == group_id)
    }

    /// Returns the partitions that a request of this epoch fetches from, in the order in which they get their
    /// turn: each epoch starts one partition further on.
    ///
    /// Kafka also moves a partition that had records to the end, by which some get their turn twice before
    /// others get it once. Here the order stays.
    pub fn rotated(&self, key: &ShareSessionKey, epoch: i32) -> impl Iterator<Item = TopicIdPartition> {
        self.sessions.get(key).into_iter().flat_map(move |session| session.rotated(epoch))
    }

    /// Returns whether the answer to a fetch lists a partition, and remembers that it did.
    ///
    /// Listed is what has records, acknowledgements answered or an error, what is new in the session, and
    /// what had an error in the answer before.
    pub fn apply_answer(
        &mut self,
        key: &ShareSessionKey,
        partition: TopicIdPartition,
        outcome: PartitionOutcome,
    ) -> bool {
        match self.sessions.get_mut(key) {
            Some(session) => session.answer(partition, outcome),
            None => outcome.is_listed(),
        }
    }

    /// Checks what must hold between any two steps.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_invariants(&self) {
        assert!(self.sessions.len() <= self.config.session_count_max, "sessions stay within their limit");
        for (key, session) in &self.sessions {
            let bound = self.connections.get(&session.connection());
            assert!(bound.is_some_and(|bound| bound.sessions.contains(key)), "a session is bound");
            session.check_invariants();
        }
        let bound_count: usize = self.connections.values().map(|bound| bound.sessions.len()).sum();
        assert!(bound_count == self.sessions.len(), "only live sessions are bound to a connection");
        let left_count: usize = self.connections.values().map(|bound| bound.left_groups.len()).sum();
        assert!(left_count == self.left_group_count, "groups left empty are counted");
    }

    fn unbind(&mut self, key: &ShareSessionKey, connection: ConnectionId) {
        if let Some(bound) = self.connections.get_mut(&connection) {
            bound.sessions.remove(key);
            if bound.sessions.is_empty() && bound.left_groups.is_empty() {
                self.connections.remove(&connection);
            }
        }
    }
}

#[cfg(test)]
mod tests;
