use super::*;

#[test]
fn the_prelude_locks_and_stages_records() {
    assert!(!prelude().is_empty());
    run_frames(&[1]);
}

/// Random commands, a few, in every test run; the fuzz target runs many more.
#[test]
fn commands_leave_a_broker_serving() {
    let mut state: u64 = 1;
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..40 * COMMAND_LEN)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        run_commands(&bytes);
    }
}
