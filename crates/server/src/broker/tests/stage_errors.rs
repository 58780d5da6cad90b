//! Stages that go wrong on their way: what is told, and what is left of them.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, NodeId, Producer};
use sharemark_share_coordinator::RecordState;

use super::internal_topics::{stage_as, stage_error, stage_request};
use super::{Core, Output};
use crate::broker::{Command, Fault, FaultAction, FaultPoint};

const ACCEPT: i8 = 1;

/// Three nodes; member A of `g` holds record 0 of `t-0`, whose leader is asked, and `x` has a producer.
fn prepared() -> (Core, NodeId, Producer) {
    prepared_in(Core::of_three())
}

fn prepared_in(mut core: Core) -> (Core, NodeId, Producer) {
    let leader = core.hold_first();
    let producer = core.init_producer("x");
    core.node = leader;
    (core, leader, producer)
}

impl Core {
    /// Holds what comes to a point.
    fn hold(&mut self, point: FaultPoint) -> u64 {
        self.install(Fault::new(point, FaultAction::Hold).for_ever())
    }

    /// Returns how much each fault keeps back.
    fn held(&self) -> Vec<usize> {
        self.broker.inspect_faults().iter().map(|fault| fault.held).collect()
    }

    /// Adds the stored state of `t-0` to the transaction of `x`, as the early text has it.
    fn add_share_acks(&mut self, producer: Producer) -> i16 {
        use m::add_share_acks_to_txn_request as request;
        let topic = request::AddShareAcksTopic { topic_name: "t".into(), partitions: vec![0] };
        let request = request::AddShareAcksToTxnRequest {
            transactional_id: "x".into(),
            producer_id: producer.id.get(),
            producer_epoch: producer.epoch.get(),
            group_id: "g".into(),
            topics: vec![topic],
        };
        let answer = self.call(0, RequestMessage::AddShareAcksToTxn(request));
        let ResponseMessage::AddShareAcksToTxn(answer) = answer else {
            panic!("an answer is of its request's kind")
        };
        answer.error_code
    }
}

fn told(output: Option<Output>) -> Option<i16> {
    let Output::Answer { message, .. } = output? else { panic!("it is answered") };
    Some(stage_error(*message))
}

/// The stage is under way to the share coordinator while the transaction ends: a late stage would never be resolved.
#[test]
fn a_stage_that_comes_after_the_end_of_its_transaction_is_refused() {
    for committed in [true, false] {
        let (mut core, leader, producer) = prepared();
        core.hold(FaultPoint::ShareStateWrite);
        let request = stage_request(&core, producer);
        assert!(core.send_on(7, 0, request).is_none(), "it waits for the share coordinator");
        assert_eq!(core.end_txn(producer, committed), 0);
        core.command(Command::DeleteFaults);
        let error = told(core.broker.poll_output());
        assert_eq!(error, Some(ErrorCode::InvalidTxnState.code()), "committed {committed}");
        core.node = leader;
        assert_eq!(core.acknowledge_first(3, ACCEPT), Some(0), "the record is still the member's");
    }
}

/// As before, but the next transaction is open by then and knows the same state partition.
#[test]
fn a_stage_does_not_get_into_the_next_transaction() {
    let (mut core, leader, producer) = prepared();
    core.hold(FaultPoint::ShareStateWrite);
    let request = stage_request(&core, producer);
    assert!(core.send_on(7, 0, request).is_none(), "it waits for the share coordinator");
    let next = core.init_producer("x");
    assert!(producer.epoch < next.epoch);
    assert_eq!(core.add_share_acks(next), 0);
    core.command(Command::DeleteFaults);
    assert_eq!(told(core.broker.poll_output()), Some(ErrorCode::InvalidProducerEpoch.code()));
    core.node = leader;
    assert_eq!(stage_as(&mut core, next), 0, "the record is still the member's");
    assert_eq!(core.end_txn(next, true), 0);
    assert_eq!(core.state_of_first(), Some(RecordState::Acknowledged));
}

/// Whatever a coordinator says of itself is told to the client, which tries again; nothing is staged meanwhile.
#[test]
fn a_stage_is_told_that_a_coordinator_is_not_there() {
    let errors =
        [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable, ErrorCode::NotCoordinator];
    for point in [FaultPoint::GroupMemberCheck, FaultPoint::TxnAddPartition] {
        for error in errors {
            let (mut core, leader, producer) = prepared();
            core.install(Fault::new(point, FaultAction::Error(error)));
            assert_eq!(stage_as(&mut core, producer), error.code(), "{point:?}");
            assert_eq!(core.state_of_first(), Some(RecordState::Acquired), "{point:?}, {error:?}");
            core.node = leader;
            assert_eq!(stage_as(&mut core, producer), 0, "{point:?}, {error:?}: once more");
        }
    }
    // A share coordinator is asked again by the leader itself.
    for error in errors {
        let (mut core, _, producer) = prepared();
        core.install(Fault::new(FaultPoint::ShareStateWrite, FaultAction::Error(error)));
        let request = stage_request(&core, producer);
        assert!(core.send_on(7, 0, request).is_none(), "{error:?}: it is asked again");
        core.advance(2_000);
        assert_eq!(told(core.broker.poll_output()), Some(0), "{error:?}");
    }
}

