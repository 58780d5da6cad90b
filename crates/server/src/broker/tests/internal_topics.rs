//! Internal topics can be deleted like others. What stood on them goes, and they begin anew when they are missed.

use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{ErrorCode, Producer, TopicIdPartition};

use super::{BatchBuilder, Core, as_share_fetch, produce, produce_errors};
use crate::broker::{Command, Fault, FaultAction, FaultPoint};
use crate::config::Profile;

/// Lets the latest of all deadlines pass, and checks that none is left behind.
fn assert_deadlines_pass(core: &mut Core) {
    for _ in 0..10 {
        core.advance(3_600_000);
        let clock = core.broker.poll_timeout().clock;
        assert!(clock.is_none_or(|deadline| core.now < deadline), "a deadline that has passed is dealt with");
    }
}

/// What is due and refused by a log is tried again after a while, and not before.
#[test]
fn what_a_log_refuses_is_tried_again_later() {
    for topic in ["__consumer_offsets", "__share_group_state"] {
        let mut core = Core::new();
        assert_eq!(core.join("g", "A"), 0);
        assert!(core.share_fetch(2, 0).is_none());
        assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
        let _fetched = core.broker.poll_output();
        let refuses = FaultAction::Error(ErrorCode::NotEnoughReplicas);
        let fault = Fault::new(FaultPoint::LogAppend, refuses).topic(topic).for_ever();
        let fault = core.command(Command::InstallFault(Box::new(fault))).unwrap();
        assert_deadlines_pass(&mut core);
        assert!(0 < core.broker.inspect_faults()[0].met, "something was due in {topic}");
        core.command(Command::DeleteFault(fault));
        assert_deadlines_pass(&mut core);
    }
}

#[test]
fn groups_begin_anew() {
    let mut core = Core::new();
    assert_eq!(core.join("g", "A"), 0);
    assert_eq!(core.join("g", "B"), 0);
    assert_eq!(core.delete_topic("__consumer_offsets"), 0);
    assert_deadlines_pass(&mut core);
    assert_eq!(core.join("g", "A"), 0);
    assert_deadlines_pass(&mut core);
}

#[test]
fn transactions_begin_anew() {
    let mut core = Core::new();
    let first = core.init_producer("x");
    let batch = BatchBuilder::new().producer(first, 0).transactional();
    let answer = core.call(12, produce(vec![(0, batch)], Some("x")));
    assert_eq!(produce_errors(answer), [0]);
    assert_eq!(core.delete_topic("__transaction_state"), 0);
    assert_deadlines_pass(&mut core);
    let batch = BatchBuilder::new().producer(first, 1).transactional();
    let answer = core.call(12, produce(vec![(1, batch)], Some("x")));
    assert_eq!(produce_errors(answer), [ErrorCode::NotEnoughReplicas.code()]);
    let second = core.init_producer("x");
    assert!(second.id != first.id, "a producer id is never used again");
    assert_deadlines_pass(&mut core);
}

#[test]
fn share_states_begin_anew() {
    let mut core = Core::new();
    assert_eq!(core.join("g", "A"), 0);
    assert!(core.share_fetch(2, 0).is_none());
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    let fetched = as_share_fetch(core.broker.poll_output().unwrap());
    assert_eq!(fetched.responses[0].partitions[0].acquired_records.len(), 1);
    assert_eq!(core.delete_topic("__share_group_state"), 0);

    // Nothing is left of the locks, and every request is answered.
    let fetched = core.share_fetch(2, 1).unwrap();
    assert_eq!(fetched.responses[0].partitions[0].error_code, ErrorCode::UnknownServerError.code());
    let staged = stage(&mut core);
    assert_eq!(staged, ErrorCode::CoordinatorNotAvailable.code());
    assert_deadlines_pass(&mut core);

    // Another group gets its state from a new topic.
    assert_eq!(core.join("h", "A"), 0);
    assert!(core.broker.cluster.topic_named("__share_group_state").is_some());
    assert_deadlines_pass(&mut core);
}

