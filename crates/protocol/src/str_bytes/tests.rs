use std::collections::BTreeSet;

use bytes::Bytes;

use super::StrBytes;

#[test]
fn only_utf8_is_taken() {
    assert_eq!(StrBytes::from_utf8(Bytes::from_static(b"\xc3\xa9")).unwrap(), "é");
    assert!(StrBytes::from_utf8(Bytes::from_static(b"\xc3")).is_none());
}

#[test]
fn a_str_finds_its_equal_in_a_set() {
    let names = BTreeSet::from([StrBytes::from("b"), StrBytes::from_static("a")]);
    assert!(names.contains("a"));
    assert!(!names.contains("c"));
    assert_eq!(names.first().unwrap(), "a");
}
