//! A cluster whose nodes stop, whose seams and network lose and repeat, with its clients, in this process.
//!
//! `STORM_RUNS=20000` takes more runs, `STORM_STEPS=1000` longer ones, `STORM_SEED=7` only that one.

use sharemark_testkit::sim::storm::{self, Coverage};

const STEPS: u64 = 400;
const RUNS: u64 = 100;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}

#[test]
fn clusters_in_bad_weather_keep_every_promise() {
    let steps = number("STORM_STEPS", STEPS);
    let first = number("STORM_SEED", 0);
    let runs = number("STORM_RUNS", if std::env::var("STORM_SEED").is_ok() { 1 } else { RUNS });
    let mut coverage = Coverage::default();
    for seed in first..first + runs {
        let steps = usize::try_from(steps).unwrap();
        match std::panic::catch_unwind(|| storm::run(seed, steps, |config| config)) {
            Ok(report) => coverage.add(&report.coverage),
            Err(_) => panic!(
                "replay with: STORM_SEED={seed} STORM_STEPS={steps} cargo test -p sharemark-tests --test storm"
            ),
        }
    }
    println!("{} steps\n{coverage}", runs * steps);
}

#[test]
fn equal_seeds_take_equal_steps() {
    for seed in 1_000..1_003 {
        let [one, other] = [(); 2].map(|()| storm::run(seed, 300, |config| config));
        assert_eq!(one, other, "{seed}");
    }
    let [one, other] = [1_000, 1_001].map(|seed| storm::run(seed, 300, |config| config).trace_hash);
    assert_ne!(one, other, "another seed is another run");
}
