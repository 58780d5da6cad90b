//! Calls to share coordinators that are made again, as by Kafka's persister: those that were lost, and those that met
//! a coordinator which was none, or was none yet.

use std::collections::BTreeMap;

use sharemark_group_coordinator::{InitialiseShareStates, InitialiseTopic, TopicPartitions};
use sharemark_protocol::{ErrorCode, TopicId};

use super::super::Broker;
use super::super::crossing::{Call, Crossing, Reply};
use super::super::input::Now;
use super::{FaultPoint, KeptBack};

/// How often a share coordinator is asked before that is given up.
const ATTEMPTS_MAX: u32 = 5;

/// Twice this is the wait before the first repetition; it doubles from one to the next.
const BACKOFF_MS: i64 = 1_000;

/// The longest such wait.
const BACKOFF_MS_MAX: i64 = 30_000;

/// Share partitions that a share coordinator has not initialised, and why.
pub(in crate::broker) type NotInitialised = BTreeMap<TopicId, BTreeMap<i32, ErrorCode>>;

impl Broker {
    /// Goes on with what the node that was called has said, unless it is to be asked again. `attempt` counts the
    /// calls before.
    pub(in crate::broker) fn conclude(&mut self, now: Now, crossing: Crossing, attempt: u32, reply: Reply) {
        let point = crossing.call.point();
        let is_retried = point.is_some_and(FaultPoint::is_retried);
        if !is_retried || ATTEMPTS_MAX <= attempt + 1 || !reply.may_change() {
            if point == Some(FaultPoint::ShareStateWrite) && reply.is_unsure(attempt) {
                self.faults.note_unsure();
            }
            self.complete(now, crossing, reply);
            return;
        }
        let crossing = self.set_apart_what_is_done(now, crossing, reply);
        let wait_ms = (BACKOFF_MS << (attempt + 1)).min(BACKOFF_MS_MAX);
        let kept = KeptBack::Crossing(Box::new(crossing), attempt + 1);
        let kept = self.faults.delay(now.real.plus_ms(wait_ms), kept);
        self.fail_what_is_too_much(now, kept);
    }

    /// Fails a call, or has it made again.
    pub(in crate::broker) fn fail_crossing(
        &mut self,
        now: Now,
        crossing: Crossing,
        attempt: u32,
        error: ErrorCode,
    ) {
        let reply = crossing.call.refused(error);
        self.conclude(now, crossing, attempt, reply);
    }

    pub(super) fn fail_what_is_too_much(&mut self, now: Now, kept: Result<(), KeptBack>) {
        if let Err(KeptBack::Crossing(crossing, _)) = kept {
            let reply = crossing.call.refused(ErrorCode::NetworkException);
            self.complete(now, *crossing, reply);
        }
    }

    /// Makes a call again, at whoever is the coordinator now; if several are, each is called.
    pub(super) fn ask_again(&mut self, now: Now, crossing: Crossing, attempt: u32) {
        let (from, then, calls) = match &crossing.call {
            Call::InitialiseShareStates { states, then } => {
                (crossing.from, *then, self.calls_to_initialise(crossing.from, states, *then))
            }
            Call::DeleteShareStates { states, then } => {
                (crossing.from, Some(*then), self.calls_to_delete(crossing.from, states, *then))
            }
            Call::SummariseShareStates { keys, then } => {
                (crossing.from, Some(*then), self.calls_to_summarise(crossing.from, keys, *then))
            }
            Call::ReadShareState { .. }
            | Call::WriteShareState { .. }
            | Call::StageShareStates(_)
            | Call::CheckMember { .. }
            | Call::AddToTransaction(_)
            | Call::FindOngoing { .. }
            | Call::WriteMarkers { .. }
            | Call::WriteDeadLetters(_)
            | Call::ForgetShareGroup(_) => {
                let to = self.called_node(crossing.from, &crossing.call).unwrap_or(crossing.to);
                self.cross(now, Crossing { to, ..crossing }, attempt);
                return;
            }
        };
        if calls.is_empty() {
            self.cross(now, crossing, attempt); // Nobody keeps states now: it is told so, and asks once more.
            return;
        }
        let node = self.nodes.get_mut(&from);
        if let Some(operation) = node.zip(then).and_then(|(node, id)| node.operations.get_mut(id)) {
            operation.expect_more(calls.len() - 1);
        }
        for (to, call) in calls {
            self.cross(now, Crossing { from, to, call }, attempt);
        }
    }

