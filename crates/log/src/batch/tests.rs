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
