//! Bytes that were cut off or changed: an error or another message, but no panic and no huge allocation.

use std::fs;

use bytes::{Bytes, BytesMut};
use sharemark_protocol::messages::fetch_request::FetchRequest;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::{DecodeError, Message};

use crate::vectors::vectors;

const MESSAGES: &str = "kafka-4.4-messages.tsv.gz";

/// How far the process may have grown at its peak; a count that was believed takes gigabytes.
const PEAK_KIB_MAX: u64 = 512 << 10;

/// A message is never whole before its last byte.
#[test]
fn every_message_cut_anywhere_is_refused() {
    let (mut cuts, mut line) = (0, 0);
    vectors(MESSAGES, |vector| {
        // Five of the twenty messages of each version.
        line += 1;
        if line % 4 != 0 {
            return;
        }
        let codec = vector.codec();
        for length in 0..vector.bytes.len() {
            let outcome = (codec.transcode)(vector.version, &vector.bytes.slice(..length));
            assert!(outcome.is_err(), "cut to {length}: {vector:?}");
            cuts += 1;
        }
        let mut longer = BytesMut::from(&vector.bytes[..]);
        longer.extend_from_slice(&[0]);
        let outcome = (codec.transcode)(vector.version, &longer.freeze());
        assert_eq!(outcome, Err(DecodeError::TrailingBytes), "{vector:?}");
    });
    assert!(200_000 < cuts, "{cuts} cuts");
}

/// Each place of a message is overwritten with the counts and lengths that hurt most. Whatever still
/// decodes must come back the same once encoded.
#[test]
fn hostile_numbers_anywhere_do_no_harm() {
    const HOSTILE: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0x7f],
        &[0x80, 0x00],
        &[0x00, 0x0f, 0xff, 0xff],
        &[0xff],
    ];
    let mut refused = 0;
    let mut line = 0;
    vectors(MESSAGES, |vector| {
        // One of the twenty messages of each version: all of them take minutes in a debug build.
        line += 1;
        if line % 20 != 7 {
            return;
        }
        for at in 0..vector.bytes.len() {
            for hostile in HOSTILE {
                let mut bytes = BytesMut::from(&vector.bytes[..at]);
                bytes.extend_from_slice(hostile);
                bytes.extend_from_slice(vector.bytes.get(at + hostile.len()..).unwrap_or_default());
                refused += u32::from(check(&vector.codec().transcode, vector.version, &bytes.freeze()));
            }
        }
    });
    assert!(100_000 < refused, "{refused} refused");
    assert_peak_memory();
}

/// Returns whether the bytes are refused; if not, their message must be stable.
fn check(transcode: &fn(i16, &Bytes) -> Result<Bytes, DecodeError>, version: i16, bytes: &Bytes) -> bool {
    let Ok(once) = transcode(version, bytes) else {
        return true;
    };
    assert_eq!(transcode(version, &once).as_ref(), Ok(&once), "version {version} of {bytes:?}");
    false
}

/// The inputs that made another decoder ask for hundreds of gigabytes.
#[test]
fn counts_are_compared_with_the_bytes_left() {
    let metadata =
        |version, bytes: &'static [u8]| MetadataRequest::from_bytes(version, &Bytes::from_static(bytes));
    assert_eq!(metadata(1, &[0x7f, 0xff, 0xff, 0xff]), Err(DecodeError::CountTooLarge));
    assert_eq!(metadata(9, &[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(DecodeError::CountTooLarge));
    assert_eq!(metadata(9, &[0xff, 0xff, 0xff, 0xff, 0xff]), Err(DecodeError::InvalidVarint));
    assert_eq!(metadata(0, &[0xff, 0xff, 0xff, 0xff]), Err(DecodeError::UnexpectedNull));
}

/// Each topic without a name takes two bytes in the frame and fifty-six in memory.
#[test]
fn memory_is_bounded_by_the_length_of_the_frame() {
    let topics = |count: u32| {
        let mut bytes = BytesMut::new();
        for shift in [0, 7, 14] {
            bytes.extend_from_slice(&[((count + 1) >> shift) as u8 | 0x80]);
        }
        bytes.extend_from_slice(&[((count + 1) >> 21) as u8]);
        for _ in 0..count {
            bytes.extend_from_slice(&[1, 0]);
        }
        bytes.extend_from_slice(&[1, 0, 0, 0]);
        MetadataRequest::from_bytes(9, &bytes.freeze())
    };
    assert_eq!(topics(1000).unwrap().topics.unwrap().len(), 1000);
    assert_eq!(topics(4 << 20), Err(DecodeError::TooMuchMemory));
    assert_peak_memory();
}

/// Tagged fields that nobody knows are skipped, even many of them.
#[test]
fn unknown_tagged_fields_are_skipped() {
    let plain = FetchRequest::default().to_bytes(12);
    let mut tagged = BytesMut::from(&plain[..plain.len() - 1]);
    tagged.extend_from_slice(&[2, 0x7d, 3, 1, 2, 3, 0x7e, 0]);
    assert_eq!(FetchRequest::from_bytes(12, &tagged.freeze()), Ok(FetchRequest::default()));
}

fn assert_peak_memory() {
    // Linux alone tells; elsewhere the other assertions stand.
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return;
    };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux counts the peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < PEAK_KIB_MAX, "the process grew to {peak} KiB");
}
