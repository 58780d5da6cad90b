//! Judges the properties of a subscription to the metrics of clients (KIP-714).
//!
//! Difference from Kafka: what a client's property must match is checked as a regular expression without what Java's
//! alone have, such as looking ahead.

use regex::Regex;

use super::Layer;
use super::alter::AlterError;
use crate::config::client_metrics_keys::{INTERVAL_MS, MATCH};
use crate::config::profile::Profile;
use crate::config::value::{ConfigError, ConfigValue};

const INTERVAL_MS_MIN: i64 = 100;
const INTERVAL_MS_MAX: i64 = 60 * 60 * 1000;

/// What a subscription can tell clients apart by.
const MATCHED: &[&str] = &[
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
];

/// Judges all properties of a subscription together, in Kafka's order.
pub(super) fn check_client_metrics(profile: Profile, layer: &Layer) -> Result<(), AlterError> {
    let mut values = Vec::with_capacity(layer.len());
    for (name, text) in layer {
        let Some(key) = profile.client_metrics_key(name) else {
            return Err(AlterError::Request(format!("Unknown client metrics configuration: {name}")));
        };
        values.push((key, text));
    }
    let parsed = values.into_iter().map(|(key, text)| Ok((key.name, key.parse(text)?)));
    let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(AlterError::Value)?;
    for (name, value) in &parsed {
        match value {
            ConfigValue::Number(ms) if *name == INTERVAL_MS => check_interval(*ms)?,
            ConfigValue::List(patterns) if *name == MATCH => patterns.iter().try_for_each(check_pattern)?,
            ConfigValue::Number(_)
            | ConfigValue::List(_)
            | ConfigValue::Boolean(_)
            | ConfigValue::Double(_)
            | ConfigValue::Text(_) => {}
        }
    }
    Ok(())
}

fn check_interval(ms: i64) -> Result<(), AlterError> {
    if (INTERVAL_MS_MIN..=INTERVAL_MS_MAX).contains(&ms) {
        return Ok(());
    }
    Err(AlterError::Request(format!(
        "Invalid value {ms} for {INTERVAL_MS}, interval must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} \
         (1 hour)"
    )))
}

/// Judges a pattern: what is matched, `=`, and a regular expression. Like Kafka it lets more `=` at the end pass.
fn check_pattern(text: &String) -> Result<(), AlterError> {
    let is_legal = text.trim_end_matches('=').split_once('=').is_some_and(|(name, pattern)| {
        MATCHED.contains(&name.trim()) && !pattern.contains('=') && Regex::new(pattern.trim()).is_ok()
    });
    if is_legal {
        return Ok(());
    }
    Err(AlterError::Value(ConfigError::Refused(format!("Illegal client matching pattern: {text}"))))
}
