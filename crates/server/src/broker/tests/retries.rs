//! Calls to share coordinators that are made again.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId};

use super::{Core, Output};
use crate::broker::{Command, Fault, FaultAction, FaultPoint};

/// What passes before the second, third, fourth and fifth call, in milliseconds.
const WAITS_MS: [i64; 4] = [2_000, 4_000, 8_000, 16_000];

impl Core {
    pub(super) fn install(&mut self, fault: Fault) -> u64 {
        self.broker.install_fault(fault).unwrap()
    }

    pub(super) fn remove(&mut self, fault: u64) {
        self.command(Command::DeleteFault(fault));
    }

    fn met(&self) -> u64 {
        self.broker.inspect_faults()[0].met
    }

    fn describe_offsets_of_g(&mut self) -> Option<Output> {
        self.find_coordinator(0, "g");
        let group = m::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup {
            group_id: "g".into(),
            topics: None,
        };
        let request =
            m::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequest { groups: vec![group] };
        self.send_on(9, 1, RequestMessage::DescribeShareGroupOffsets(request))
    }

    fn delete_group_g(&mut self) -> Option<Output> {
        self.find_coordinator(0, "g");
        let request = m::delete_groups_request::DeleteGroupsRequest { groups_names: vec!["g".into()] };
        self.send_on(9, 2, RequestMessage::DeleteGroups(request))
    }

    /// Leaves the group `g` as its member `A`.
    fn leave(&mut self) {
        self.find_coordinator(0, "g");
        let request = m::share_group_heartbeat_request::ShareGroupHeartbeatRequest {
            group_id: "g".into(),
            member_id: "A".into(),
            member_epoch: -1,
            ..Default::default()
        };
        self.call(1, RequestMessage::ShareGroupHeartbeat(request));
    }

    /// Returns a node that keeps states of the group's share partitions and does not coordinate the group.
    fn other_share_coordinator(&mut self) -> NodeId {
        self.find_coordinator(0, "g");
        let topic_id = self.topic_id("t");
        let nodes = (0..2).filter_map(|partition| {
            let at = sharemark_protocol::TopicIdPartition { topic_id, partition };
            let key = crate::broker::share_partitions::share_key(&"g".into(), at);
            self.broker.share_state_leader(self.node, &key).map(|(_, leader)| leader)
        });
        let group_coordinator = self.node;
        nodes.into_iter().find(|node| *node != group_coordinator).unwrap()
    }
}

fn offset_errors(output: Option<Output>) -> Vec<i16> {
    let Some(Output::Answer { message, .. }) = output else { panic!("it is answered") };
    let ResponseMessage::DescribeShareGroupOffsets(answer) = *message else {
        panic!("an answer is of its request's kind")
    };
    answer.groups[0].topics[0].partitions.iter().map(|partition| partition.error_code).collect()
}

#[test]
fn a_share_coordinator_is_asked_five_times() {
    for (refusals, outcome) in [(4, Ok(())), (5, Err(ErrorCode::CoordinatorNotAvailable))] {
        for error in [
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::NetworkException,
        ] {
            let mut core = Core::new();
            assert_eq!(core.join("g", "A"), 0);
            let refuse = Fault::new(FaultPoint::ShareStateRead, FaultAction::Error(error));
            core.install(Fault { count: Some(refusals), ..refuse });
            assert!(core.share_fetch(2, 0).is_none(), "it waits for its share partition");
            for (met, wait_ms) in (1..).zip(WAITS_MS) {
                core.advance(wait_ms - 1);
                assert_eq!(core.met(), met, "{error:?}");
                core.advance(1);
                assert_eq!(core.met(), refusals.min(met + 1), "{error:?}");
            }
            while core.broker.poll_output().is_some() {}
            let fetched = core.share_fetch(2, 1);
            match outcome {
                Ok(()) => assert!(fetched.is_none(), "it waits for records"),
                Err(told) => {
                    let told = if error == ErrorCode::NetworkException {
                        ErrorCode::UnknownServerError // Kafka hides it.
                    } else {
                        told
                    };
                    let fetched = fetched.unwrap().responses[0].partitions[0].error_code;
                    assert_eq!(fetched, told.code(), "{error:?}");
                }
            }
        }
    }
}

#[test]
fn an_error_that_stays_is_told_at_once() {
    let mut core = Core::new();
    assert_eq!(core.join("g", "A"), 0);
    core.install(Fault::new(
        FaultPoint::ShareStateRead,
        FaultAction::Error(ErrorCode::GroupAuthorizationFailed),
    ));
    let told = core.share_fetch(2, 0).unwrap().responses[0].partitions[0].error_code;
    assert_eq!(told, ErrorCode::UnknownServerError.code());
}

#[test]
fn states_are_initialised_where_the_coordinators_are_by_then() {
    let mut core = Core::with(|config| config.brokers(3));
    let hold = core.install(Fault::new(FaultPoint::ShareStateInit, FaultAction::Hold).for_ever());
    assert_eq!(core.join("g", "A"), 0);
    let stopped = core.other_share_coordinator();
    core.stop(stopped);
    core.remove(hold);
    core.advance(WAITS_MS[0] - 1);
    let errors = offset_errors(core.describe_offsets_of_g());
    assert!(errors.len() < 2, "what the stopped node was asked to do is not done: {errors:?}");
    core.advance(1);
    assert_eq!(offset_errors(core.describe_offsets_of_g()), [0, 0]);
}

#[test]
fn states_are_told_and_dropped_where_the_coordinators_are_by_then() {
    let mut core = Core::with(|config| config.brokers(3));
    assert_eq!(core.join("g", "A"), 0);
    let hold = core.install(Fault::new(FaultPoint::ShareStateSummary, FaultAction::Hold).for_ever());
    assert!(core.describe_offsets_of_g().is_none());
    let stopped = core.other_share_coordinator();
    core.stop(stopped);
    core.remove(hold);
    assert!(core.broker.poll_output().is_none(), "the stopped node has not answered");
    core.advance(WAITS_MS[0]);
    assert_eq!(offset_errors(core.broker.poll_output()), [0, 0]);

    core.start(stopped);
    core.leave();
    let hold = core.install(Fault::new(FaultPoint::ShareStateDelete, FaultAction::Hold).for_ever());
    assert!(core.delete_group_g().is_none());
    let stopped = core.other_share_coordinator();
    core.stop(stopped);
    core.remove(hold);
    assert!(core.broker.poll_output().is_none(), "the stopped node has not answered");
    core.advance(WAITS_MS[0]);
    let Some(Output::Answer { message, .. }) = core.broker.poll_output() else { panic!("it is answered") };
    let ResponseMessage::DeleteGroups(answer) = *message else {
        panic!("an answer is of its request's kind")
    };
    assert_eq!(answer.results[0].error_code, 0);
}
