//! The control endpoint, over HTTP, and the verbs of an embedded server.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "control/clock.rs"]
mod clock;
#[path = "control/endpoint.rs"]
mod endpoint;
#[path = "control/examples.rs"]
mod examples;
#[path = "control/failures.rs"]
mod failures;
#[path = "control/faults.rs"]
mod faults;
#[path = "control/hostile.rs"]
mod hostile;
#[path = "control/inspect.rs"]
mod inspect;
#[path = "control/journal.rs"]
mod journal;
#[path = "control/metrics.rs"]
mod metrics;
#[path = "control/nodes.rs"]
mod nodes;
#[path = "control/restarts.rs"]
mod restarts;
#[path = "control/support.rs"]
mod support;
#[path = "control/txn_faults.rs"]
mod txn_faults;