/// Stages the acknowledgement of the first record, and returns what comes of it.
pub(super) fn stage(core: &mut Core) -> i16 {
    let producer = core.init_producer("x");
    core.node = core.leader_of("t", 0);
    stage_as(core, producer)
}

/// As [`stage`], by a producer that is there, at the node that is asked.
pub(super) fn stage_as(core: &mut Core, producer: Producer) -> i16 {
    let request = stage_request(core, producer);
    stage_error(core.call(0, request))
}

/// Returns a request that stages the acknowledgement of the first record by member A.
pub(super) fn stage_request(core: &Core, producer: Producer) -> RequestMessage {
    use m::txn_share_acknowledge_request as request;
    let batch = request::AcknowledgementBatch { first_offset: 0, last_offset: 0, acknowledge_types: vec![1] };
    let partition =
        request::AcknowledgePartition { partition_index: 0, acknowledgement_batches: vec![batch] };
    let topic = request::AcknowledgeTopic { topic_id: core.topic_id("t"), partitions: vec![partition] };
    RequestMessage::TxnShareAcknowledge(request::TxnShareAcknowledgeRequest {
        transactional_id: Some("x".into()),
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        group_id: "g".into(),
        member_id: "A".into(),
        member_epoch: 2,
        topics: vec![topic],
    })
}

/// Returns the error of the one partition, or of the whole request.
pub(super) fn stage_error(answer: ResponseMessage) -> i16 {
    let ResponseMessage::TxnShareAcknowledge(answer) = answer else {
        panic!("an answer is of its request's kind")
    };
    match answer.responses.first() {
        Some(topic) => topic.partitions[0].error_code,
        None => answer.error_code,
    }
}

#[test]
fn what_compaction_and_pruning_leave_says_the_same() {
    let mut core = Core::new();
    for member in ["A", "B"] {
        assert_eq!(core.join("g", member), 0);
    }
    assert!(core.share_fetch(2, 0).is_none());
    for round in 0..5 {
        let producer = core.init_producer("x");
        let batch = BatchBuilder::new().producer(producer, 0).transactional();
        assert_eq!(produce_errors(core.call(12, produce(vec![(0, batch)], Some("x")))), [0]);
        let _fetched = core.broker.poll_output();
        let _staged = stage(&mut core);
        if round % 2 == 0 {
            let request = m::end_txn_request::EndTxnRequest {
                transactional_id: "x".into(),
                producer_id: producer.id.get(),
                producer_epoch: producer.epoch.get(),
                committed: round == 0,
            };
            core.call(5, RequestMessage::EndTxn(request));
        }
        core.advance(1_000);
    }
    core.advance(60_000); // Both members are forgotten, and the last transaction is aborted.
    let batch_count = |core: &Core| -> usize {
        let internal = core.broker.cluster.topics().filter(|topic| topic.is_internal());
        internal.flat_map(|topic| &topic.partitions).map(|partition| partition.log.batch_count()).sum()
    };
    let before = batch_count(&core);
    for _ in 0..3 {
        for name in ["__consumer_offsets", "__transaction_state", "__share_group_state"] {
            let topic = core.broker.cluster.topic_named(name).unwrap();
            let (topic_id, count) = (topic.id, topic.partitions.len());
            for partition in 0..i32::try_from(count).unwrap() {
                let now = core.clocks();
                core.broker.shrink(now, TopicIdPartition { topic_id, partition });
            }
        }
        core.advance(1); // Which checks that replay equals live.
        core.advance(2 * 86_400_000); // Tombstones go.
    }
    let after = batch_count(&core);
    assert!(after * 2 < before, "most of the records are gone: {before} {after}");
    assert_eq!(core.join("g", "A"), 0);
}

#[test]
fn whoever_misses_a_coordinator_asks_again_with_kafkas_profile_alone() {
    for (profile, errors) in [(Profile::Latest, [0, 0]), (Profile::Kafka44, [15, 0])] {
        let mut core = Core::with(|config| config.profile(profile));
        let told = errors.map(|_| core.asked_for_coordinator(0, "g").error_code);
        assert_eq!(told, errors, "{profile:?}");
    }
}
