use super::*;

#[test]
fn transitions_are_those_of_the_table_and_no_others() {
    // Rows and columns in the order of the ids; the same state again is refused too.
    let table = [
        [false, true, false, false, false, false],
        [true, false, true, true, true, true],
        [false, false, false, false, false, false],
        [false, false, false, false, true, false],
        [false, false, false, false, false, false],
        [true, false, true, true, true, false],
    ];
    for (from, row) in RecordState::ALL.into_iter().zip(table) {
        for (to, allowed) in RecordState::ALL.into_iter().zip(row) {
            assert_eq!(from.can_become(to), allowed, "{} to {}", from.name(), to.name());
        }
    }
}

#[test]
fn ids_go_from_zero_to_five() {
    for (id, state) in (0..).zip(RecordState::ALL) {
        assert_eq!(state.id(), id);
        assert_eq!(RecordState::from_id(id), Some(state));
    }
    for id in [i8::MIN, -1, 6, i8::MAX] {
        assert_eq!(RecordState::from_id(id), None);
    }
}

#[test]
fn a_final_state_becomes_nothing_and_every_other_something() {
    for state in RecordState::ALL {
        let moves = RecordState::ALL.into_iter().any(|next| state.can_become(next));
        assert_eq!(state.is_final(), !moves, "{}", state.name());
    }
}
