//! The codec against messages that Kafka wrote, against a second implementation, and against hostile bytes.

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

/// Every message of Kafka 4.4 decodes, and encodes back to Kafka's bytes.
#[test]
fn all_vectors_come_back_byte_for_byte() {
    let mut lines = 0;
    let mut kinds = BTreeSet::new();
    vectors("kafka-4.4-messages.tsv.gz", |vector| {
        let codec = vector.codec();
        assert_eq!(codec.api_key, vector.api_key, "{vector:?}");
        let back = (codec.transcode)(vector.version, &vector.bytes);
        assert_eq!(back.as_ref(), Ok(&vector.bytes), "{vector:?}");
        lines += 1;
        kinds.insert((vector.name, vector.version));
    });
    assert_eq!((lines, kinds.len()), (12_440, 622));
}
