//! Topics: metadata by name and by id, produce by id, configs that are null.

use sharemark_protocol::TopicId;
use sharemark_protocol::messages as m;
use sharemark_testkit::records::Batch;

use m::create_topics_request::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use m::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use m::describe_configs_request::{DescribeConfigsRequest, DescribeConfigsResource};
use m::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use m::metadata_request::{MetadataRequest, MetadataRequestTopic};
use m::metadata_response::MetadataResponseTopic;

use crate::brokers::{Broker, Topic, now_ms, on_both, produce_request};

const NOWHERE: TopicId = TopicId::from_bytes([0x7e; 16]);

fn asked_by_name(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic { name: Some(name.into()), ..MetadataRequestTopic::default() }
}

fn asked_by_id(topic_id: TopicId) -> MetadataRequestTopic {
    MetadataRequestTopic { name: None, topic_id }
}

fn metadata(
    broker: &Broker,
    topics: Option<Vec<MetadataRequestTopic>>,
    version: i16,
) -> Vec<MetadataResponseTopic> {
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() };
    broker.connect().call(&request, version).unwrap().topics
}

/// B132: an empty list of topics means all in version 0 and none after it; there, null means all.
#[test]
fn b132_metadata_of_all_and_of_none() {
    on_both(|broker| {
        let topic = broker.topic("t", 3);
        let holds = |topics: &[MetadataResponseTopic]| {
            topics.iter().filter(|found| found.name.as_deref() == Some(&*topic.name)).count()
        };
        assert_eq!(holds(&metadata(broker, Some(Vec::new()), 0)), 1, "version 0, empty");
        for version in 1..=13 {
            assert_eq!(metadata(broker, Some(Vec::new()), version), [], "version {version}, empty");
            assert_eq!(holds(&metadata(broker, None, version)), 1, "version {version}, null");
        }
    });
}

/// B132: topics by their id.
#[test]
fn b132_metadata_by_id() {
    on_both(|broker| {
        let topic = broker.topic("t", 3);
        let told = |topics: Vec<MetadataResponseTopic>| -> Vec<(i16, Option<String>, TopicId, usize)> {
            topics
                .into_iter()
                .map(|topic| {
                    let name = topic.name.map(|name| name.to_string());
                    (topic.error_code, name, topic.topic_id, topic.partitions.len())
                })
                .collect()
        };
        for version in 12..=13 {
            let known = metadata(broker, Some(vec![asked_by_id(topic.id)]), version);
            assert_eq!(told(known), [(0, Some(topic.name.clone()), topic.id, 3)]);
            let unknown = metadata(broker, Some(vec![asked_by_id(NOWHERE)]), version);
            assert_eq!(told(unknown), [(100, None, NOWHERE, 0)], "the id comes back, with no name");
            let unknown = metadata(broker, Some(vec![asked_by_id(NOWHERE), asked_by_id(NOWHERE)]), version);
            assert_eq!(told(unknown), [(100, None, NOWHERE, 0)], "once");
            let twice = metadata(broker, Some(vec![asked_by_id(topic.id), asked_by_id(topic.id)]), version);
            assert_eq!(told(twice).len(), 1, "a topic asked for twice is one topic");
        }
        for version in 1..=13 {
            for name in [topic.name.clone(), broker.name("nosuch")] {
                let twice = vec![asked_by_name(&name), asked_by_name(&name)];
                assert_eq!(metadata(broker, Some(twice), version).len(), 1, "version {version} {name}");
            }
        }
        // Versions 10 and 11 have the fields, and refuse to use them.
        for version in 10..=11 {
            let request = MetadataRequest {
                topics: Some(vec![MetadataRequestTopic { name: Some("".into()), topic_id: topic.id }]),
                ..MetadataRequest::default()
            };
            let answer = broker.connect().call(&request, version).unwrap();
            assert_eq!(answer.topics[0].error_code, 42, "version {version}: {answer:?}");
        }
    });
}

/// B132: a topic by its name and another by its id, or one by both.
#[test]
fn b132_metadata_by_name_and_id_at_once() {
    on_both(|broker| {
        let first = broker.topic("t", 1);
        let second = broker.topic("u", 2);
        let mixed = vec![asked_by_name(&first.name), asked_by_id(second.id)];
        let mut found: Vec<(i16, String)> = metadata(broker, Some(mixed), 12)
            .into_iter()
            .map(|topic| (topic.error_code, topic.name.map(|name| name.to_string()).unwrap_or_default()))
            .collect();
        found.sort();
        let same = vec![asked_by_name(&first.name), asked_by_id(first.id)];
        let same = metadata(broker, Some(same), 12);
        assert_eq!(found, [(0, second.name.clone())], "ids win");
        assert_eq!(same.len(), 1, "no topic is told twice: {same:?}");
    });
}

