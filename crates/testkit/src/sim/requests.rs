//! The requests of clients.

use bytes::Bytes;
use sharemark_protocol::messages::{self as m, RequestMessage};
use sharemark_protocol::{NodeId, Producer, TopicId};

use crate::records::Batch;

/// A run of offsets with one type, or one type for each.
pub(super) type Acknowledged = (i64, i64, Vec<i8>);

/// A partition of a topic.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) topic: &'static str,
    pub(super) topic_id: TopicId,
    pub(super) partition: i32,
    pub(super) leader: NodeId,
}

pub(super) fn create_topic(name: &str, num_partitions: i32) -> RequestMessage {
    let topic = m::create_topics_request::CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    };
    RequestMessage::CreateTopics(m::create_topics_request::CreateTopicsRequest {
        topics: vec![topic],
        ..Default::default()
    })
}

pub(super) fn delete_topic(name: &str) -> RequestMessage {
    let topic = m::delete_topics_request::DeleteTopicState { name: Some(name.into()), ..Default::default() };
    RequestMessage::DeleteTopics(m::delete_topics_request::DeleteTopicsRequest {
        topics: vec![topic],
        ..Default::default()
    })
}

pub(super) fn metadata() -> RequestMessage {
    RequestMessage::Metadata(m::metadata_request::MetadataRequest { topics: None, ..Default::default() })
}

pub(super) fn find_coordinator(key_type: i8, key: &str) -> RequestMessage {
    RequestMessage::FindCoordinator(m::find_coordinator_request::FindCoordinatorRequest {
        key_type,
        coordinator_keys: vec![key.into()],
        ..Default::default()
    })
}

pub(super) fn group_config(group: &str, name: &str, value: &str) -> RequestMessage {
    use m::incremental_alter_configs_request as alter;
    let config = alter::AlterableConfig { name: name.into(), config_operation: 0, value: Some(value.into()) };
    let resource =
        alter::AlterConfigsResource { resource_type: 32, resource_name: group.into(), configs: vec![config] };
    RequestMessage::IncrementalAlterConfigs(alter::IncrementalAlterConfigsRequest {
        resources: vec![resource],
        validate_only: false,
    })
}

pub(super) fn heartbeat(group: &str, member: &str, epoch: i32, topics: Option<&[&str]>) -> RequestMessage {
    RequestMessage::ShareGroupHeartbeat(m::share_group_heartbeat_request::ShareGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        member_epoch: epoch,
        subscribed_topic_names: topics.map(|names| names.iter().map(|name| (*name).into()).collect()),
        ..Default::default()
    })
}

pub(super) fn produce(
    place: Place,
    values: &[String],
    now_ms: i64,
    transactional: Option<(&str, Producer, i32)>,
) -> RequestMessage {
    let mut batch =
        Batch::of_values(values.iter().map(|value| Bytes::copy_from_slice(value.as_bytes())), now_ms);
    if let Some((_, producer, sequence)) = transactional {
        batch.transactional = true;
        batch.producer_id = producer.id.get();
        batch.producer_epoch = producer.epoch.get();
        batch.base_sequence = sequence;
    }
    let partition = m::produce_request::PartitionProduceData {
        index: place.partition,
        records: Some(batch.encode().into()),
    };
    let topic = m::produce_request::TopicProduceData {
        name: place.topic.into(),
        topic_id: place.topic_id,
        partition_data: vec![partition],
    };
    RequestMessage::Produce(m::produce_request::ProduceRequest {
        transactional_id: transactional.map(|(id, _, _)| id.into()),
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![topic],
    })
}

pub(super) fn init_producer(transactional_id: &str, timeout_ms: i32) -> RequestMessage {
    RequestMessage::InitProducerId(m::init_producer_id_request::InitProducerIdRequest {
        transactional_id: Some(transactional_id.into()),
        transaction_timeout_ms: timeout_ms,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    })
}

pub(super) fn end_txn(transactional_id: &str, producer: Producer, committed: bool) -> RequestMessage {
    RequestMessage::EndTxn(m::end_txn_request::EndTxnRequest {
        transactional_id: transactional_id.into(),
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        committed,
    })
}

