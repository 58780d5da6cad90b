//! What clients of all kinds rely on: nulls, layouts, versions, names of clients.

use bytes::{BufMut, Bytes};
use sharemark_protocol::messages as m;
use sharemark_protocol::{Records, TopicId};
use sharemark_testkit::client::{decode_response, request_header};

use m::api_versions_request::ApiVersionsRequest;
use m::find_coordinator_request::FindCoordinatorRequest;
use m::init_producer_id_request::InitProducerIdRequest;
use m::join_group_request::JoinGroupRequest;
use m::metadata_request::MetadataRequest;
use m::share_fetch_request::{FetchPartition, FetchTopic, ShareFetchRequest};

use crate::brokers::{Broker, Topic, fetch_request, now_ms, on_both, produce_request};
use sharemark_testkit::records::Batch;

const API_VERSIONS: i16 = 18;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_GROUP_ID: i16 = 24;
const INVALID_REQUEST: i16 = 42;
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const UNKNOWN_TOPIC_ID: i16 = 100;

fn nowhere(broker: &Broker) -> Topic {
    Topic { name: broker.name("nosuch"), id: TopicId::from_bytes([0x7e; 16]) }
}

/// B122: records of a fetch are empty and never null, be the partition empty, missing, or of no known topic.
#[test]
fn b122_records_of_a_fetch_are_never_null() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let missing = nowhere(broker);
        for version in 4..=18 {
            let request = fetch_request(&[(&topic, 0, 0), (&topic, 9, 0), (&missing, 0, 0)]);
            let answer = broker.connect().call(&request, version).unwrap();
            let partitions: Vec<_> = answer.responses.iter().flat_map(|topic| &topic.partitions).collect();
            let mut codes: Vec<i16> = partitions.iter().map(|partition| partition.error_code).collect();
            codes.sort_unstable();
            let unknown = if version < 13 { UNKNOWN_TOPIC_OR_PARTITION } else { UNKNOWN_TOPIC_ID };
            assert_eq!(codes, [0, UNKNOWN_TOPIC_OR_PARTITION, unknown], "in version {version}");
            for partition in partitions {
                let records = partition.records.as_ref().map(Records::len);
                assert_eq!(records, Some(0), "in version {version}: {partition:?}");
            }
        }
    });
}

/// B122 for share groups. A null would not decode: the schema that we read by has no null there.
#[test]
fn b122_records_of_a_share_fetch_are_never_null() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.run(&["join member=A topics=t"]);
        for version in 1..=2 {
            let asked = |id, index| FetchTopic {
                topic_id: id,
                partitions: vec![FetchPartition { partition_index: index, ..FetchPartition::default() }],
            };
            let request = ShareFetchRequest {
                group_id: Some(broker.name("g").as_str().into()),
                member_id: Some("A".into()),
                max_wait_ms: 100,
                max_bytes: 1 << 20,
                max_records: 500,
                batch_size: 500,
                topics: vec![asked(topic.id, 0), asked(topic.id, 9), asked(nowhere(broker).id, 0)],
                ..ShareFetchRequest::default()
            };
            // Kafka leaves a partition out while it is loading its state.
            broker.settle(|| {
                let answer = broker.connect().call(&request, version).unwrap();
                assert_eq!(answer.error_code, 0);
                let partitions: Vec<_> =
                    answer.responses.iter().flat_map(|topic| &topic.partitions).collect();
                for partition in &partitions {
                    assert_eq!(partition.records.len(), 0, "in version {version}: {partition:?}");
                }
                partitions.len() == 3
            });
        }
    });
}

