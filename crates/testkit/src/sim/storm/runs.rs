//! Many runs, on several threads, with what happened in all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Coverage, run};

/// After so many runs that failed no more are begun.
const FAILURES_MAX: usize = 20;

/// Which runs to take.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of the first run; the others follow it.
    pub first_seed: u64,
    /// How many runs there are.
    pub runs: u64,
    /// How many steps each of them takes.
    pub steps: usize,
    /// How many of them go on at a time.
    pub threads: usize,
}

/// What many runs have come to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many runs came to their end, failed ones included.
    pub runs: u64,
    /// What happened in those that did not fail.
    pub coverage: Coverage,
    /// The seeds that failed, with what was said.
    pub failures: Vec<(u64, String)>,
}

impl Plan {
    /// Takes the runs, and goes on after one that fails.
    pub fn carry_out(&self) -> Summary {
        let next = AtomicU64::new(0);
        let summary = Mutex::new(Summary::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(&next, &summary));
            }
        });
        let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        summary.failures.sort();
        summary
    }

    fn work(&self, next: &AtomicU64, summary: &Mutex<Summary>) {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if self.runs <= number {
                return;
            }
            let seed = self.first_seed.wrapping_add(number);
            let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, self.steps, |config| config)));
            let mut summary = summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            summary.runs += 1;
            match outcome {
                Ok(report) => summary.coverage.add(&report.coverage),
                Err(panic) => summary.failures.push((seed, words_of(&*panic))),
            }
            if FAILURES_MAX <= summary.failures.len() {
                return;
            }
        }
    }

    /// Returns the command that takes one of the runs again.
    pub fn replay_command(&self, seed: u64) -> String {
        let steps = self.steps;
        format!("STORM_SEED={seed} STORM_STEPS={steps} cargo test -p sharemark-tests --test storm")
    }
}

/// Returns what a panic said.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}
