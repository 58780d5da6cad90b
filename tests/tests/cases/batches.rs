//! Record batches: codecs, nulls, batches that lie about themselves, and how much of them one answer holds.

use bytes::{BufMut, Bytes, BytesMut};
use sharemark_log::batch::{BatchBuilder, Compression, Records};
use sharemark_protocol::Timestamp;
use sharemark_protocol::messages as m;
use sharemark_testkit::records::{Batch, Record, decode_batches};

use m::fetch_request::FetchRequest;
use m::init_producer_id_request::InitProducerIdRequest;
use m::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};

use crate::brokers::{Broker, Topic, fetch_request, now_ms, on_both};

const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const HEADER_SIZE: usize = 61;
const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn with_crc(mut batch: Vec<u8>) -> Bytes {
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[ATTRIBUTES..]);
    batch[CRC..ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

fn compressed(codec: Compression, value: &[u8]) -> Bytes {
    let time = Timestamp::from_ms(now_ms());
    BatchBuilder::new().compression(codec).record(time, Some(b"k"), Some(value)).build().freeze()
}

/// What is fetched of a batch is what was produced, but for the leader epoch.
fn fetched(broker: &Broker, topic: &Topic, offset: i64) -> Bytes {
    let records = broker.fetch(topic, 0, offset).records.unwrap().to_bytes();
    let mut bytes = records.to_vec();
    bytes[..8].copy_from_slice(&0_i64.to_be_bytes());
    bytes[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    bytes.into()
}

fn as_produced(batch: &Bytes) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    bytes.into()
}

/// B145: bytes of every codec are stored and returned untouched; zstd is refused of clients too old for it.
#[test]
fn b145_compressed_batches_keep_their_bytes() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let mut next = 0;
        for codec in CODECS {
            let batch = compressed(codec, &[b'x'; 500]);
            assert_eq!(batch.len() < 400, codec != Compression::None, "{codec:?} compresses");
            for version in [3, 6, 7, 13] {
                let result = broker.produce_as(&topic, 0, batch.clone(), version);
                if codec == Compression::Zstd && version < 7 {
                    assert_eq!(result.error_code, 76, "version {version}");
                    continue;
                }
                assert_eq!((result.error_code, result.base_offset), (0, next), "{codec:?} {version}");
                assert_eq!(fetched(broker, &topic, next), as_produced(&batch), "{codec:?} {version}");
                next += 1;
            }
        }
        // Old versions of a fetch get the same bytes; it is for the client to know the codec.
        for version in [4, 9, 10, 18] {
            let data = broker.fetch_as(&topic, 0, next - 1, version);
            assert_eq!(data.error_code, 0, "version {version}");
            assert_ne!(data.records.unwrap().len(), 0, "version {version}");
        }
    });
}

/// What a topic says of compression is done to records that came otherwise, and producers are none the wiser.
#[test]
fn b145_records_are_compressed_as_the_topic_says() {
    on_both(|broker| {
        for (name, wanted) in [
            ("uncompressed", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ] {
            let topic = broker.topic(name, 1);
            broker.run(&[&format!("alter-configs topic {name} compression.type={name}")]);
            for (next, codec) in (0..).zip(CODECS) {
                let result = broker.produce(&topic, 0, compressed(codec, &[b'x'; 500]));
                assert_eq!((result.error_code, result.base_offset), (0, next), "{codec:?} to {name}");
                let bytes = fetched(broker, &topic, next);
                assert_eq!(
                    i16::from(bytes[ATTRIBUTES + 1] & 7),
                    wanted.attribute_bits(),
                    "{codec:?} to {name}"
                );
                let records = Records::read(&bytes, 1 << 20).unwrap();
                let records: Vec<_> = records.iter().map(Result::unwrap).collect();
                assert_eq!(records.len(), 1, "{codec:?} to {name}");
                assert_eq!(records[0].key, Some(&b"k"[..]), "{codec:?} to {name}");
                assert_eq!(records[0].value, Some(&[b'x'; 500][..]), "{codec:?} to {name}");
            }
        }
    });
}

/// B145: snappy comes framed by Java's library and raw from others; both are taken, and returned as they came.
#[test]
fn b145_snappy_is_taken_framed_and_raw() {
    const JAVA_HEADER: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let plain = Batch::of_values([vec![b'x'; 500]], now_ms()).encode();
        let raw = snap::raw::Encoder::new().compress_vec(&plain[HEADER_SIZE..]).unwrap();
        let mut framed = BytesMut::from(&JAVA_HEADER[..]);
        framed.put_i32(i32::try_from(raw.len()).unwrap());
        framed.put_slice(&raw);
        for (offset, body) in [(0, framed.to_vec()), (1, raw)] {
            let mut batch = plain[..HEADER_SIZE].to_vec();
            batch[ATTRIBUTES + 1] |= 2;
            batch.extend(body);
            let batch = with_crc(batch);
            let result = broker.produce(&topic, 0, batch.clone());
            assert_eq!((result.error_code, result.base_offset), (0, offset));
            assert_eq!(fetched(broker, &topic, offset), as_produced(&batch));
        }
    });
}

