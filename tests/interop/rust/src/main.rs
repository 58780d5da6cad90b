//! Cases for krafka, a Kafka client in Rust that shares no code with the broker. They run against the broker at
//! `BOOTSTRAP`; arguments name cases, none means all.

mod groups;
mod share;
mod support;
mod transactions;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use support::{Case, Outcome};

const CASE_TIME_MAX: Duration = Duration::from_secs(60);

fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("produce_and_consume", Box::pin(transactions::produce_and_consume())),
        ("transactions", Box::pin(transactions::transactions())),
        ("fenced_producer", Box::pin(transactions::fenced_producer())),
        ("share_implicit", Box::pin(share::implicit())),
        ("share_explicit", Box::pin(share::explicit())),
        ("share_two_members", Box::pin(share::two_members())),
        ("group_classic", Box::pin(groups::one_after_the_other(false))),
        ("group_consumer_protocol", Box::pin(groups::one_after_the_other(true))),
        ("group_classic_rebalance", Box::pin(groups::side_by_side(false))),
        ("group_consumer_protocol_rebalance", Box::pin(groups::side_by_side(true))),
        ("group_classic_transaction", Box::pin(groups::transaction(false))),
        ("group_consumer_protocol_transaction", Box::pin(groups::transaction(true))),
    ]
}

async fn run(case: Case) -> Outcome<()> {
    match tokio::time::timeout(CASE_TIME_MAX, case).await {
        Ok(outcome) => outcome,
        Err(_) => Err("it takes too long".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let (mut count, mut failed) = (0, 0);
    for (name, case) in cases() {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        count += 1;
        let start = Instant::now();
        match run(case).await {
            Ok(()) => println!("ok {name} ({} ms)", start.elapsed().as_millis()),
            Err(error) => {
                failed += 1;
                println!("FAILED {name}: {error}");
            }
        }
    }
    println!("cases {count}");
    ExitCode::from(u8::from(failed != 0 || count == 0))
}