/// B124: an ApiVersions request from the future is answered in the first layout, and the connection goes on.
#[test]
fn b124_api_versions_of_the_future_is_answered() {
    on_both(|broker| {
        let mut connection = broker.connect_silently();
        let mut frame = request_header(API_VERSIONS, 127, 77, Some("cases"), true);
        frame.put_bytes(0xff, 9);
        connection.send_frame(&frame).unwrap();
        let frame = connection.read_frame().unwrap().expect("an answer");
        let (correlation_id, answer) = decode_response::<ApiVersionsRequest>(0, &frame).unwrap();
        assert_eq!((correlation_id, answer.error_code), (77, UNSUPPORTED_VERSION));
        let own = answer.api_keys.iter().find(|api| api.api_key == API_VERSIONS).expect("its own range");
        assert!(own.min_version == 0 && own.max_version < 127, "{own:?}");
        for version in [4, 3, 2, 1, 0] {
            let answer = connection.call(&named("cases", "1"), version).unwrap();
            assert_eq!(answer.error_code, 0, "in version {version}");
        }
    });
}

fn named(name: &str, version: &str) -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: version.into(),
        ..ApiVersionsRequest::default()
    }
}

/// B125: a feature that may be 0 is shown from version 4 on, and hidden from older clients.
#[test]
fn b125_features_with_minimum_zero_are_for_newer_clients() {
    on_both(|broker| {
        let mut connection = broker.connect_silently();
        let mut supported = |version| {
            let answer = connection.call(&named("cases", "1"), version).unwrap();
            assert!(0 <= answer.finalized_features_epoch || version < 3);
            let features = answer.supported_features.iter();
            features.map(|feature| (feature.name.to_string(), feature.min_version)).collect::<Vec<_>>()
        };
        let old = supported(3);
        let new = supported(4);
        assert!(old.iter().all(|(_, min)| 0 < *min), "{old:?}");
        assert!(old.iter().any(|(name, _)| name == "metadata.version"), "{old:?}");
        for name in ["group.version", "share.version", "transaction.version"] {
            assert!(new.contains(&(name.to_owned(), 0)), "{new:?}");
        }
        assert!(old.iter().all(|feature| new.contains(feature)));
    });
}

/// B126: the name and version of a client's software are checked; the connection goes on.
#[test]
fn b126_names_of_clients_are_checked() {
    on_both(|broker| {
        let mut connection = broker.connect_silently();
        for (name, version) in [
            ("", "1"),
            ("-x", "1"),
            ("x-", "1"),
            ("a b", "1"),
            ("a", ""),
            ("a", "1.0!"),
            ("ä", "1"),
            ("a_b", "1"),
        ] {
            let answer = connection.call(&named(name, version), 3).unwrap();
            assert_eq!(answer.error_code, INVALID_REQUEST, "`{name}` `{version}`");
            assert!(answer.api_keys.is_empty());
        }
        for (name, version) in [("a", "1"), ("apache-kafka.x", "4.4.0-rc1")] {
            let answer = connection.call(&named(name, version), 3).unwrap();
            assert_eq!(answer.error_code, 0, "`{name}` `{version}`");
        }
    });
}

/// B142: client metrics (KIP-714) are not offered, so that no client asks in a loop what to push.
#[test]
fn b142_client_metrics_are_not_offered() {
    on_both(|broker| {
        let connection = broker.connect();
        assert_eq!((connection.announced(71), connection.announced(72)), (None, None));
    });
}

/// B135: no answer is throttled, however fast a client asks.
#[test]
fn b135_nothing_is_throttled() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let mut connection = broker.connect();
        for _ in 0..200 {
            let records = Batch::of_values(["a"], now_ms()).encode();
            let produced = connection.call(&produce_request(vec![(&topic, 0, records)]), 13).unwrap();
            let fetched = connection.call(&fetch_request(&[(&topic, 0, 0)]), 18).unwrap();
            let described = connection.call(&MetadataRequest::default(), 13).unwrap();
            let times = [produced.throttle_time_ms, fetched.throttle_time_ms, described.throttle_time_ms];
            assert_eq!(times, [0; 3]);
        }
    });
}

