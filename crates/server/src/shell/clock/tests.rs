use super::*;

#[test]
fn a_held_clock_stands_until_it_is_advanced_and_goes_on_from_there() {
    let mut clock = Clock::new();
    clock.hold();
    let held = clock.now().clock;
    let real = clock.now().real;
    while clock.now().real == real {
        std::thread::yield_now();
    }
    assert_eq!(clock.now().clock, held, "real time goes on alone");
    clock.hold();
    clock.advance_to(held.plus_ms(30_000));
    assert_eq!(clock.now().clock, held.plus_ms(30_000));
    clock.advance_to(held);
    assert_eq!(clock.now().clock, held.plus_ms(30_000), "never backwards");
    clock.release();
    let released = clock.now().clock;
    assert!(held.plus_ms(30_000) <= released && released < held.plus_ms(40_000), "{held:?} {released:?}");
    while clock.now().clock == released {
        std::thread::yield_now();
    }
    clock.release();
    assert!(released < clock.now().clock, "it runs again");
}
