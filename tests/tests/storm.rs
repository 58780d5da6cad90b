//! A cluster whose nodes stop, whose seams and network lose and repeat, with its clients, in this process.
//!
//! Each run takes a fixed set of seeds and a fresh one. `STORM_RUNS=20000` takes more of both, `STORM_STEPS=3000` longer
//! ones, `STORM_SEED=7` only that one. `cargo xtask storm` takes many, optimised, and prints what happened how often.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::SystemTime;

use sharemark_testkit::sim::storm::{self, Plan};

const STEPS: u64 = 700;
const RUNS: u64 = 50;
/// Two, as on the machines that run all tests.
const THREADS: usize = 2;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn assert_all_pass(first_seed: u64, runs: u64) {
    let steps = usize::try_from(number("STORM_STEPS").unwrap_or(STEPS)).unwrap();
    let plan = Plan { first_seed, runs, steps, threads: THREADS };
    let summary = plan.carry_out();
    let failed: Vec<String> = summary
        .failures
        .iter()
        .map(|(seed, words)| format!("seed {seed}: {words}\n  replay with: {}", plan.replay_command(*seed)))
        .collect();
    println!("{runs} runs of {steps} steps from seed {first_seed}\n{}", summary.coverage);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn clusters_in_bad_weather_keep_every_promise() {
    match number("STORM_SEED") {
        Some(seed) => assert_all_pass(seed, 1),
        None => assert_all_pass(0, number("STORM_RUNS").unwrap_or(RUNS)),
    }
}

/// The weather of today, which nobody has seen before.
#[test]
fn clusters_keep_every_promise_in_fresh_weather() {
    if number("STORM_SEED").is_some() {
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    // In millions, so that no two sets overlap and the seeds can still be read.
    let first_seed = now.as_secs() * 1_000_000;
    assert_all_pass(first_seed, number("STORM_RUNS").unwrap_or(RUNS));
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
