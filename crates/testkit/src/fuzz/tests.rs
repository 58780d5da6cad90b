use super::*;

#[test]
fn the_prelude_locks_and_stages_records() {
    assert!(!prelude().is_empty());
    run_frames(&[1]);
}
