//! Record batches: checked as a produced one, then walked as a stored one.

use bytes::Bytes;
use sharemark_log::batch::{BatchView, CheckLimits, Records, check_produced};

use super::produced::repair_batch;
use crate::records::decode_batches;

/// What a batch is decompressed to at most.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 10;
const LIMITS: CheckLimits =
    CheckLimits { decompressed_size_bytes_max: DECOMPRESSED_BYTES_MAX, zstd_allowed: true };

/// Checks `bytes` as the records of a Produce request, with their checksum mended when the first byte says so; what
/// passes must be readable, by the naive reader too.
///
/// # Panics
///
/// If it is not.
pub fn run_records(bytes: &[u8]) {
    let Some((&mends, rest)) = bytes.split_first() else { return };
    let mut batch = rest.to_vec();
    if mends % 2 == 1 {
        repair_batch(&mut batch);
    }
    let batch = Bytes::from(batch);
    if let Ok(view) = BatchView::new(&batch) {
        let _ = view.header();
        if let Ok(records) = Records::read(&batch, DECOMPRESSED_BYTES_MAX) {
            for record in records.iter().map_while(Result::ok) {
                record.headers.for_each(drop);
            }
        }
    }
    let Ok(checked) = check_produced(&batch, &LIMITS) else { return };
    assert_eq!(checked.bytes(), &batch[..], "a batch keeps its bytes");
    let Ok(records) = Records::read(&batch, DECOMPRESSED_BYTES_MAX) else {
        panic!("a checked batch can be walked");
    };
    let mut count = 0;
    for record in records.iter() {
        let Ok(record) = record else { panic!("a checked record can be read") };
        assert!(record.key.is_some() || checked.has_null_key(), "a null key is seen");
        assert!(record.timestamp <= checked.max_timestamp(), "no timestamp is above the largest");
        count += 1;
    }
    assert_eq!(count, i64::from(checked.header().record_count), "the count is that of the header");
    if batch[22] & 7 == 0 {
        let naive = decode_batches(&batch);
        assert!(naive.is_ok_and(|batches| batches.len() == 1), "the naive reader reads what passes");
    }
}
