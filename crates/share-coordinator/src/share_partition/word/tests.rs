use super::*;

#[test]
fn fields_do_not_touch_each_other() {
    for count in [0, 1, i16::MAX] {
        for owner in [0, 1, NO_OWNER - 1] {
            for deadline in [0, 1, 1_790_000_000_000, i64::from(u32::MAX)] {
                let word = Word::acquired(count, owner, deadline);
                for word in [word, word.with_transition(), word.with_transition().with_lapse()] {
                    assert_eq!(word.state(), RecordState::Acquired);
                    assert_eq!(word.delivery_count(), count);
                    assert_eq!(word.owner(), owner);
                    assert_eq!(word.lock_ms_left(deadline), 0);
                    assert_eq!(word.deadline_ms(deadline), deadline);
                    assert_eq!(word.deadline_ms(deadline - 1), deadline);
                }
                assert!(word.is_held_by(owner));
                assert!(!word.is_held_by(owner + 1));
                assert!(!word.with_transition().is_held_by(owner));
                assert_eq!(word.with_transition().with_lapse().without_transition(), word);
            }
        }
    }
}

#[test]
fn lock_time_left_is_right_across_the_wrap_of_its_bits() {
    let word = Word::acquired(1, 0, 1 << 28);
    assert_eq!(word.lock_ms_left((1 << 28) - 5), 5);
    assert_eq!(word.lock_ms_left((1 << 28) + 7), -7);
    let longest = Word::acquired(1, 0, 1_000 + LOCK_DURATION_MS_MAX);
    assert_eq!(longest.lock_ms_left(1_000), LOCK_DURATION_MS_MAX);
}

#[test]
fn transitions_are_those_of_the_state() {
    for from in RecordState::ALL {
        for to in RecordState::ALL {
            let word = Word::new(from, 1);
            assert_eq!(word.can_become(to), from.can_become(to));
            assert_eq!(Precondition::of(to, false).allows(word), from.can_become(to));
            assert!(!Precondition::of(to, true).allows(word));
            assert_eq!(Precondition::of(to, true).allows(word.with_transition()), from.can_become(to));
            assert!(!Precondition::of(to, false).allows(word.with_transition()));
        }
    }
}
