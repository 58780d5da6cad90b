//! What the demo asks of a broker about topics: to create them, to write, to fetch.

use bytes::Bytes;
use sharemark_protocol::TopicId;
use sharemark_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use sharemark_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use sharemark_protocol::messages::fetch_response::PartitionData;
use sharemark_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use sharemark_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use sharemark_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};

use super::client::{Client, DemoError, check};

/// The number that IncrementalAlterConfigs has for a group.
const GROUP_RESOURCE: i8 = 32;

/// The number that IncrementalAlterConfigs has for setting a value.
const SET: i8 = 0;

/// What isolation levels are called on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Isolation {
    /// All that is written.
    ReadUncommitted = 0,
    /// What was committed.
    ReadCommitted = 1,
}

/// Creates a topic with one partition, and returns its id.
pub(super) fn create_topic(client: &mut Client, name: &str) -> Result<TopicId, DemoError> {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    let answer = client.call(request)?;
    let created = answer.topics.first().ok_or(DemoError::Nonsense("CreateTopics answers no topic"))?;
    check("CreateTopics", created.error_code)?;
    Ok(created.topic_id)
}

/// Sets a property of a group.
pub(super) fn set_group_config(
    client: &mut Client,
    group_id: &str,
    name: &str,
    value: &str,
) -> Result<(), DemoError> {
    let config = AlterableConfig { name: name.into(), config_operation: SET, value: Some(value.into()) };
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: group_id.into(),
        configs: vec![config],
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    let answer = client.call(request)?;
    let altered = answer.responses.first();
    let altered = altered.ok_or(DemoError::Nonsense("IncrementalAlterConfigs answers no resource"))?;
    check("IncrementalAlterConfigs", altered.error_code)
}

/// Returns the id of a topic, and how many partitions it has.
pub(super) fn find_topic(client: &mut Client, name: &str) -> Result<(TopicId, i32), DemoError> {
    let topic = MetadataRequestTopic { topic_id: TopicId::ZERO, name: Some(name.into()) };
    let request = MetadataRequest { topics: Some(vec![topic]), ..MetadataRequest::default() };
    let answer = client.call(request)?;
    let found = answer.topics.first().ok_or(DemoError::Nonsense("Metadata answers no topic"))?;
    check("Metadata", found.error_code)?;
    let count = i32::try_from(found.partitions.len()).unwrap_or(i32::MAX);
    if count == 0 {
        return Err(DemoError::Nonsense("a topic has no partition"));
    }
    Ok((found.topic_id, count))
}

/// Writes one batch to the first partition of a topic.
pub(super) fn produce(
    client: &mut Client,
    topic_id: TopicId,
    transactional_id: Option<&str>,
    batch: Bytes,
) -> Result<(), DemoError> {
    let data = PartitionProduceData { index: 0, records: Some(batch.into()) };
    let topic = TopicProduceData { topic_id, partition_data: vec![data], ..TopicProduceData::default() };
    let request = ProduceRequest {
        transactional_id: transactional_id.map(Into::into),
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic],
    };
    let answer = client.call(request)?;
    let partition = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    let partition = partition.ok_or(DemoError::Nonsense("Produce answers no partition"))?;
    check("Produce", partition.error_code)
}

/// Fetches from one partition once, outside of any session.
pub(super) fn fetch(
    client: &mut Client,
    topic_id: TopicId,
    partition: i32,
    offset: i64,
    isolation: Isolation,
) -> Result<PartitionData, DemoError> {
    let from = FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let topic = FetchTopic { topic_id, partitions: vec![from], ..FetchTopic::default() };
    let request = FetchRequest {
        max_bytes: 1 << 20,
        isolation_level: isolation as i8,
        topics: vec![topic],
        ..FetchRequest::default()
    };
    let answer = client.call(request)?;
    check("Fetch", answer.error_code)?;
    let mut topics = answer.responses.into_iter();
    let partition = topics.next().and_then(|topic| topic.partitions.into_iter().next());
    partition.ok_or(DemoError::Nonsense("Fetch answers no partition"))
}
