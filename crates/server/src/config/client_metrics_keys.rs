//! The properties of a subscription to the metrics of clients (KIP-714), in order of name.

use super::key::{ConfigKey, Rule, int, list};

pub(super) const INTERVAL_MS: &str = "interval.ms";
pub(super) const MATCH: &str = "match";

pub(super) static CLIENT_METRICS_KEYS: &[ConfigKey] = &[
    int(INTERVAL_MS, "300000"),
    list(MATCH, "").rule(Rule::NoEmptyItems),
    list("metrics", "").rule(Rule::NoEmptyItems),
];
