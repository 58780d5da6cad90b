//! What the demo does with topics: creates them, fills one, and reads them back as any client could.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use sharemark_log::batch::{BatchView, MarkerRecord, Records, split};
use sharemark_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use sharemark_protocol::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use sharemark_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use sharemark_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use sharemark_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use sharemark_protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use sharemark_protocol::{ErrorCode, ProducerId, TopicId};

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

/// A record as it was read back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ReadRecord {
    /// Its offset.
    pub(super) offset: i64,
    /// Its key; empty if it has none.
    pub(super) key: Bytes,
    /// Its value; `None` for a tombstone.
    pub(super) value: Option<Bytes>,
}

/// What a topic holds, as a client with isolation level read_committed sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadBack {
    /// The records that such a client is given.
    pub(super) records: Vec<ReadRecord>,
    /// How many transactions a COMMIT marker ends.
    pub(super) committed_transactions: usize,
    /// How many transactions an ABORT marker ends.
    pub(super) aborted_transactions: usize,
    /// How many records are passed over since their transaction was aborted.
    pub(super) aborted_records: usize,
    /// Producers whose transaction goes on at this place of the log.
    open: BTreeSet<ProducerId>,
    /// Producers whose transaction was aborted, until their marker is reached.
    aborting: BTreeSet<ProducerId>,
}

/// Reads all that is stable in the first partition of a topic.
pub(super) fn read_back(client: &mut Client, topic_id: TopicId) -> Result<ReadBack, DemoError> {
    let mut read = ReadBack::default();
    let mut offset = 0;
    loop {
        let data = fetch(client, topic_id, 0, offset, Isolation::ReadCommitted)?;
        check("Fetch", data.error_code)?;
        let aborted = data.aborted_transactions.unwrap_or_default();
        let next = read.add(&data.records.unwrap_or_default().to_bytes(), aborted)?;
        match next {
            Some(next) => offset = next,
            None if data.last_stable_offset <= offset => return Ok(read),
            None => return Err(DemoError::Nonsense("Fetch stops before the last stable offset")),
        }
    }
}

impl ReadBack {
    /// Adds what one fetch brought; returns the offset after it, if it brought anything.
    fn add(
        &mut self,
        batches: &Bytes,
        mut aborted: Vec<AbortedTransaction>,
    ) -> Result<Option<i64>, DemoError> {
        aborted.sort_by_key(|transaction| transaction.first_offset);
        let mut aborted = VecDeque::from(aborted);
        let mut next = None;
        for batch in split(batches) {
            let header = BatchView::new(&batch).and_then(|view| view.header()).map_err(unreadable)?;
            while aborted.front().is_some_and(|first| first.first_offset <= header.last_offset.get()) {
                let producer = aborted.pop_front().map(|first| ProducerId::new(first.producer_id));
                self.aborting.extend(producer);
            }
            let producer = header.producer.filter(|_| header.transactional).map(|producer| producer.id);
            match producer {
                Some(producer) if header.control => self.end(producer, &batch)?,
                Some(producer) if self.aborting.contains(&producer) => {
                    self.open.insert(producer);
                    self.aborted_records += usize::try_from(header.record_count).unwrap_or(0);
                }
                Some(producer) => {
                    self.open.insert(producer);
                    records_of(&batch, &mut self.records)?;
                }
                None => records_of(&batch, &mut self.records)?,
            }
            next = Some(header.last_offset.get() + 1);
        }
        Ok(next)
    }

    /// Counts the transaction that a marker ends, if there is one.
    fn end(&mut self, producer: ProducerId, marker: &Bytes) -> Result<(), DemoError> {
        self.aborting.remove(&producer);
        if !self.open.remove(&producer) {
            return Ok(());
        }
        let records = Records::read(marker, usize::MAX).map_err(unreadable)?;
        let first = records.iter().next().and_then(Result::ok);
        match first.and_then(|record| MarkerRecord::read(&record)) {
            Some(marker) if marker.committed => self.committed_transactions += 1,
            Some(_) => self.aborted_transactions += 1,
            None => return Err(DemoError::Nonsense("a control batch holds no marker")),
        }
        Ok(())
    }
}

/// Appends the records of one batch to `out`.
pub(super) fn records_of(batch: &Bytes, out: &mut Vec<ReadRecord>) -> Result<(), DemoError> {
    let records = Records::read(batch, usize::MAX).map_err(unreadable)?;
    for record in &records {
        let record = record.map_err(unreadable)?;
        out.push(ReadRecord {
            offset: record.offset.get(),
            key: record.key.map(|key| records.slice(key)).unwrap_or_default(),
            value: record.value.map(|value| records.slice(value)),
        });
    }
    Ok(())
}

const fn unreadable(error: ErrorCode) -> DemoError {
    DemoError::Refused { call: "reading a batch", error }
}
