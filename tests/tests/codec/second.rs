//! `kafka-protocol`, an implementation by others, reads what we write and writes what we read.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

use crate::vectors::{codec, vectors};

/// Returns the bytes after the other implementation decoded and encoded them, or `None` if it does not
/// know the message or its version.
fn transcode_by_other(name: &str, api_key: i16, version: i16, bytes: &Bytes) -> Option<Bytes> {
    let api_key = ApiKey::try_from(api_key).ok()?;
    let mut rest = bytes.clone();
    let mut out = BytesMut::new();
    if name.ends_with("Request") {
        let request = known(RequestKind::decode(api_key, &mut rest, version))?;
        request.encode(&mut out, version).expect("the other side writes it");
    } else {
        let response = known(ResponseKind::decode(api_key, &mut rest, version))?;
        response.encode(&mut out, version).expect("the other side writes it");
    }
    assert!(rest.is_empty(), "{name} {version}: the other side leaves bytes");
    Some(out.freeze())
}

/// Returns what was decoded, or `None` if the version is unknown; any other error is a disagreement.
fn known<T, E: std::fmt::Debug>(decoded: Result<T, E>) -> Option<T> {
    match decoded {
        Ok(message) => Some(message),
        Err(error) => {
            let error = format!("{error:?}");
            assert!(error.contains("version not supported"), "{error}");
            None
        }
    }
}

/// What we write of each message of defaults and of each vector, the other implementation reads and
/// writes back the same.
#[test]
fn the_other_implementation_agrees() {
    let mut agreed = BTreeSet::new();
    let mut compare = |name: &str, version: i16, ours: &Bytes| {
        let codec = codec(name);
        if let Some(theirs) = transcode_by_other(name, codec.api_key, version, ours) {
            assert_eq!(theirs, ours, "{name} {version}");
            agreed.insert((name.to_owned(), version));
        }
    };
    for codec in sharemark_protocol::messages::CODECS {
        if !codec.name.ends_with("Request") && !codec.name.ends_with("Response") {
            continue;
        }
        for version in codec.versions_valid.clone() {
            compare(codec.name, version, &(codec.encode_default)(version));
        }
    }
    vectors("kafka-4.4-messages.tsv.gz", |vector| {
        let ours = (vector.codec().transcode)(vector.version, &vector.bytes).unwrap();
        compare(&vector.name, vector.version, &ours);
    });
    // It is generated from Kafka 4.1, which has 581 of today's versions.
    assert!(500 < agreed.len(), "{} versions compared", agreed.len());
}
