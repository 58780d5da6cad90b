//! Fetch sessions (KIP-227): a consumer names its partitions once, and afterwards only what changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sharemark_protocol::messages::fetch_request::{FetchPartition, FetchRequest};
use sharemark_protocol::{ErrorCode, Timestamp, TopicId};

/// How long a session is unused before another may take its place
/// (`min.incremental.fetch.session.eviction.ms`, which Kafka does not let anybody set).
const EVICTION_MS: i64 = 120_000;

/// A topic as the request names it: by name up to version 12, by id from version 13 on.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum TopicRef {
    /// By name.
    Name(Arc<str>),
    /// By id.
    Id(TopicId),
}

/// A partition of a session.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct FetchKey {
    /// The topic.
    pub(super) topic: TopicRef,
    /// The partition's index.
    pub(super) partition: i32,
}

/// What a client wants from one partition.
#[derive(Clone, Debug)]
pub(super) struct FetchTarget {
    /// The partition.
    pub(super) key: FetchKey,
    /// The request's own words about it.
    pub(super) asked: FetchPartition,
}

/// What a client of an incremental session already knows of a partition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Known {
    /// The high watermark it was told.
    pub(super) high_watermark: i64,
    /// The last stable offset it was told.
    pub(super) last_stable_offset: i64,
    /// The log start offset it was told.
    pub(super) log_start_offset: i64,
}

/// Whether and how a fetch belongs to a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SessionUse {
    /// Every partition is named, and every one is answered.
    Full {
        /// The session that the answer opens; 0 for none.
        id: i32,
    },
    /// Only news are answered.
    Incremental {
        /// The session.
        id: i32,
    },
}

impl SessionUse {
    /// Returns the session id for the answer.
    pub(super) const fn id(self) -> i32 {
        match self {
            Self::Full { id } | Self::Incremental { id } => id,
        }
    }
}

#[derive(Clone, Debug)]
struct FetchSession {
    next_epoch: i32,
    by_id: bool,
    targets: BTreeMap<FetchKey, (FetchPartition, Option<Known>)>,
    order: VecDeque<FetchKey>,
}

/// The fetch sessions of one node.
#[derive(Clone, Debug)]
pub(super) struct FetchSessions {
    slots_max: usize,
    next_id: i32,
    sessions: BTreeMap<i32, FetchSession>,
    /// Least recently used first, with a counter that tells uses apart.
    used: BTreeSet<(Timestamp, u64, i32)>,
    uses: BTreeMap<i32, (Timestamp, u64)>,
    use_count: u64,
}

impl FetchSessions {
    /// Keeps at most `slots_max` sessions (`max.incremental.fetch.session.cache.slots`).
    pub(super) const fn new(slots_max: usize) -> Self {
        Self {
            slots_max,
            next_id: 1,
            sessions: BTreeMap::new(),
            used: BTreeSet::new(),
            uses: BTreeMap::new(),
            use_count: 0,
        }
    }

    /// Begins a fetch: opens, continues or closes a session, and lists what is to be fetched, in order.
    ///
    /// # Errors
    ///
    /// - `FetchSessionIdNotFound` if there is no such session (any more).
    /// - `InvalidFetchSessionEpoch` if the client is out of step.
    /// - `FetchSessionTopicIdError` if the session names its topics the other way.
    pub(super) fn begin(
        &mut self,
        now: Timestamp,
        request: &FetchRequest,
        by_id: bool,
        targets: &mut Vec<FetchTarget>,
    ) -> Result<SessionUse, ErrorCode> {
        const FINAL_EPOCH: i32 = -1;
        const INITIAL_EPOCH: i32 = 0;
        match request.session_epoch {
            FINAL_EPOCH => {
                self.close(request.session_id);
                named(request, by_id, targets);
                Ok(SessionUse::Full { id: 0 })
            }
            INITIAL_EPOCH => {
                self.close(request.session_id);
                named(request, by_id, targets);
                Ok(SessionUse::Full { id: self.open(now, by_id, targets) })
            }
            epoch => self.proceed(now, request, by_id, epoch, targets),
        }
    }

    fn open(&mut self, now: Timestamp, by_id: bool, targets: &[FetchTarget]) -> i32 {
        if targets.is_empty() || !self.make_room(now) {
            return 0;
        }
        let id = self.next_id;
        self.next_id = if id == i32::MAX { 1 } else { id + 1 };
        let mut session =
            FetchSession { next_epoch: 1, by_id, targets: BTreeMap::new(), order: VecDeque::new() };
        for target in targets {
            session.put(target);
        }
        self.sessions.insert(id, session);
        self.touch(now, id);
        id
    }

    /// Returns whether there is room for one more session. A session in use keeps its place: too many clients
    /// would else take it from each other in turn.
    fn make_room(&mut self, now: Timestamp) -> bool {
        if self.sessions.len() < self.slots_max {
            return true;
        }
        match self.used.first() {
            Some(&(used_at, _, oldest)) if EVICTION_MS < now.ms_since(used_at) => {
                self.close(oldest);
                true
            }
            Some(_) | None => false,
        }
    }

