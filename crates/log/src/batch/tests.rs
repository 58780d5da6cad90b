use super::*;

pub(crate) const LIMITS: CheckLimits =
    CheckLimits { decompressed_size_bytes_max: 1 << 20, zstd_allowed: true };

pub(crate) fn ms(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

#[test]
fn a_marker_has_78_bytes_and_reads_back() {
    let producer = Producer::from_wire(7, 3).unwrap();
    let marker = end_transaction_marker(producer, true, 5, ms(1234));
    assert_eq!(marker.size(), 78);
    let header = marker.header();
    assert!(header.control && header.transactional);
    assert_eq!((header.producer, header.base_sequence), (Some(producer), None));
    let records = Records::read(&Bytes::copy_from_slice(marker.bytes()), 0).unwrap();
    let record = records.iter().next().unwrap().unwrap();
    assert_eq!(MarkerRecord::read(&record), Some(MarkerRecord { committed: true, coordinator_epoch: 5 }));
}

#[test]
fn null_and_empty_parts_survive_every_codec() {
    for codec in ALL {
        let mut builder = BatchBuilder::new().compression(codec);
        let headers: [HeaderPair<'_>; 3] = [(b"x", Some(b"1")), (b"x", None), (b"", Some(b""))];
        for (key, value) in
            [(None, None), (None, Some(&b""[..])), (Some(&b""[..]), None), (Some(&b"k"[..]), Some(&b"v"[..]))]
        {
            builder.push(ms(10), key, value, &headers);
        }
        let sent = builder.build().freeze();
        let checked = check_produced(&sent, &LIMITS).unwrap();
        assert!(checked.has_null_key());
        assert_eq!(checked.bytes(), &sent[..], "the bytes are those that were sent");
        let records = Records::read(&sent, 1 << 20).unwrap();
        let parts: Vec<_> = records.iter().map(|record| record.unwrap()).map(|r| (r.key, r.value)).collect();
        assert_eq!(
            parts,
            [
                (None, None),
                (None, Some(&b""[..])),
                (Some(&b""[..]), None),
                (Some(&b"k"[..]), Some(&b"v"[..]))
            ]
        );
        for record in &records {
            let back: Vec<HeaderPair<'_>> =
                record.unwrap().headers.map(|header| (header.key, header.value)).collect();
            assert_eq!(back, headers);
        }
    }
}

fn check(bytes: &[u8]) -> Result<CheckedBatch, ErrorCode> {
    check_produced(&Bytes::copy_from_slice(bytes), &LIMITS)
}

/// Three records with keys and a header each, from an idempotent producer.
fn sample(codec: Compression) -> BytesMut {
    let producer = Producer::from_wire(1, 0).unwrap();
    let mut builder = BatchBuilder::new().producer(producer, 0).compression(codec);
    for index in 0..3_i64 {
        let value = [index as u8; 300];
        builder.push(ms(100 + index * 3 % 5), Some(b"key"), Some(&value), &[(b"h", Some(b"1"))]);
    }
    builder.build()
}

/// Returns the sample with other bytes at a place, and a checksum that agrees.
fn patched(at: usize, bytes: &[u8]) -> BytesMut {
    let mut batch = sample(Compression::None);
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    patch_crc(&mut batch);
    batch
}

#[test]
fn a_check_notes_what_an_append_needs() {
    for codec in ALL {
        let batch = check(&sample(codec)).unwrap();
        assert_eq!((batch.max_timestamp(), batch.max_timestamp_offset_delta()), (ms(103), 1));
        assert_eq!(batch.min_timestamp, Some(ms(100)));
        assert!(!batch.has_null_key());
        let header = batch.header();
        assert_eq!(
            (header.record_count, header.last_offset, header.compression),
            (3, Offset::ZERO.plus(2), codec)
        );
        assert_eq!((header.base_sequence, header.last_sequence()), (Some(0), Some(2)));
    }
}

#[test]
fn a_batch_that_disagrees_with_itself_is_refused() {
    use ErrorCode::{CorruptMessage, InvalidRecord};
    let cases: [(&str, usize, &[u8], ErrorCode); 15] = [
        ("base offset 1", 7, &[1], InvalidRecord),
        ("base offset -1", 0, &[0xff; 8], InvalidRecord),
        ("length beyond the end", AT_LENGTH, &[0x7f, 0xff, 0xff, 0xff], InvalidRecord),
        ("negative length", AT_LENGTH, &[0xff; 4], CorruptMessage),
        ("length below any header", AT_LENGTH, &[0, 0, 0, 13], CorruptMessage),
        ("length below the header", AT_LENGTH, &[0, 0, 0, 20], InvalidRecord), // What follows is a second one.
        ("magic 1", AT_MAGIC, &[1], InvalidRecord),
        ("magic 3", AT_MAGIC, &[3], CorruptMessage),
        ("magic -1", AT_MAGIC, &[0xff], CorruptMessage),
        ("control batch", AT_ATTRIBUTES, &[0, 0x20], InvalidRecord),
        ("codec 7", AT_ATTRIBUTES, &[0, 7], InvalidRecord),
        ("delta 9", AT_LAST_OFFSET_DELTA, &[0, 0, 0, 9], InvalidRecord),
        ("delta -1", AT_LAST_OFFSET_DELTA, &[0xff; 4], InvalidRecord),
        ("sequence -1", AT_BASE_SEQUENCE, &[0xff; 4], InvalidRecord),
        ("count 2^31-1", AT_RECORD_COUNT, &[0x7f, 0xff, 0xff, 0xff], InvalidRecord),
    ];
    for (what, at, bytes, code) in cases {
        assert_eq!(check(&patched(at, bytes)).err(), Some(code), "{what}");
    }
    // Count and delta agree with each other, but not with the records.
    for count in [0_i32, 2, 4, i32::MAX, -1] {
        let mut batch = patched(AT_RECORD_COUNT, &count.to_be_bytes());
        batch[AT_LAST_OFFSET_DELTA..AT_LAST_OFFSET_DELTA + 4]
            .copy_from_slice(&(count.wrapping_sub(1)).to_be_bytes());
        patch_crc(&mut batch);
        assert_eq!(check(&batch).err(), Some(InvalidRecord), "count {count}");
    }
}

#[test]
fn exactly_one_unharmed_batch_is_taken() {
    let one = sample(Compression::None);
    let two = [&one[..], &one[..]].concat();
    let damaged = |at: usize| {
        let mut bytes = one.clone();
        bytes[at] ^= 1;
        bytes
    };
    assert_eq!(check(&[]).err(), Some(ErrorCode::InvalidRecord));
    assert_eq!(check(&two).err(), Some(ErrorCode::InvalidRecord));
    for trailing in 1..20 {
        let bytes = [&one[..], &vec![0; trailing][..]].concat();
        assert!(matches!(check(&bytes).err(), Some(ErrorCode::InvalidRecord | ErrorCode::CorruptMessage)));
    }
    for cut in 0..one.len() {
        assert!(check(&one[..cut]).is_err(), "cut at {cut}");
    }
    for at in AT_CRC..one.len() {
        assert_eq!(check(&damaged(at)).err(), Some(ErrorCode::CorruptMessage), "bit flipped at {at}");
    }
    assert!(check(&damaged(AT_LEADER_EPOCH)).is_ok(), "the leader epoch is the broker's");
}

/// Makes a batch of records as they are given, with a header that fits.
fn raw(record_count: i32, records: &[u8]) -> BytesMut {
    let fields = BatchFields {
        base_offset: Offset::ZERO,
        leader_epoch: None,
        attributes: 0,
        last_offset_delta: record_count - 1,
        base_timestamp: ms(0),
        max_timestamp: ms(0),
        producer: None,
        base_sequence: -1,
        record_count,
    };
    write_batch(&fields, Compression::None, records)
}

#[test]
fn records_are_walked_to_their_last_byte() {
    // Length, attributes, timestamp delta, offset delta, key length, value length, header count.
    let good: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];
    assert!(check(&raw(1, &good)).is_ok());
    let cases: [(&str, &[u8]); 14] = [
        ("no record", &[]),
        ("length too small", &[10, 0, 0, 0, 1, 1, 0]),
        ("length too large", &[14, 0, 0, 0, 1, 1, 0]),
        ("negative length", &[1, 0, 0, 0, 1, 1, 0]),
        ("trailing byte in the record", &[14, 0, 0, 0, 1, 1, 0, 0]),
        ("trailing byte after the records", &[12, 0, 0, 0, 1, 1, 0, 0]),
        ("offset delta 1", &[12, 0, 0, 2, 1, 1, 0]),
        ("offset delta -1", &[12, 0, 0, 1, 1, 1, 0]),
        ("key beyond the record", &[12, 0, 0, 0, 4, 1, 0]),
        ("headers missing", &[12, 0, 0, 0, 1, 1, 2]),
        ("negative header count", &[12, 0, 0, 0, 1, 1, 1]),
        ("null header key", &[16, 0, 0, 0, 1, 1, 2, 1, 1]),
        ("varint without end", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("header count 2^31-1", &[20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f]),
    ];
    for (what, records) in cases {
        assert_eq!(check(&raw(1, records)).err(), Some(ErrorCode::InvalidRecord), "{what}");
    }
}

#[test]
fn zstandard_needs_a_version_that_knows_it() {
    let limits = CheckLimits { zstd_allowed: false, ..LIMITS };
    for codec in ALL {
        let checked = check_produced(&sample(codec).freeze(), &limits);
        let expected = (codec == Compression::Zstd).then_some(ErrorCode::UnsupportedCompressionType);
        assert_eq!(checked.err(), expected);
    }
}

#[test]
fn a_batch_that_grows_too_large_is_refused() {
    for codec in ALL {
        let zeros = vec![0; 3 << 20];
        let batch = BatchBuilder::new().compression(codec).record(ms(0), None, Some(&zeros)).build();
        let expected = (codec != Compression::None).then_some(ErrorCode::MessageTooLarge);
        assert_eq!(check(&batch).err(), expected, "{codec:?}");
    }
}

#[test]
fn snappy_comes_in_two_framings() {
    let plain = sample(Compression::None);
    let raw_block = snap::raw::Encoder::new().compress_vec(&plain[HEADER_SIZE..]).unwrap();
    let mut batch = BytesMut::from(&plain[..HEADER_SIZE]);
    batch.extend_from_slice(&raw_block);
    batch[AT_ATTRIBUTES + 1] |= 2;
    let length = (batch.len() - LENGTH_PREFIX) as i32;
    batch[AT_LENGTH..AT_LENGTH + 4].copy_from_slice(&length.to_be_bytes());
    patch_crc(&mut batch);
    assert_eq!(check(&batch).unwrap().header().compression, Compression::Snappy);
    let lie = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert_eq!(Compression::Snappy.decompress(&lie, usize::MAX), Err(ErrorCode::InvalidRecord));
}

#[test]
fn batches_are_split_as_they_lie() {
    let one = sample(Compression::None);
    let bytes = Bytes::from([&one[..], &one[..], &one[..10]].concat());
    assert_eq!(split(&bytes).collect::<Vec<_>>(), [one.clone().freeze(), one.freeze()]);
}

#[test]
fn a_batch_takes_what_fits_and_its_first_record_always() {
    let mut builder = BatchBuilder::new();
    assert!(builder.push_within(10, ms(5), Some(b"k"), Some(&[7; 100]), &[]));
    let size = builder.size();
    assert!(!builder.push_within(size, ms(9), None, None, &[]));
    assert!(builder.push_within(size + 20, ms(7), Some(b"l"), None, &[(b"h", Some(b"1"))]));
    assert_eq!((builder.record_count(), builder.build_checked().max_timestamp()), (2, ms(7)));
    let records = Records::read(&builder.build().freeze(), 0).unwrap();
    let sizes: Vec<usize> = records.iter().map(|record| record.unwrap().size_bytes).collect();
    assert_eq!(sizes.iter().sum::<usize>() + HEADER_SIZE, builder.size());
    assert_eq!(sizes[0] + HEADER_SIZE, size);
}

#[test]
fn varints_read_back_and_have_the_size_they_say() {
    use super::cursor::{Cursor, put_varlong, varlong_size};
    let edges = [
        0,
        1,
        -1,
        63,
        64,
        -64,
        -65,
        8191,
        8192,
        i64::from(i32::MAX),
        i64::from(i32::MIN),
        i64::MAX,
        i64::MIN,
    ];
    for value in edges {
        let mut out = Vec::new();
        put_varlong(&mut out, value);
        assert_eq!(out.len(), varlong_size(value), "{value}");
        assert_eq!(Cursor::new(&out).varlong(), Some(value));
        if let Ok(small) = i32::try_from(value) {
            assert_eq!(Cursor::new(&out).varint(), Some(small));
        }
    }
    assert_eq!(Cursor::new(&[0xff; 10]).varlong(), None);
    assert_eq!(Cursor::new(&[0xff; 5]).varint(), None);
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    /// Does with bytes all that anybody would do with a batch.
    fn use_up(bytes: &[u8]) {
        if let Ok(batch) = check(bytes) {
            let bytes = Bytes::copy_from_slice(batch.bytes());
            let records = Records::read(&bytes, 1 << 20).unwrap();
            assert_eq!(records.iter().map(Result::unwrap).count(), batch.header().record_count as usize);
        }
        let bytes = Bytes::copy_from_slice(bytes);
        let _header = BatchView::new(&bytes).and_then(|view| view.header());
        if let Ok(records) = Records::read(&bytes, 1 << 20) {
            for record in records.iter().filter_map(Result::ok) {
                let _marker = MarkerRecord::read(&record);
                assert!(record.headers.count() <= bytes.len() + (1 << 20));
            }
        }
        assert!(split(&bytes).count() <= bytes.len());
    }

    fn codec() -> impl Strategy<Value = Compression> {
        proptest::sample::select(ALL.to_vec())
    }

    proptest! {
        #[test]
        fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            use_up(&bytes);
        }

        #[test]
        fn changed_batches_do_no_harm(
            codec in codec(),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..5),
            cut in proptest::option::of(any::<proptest::sample::Index>()),
        ) {
            let mut batch = sample(codec);
            if let Some(cut) = cut {
                batch.truncate(HEADER_SIZE + cut.index(batch.len() - HEADER_SIZE));
                let length = (batch.len() - LENGTH_PREFIX) as i32;
                batch[AT_LENGTH..AT_LENGTH + 4].copy_from_slice(&length.to_be_bytes());
            }
            for (index, byte) in changes {
                let at = index.index(batch.len());
                batch[at] = byte;
            }
            patch_crc(&mut batch);
            use_up(&batch);
        }

        #[test]
        fn what_is_built_passes_and_reads_back(
            codec in codec(),
            records in proptest::collection::vec(
                (any::<i64>(), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..80)),
                 proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400))),
                1..20,
            ),
        ) {
            let mut builder = BatchBuilder::new().compression(codec);
            for (time, key, value) in &records {
                builder.push(ms(*time), key.as_deref(), value.as_deref(), &[]);
            }
            let batch = check(&builder.build()).unwrap();
            prop_assert_eq!(batch.max_timestamp(), builder.build_checked().max_timestamp());
            let bytes = Bytes::copy_from_slice(batch.bytes());
            let read = Records::read(&bytes, 1 << 20).unwrap();
            let back: Vec<_> = read
                .iter()
                .map(|record| record.unwrap())
                .map(|r| (r.timestamp.ms(), r.key.map(<[u8]>::to_vec), r.value.map(<[u8]>::to_vec)))
                .collect();
            prop_assert_eq!(back, records);
        }
    }
}
