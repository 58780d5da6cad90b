//! Bugs that are built in on purpose: the simulator of bad weather finds each, in a small part of its usual budget.

use sharemark::config::Plant;
use sharemark_testkit::sim::storm;

const STEPS_PER_RUN: usize = 400;
/// A hundredth of ten million steps.
const STEPS_MAX: usize = 100_000;

/// Returns how many steps it takes until a bug is found.
fn steps_until_found(plant: Plant) -> Option<usize> {
    let runs = STEPS_MAX / STEPS_PER_RUN;
    (0..runs).find_map(|run| {
        let seed = u64::try_from(run).unwrap();
        let run_whole = || storm::run(seed, STEPS_PER_RUN, |config| config.plant(Some(plant)));
        std::panic::catch_unwind(run_whole).is_err().then_some((run + 1) * STEPS_PER_RUN)
    })
}

#[test]
fn every_bug_that_is_built_in_is_found() {
    let mut missed = Vec::new();
    for plant in Plant::ALL {
        match steps_until_found(plant) {
            Some(steps) => println!("{plant:?} is found within {steps} steps"),
            None => missed.push(plant),
        }
    }
    assert!(missed.is_empty(), "not found within {STEPS_MAX} steps: {missed:?}");
}