/// B146: null and empty are two things, in keys, values and headers, under every codec, to readers of both kinds.
#[test]
fn b146_null_and_empty_stay_apart() {
    let sides = [None, Some(&b""[..]), Some(&b"x"[..])];
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        broker.run(&["group-config g share.auto.offset.reset=earliest", "join member=A topics=t"]);
        for codec in CODECS {
            let mut builder = BatchBuilder::new().compression(codec);
            let time = Timestamp::from_ms(now_ms());
            for key in sides {
                for value in sides {
                    builder.push(
                        time,
                        key,
                        value,
                        &[(b"none", None), (b"empty", Some(b"")), (b"", Some(b"h"))],
                    );
                }
            }
            let batch = builder.build().freeze();
            let result = broker.produce(&topic, 0, batch.clone());
            assert_eq!(result.error_code, 0, "{codec:?}");
            let bytes = fetched(broker, &topic, result.base_offset);
            assert_eq!(bytes, as_produced(&batch), "{codec:?}");
            if codec == Compression::None {
                let records = &decode_batches(&bytes).unwrap()[0].records;
                let pairs: Vec<_> =
                    records.iter().map(|record| (record.key.as_deref(), record.value.as_deref())).collect();
                let wanted: Vec<_> = sides.iter().flat_map(|key| sides.map(|value| (*key, value))).collect();
                assert_eq!(pairs, wanted);
                let header = |name: &str, value: Option<&'static [u8]>| {
                    (name.to_owned(), value.map(Bytes::from_static))
                };
                let headers = vec![header("none", None), header("empty", Some(b"")), header("", Some(b"h"))];
                assert!(records.iter().all(|record| record.headers == headers));
            }
        }
        let shared = broker.run(&["share-fetch member=A epoch=0 t-0"]);
        assert!(shared.starts_with("t-0 NONE acquired 0-44x1"), "{shared}");
    });
}

/// B154: offsets are found by the times of single records, also of compressed ones: the first at or after a time.
#[test]
fn b154_offsets_by_time_within_compressed_batches() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let start = now_ms() - 60_000;
        for codec in [Compression::Gzip, Compression::Lz4] {
            let mut builder = BatchBuilder::new().compression(codec);
            for after in [1, 5, 3, 5] {
                builder.push(Timestamp::from_ms(start + after), None, Some(b"v"), &[]);
            }
            assert_eq!(broker.produce(&topic, 0, builder.build().freeze()).error_code, 0);
        }
        let find = |timestamp| {
            let asked = ListOffsetsPartition { partition_index: 0, current_leader_epoch: -1, timestamp };
            let request = ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsTopic { name: topic.name.as_str().into(), partitions: vec![asked] }],
                ..ListOffsetsRequest::default()
            };
            let answer = broker.connect().call(&request, 10).unwrap();
            (answer.topics[0].partitions[0].offset, answer.topics[0].partitions[0].timestamp)
        };
        assert_eq!(find(-3), (1, start + 5), "the first of the youngest");
        assert_eq!(find(start), (0, start + 1));
        assert_eq!(find(start + 1), (0, start + 1), "at the time itself");
        assert_eq!(find(start + 2), (1, start + 5));
        assert_eq!(find(start + 5), (1, start + 5), "the first of equals");
        assert_eq!(find(start + 6), (-1, -1), "nothing is so young");
    });
}

