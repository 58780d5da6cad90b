//! Records of the internal topics, which a start reads from the disk: read and written again.

use bytes::{Buf, Bytes};
use sharemark_group_coordinator::GroupRecord;
use sharemark_share_coordinator::StateRecord;
use sharemark_txn_coordinator::{TransactionRecord, TransactionVersion};

/// Reads `bytes` as a record of an internal topic: a byte for the topic, a byte for the key's length, key, value.
/// What can be read must come out the same when it is written and read again.
///
/// # Panics
///
/// If it does not.
pub fn run_state_records(bytes: &[u8]) {
    if bytes.len() < 2 {
        return;
    }
    let mut bytes = Bytes::copy_from_slice(bytes);
    let kind = bytes.get_u8();
    let key_length = usize::from(bytes.get_u8()).min(bytes.len());
    let key = bytes.split_to(key_length);
    let value = (kind < 128).then_some(bytes);
    match kind % 3 {
        0 => {
            let Ok(record) = StateRecord::decode(&key, value.as_ref()) else { return };
            let again = record.encode();
            let read = StateRecord::decode(&again.key, again.value.as_ref());
            assert_eq!(read, Ok(record), "a share state is the same when it is written and read");
        }
        1 => {
            let Ok(record) = TransactionRecord::decode(&key, value.as_ref()) else { return };
            for version in [TransactionVersion::V0, TransactionVersion::V2] {
                let logged = record.as_logged(version);
                let again = logged.encode(version);
                let read = TransactionRecord::decode(&again.key, again.value.as_ref());
                assert_eq!(read, Ok(logged), "a transaction is the same when it is written and read");
            }
        }
        _ => {
            let Ok(record) = GroupRecord::decode(&key, value.as_ref()) else { return };
            let again = record.encode();
            let read = GroupRecord::decode(&again.key, again.value.as_ref());
            assert_eq!(read, Ok(record), "a group's record is the same when it is written and read");
        }
    }
}
