//! Mends what no mutation gets right: the lengths and checksums of record batches.

use bytes::Bytes;
use sharemark_protocol::messages::produce_request::ProduceRequest;

const AT_LENGTH: usize = 8;
const LENGTH_END: usize = 12;
const AT_MAGIC: usize = 16;
const AT_CRC: usize = 17;
const CRC_END: usize = 21;

/// Mends the records of every partition.
pub(super) fn repair(produce: &mut ProduceRequest) {
    for topic in &mut produce.topic_data {
        for partition in &mut topic.partition_data {
            if let Some(records) = &partition.records {
                let mut batch = records.to_bytes().to_vec();
                repair_batch(&mut batch);
                partition.records = Some(Bytes::from(batch).into());
            }
        }
    }
}

/// Makes `batch` one batch of magic 2 with base offset 0, whose length and checksum are right.
pub(super) fn repair_batch(batch: &mut [u8]) {
    if batch.len() <= CRC_END {
        return;
    }
    batch[..AT_LENGTH].fill(0);
    let length = i32::try_from(batch.len() - LENGTH_END).unwrap_or(i32::MAX);
    batch[AT_LENGTH..LENGTH_END].copy_from_slice(&length.to_be_bytes());
    batch[AT_MAGIC] = 2;
    let crc = crc32c::crc32c(&batch[CRC_END..]);
    batch[AT_CRC..CRC_END].copy_from_slice(&crc.to_be_bytes());
}
