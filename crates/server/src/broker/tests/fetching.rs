//! When a fetch is answered, and how many sessions there may be.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};

use super::{BatchBuilder, Core, Output, as_share_fetch, produce, produce_errors};
use m::fetch_request::{FetchPartition, FetchRequest, FetchTopic};

const BATCH_BYTES: i32 = 170;

fn with_batches(count: usize) -> Core {
    let mut core = Core::with(|config| config.property("max.incremental.fetch.session.cache.slots", "2"));
    for _ in 0..count {
        assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    }
    core
}

fn request(core: &Core, min_bytes: i32, max_bytes: i32, partition_max_bytes: i32) -> FetchRequest {
    let partition = FetchPartition { partition_max_bytes, current_leader_epoch: -1, ..Default::default() };
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes,
        max_bytes,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic_id: core.topic_id("t"),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetched_bytes(output: Option<Output>) -> Option<usize> {
    let Output::Answer { message, .. } = output? else { panic!("a fetch is answered") };
    let ResponseMessage::Fetch(answer) = *message else { panic!("an answer is of its request's kind") };
    assert_eq!(answer.error_code, 0);
    Some(answer.responses[0].partitions[0].records.as_ref().unwrap().len())
}

#[test]
fn a_minimum_that_whole_batches_cannot_meet_is_not_waited_for() {
    let mut core = with_batches(4);
    let fetch = |core: &mut Core, min_bytes, max_bytes, partition_max_bytes| {
        let request = request(core, min_bytes, max_bytes, partition_max_bytes);
        fetched_bytes(core.send_on(1, 13, RequestMessage::Fetch(request)))
    };
    let one = usize::try_from(BATCH_BYTES).unwrap();
    let all = fetch(&mut core, 1, 1 << 20, 1 << 20).unwrap();
    assert_eq!(all, 4 * one, "batches have the size that this test counts on");
    // Two and a half batches, by either limit.
    let half = 2 * BATCH_BYTES + BATCH_BYTES / 2;
    assert_eq!(fetch(&mut core, half, 1 << 20, half), Some(2 * one));
    assert_eq!(fetch(&mut core, half, half, 1 << 20), Some(2 * one));
    // More than the answer may hold.
    assert_eq!(fetch(&mut core, 1 << 20, half, 1 << 20), Some(2 * one));
    // More than there is.
    assert_eq!(fetch(&mut core, 5 * BATCH_BYTES, 1 << 20, 1 << 20), None);
    core.advance(500);
    assert_eq!(fetched_bytes(core.broker.poll_output()), Some(4 * one));
}

#[test]
fn a_fetch_over_a_deleted_topic_is_answered_at_once() {
    let mut core = with_batches(0);
    assert_eq!(core.join("g", "A"), 0);
    let plain = request(&core, 1, 1 << 20, 1 << 20);
    assert!(core.send_on(2, 13, RequestMessage::Fetch(plain)).is_none());
    assert!(core.share_fetch(3, 0).is_none());
    assert_eq!(core.delete_topic("t"), 0);
    let Some(Output::Answer { message, .. }) = core.broker.poll_output() else {
        panic!("the fetch is answered")
    };
    let ResponseMessage::Fetch(answer) = *message else { panic!("the fetch waited first: {message:?}") };
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicId.code());
    let answer = as_share_fetch(core.broker.poll_output().unwrap());
    assert_eq!(answer.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn a_session_in_use_keeps_its_place() {
    let mut core = with_batches(1);
    let fetch = |core: &mut Core, session_id, session_epoch| {
        let mut request = request(core, 0, 1 << 20, 1 << 20);
        (request.session_id, request.session_epoch) = (session_id, session_epoch);
        let ResponseMessage::Fetch(answer) = core.call(13, RequestMessage::Fetch(request)) else {
            panic!("an answer is of its request's kind")
        };
        (answer.error_code, answer.session_id)
    };
    let (_, first) = fetch(&mut core, 0, 0);
    let (_, second) = fetch(&mut core, 0, 0);
    assert!(first != 0 && second != 0 && first != second);
    assert_eq!(fetch(&mut core, 0, 0), (0, 0), "a third client is served without a session");
    assert_eq!(fetch(&mut core, first, 1), (0, first));
    core.advance(60_000);
    assert_eq!(fetch(&mut core, first, 2), (0, first));
    core.advance(60_001);
    let (_, third) = fetch(&mut core, 0, 0);
    assert!(third != 0, "a session that nobody used for two minutes makes room");
    assert_eq!(fetch(&mut core, second, 1), (ErrorCode::FetchSessionIdNotFound.code(), 0));
    assert_eq!(fetch(&mut core, first, 3), (0, first));
}

#[test]
fn a_partition_that_was_forgotten_meanwhile_stays_forgotten() {
    use m::fetch_request::ForgottenTopic;
    let mut core = with_batches(0);
    let mut opening = request(&core, 0, 1 << 20, 1 << 20);
    opening.session_epoch = 0;
    let ResponseMessage::Fetch(opened) = core.call(13, RequestMessage::Fetch(opening)) else {
        panic!("an answer is of its request's kind")
    };
    let session_id = opened.session_id;
    let incremental = |core: &Core, session_epoch| FetchRequest {
        session_id,
        session_epoch,
        topics: Vec::new(),
        ..request(core, 1, 1 << 20, 1 << 20)
    };
    let waiting = incremental(&core, 1);
    assert!(core.send_on(2, 13, RequestMessage::Fetch(waiting)).is_none());
    // Another request of the session goes on with another partition, while that one waits.
    let topic_id = core.topic_id("t");
    let mut other = incremental(&core, 2);
    let partition = FetchPartition { partition: 1, current_leader_epoch: -1, ..Default::default() };
    other.topics = vec![FetchTopic { topic_id, partitions: vec![partition], ..Default::default() }];
    other.forgotten_topics_data =
        vec![ForgottenTopic { topic_id, partitions: vec![0], ..Default::default() }];
    assert!(core.send_on(3, 13, RequestMessage::Fetch(other)).is_none());
    assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    assert_eq!(fetched_bytes(core.broker.poll_output()), Some(usize::try_from(BATCH_BYTES).unwrap()));
    core.advance(500);
}

/// Gives a group room for so many records in flight.
fn allow_locks(core: &mut Core, count: &str) -> Option<Output> {
    use m::incremental_alter_configs_request as alter;
    let config = alter::AlterableConfig {
        name: "share.partition.max.record.locks".into(),
        config_operation: 0,
        value: Some(count.into()),
    };
    let resource =
        alter::AlterConfigsResource { resource_type: 32, resource_name: "g".into(), configs: vec![config] };
    let request = alter::IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    core.call(1, RequestMessage::IncrementalAlterConfigs(request));
    core.broker.poll_output()
}

#[test]
fn a_wider_window_wakes_who_waits_for_it() {
    let mut core = with_batches(0);
    assert_eq!(core.join("g", "A"), 0);
    assert!(allow_locks(&mut core, "100").is_none());
    assert!(core.share_fetch(2, 0).is_none());
    core.advance(500);
    assert!(
        as_share_fetch(core.broker.poll_output().unwrap()).responses[0].partitions[0]
            .acquired_records
            .is_empty()
    );
    for _ in 0..101 {
        assert_eq!(produce_errors(core.call(12, produce(vec![(0, BatchBuilder::new())], None))), [0]);
    }
    let full = core.share_fetch(2, 1).unwrap();
    assert_eq!(full.responses[0].partitions[0].acquired_records[0].last_offset, 99);
    assert!(core.share_fetch(2, 2).is_none());
    let rest = as_share_fetch(allow_locks(&mut core, "2000").unwrap());
    assert_eq!(rest.responses[0].partitions[0].acquired_records[0].first_offset, 100);
}
