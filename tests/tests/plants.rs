//! Bugs that are built in on purpose: the simulator of bad weather finds them, in a small part of its usual budget.
//!
//! `PLANT=EpochEquality` looks for that one alone.

use sharemark::config::Plant;
use sharemark_testkit::sim::storm;

const STEPS_PER_RUN: usize = 400;
/// A hundredth of ten million steps.
const STEPS_MAX: usize = 100_000;

/// The bugs that have to be found. Those that need a rare coincidence are looked for with `PLANT=` alone.
const FOUND: [Plant; 9] = [
    Plant::AbortAcknowledges,
    Plant::EpochEquality,
    Plant::CountThenState,
    Plant::SessionCloseReleasesPending,
    Plant::StageBeforeRegistration,
    Plant::SnapshotWithoutOwners,
    Plant::StartPassesPending,
    Plant::CompleteCountNotRaised,
    Plant::FetchNotWokenByAbort,
];

/// Returns how many steps it takes until a bug is found.
fn steps_until_found(plant: Plant) -> Option<usize> {
    let runs = STEPS_MAX / STEPS_PER_RUN;
    (0..runs).find_map(|run| {
        let seed = u64::try_from(run).unwrap();
        let fails = |plant| {
            let run_whole = || storm::run(seed, STEPS_PER_RUN, |config| config.plant(plant));
            std::panic::catch_unwind(run_whole).is_err()
        };
        // A run that fails without the bug as well has found something else.
        (fails(Some(plant)) && !fails(None)).then_some((run + 1) * STEPS_PER_RUN)
    })
}

#[test]
fn bugs_that_are_built_in_are_found() {
    let wanted = std::env::var("PLANT").ok();
    let is_wanted = |plant: &Plant| match &wanted {
        Some(name) => *name == format!("{plant:?}"),
        None => FOUND.contains(plant),
    };
    let mut missed = Vec::new();
    for plant in Plant::ALL.into_iter().filter(is_wanted) {
        match steps_until_found(plant) {
            Some(steps) => println!("{plant:?} is found within {steps} steps"),
            None => missed.push(plant),
        }
    }
    assert!(missed.is_empty(), "not found within {STEPS_MAX} steps: {missed:?}");
}
