//! Random runs of a whole broker with its clients, in this process.
//!
//! `SIM_RUNS=20000` takes more of them, `SIM_STEPS=1000` longer ones, `SIM_SEED=7` only that one.

use sharemark_testkit::sim;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}

#[test]
fn random_runs_keep_every_promise() {
    let steps = number("SIM_STEPS", 150);
    let first = number("SIM_SEED", 0);
    let runs = if std::env::var("SIM_SEED").is_ok() { 1 } else { number("SIM_RUNS", 200) };
    for seed in first..first + runs {
        let run = std::panic::catch_unwind(|| sim::run(seed, usize::try_from(steps).unwrap()));
        assert!(
            run.is_ok(),
            "replay with: SIM_SEED={seed} SIM_STEPS={steps} cargo test -p sharemark-tests --test sim"
        );
    }
}
