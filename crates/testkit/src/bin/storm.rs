//! Takes many runs of a cluster in bad weather, and prints how often each event happened in them.
//!
//! `cargo xtask storm --steps 10000000`; exits 1 if a run fails or an event happened too seldom.

use std::process::ExitCode;
use std::time::Instant;

use sharemark_testkit::sim::storm::{Event, Plan, Summary};

const USAGE: &str = "usage: cargo xtask storm [--steps N] [--steps-per-run N] [--threads N] [--seed FIRST]

  --steps N          how many steps all runs take together (10000000)
  --steps-per-run N  how many steps one run takes (1500)
  --threads N        how many runs go on at a time (as many as there are cores)
  --seed FIRST       the seed of the first run (0)
  --least N          how often each event has to happen (a ten-thousandth of the steps)";

/// What was asked for.
struct Arguments {
    plan: Plan,
    least: u64,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut plan = Plan { first_seed: 0, runs: 0, steps: 1_500, threads };
        let mut steps: u64 = 10_000_000;
        let mut least = None;
        while let Some(word) = words.next() {
            let value = words.next()?;
            match word.as_str() {
                "--steps" => steps = value.parse().ok()?,
                "--steps-per-run" => plan.steps = value.parse().ok().filter(|steps| 0 < *steps)?,
                "--threads" => plan.threads = value.parse().ok()?,
                "--seed" => plan.first_seed = value.parse().ok()?,
                "--least" => least = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        plan.runs = steps.div_ceil(u64::try_from(plan.steps).ok()?);
        Some(Self { plan, least: least.unwrap_or(steps / 10_000) })
    }
}

fn main() -> ExitCode {
    let Some(Arguments { plan, least }) = Arguments::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    std::panic::set_hook(Box::new(|_| {})); // What a panic said is told with its seed.
    let started = Instant::now();
    let summary = plan.carry_out();
    let seconds = started.elapsed().as_secs_f64();
    tell(&plan, &summary, seconds);
    let seldom: Vec<&str> = Event::ALL
        .into_iter()
        .filter(|(event, _)| summary.coverage.count(*event) < least)
        .map(|(_, name)| name)
        .collect();
    for name in &seldom {
        println!("happened less than {least} times: {name}");
    }
    if summary.failures.is_empty() && seldom.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(plan: &Plan, summary: &Summary, seconds: f64) {
    for (seed, words) in &summary.failures {
        println!("seed {seed}: {words}\n  replay with: {}", plan.replay_command(*seed));
    }
    let steps = summary.runs * plan.steps as u64;
    println!("{}", summary.coverage);
    println!(
        "{steps} steps in {} runs from seed {}, {} failed; {seconds:.0} s, {:.0} steps a second",
        summary.runs,
        plan.first_seed,
        summary.failures.len(),
        steps as f64 / seconds,
    );
}
