//! Bugs that are built in on purpose: the simulator of bad weather finds each in a small part of its usual budget.
//!
//! `PLANT=EpochEquality` looks for that one alone.

use std::sync::Mutex;

use sharemark::config::Plant;
use sharemark_testkit::sim::storm;

const STEPS_PER_RUN: usize = 800;
/// So many runs take a hundredth of ten million steps.
const RUNS_MAX: u64 = 125;
/// So many bugs are looked for at a time.
const THREADS: usize = 2;

/// Returns the first seed whose run fails with a bug, and not without it: then it has found something else.
fn seed_that_finds(plant: Plant) -> Option<u64> {
    let fails = |seed, plant| {
        let run_whole = || storm::run(seed, STEPS_PER_RUN, |config| config.plant(plant));
        std::panic::catch_unwind(run_whole).is_err()
    };
    (0..RUNS_MAX).find(|seed| fails(*seed, Some(plant)) && !fails(*seed, None))
}

#[test]
fn bugs_that_are_built_in_are_found() {
    let wanted = std::env::var("PLANT").ok();
    let is_wanted = |plant: &Plant| wanted.as_ref().is_none_or(|name| *name == format!("{plant:?}"));
    let plants = Mutex::new(Plant::ALL.into_iter().filter(is_wanted));
    let missed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(plant) = plants.lock().unwrap().next() else { return };
                    match seed_that_finds(plant) {
                        Some(seed) => {
                            let steps = (0..=seed).count() * STEPS_PER_RUN;
                            println!("{plant:?} is found within {steps} steps, by seed {seed}");
                        }
                        None => missed.lock().unwrap().push(plant),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found in {RUNS_MAX} runs of {STEPS_PER_RUN} steps: {missed:?}");
}
