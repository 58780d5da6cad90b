//! What can be found out about a request without any state, on the thread of its connection.

use sharemark_log::batch::{CheckLimits, CheckedBatch, check_produced, transactional_producer};
use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::RequestMessage;
use sharemark_protocol::messages::produce_request::ProduceRequest;

use super::input::{Origin, RefusedBatch, Request};

/// The first version of Produce that knows Zstandard.
const FIRST_VERSION_WITH_ZSTD: i16 = 7;

impl Request {
    /// Makes a request of what was decoded, and checks the records of a Produce: their checksums are worked out
    /// and their records walked here. `decompressed_size_bytes_max` bounds what a batch is decompressed to.
    pub fn prepare(origin: Origin, message: RequestMessage, decompressed_size_bytes_max: usize) -> Self {
        let checked = if let RequestMessage::Produce(produce) = &message {
            let zstd_allowed = FIRST_VERSION_WITH_ZSTD <= origin.api_version;
            check(produce, &CheckLimits { decompressed_size_bytes_max, zstd_allowed })
        } else {
            Vec::new()
        };
        Self { origin, message, checked }
    }
}

fn check(produce: &ProduceRequest, limits: &CheckLimits) -> Vec<Result<CheckedBatch, RefusedBatch>> {
    let partitions = produce.topic_data.iter().flat_map(|topic| &topic.partition_data);
    partitions
        .map(|data| match &data.records {
            Some(records) => {
                let records = records.to_bytes();
                check_produced(&records, limits).map_err(|error| {
                    let transaction = transactional_producer(&records, limits);
                    RefusedBatch { error, transaction }
                })
            }
            None => Err(RefusedBatch { error: ErrorCode::InvalidRecord, transaction: None }),
        })
        .collect()
}