/// B137: below version 4 one key is asked for and one answer stands at the top; from then on, a list.
#[test]
fn b137_find_coordinator_changes_its_layout() {
    on_both(|broker| {
        let mut connection = broker.connect();
        for version in 0..=3 {
            let request =
                FindCoordinatorRequest { key: broker.name("g").as_str().into(), ..Default::default() };
            let answer = connection.call(&request, version).unwrap();
            assert_eq!(answer.error_code, 0, "in version {version}: {answer:?}");
            assert!(answer.coordinators.is_empty() && 0 < answer.port, "in version {version}");
        }
        for version in 4..=6 {
            let keys =
                ["g", "", "g", "h"].map(|key| if key.is_empty() { key.into() } else { broker.name(key) });
            let request = FindCoordinatorRequest {
                coordinator_keys: keys.iter().map(|key| key.as_str().into()).collect(),
                ..Default::default()
            };
            let answer = connection.call(&request, version).unwrap();
            let found: Vec<(String, i16)> = answer
                .coordinators
                .iter()
                .map(|coordinator| (coordinator.key.to_string(), coordinator.error_code))
                .collect();
            let wanted: Vec<(String, i16)> = keys.iter().map(|key| (key.clone(), 0)).collect();
            assert_eq!(found, wanted, "in version {version}: each key in its place, with its own code");
            assert_eq!((answer.error_code, answer.port), (0, 0), "nothing stands at the top");
        }
        // Types that are not served yet, or not at all.
        for (version, key_type) in [(5, 2), (6, 3), (6, -1), (0, 1)] {
            let request = FindCoordinatorRequest {
                key: "x".into(),
                key_type,
                coordinator_keys: vec!["x".into(), "y".into()],
            };
            let answer = connection.call(&FindCoordinatorRequest { ..request }, version).unwrap();
            let codes: Vec<i16> = answer.coordinators.iter().map(|found| found.error_code).collect();
            if version == 0 {
                assert_eq!((answer.error_code, codes.len()), (0, 0), "version 0 has no types");
            } else {
                assert_eq!(codes, [INVALID_REQUEST; 2], "version {version} type {key_type}");
            }
        }
    });
}

/// What stands beside a code: `NONE` or a sentence; in batches nothing, unless the type of keys is unknown.
#[test]
fn find_coordinator_says_what_kafka_says() {
    on_both(|broker| {
        let mut connection = broker.connect();
        let mut said = |key_type: i8, version: i16| {
            let request = FindCoordinatorRequest {
                key: "x".into(),
                key_type,
                coordinator_keys: if version < 4 { Vec::new() } else { vec!["x".into()] },
            };
            let answer = connection.call(&request, version).unwrap();
            let batched = answer.coordinators.first().map(|found| found.error_message.clone());
            batched.unwrap_or(answer.error_message).map(|text| text.to_string())
        };
        for version in 1..=3 {
            assert_eq!(said(0, version).as_deref(), Some("NONE"), "in version {version}");
            let refused = said(9, version).unwrap();
            assert!(
                refused.starts_with("This most likely occurs because"),
                "in version {version}: {refused}"
            );
        }
        for version in 4..=6 {
            assert_eq!(said(0, version).as_deref(), Some(""), "in version {version}");
            let refused = said(9, version).unwrap();
            assert!(
                refused.starts_with("This most likely occurs because"),
                "in version {version}: {refused}"
            );
        }
    });
}

/// A refused JoinGroup names no protocol, as far as the version can say so.
#[test]
fn a_refused_join_names_no_protocol() {
    on_both(|broker| {
        let mut connection = broker.connect();
        for version in 0..=9 {
            let answer = connection.call(&JoinGroupRequest::default(), version).unwrap();
            assert_eq!(answer.error_code, INVALID_GROUP_ID, "in version {version}");
            let wanted = (version < 7).then_some("");
            assert_eq!(answer.protocol_name.as_deref(), wanted, "in version {version}");
        }
    });
}

/// B147: a version below or above the range ends that connection and no other.
#[test]
fn b147_versions_out_of_range_close_their_own_connection() {
    on_both(|broker| {
        let other = broker.connect();
        for (api_key, version) in
            [(1, 3), (2, 0), (19, 1), (20, 0), (32, 0), (27, 0), (3, 14), (1, 19), (78, 0)]
        {
            let range = other.announced(api_key).expect("the API is served");
            assert!(version < range.0 || range.1 < version, "{api_key} has {range:?}");
            let mut connection = broker.connect_silently();
            let mut frame = request_header(api_key, version, 5, Some("cases"), false);
            frame.put_bytes(0, 64);
            connection.send_frame(&frame).unwrap();
            assert!(matches!(connection.read_frame(), Ok(None)), "api {api_key} version {version}");
        }
        let answer = broker.connect().call(&MetadataRequest::default(), 0).unwrap();
        assert!(!answer.brokers.is_empty(), "the oldest version of metadata is served");
    });
}

