use bytes::Bytes;

use super::Records;

#[test]
fn a_rope_equals_the_same_bytes_cut_otherwise() {
    let cut: Records = [&b"ab"[..], b"", b"c"].into_iter().map(Bytes::from_static).collect();
    assert_eq!(cut, Records::from(Bytes::from_static(b"abc")));
    assert_ne!(cut, Records::from(Bytes::from_static(b"abd")));
    assert_eq!(cut.len(), 3);
    assert_eq!(cut.pieces().count(), 2);
    assert!(Records::new().is_empty());
}
