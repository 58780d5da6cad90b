//! The codec against messages that Kafka wrote, against a second implementation, and against hostile bytes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

#[path = "codec/vectors.rs"]
mod vectors;

#[path = "codec/hostile.rs"]
mod hostile;
#[path = "codec/second.rs"]
mod second;
#[path = "codec/table.rs"]
mod table;

use std::collections::BTreeSet;

use vectors::vectors;

/// Every request, answer and header of Kafka 4.4 decodes, and encodes back to Kafka's bytes.
#[test]
fn all_messages_come_back_byte_for_byte() {
    assert_eq!(check("kafka-4.4-messages.tsv.gz"), (12_440, 622));
}

/// So does every key and value that Kafka 4.4 stores; what KIP-1289 adds to some of them changes no byte.
#[test]
fn all_records_come_back_byte_for_byte() {
    assert_eq!(check("kafka-4.4-records.tsv.gz"), (1_540, 77));
}

/// Checks a file; returns how many messages it holds, and of how many versions.
fn check(file: &str) -> (usize, usize) {
    let mut lines = 0;
    let mut kinds = BTreeSet::new();
    vectors(file, |vector| {
        let codec = vector.codec();
        assert_eq!(codec.api_key, vector.api_key, "{vector:?}");
        let back = (codec.transcode)(vector.version, &vector.bytes);
        assert_eq!(back.as_ref(), Ok(&vector.bytes), "{vector:?}");
        lines += 1;
        kinds.insert((vector.name, vector.version));
    });
    (lines, kinds.len())
}
