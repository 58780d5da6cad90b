//! What coordinators write to internal topics.

use bytes::Bytes;

/// One record of an internal topic, encoded by Kafka's schemas.
///
/// The key starts with an int16 that names the kind of record, the value with its schema's version.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CoordinatorRecord {
    /// The key, which also says what a tombstone removes.
    pub key: Bytes,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
}