    /// Goes on with the part of a call whose outcome stands, and returns the rest.
    fn set_apart_what_is_done(&mut self, now: Now, crossing: Crossing, reply: Reply) -> Crossing {
        let Crossing { from, to, call } = crossing;
        let (Call::InitialiseShareStates { mut states, then }, Reply::Initialised(done, mut failed)) =
            (call.clone(), reply)
        else {
            return Crossing { from, to, call }; // It may be made again as a whole.
        };
        keep_what_may_change(&mut states, &failed);
        for partitions in failed.values_mut() {
            partitions.retain(|_, error| !may_pass(*error));
        }
        failed.retain(|_, partitions| !partitions.is_empty());
        let failed = without_errors(&failed);
        self.complete_initialise(now, from, &states.group_id, &done, &failed);
        if let Some(id) = then {
            self.note_not_initialised(from, id, &failed);
        }
        Crossing { from, to, call: Call::InitialiseShareStates { states, then } }
    }
}

impl Reply {
    /// Returns whether a write is given up which may have been made, before its answer was lost.
    fn is_unsure(&self, attempt: u32) -> bool {
        self.tells(|error| 0 < attempt || error == ErrorCode::NetworkException)
    }

    /// Returns whether it tells an error that may be gone when the call is made again.
    fn may_change(&self) -> bool {
        self.tells(may_pass)
    }

    /// Returns whether a share coordinator tells such an error, for all or a part of what was asked.
    fn tells(&self, is_such: impl Fn(ErrorCode) -> bool) -> bool {
        match self {
            Self::Done(outcome) => outcome.is_err_and(is_such),
            Self::State(outcome) => outcome.as_ref().is_err_and(|error| is_such(*error)),
            Self::Staged(outcomes) => outcomes.iter().any(|outcome| outcome.is_err_and(&is_such)),
            Self::Summaries(summaries) => {
                summaries.iter().any(|(_, outcome)| outcome.as_ref().is_err_and(|error| is_such(*error)))
            }
            Self::Initialised(_, failed) => {
                failed.values().flat_map(BTreeMap::values).any(|error| is_such(*error))
            }
            Self::Added(_) | Self::Ongoing(_) | Self::Marked(_) => false,
        }
    }
}

/// Returns which share partitions were not initialised.
pub(in crate::broker) fn without_errors(failed: &NotInitialised) -> TopicPartitions {
    failed.iter().map(|(topic_id, partitions)| (*topic_id, partitions.keys().copied().collect())).collect()
}

fn keep_what_may_change(states: &mut InitialiseShareStates, failed: &NotInitialised) {
    let stays = |topic: &InitialiseTopic, partition: &i32| {
        let error = failed.get(&topic.topic_id).and_then(|partitions| partitions.get(partition));
        error.is_some_and(|error| may_pass(*error))
    };
    for topic in &mut states.topics {
        let kept = topic.partitions.iter().filter(|(partition, _)| stays(topic, partition));
        topic.partitions = kept.map(|(partition, start)| (*partition, *start)).collect();
    }
    states.topics.retain(|topic| !topic.partitions.is_empty());
}

/// Returns whether an error of a call may be gone when it is made again.
const fn may_pass(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::NetworkException
            | ErrorCode::RequestTimedOut
            | ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::UnknownTopicOrPartition
    )
}
