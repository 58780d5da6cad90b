use sharemark_log::batch::{CheckLimits, check_produced};

use super::*;

const LIMITS: CheckLimits = CheckLimits { decompressed_size_bytes_max: 1 << 20, zstd_allowed: true };

fn sample() -> Batch {
    let records = vec![
        Record { value: Some("a".into()), ..Record::default() },
        Record {
            key: Some("k".into()),
            value: None,
            headers: vec![("x".into(), Some("1".into())), ("x".into(), None)],
            timestamp_delta: 77,
        },
    ];
    let mut batch = Batch::of_records(records, 1_900_000_000_000);
    (batch.producer_id, batch.producer_epoch, batch.base_sequence) = (4000, 3, 12);
    batch.transactional = true;
    batch
}

#[test]
fn what_is_written_is_read_back() {
    let batch = sample();
    assert_eq!(decode_batches(&batch.encode()), Ok(vec![batch.clone()]));
    let mut two = batch.encode().to_vec();
    two.extend_from_slice(&batch.encode());
    assert_eq!(decode_batches(&two), Ok(vec![batch.clone(), batch.clone()]));
    two.pop();
    assert_eq!(decode_batches(&two), Ok(vec![batch]), "a cut-off last batch is left out");
}

#[test]
fn the_product_reads_what_is_written() {
    let checked = check_produced(&sample().encode(), &LIMITS).expect("a good batch");
    assert!(checked.has_null_key());
    let mut bad = sample().encode().to_vec();
    *bad.last_mut().expect("bytes") ^= 1;
    assert!(check_produced(&bad.clone().into(), &LIMITS).is_err());
    assert_eq!(decode_batches(&bad), Err(BadBatch("wrong CRC")));
}

#[test]
fn varints_hold_every_number() {
    for value in [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN] {
        let mut out = BytesMut::new();
        put_varint(&mut out, value);
        assert_eq!(Reader { bytes: &out }.varint(), Ok(value));
    }
}