    fn proceed(
        &mut self,
        now: Timestamp,
        request: &FetchRequest,
        by_id: bool,
        epoch: i32,
        targets: &mut Vec<FetchTarget>,
    ) -> Result<SessionUse, ErrorCode> {
        let id = request.session_id;
        let session = self.sessions.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if epoch != session.next_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        let mut changed = Vec::new();
        named(request, by_id, &mut changed);
        for target in &changed {
            session.put(target);
        }
        let forgotten = request.forgotten_topics_data.iter().flat_map(|topic| {
            let topic_ref = topic_ref(by_id, &topic.topic, topic.topic_id);
            let key = move |&partition: &i32| FetchKey { topic: topic_ref.clone(), partition };
            topic.partitions.iter().map(key)
        });
        session.forget(forgotten);
        if session.targets.is_empty() {
            // A session of nothing ends; what the request names is still fetched.
            self.close(id);
            targets.append(&mut changed);
            return Ok(SessionUse::Full { id: 0 });
        }
        session.list(targets);
        self.touch(now, id);
        Ok(SessionUse::Incremental { id })
    }

    /// Removes a session; an unknown one is fine.
    pub(super) fn close(&mut self, id: i32) {
        self.sessions.remove(&id);
        if let Some((used_at, count)) = self.uses.remove(&id) {
            self.used.remove(&(used_at, count, id));
        }
    }

    fn touch(&mut self, now: Timestamp, id: i32) {
        self.use_count += 1;
        if let Some((used_at, count)) = self.uses.insert(id, (now, self.use_count)) {
            self.used.remove(&(used_at, count, id));
        }
        self.used.insert((now, self.use_count, id));
    }

    /// Checks that each session has its place among those to be given up.
    pub(super) fn check_invariants(&self) {
        assert!(self.sessions.len() <= self.slots_max, "sessions stay within their limit");
        assert!(self.uses.keys().eq(self.sessions.keys()), "each session was used");
        assert!(self.used.len() == self.uses.len(), "each session has one last use");
        for session in self.sessions.values() {
            assert!(session.order.len() == session.targets.len(), "each partition gets its turn once");
        }
    }

    /// Returns what the session's client was told about a partition, to leave out what is no news.
    pub(super) fn known(&self, id: i32, key: &FetchKey) -> Option<Known> {
        self.sessions.get(&id)?.targets.get(key)?.1
    }

    /// Notes what the client is now told; `None` makes the partition news again (after an error).
    pub(super) fn note(&mut self, id: i32, key: &FetchKey, known: Option<Known>) {
        if let Some(target) = self.sessions.get_mut(&id).and_then(|session| session.targets.get_mut(key)) {
            target.1 = known;
        }
    }

    /// Moves partitions that were served to the end, so that a small answer serves all of them in turn.
    pub(super) fn rotate(&mut self, id: i32, served: &BTreeSet<FetchKey>) {
        if let Some(session) = self.sessions.get_mut(&id).filter(|_| !served.is_empty()) {
            session.order.retain(|key| !served.contains(key));
            // Another fetch of the session may have forgotten some meanwhile.
            session.order.extend(served.iter().filter(|key| session.targets.contains_key(key)).cloned());
        }
    }
}

impl FetchSession {
    fn put(&mut self, target: &FetchTarget) {
        match self.targets.get_mut(&target.key) {
            Some((asked, _)) => *asked = target.asked.clone(),
            None => {
                self.targets.insert(target.key.clone(), (target.asked.clone(), None));
                self.order.push_back(target.key.clone());
            }
        }
    }

    fn forget(&mut self, forgotten: impl Iterator<Item = FetchKey>) {
        let before = self.targets.len();
        for key in forgotten {
            self.targets.remove(&key);
        }
        if self.targets.len() < before {
            self.order.retain(|key| self.targets.contains_key(key));
        }
    }

    fn list(&self, targets: &mut Vec<FetchTarget>) {
        targets.extend(self.order.iter().filter_map(|key| {
            let (asked, _) = self.targets.get(key)?;
            Some(FetchTarget { key: key.clone(), asked: asked.clone() })
        }));
    }
}

/// Lists the partitions that the request itself names, in its order.
pub(super) fn named(request: &FetchRequest, by_id: bool, targets: &mut Vec<FetchTarget>) {
    // As in Kafka the last mention of a partition counts, in the place of its first.
    let mut index_of: BTreeMap<FetchKey, usize> = BTreeMap::new();
    for topic in &request.topics {
        let topic_ref = topic_ref(by_id, &topic.topic, topic.topic_id);
        for asked in &topic.partitions {
            let key = FetchKey { topic: topic_ref.clone(), partition: asked.partition };
            match index_of.get(&key) {
                Some(index) => targets[*index].asked = asked.clone(),
                None => {
                    index_of.insert(key.clone(), targets.len());
                    targets.push(FetchTarget { key, asked: asked.clone() });
                }
            }
        }
    }
}

fn topic_ref(by_id: bool, name: &str, id: TopicId) -> TopicRef {
    if by_id { TopicRef::Id(id) } else { TopicRef::Name(name.into()) }
}