/// B165: times beyond all bounds are refused or do no harm; none turns into a wait without end.
#[test]
fn b165_times_beyond_all_bounds() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let mut connection = broker.connect();
        for (timeout, error) in [(-1, 50), (0, 50), (i32::MIN, 50), (i32::MAX, 50), (900_000, 0)] {
            let request = InitProducerIdRequest {
                transactional_id: Some(broker.name("x").as_str().into()),
                transaction_timeout_ms: timeout,
                ..InitProducerIdRequest::default()
            };
            assert_eq!(connection.call(&request, 5).unwrap().error_code, error, "timeout {timeout}");
        }
        for max_wait_ms in [-1, i32::MIN, 0] {
            let request = m::fetch_request::FetchRequest { max_wait_ms, ..fetch_request(&[(&topic, 0, 0)]) };
            let answer = connection.call(&request, 18).unwrap();
            assert_eq!(answer.responses[0].partitions[0].error_code, 0, "a negative wait is none");
        }
        // The longest wait ends with the first record, and holds up nobody else.
        let request =
            m::fetch_request::FetchRequest { max_wait_ms: i32::MAX, ..fetch_request(&[(&topic, 0, 0)]) };
        let sent = connection.send(&request, 18).unwrap();
        broker.produce(&topic, 0, Batch::of_values(["a"], now_ms()).encode());
        let (answered, answer) = connection.receive::<m::fetch_request::FetchRequest>(18).unwrap();
        assert_eq!((answered, answer.responses[0].partitions[0].high_watermark), (sent, 1));
    });
}

/// B165 for share groups.
#[test]
fn b165_waits_of_share_fetches_beyond_all_bounds() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.run(&[
            "join member=A topics=t",
            "share-fetch member=A epoch=0 t-0 wait=100",
            "share-fetch member=A epoch=-1",
        ]);
        let mut connection = broker.connect();
        let request = |epoch, max_wait_ms| ShareFetchRequest {
            group_id: Some(broker.name("g").as_str().into()),
            member_id: Some("A".into()),
            share_session_epoch: epoch,
            max_wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 500,
            batch_size: 500,
            topics: vec![FetchTopic { topic_id: topic.id, partitions: vec![FetchPartition::default()] }],
            ..ShareFetchRequest::default()
        };
        for (epoch, wait) in [(0, -1), (1, i32::MIN), (2, 0)] {
            assert_eq!(connection.call(&request(epoch, wait), 2).unwrap().error_code, 0, "wait {wait}");
        }
        let sent = connection.send(&request(3, i32::MAX), 2).unwrap();
        broker.produce(&topic, 0, Batch::of_values(["a"], now_ms()).encode());
        let (answered, answer) = connection.receive::<ShareFetchRequest>(2).unwrap();
        assert_eq!(answered, sent);
        assert_eq!(answer.responses[0].partitions[0].acquired_records.len(), 1, "{answer:?}");
    });
}

/// B136: the leader epoch that a producer writes means nothing; the broker writes its own, beside the CRC.
#[test]
fn b136_the_leader_epoch_of_a_produced_batch_is_overwritten() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        for leader_epoch in [0, 77, i32::MIN, i32::MAX] {
            let mut batch = Batch::of_values(["a"], now_ms()).encode().to_vec();
            batch[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
            assert_eq!(broker.produce(&topic, 0, Bytes::from(batch)).error_code, 0);
        }
        let records = broker.fetch(&topic, 0, 0).records.unwrap().to_bytes();
        let batches = sharemark_testkit::records::decode_batches(&records).unwrap();
        let epochs: Vec<i32> = batches.iter().map(|batch| batch.leader_epoch).collect();
        assert_eq!(epochs, [0; 4]);
    });
}