/// B132: a missing topic is made only where the broker and the request both allow it.
#[test]
fn b132_topics_are_made_by_asking_only_when_both_sides_allow_it() {
    let ask = |broker: &Broker, allow_auto_topic_creation, version| {
        let request = MetadataRequest {
            topics: Some(vec![asked_by_name("fresh")]),
            allow_auto_topic_creation,
            ..MetadataRequest::default()
        };
        broker.connect().call(&request, version).unwrap().topics.remove(0).error_code
    };
    let willing = Broker::with_defaults(&["-c", "auto.create.topics.enable=true"]);
    assert_eq!(ask(&willing, false, 4), 3, "the request forbids it");
    assert_eq!(ask(&willing, true, 4), 0, "the topic is there at once");
    assert_eq!(ask(&willing, false, 4), 0, "and stays");
    let older = Broker::with_defaults(&["-c", "auto.create.topics.enable=true"]);
    assert_eq!(ask(&older, true, 3), 0, "older requests cannot forbid it");
    let unwilling = Broker::with_defaults(&["-c", "auto.create.topics.enable=false"]);
    assert_eq!(ask(&unwilling, true, 4), 3, "the broker forbids it");
}

/// B133: each topic of a produce is judged by its id, which comes back whatever becomes of it.
#[test]
fn b133_produce_by_topic_id() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let deleted = broker.topic("u", 1);
        let state =
            DeleteTopicState { name: Some(deleted.name.as_str().into()), ..DeleteTopicState::default() };
        let delete =
            DeleteTopicsRequest { topics: vec![state], timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
        assert_eq!(broker.connect().call(&delete, 6).unwrap().responses[0].error_code, 0);
        broker.settle(|| metadata(broker, Some(vec![asked_by_name(&deleted.name)]), 12)[0].error_code == 3);
        let again = broker.topic("u", 1);
        assert_ne!(again.id, deleted.id);
        let other = |id| Topic { name: String::new(), id };
        let topics = [topic.clone(), other(TopicId::ZERO), other(NOWHERE), other(deleted.id), again.clone()];
        let records = || Batch::of_values(["a"], now_ms()).encode();
        let request = produce_request(topics.iter().map(|topic| (topic, 0, records())).collect());
        let answer = broker.connect().call(&request, 13).unwrap();
        let mut results: Vec<(TopicId, i16)> = answer
            .responses
            .iter()
            .map(|topic| (topic.topic_id, topic.partition_responses[0].error_code))
            .collect();
        results.sort();
        let mut wanted =
            vec![(topic.id, 0), (TopicId::ZERO, 100), (NOWHERE, 100), (deleted.id, 100), (again.id, 0)];
        wanted.sort();
        assert_eq!(results, wanted);
    });
}

fn create(
    broker: &Broker,
    name: &str,
    config: (&str, Option<&str>),
    version: i16,
) -> m::create_topics_response::CreatableTopicResult {
    let topic = CreatableTopic {
        name: broker.name(name).as_str().into(),
        num_partitions: -1,
        replication_factor: -1,
        configs: vec![CreatableTopicConfig { name: config.0.into(), value: config.1.map(Into::into) }],
        ..CreatableTopic::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..CreateTopicsRequest::default() };
    broker.connect().call(&request, version).unwrap().topics.remove(0)
}

/// B141: a config whose value is null, or that nobody knows, is refused and breaks nothing.
#[test]
fn b141_configs_that_are_null_or_unknown_are_refused() {
    on_both(|broker| {
        for version in 2..=7 {
            let null = create(broker, "n", ("retention.ms", None), version);
            assert_eq!(null.error_code, 40, "version {version}: {null:?}");
            let unknown = create(broker, "n", ("no.such.config", Some("1")), version);
            assert_eq!(unknown.error_code, 40, "version {version}: {unknown:?}");
        }
        let topic = broker.topic("t", 1);
        let alter = |operation, value: Option<&str>| {
            let resource = AlterConfigsResource {
                resource_type: 2,
                resource_name: topic.name.as_str().into(),
                configs: vec![AlterableConfig {
                    name: "retention.ms".into(),
                    config_operation: operation,
                    value: value.map(Into::into),
                }],
            };
            let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
            broker.connect().call(&request, 1).unwrap().responses[0].error_code
        };
        assert_eq!(alter(0, None), 42, "set to null");
        assert_eq!(alter(1, None), 0, "delete needs no value");
    });
}

/// B141: what was created is told back since version 5, configs included; described lists are never null.
#[test]
fn b141_configs_are_told() {
    on_both(|broker| {
        let created = create(broker, "t", ("retention.ms", Some("1000000")), 7);
        assert_eq!((created.error_code, created.num_partitions, created.replication_factor), (0, 1, 1));
        let topic = broker.name("t");
        broker.settle(|| metadata(broker, Some(vec![asked_by_name(&topic)]), 12)[0].error_code == 0);
        let configs = created.configs.expect("configs are told");
        let retention = configs.iter().find(|config| &*config.name == "retention.ms").expect("what was set");
        assert_eq!((retention.value.as_deref(), retention.config_source), (Some("1000000"), 1));
        assert!(configs.iter().any(|config| &*config.name == "cleanup.policy" && config.config_source == 5));
        for (resource_type, name) in [(2, topic), (32, broker.name("g"))] {
            let resource = DescribeConfigsResource {
                resource_type,
                resource_name: name.as_str().into(),
                configuration_keys: None,
            };
            let request = DescribeConfigsRequest {
                resources: vec![resource],
                include_synonyms: true,
                include_documentation: false,
            };
            for version in 1..=4 {
                let answer = broker.connect().call(&request, version).unwrap();
                let result = &answer.results[0];
                assert_eq!(result.error_code, 0, "{resource_type} {version}");
                assert!(3 < result.configs.len(), "{result:?}");
                for config in &result.configs {
                    assert!(config.value.is_some(), "{} has a value", &*config.name);
                }
            }
        }
    });
}