pub(super) fn share_fetch(
    (group, member, epoch): (&str, &str, i32),
    places: &[(Place, Vec<Acknowledged>)],
    max_wait_ms: i32,
    (max_records, mode): (i32, i8),
) -> RequestMessage {
    use m::share_fetch_request as fetch;
    let topic = |(place, acknowledged): &(Place, Vec<Acknowledged>)| fetch::FetchTopic {
        topic_id: place.topic_id,
        partitions: vec![fetch::FetchPartition {
            partition_index: place.partition,
            acknowledgement_batches: acknowledged
                .iter()
                .map(|(first_offset, last_offset, types)| fetch::AcknowledgementBatch {
                    first_offset: *first_offset,
                    last_offset: *last_offset,
                    acknowledge_types: types.clone(),
                })
                .collect(),
        }],
    };
    RequestMessage::ShareFetch(fetch::ShareFetchRequest {
        group_id: Some(group.into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        max_records,
        batch_size: max_records,
        share_acquire_mode: mode,
        topics: places.iter().map(topic).collect(),
        ..Default::default()
    })
}

pub(super) fn share_acknowledge(
    (group, member, epoch): (&str, &str, i32),
    is_renew_ack: bool,
    places: &[(Place, Vec<Acknowledged>)],
) -> RequestMessage {
    use m::share_acknowledge_request as acknowledge;
    let topic = |(place, acknowledged): &(Place, Vec<Acknowledged>)| acknowledge::AcknowledgeTopic {
        topic_id: place.topic_id,
        partitions: vec![acknowledge::AcknowledgePartition {
            partition_index: place.partition,
            acknowledgement_batches: acknowledged
                .iter()
                .map(|(first_offset, last_offset, types)| acknowledge::AcknowledgementBatch {
                    first_offset: *first_offset,
                    last_offset: *last_offset,
                    acknowledge_types: types.clone(),
                })
                .collect(),
        }],
    };
    RequestMessage::ShareAcknowledge(acknowledge::ShareAcknowledgeRequest {
        group_id: Some(group.into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        is_renew_ack,
        topics: places.iter().map(topic).collect(),
    })
}

pub(super) fn stage(
    (transactional_id, producer): (&str, Producer),
    (group, member, member_epoch): (&str, &str, i32),
    places: &[(Place, Vec<Acknowledged>)],
) -> RequestMessage {
    use m::txn_share_acknowledge_request as stage;
    let topic = |(place, acknowledged): &(Place, Vec<Acknowledged>)| stage::AcknowledgeTopic {
        topic_id: place.topic_id,
        partitions: vec![stage::AcknowledgePartition {
            partition_index: place.partition,
            acknowledgement_batches: acknowledged
                .iter()
                .map(|(first_offset, last_offset, types)| stage::AcknowledgementBatch {
                    first_offset: *first_offset,
                    last_offset: *last_offset,
                    acknowledge_types: types.clone(),
                })
                .collect(),
        }],
    };
    RequestMessage::TxnShareAcknowledge(stage::TxnShareAcknowledgeRequest {
        transactional_id: Some(transactional_id.into()),
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        group_id: group.into(),
        member_id: member.into(),
        member_epoch,
        topics: places.iter().map(topic).collect(),
    })
}

/// Adds a partition to the transaction of a client that does so itself, as up to version 3.
pub(super) fn add_partition(transactional_id: &str, producer: Producer, place: Place) -> RequestMessage {
    use m::add_partitions_to_txn_request as add;
    let topic = add::AddPartitionsToTxnTopic { name: place.topic.into(), partitions: vec![place.partition] };
    RequestMessage::AddPartitionsToTxn(add::AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: transactional_id.into(),
        v3_and_below_producer_id: producer.id.get(),
        v3_and_below_producer_epoch: producer.epoch.get(),
        v3_and_below_topics: vec![topic],
        ..Default::default()
    })
}

/// Registers acknowledgements with a transaction, in the early dialect.
pub(super) fn add_share_acks(
    (transactional_id, producer): (&str, Producer),
    group: &str,
    places: &[(Place, Vec<Acknowledged>)],
) -> RequestMessage {
    use m::add_share_acks_to_txn_request as add;
    let topic = |(place, _): &(Place, Vec<Acknowledged>)| add::AddShareAcksTopic {
        topic_name: place.topic.into(),
        partitions: vec![place.partition],
    };
    RequestMessage::AddShareAcksToTxn(add::AddShareAcksToTxnRequest {
        transactional_id: transactional_id.into(),
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        group_id: group.into(),
        topics: places.iter().map(topic).collect(),
    })
}

/// Stages acknowledgements in the early dialect, which has one type for a range.
pub(super) fn stage_early(
    transactional_id: &str,
    group: &str,
    places: &[(Place, Vec<Acknowledged>)],
) -> RequestMessage {
    use m::seed_txn_share_acknowledge_request as stage;
    let batch = |first_offset, last_offset, acknowledge_type| stage::AcknowledgementBatch {
        first_offset,
        last_offset,
        acknowledge_type,
    };
    let batches = |runs: &[Acknowledged]| {
        let mut batches = Vec::new();
        for (first, last, types) in runs {
            match types[..] {
                [kind] => batches.push(batch(*first, *last, kind)),
                _ => batches.extend((*first..).zip(types).map(|(offset, kind)| batch(offset, offset, *kind))),
            }
        }
        batches
    };
    let topic = |(place, runs): &(Place, Vec<Acknowledged>)| stage::AcknowledgeTopic {
        topic_id: place.topic_id,
        partitions: vec![stage::AcknowledgePartition {
            partition: place.partition,
            acknowledgement_batches: batches(runs),
        }],
    };
    RequestMessage::SeedTxnShareAcknowledge(stage::SeedTxnShareAcknowledgeRequest {
        group_id: group.into(),
        transaction_id: transactional_id.into(),
        topics: places.iter().map(topic).collect(),
    })
}

/// Ends a transaction under the rules of version 2, where a marker bears an epoch above that of its data.
pub(super) fn markers(
    producer: Producer,
    committed: bool,
    coordinator_epoch: i32,
    partitions: &[(&str, i32)],
) -> RequestMessage {
    use m::write_txn_markers_request as write;
    let topic = |(name, partition): &(&str, i32)| write::WritableTxnMarkerTopic {
        name: (*name).into(),
        partition_indexes: vec![*partition],
    };
    let marker = write::WritableTxnMarker {
        producer_id: producer.id.get(),
        producer_epoch: producer.epoch.get(),
        transaction_result: committed,
        topics: partitions.iter().map(topic).collect(),
        coordinator_epoch,
        transaction_version: 2,
    };
    RequestMessage::WriteTxnMarkers(write::WriteTxnMarkersRequest { markers: vec![marker] })
}

pub(super) fn earliest_offset(place: Place) -> RequestMessage {
    use m::list_offsets_request as list;
    let partition = list::ListOffsetsPartition {
        partition_index: place.partition,
        current_leader_epoch: -1,
        timestamp: -2,
    };
    let topic = list::ListOffsetsTopic { name: place.topic.into(), partitions: vec![partition] };
    RequestMessage::ListOffsets(list::ListOffsetsRequest {
        replica_id: -1,
        topics: vec![topic],
        ..Default::default()
    })
}

/// Reads all that is committed of a partition.
pub(super) fn fetch_committed(place: Place) -> RequestMessage {
    let partition = m::fetch_request::FetchPartition {
        partition: place.partition,
        current_leader_epoch: -1,
        partition_max_bytes: 1 << 30,
        ..Default::default()
    };
    let topic = m::fetch_request::FetchTopic {
        topic_id: place.topic_id,
        partitions: vec![partition],
        ..Default::default()
    };
    RequestMessage::Fetch(m::fetch_request::FetchRequest {
        replica_id: -1,
        max_bytes: 1 << 30,
        isolation_level: 1,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    })
}