/// B156: a batch that lies about itself is refused for its partition, and nothing of it is kept.
#[test]
fn b156_batches_that_lie_are_refused() {
    const LAST_OFFSET_DELTA: usize = 23;
    const RECORD_COUNT: usize = 57;
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let records = || (0..3).map(|_| Record { value: Some("v".into()), ..Record::default() }).collect();
        let good = Batch::of_records(records(), now_ms()).encode().to_vec();
        let with = |at: usize, number: i32| {
            let mut batch = good.clone();
            batch[at..at + 4].copy_from_slice(&number.to_be_bytes());
            with_crc(batch)
        };
        let mut wrong = vec![];
        for number in [9, 1, 0, -1, i32::MAX, i32::MIN] {
            wrong.push((format!("last offset delta {number}"), with(LAST_OFFSET_DELTA, number)));
            wrong.push((format!("count {number}"), with(RECORD_COUNT, number)));
        }
        for magic in [0, 1, 3, 0xff] {
            let mut batch = good.clone();
            batch[16] = magic;
            wrong.push((format!("magic {magic}"), batch.into()));
        }
        let mut batch = good.clone();
        batch[CRC] ^= 1;
        wrong.push(("a wrong CRC".into(), batch.into()));
        wrong.push(("two batches".into(), [good.clone(), good.clone()].concat().into()));
        wrong.push(("half a header".into(), good[..30].to_vec().into()));
        for (what, bytes) in wrong {
            let result = broker.produce(&topic, 0, bytes);
            assert!([2, 87].contains(&result.error_code), "{what}: {}", result.error_code);
            assert_eq!(result.base_offset, -1, "{what}");
        }
        assert_eq!(broker.fetch(&topic, 0, 0).high_watermark, 0, "nothing was kept");
        assert_eq!(broker.produce(&topic, 0, good.into()).base_offset, 0);
    });
}

/// B156: sequences wrap from the largest number to 0.
#[test]
fn b156_sequences_wrap_to_zero() {
    on_both(|broker| {
        let topic = broker.topic("t", 1);
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        let producer = broker.connect().call(&request, 4).unwrap();
        assert_eq!(producer.error_code, 0, "{producer:?}");
        let produce = |count: usize, base_sequence| {
            let batch = Batch {
                producer_id: producer.producer_id,
                producer_epoch: producer.producer_epoch,
                base_sequence,
                ..Batch::of_values(vec!["v"; count], now_ms())
            };
            let result = broker.produce(&topic, 0, batch.encode());
            (result.error_code, result.base_offset)
        };
        assert_eq!(produce(3, i32::MAX - 4), (0, 0), "a producer that nobody knows starts anywhere");
        assert_eq!(produce(4, i32::MAX - 1), (0, 3), "the batch holds the numbers MAX-1, MAX, 0 and 1");
        assert_eq!(produce(4, i32::MAX - 1), (0, 3), "a repeat");
        assert_eq!(produce(1, 3).0, 45, "a jump");
        assert_eq!(produce(1, 2), (0, 7));
        assert_eq!(produce(1, i32::MIN).0, 87, "no sequence is negative");
    });
}

/// B157: the room of an answer is shared, the first batch comes in any case, and no partition starves.
#[test]
fn b157_many_partitions_share_an_answer() {
    const PARTITIONS: i32 = 50;
    on_both(|broker| {
        let topic = broker.topic("t", PARTITIONS);
        for index in 0..PARTITIONS {
            let batch = Batch::of_values([vec![b'x'; 10_000]], now_ms()).encode();
            assert_eq!(broker.produce(&topic, index, batch).error_code, 0);
        }
        let places: Vec<(&Topic, i32, i64)> = (0..PARTITIONS).map(|index| (&topic, index, 0)).collect();
        let mut request = FetchRequest { max_bytes: 1 << 20, ..fetch_request(&places) };
        for asked in &mut request.topics {
            asked.partitions[0].partition_max_bytes = 20 << 10;
        }
        let served = |request: &FetchRequest, answer: m::fetch_response::FetchResponse| -> Vec<i32> {
            assert_eq!(answer.error_code, 0, "{request:?}");
            answer
                .responses
                .into_iter()
                .flat_map(|topic| topic.partitions)
                .filter(|data| data.records.as_ref().is_some_and(|records| !records.is_empty()))
                .map(|data| data.partition_index)
                .collect()
        };
        let answer = broker.connect().call(&request, 18).unwrap();
        assert_eq!(served(&request, answer).len(), 50, "all fit");
        // In a session each turn goes to another partition.
        let mut connection = broker.connect();
        request.max_bytes = 1;
        request.session_epoch = 0;
        let mut turns = Vec::new();
        // One turn more, since the fetch that opens the session may not count as one.
        for epoch in 0..=PARTITIONS {
            request.session_epoch = epoch;
            let answer = connection.call(&request, 18).unwrap();
            request.session_id = answer.session_id;
            request.topics.clear();
            let turn = served(&request, answer);
            assert_eq!(turn.len(), 1, "one batch, from one partition");
            turns.extend(turn);
        }
        turns.sort_unstable();
        turns.dedup();
        assert_eq!(turns.len(), 50, "each had its turn: {turns:?}");
    });
}