/// A node that coordinates goes, and the request finds the next one; a leader that is cut off reaches none.
#[test]
fn a_stage_finds_its_coordinators_where_they_are() {
    for (key_type, key) in [(0, "g"), (1, "x")] {
        let mut core = Core::of_three();
        core.find_coordinator(key_type, key);
        let coordinator = core.node;
        if coordinator == core.leader_of("t", 0) {
            core.move_away(); // Otherwise the leader would go with it.
        }
        let (mut core, leader, producer) = prepared_in(core);
        core.stop(coordinator);
        core.node = leader;
        assert_eq!(stage_as(&mut core, producer), 0, "the coordinator of type {key_type} has moved");
    }
    let (mut core, leader, producer) = prepared();
    core.isolate(leader);
    core.node = leader;
    let error = stage_as(&mut core, producer);
    assert_eq!(error, ErrorCode::CoordinatorNotAvailable.code());
}

/// The early text's request goes to the transaction coordinator itself, which may have moved.
#[test]
fn the_early_request_is_told_where_the_coordinator_is_not() {
    let (mut core, _, producer) = prepared();
    core.find_coordinator(1, "x");
    let old = core.node;
    core.node = NodeId::new((old.get() + 1) % 3);
    assert_eq!(core.add_share_acks(producer), ErrorCode::NotCoordinator.code());
    core.stop(old);
    core.start(old);
    core.node = old;
    assert_eq!(core.add_share_acks(producer), ErrorCode::NotCoordinator.code(), "it has moved for good");
    core.find_coordinator(1, "x");
    let next = core.node;
    assert!(next != old);
    core.isolate(next);
    core.node = next;
    assert_eq!(
        core.add_share_acks(producer),
        ErrorCode::CoordinatorNotAvailable.code(),
        "it can write nothing"
    );
    core.rejoin(next);
    core.find_coordinator(1, "x");
    assert_eq!(core.add_share_acks(producer), 0);
}

/// The state of a share partition is read once for all who wait for it, and again after it could not be read.
#[test]
fn states_are_read_once_and_again_after_a_failure() {
    let (mut core, leader, _) = prepared();
    assert_eq!(core.join("g", "B"), 0);
    core.stop(leader); // The next leader has to read the state.
    core.node = core.leader_of("t", 0);
    let error = FaultAction::Error(ErrorCode::UnknownServerError);
    core.install(Fault::new(FaultPoint::ShareStateRead, error));
    let failed = core.share_fetch(5, 0).unwrap();
    assert_eq!(failed.responses[0].partitions[0].error_code, ErrorCode::UnknownServerError.code());
    let reads = core.hold(FaultPoint::ShareStateRead);
    assert!(core.share_fetch(5, 1).is_none() && core.share_fetch_as("B", 6, 0).is_none(), "both wait");
    assert_eq!(core.held().last(), Some(&1), "for one read");
    core.remove(reads);
    let fetched = super::as_share_fetch(core.broker.poll_output().unwrap());
    assert_eq!(fetched.responses[0].partitions[0].acquired_records.len(), 1, "one of them gets the record");
}

/// A stage under way keeps its record from everybody, and nobody reads the stored state meanwhile: it is not there yet.
/// When it fails, nothing is left of it.
#[test]
fn nothing_is_read_while_a_stage_is_not_stored() {
    let (mut core, leader, producer) = prepared();
    assert_eq!(core.join("g", "B"), 0);
    core.hold(FaultPoint::ShareStateRead);
    let writes = core.hold(FaultPoint::ShareStateWrite);
    core.node = leader;
    let request = stage_request(&core, producer);
    assert!(core.send_on(7, 0, request).is_none(), "it waits for the share coordinator");
    assert!(core.share_fetch_as("B", 6, 0).is_none(), "there is nothing for others");
    assert_eq!(core.held(), [0, 1], "no read, one write");
    core.remove(writes);
    assert_eq!(told(core.broker.poll_output()), Some(0));
    assert_eq!(core.end_txn(producer, false), 0);
    let fetched = super::as_share_fetch(core.broker.poll_output().unwrap());
    assert_eq!(
        fetched.responses[0].partitions[0].acquired_records.len(),
        1,
        "the abort gives it to the other"
    );
    assert_eq!(core.held(), [0], "nothing was read for that either");
}

#[test]
fn a_stage_that_fails_at_once_leaves_the_record_free_to_be_staged() {
    let (mut core, leader, producer) = prepared();
    let reads = core.hold(FaultPoint::ShareStateRead);
    let error = FaultAction::Error(ErrorCode::UnknownServerError);
    core.install(Fault::new(FaultPoint::ShareStateWrite, error));
    assert!(stage_as(&mut core, producer) != 0);
    assert_eq!(stage_as(&mut core, producer), 0, "it is not in transition any more");
    assert_eq!(core.held()[0], 0, "and its state was not read again");
    core.remove(reads);
    assert_eq!(core.end_txn(producer, true), 0);
    core.node = leader;
    assert_eq!(core.state_of_first(), Some(RecordState::Acknowledged));
}
