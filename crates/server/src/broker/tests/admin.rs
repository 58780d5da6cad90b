//! Topics created and deleted many at a time.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages as m;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};

use super::Core;
use m::delete_topics_request::DeleteTopicState;

fn named(name: &str) -> DeleteTopicState {
    DeleteTopicState { name: Some(name.into()), ..DeleteTopicState::default() }
}

fn exists(core: &Core, name: &str) -> bool {
    core.broker.cluster.topic_named(name).is_some()
}

#[test]
fn a_topic_named_twice_is_not_deleted() {
    let mut core = Core::new();
    let refused = ErrorCode::InvalidRequest.code();
    let told = core.delete_topics(vec![named("t"), named("u"), named("t")]);
    assert_eq!(told, [("t".to_owned(), refused), ("u".to_owned(), 0)]);
    assert!(exists(&core, "t") && !exists(&core, "u"));

    let by_id = DeleteTopicState { name: None, topic_id: core.topic_id("t") };
    let told = core.delete_topics(vec![by_id.clone(), named("t")]);
    assert_eq!(told, [("t".to_owned(), refused)]);
    assert!(exists(&core, "t"));
    let told = core.delete_topics(vec![by_id.clone(), by_id.clone()]);
    assert_eq!(told, [(String::new(), refused)]);
    assert_eq!(core.delete_topics(vec![by_id]), [("t".to_owned(), 0)]);
    assert!(!exists(&core, "t"));
}

#[test]
fn a_request_creates_no_more_partitions_than_ten_thousand() {
    use m::create_partitions_request as partitions;
    use m::create_topics_request as topics;
    let mut core = Core::new();
    let mut create = |count: i32| {
        let topic = |name: &str, num_partitions| topics::CreatableTopic {
            name: name.into(),
            num_partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let topics = vec![topic("many", 9_000), topic("more", count)];
        let request = topics::CreateTopicsRequest { topics, validate_only: true, ..Default::default() };
        let ResponseMessage::CreateTopics(answer) = core.call(7, RequestMessage::CreateTopics(request))
        else {
            panic!("an answer is of its request's kind")
        };
        answer.topics.iter().map(|topic| topic.error_code).collect::<Vec<_>>()
    };
    let refused = ErrorCode::PolicyViolation.code();
    assert_eq!(create(1_001), [refused, refused]);
    assert_eq!(create(1_000), [0, 0]);

    let mut add = |count: i32| {
        let topic = |name: &str, count| partitions::CreatePartitionsTopic {
            name: name.into(),
            count,
            assignments: None,
        };
        let topics = vec![topic("t", 9_002), topic("u", count), topic("none", 9_000)];
        let request =
            partitions::CreatePartitionsRequest { topics, validate_only: true, ..Default::default() };
        let ResponseMessage::CreatePartitions(answer) =
            core.call(3, RequestMessage::CreatePartitions(request))
        else {
            panic!("an answer is of its request's kind")
        };
        answer.results.iter().map(|topic| topic.error_code).collect::<Vec<_>>()
    };
    let missing = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(add(1_002), [refused, refused, refused]);
    assert_eq!(add(1_001), [0, 0, missing]);
}

#[test]
fn a_topic_that_is_asked_for_is_created_if_it_may_exist() {
    use m::metadata_request::{MetadataRequest, MetadataRequestTopic};
    let mut core = Core::new();
    let mut ask = |name: &str| {
        let topic = MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: true,
            ..Default::default()
        };
        let ResponseMessage::Metadata(answer) = core.call(12, RequestMessage::Metadata(request)) else {
            panic!("an answer is of its request's kind")
        };
        answer.topics[0].error_code
    };
    assert_eq!(ask("a.b"), 0);
    assert_eq!(ask("a.b"), 0);
    assert_eq!(ask("a_b"), ErrorCode::InvalidTopicException.code());
    assert_eq!(ask("a/b"), ErrorCode::InvalidTopicException.code());
    assert_eq!(ask("__cluster_metadata"), ErrorCode::UnknownTopicOrPartition.code());
}
