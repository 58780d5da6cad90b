//! Values of properties: reading them from text, checking them, and Kafka's words when they are wrong.

use std::collections::BTreeSet;
use std::fmt;

use super::duration::parse_duration_ms;
use super::key::{ConfigKey, ConfigType, Rule};

/// A property's value, read by its type.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// A boolean.
    Boolean(bool),
    /// A number, of 16, 32 or 64 bits.
    Number(i64),
    /// A fraction.
    Double(f64),
    /// A text, a class or a password.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl fmt::Display for ConfigValue {
    /// Writes the value as Kafka shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Double(value) => write_double(f, *value),
            Self::Text(value) => value.fmt(f),
            Self::List(values) => f.write_str(&values.join(",")),
        }
    }
}

/// Writes a fraction as Java does: with a point, and with an exponent when it is very large or small.
fn write_double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return write!(f, "{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => write!(f, "{digits}.0E{exponent}"),
        Some(_) | None => f.write_str(&text),
    }
}

/// Why a property's value is refused; its text is Kafka's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConfigError {
    /// The value is not of the type, or breaks the rule.
    Invalid {
        /// The property.
        name: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The property refuses the value as a whole.
    Refused(String),
}

impl ConfigError {
    fn invalid(name: &str, value: impl fmt::Display, reason: impl Into<String>) -> Self {
        Self::Invalid { name: name.to_owned(), value: value.to_string(), reason: reason.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { name, value, reason } => {
                write!(f, "Invalid value {value} for configuration {name}: {reason}")
            }
            Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ConfigError {}

impl ConfigKey {
    /// Reads a value of this property and checks it.
    ///
    /// # Errors
    ///
    /// If the text is not of the property's type, or the value is not allowed.
    pub fn parse(&self, text: &str) -> Result<ConfigValue, ConfigError> {
        let value = self.parse_type(text)?;
        self.check(&value)?;
        Ok(value)
    }

    /// Reads a value of this property by its type alone.
    ///
    /// # Errors
    ///
    /// If the text is not of the property's type.
    pub fn parse_type(&self, text: &str) -> Result<ConfigValue, ConfigError> {
        let trimmed = text.trim();
        let not_a_number = || {
            let reason = format!("Not a number of type {}", self.kind.name());
            ConfigError::invalid(self.name, text, reason)
        };
        match self.kind {
            ConfigType::Boolean if trimmed.eq_ignore_ascii_case("true") => Ok(ConfigValue::Boolean(true)),
            ConfigType::Boolean if trimmed.eq_ignore_ascii_case("false") => Ok(ConfigValue::Boolean(false)),
            ConfigType::Boolean => {
                let reason = "Expected value to be either true or false";
                Err(ConfigError::invalid(self.name, text, reason))
            }
            ConfigType::Short => trimmed
                .parse::<i16>()
                .map(|number| ConfigValue::Number(number.into()))
                .map_err(|_| not_a_number()),
            ConfigType::Int => trimmed
                .parse::<i32>()
                .map(|number| ConfigValue::Number(number.into()))
                .map_err(|_| not_a_number()),
            ConfigType::Long => trimmed.parse().map(ConfigValue::Number).map_err(|_| not_a_number()),
            ConfigType::Double => trimmed.parse().map(ConfigValue::Double).map_err(|_| not_a_number()),
            ConfigType::String | ConfigType::Class => Ok(ConfigValue::Text(trimmed.to_owned())),
            ConfigType::Password => Ok(ConfigValue::Text(text.to_owned())),
            ConfigType::List => Ok(ConfigValue::List(self.without_repetitions(split_list(trimmed)))),
        }
    }

    /// Returns a list as Kafka reads it: of what is said twice the first stays, unless the rule is one of its own.
    fn without_repetitions(&self, mut items: Vec<String>) -> Vec<String> {
        if matches!(self.rule, Rule::List { .. } | Rule::NoEmptyItems) {
            let mut seen = BTreeSet::new();
            items.retain(|item| seen.insert(item.clone()));
        }
        items
    }

    fn check(&self, value: &ConfigValue) -> Result<(), ConfigError> {
        match (self.rule, value) {
            (Rule::Any, _) => Ok(()),
            (Rule::AtLeast(min), ConfigValue::Number(number)) => self.check_bounds(*number, min, i64::MAX),
            (Rule::Between(min, max), ConfigValue::Number(number)) => self.check_bounds(*number, min, max),
            (Rule::BetweenOr(min, max, other), ConfigValue::Number(number)) => {
                if (min..=max).contains(number) || *number == other {
                    return Ok(());
                }
                let reason = format!("Value must be between {min} and {max} or equal to {other}");
                Err(ConfigError::invalid(self.name, number, reason))
            }
            (Rule::Fraction(min, max), ConfigValue::Double(_)) => self.check_fraction(value, min, max),
            (Rule::OneOf(allowed), ConfigValue::Text(text)) => self.check_one_of(text, allowed),
            (Rule::OneOfIgnoringCase(allowed), ConfigValue::Text(text)) => {
                if allowed.iter().any(|name| name.eq_ignore_ascii_case(text)) {
                    return Ok(());
                }
                let reason = format!("String must be one of (case insensitive): {}", allowed.join(", "));
                Err(ConfigError::invalid(self.name, text, reason))
            }
            (Rule::NonEmpty, ConfigValue::Text(text)) => {
                if text.is_empty() {
                    return Err(ConfigError::invalid(self.name, text, "String must be non-empty"));
                }
                Ok(())
            }
            (Rule::List { allowed, may_be_empty }, ConfigValue::List(items)) => {
                self.check_list(items, allowed, may_be_empty)
            }
            (Rule::NoEmptyItems, ConfigValue::List(items)) => self.check_no_item_is_empty(items),
            (Rule::ThrottledReplicas, ConfigValue::List(items)) => self.check_replicas(items),
            (Rule::AutoOffsetReset, ConfigValue::Text(text)) => self.check_auto_offset_reset(text),
            (
                Rule::AtLeast(_)
                | Rule::Between(..)
                | Rule::BetweenOr(..)
                | Rule::Fraction(..)
                | Rule::OneOf(_)
                | Rule::OneOfIgnoringCase(_)
                | Rule::NonEmpty
                | Rule::List { .. }
                | Rule::NoEmptyItems
                | Rule::ThrottledReplicas
                | Rule::AutoOffsetReset,
                _,
            ) => unreachable!("a property's rule fits its type"),
        }
    }

    fn check_bounds(&self, number: i64, min: i64, max: i64) -> Result<(), ConfigError> {
        if number < min {
            let reason = format!("Value must be at least {min}");
            return Err(ConfigError::invalid(self.name, number, reason));
        }
        if max < number {
            let reason = format!("Value must be no more than {max}");
            return Err(ConfigError::invalid(self.name, number, reason));
        }
        Ok(())
    }

    fn check_fraction(&self, value: &ConfigValue, min: f64, max: f64) -> Result<(), ConfigError> {
        let ConfigValue::Double(number) = value else { return Ok(()) };
        if *number < min {
            return Err(ConfigError::invalid(self.name, value, format!("Value must be at least {min}")));
        }
        if max < *number {
            return Err(ConfigError::invalid(self.name, value, format!("Value must be no more than {max}")));
        }
        Ok(())
    }

    fn check_one_of(&self, text: &str, allowed: &[&str]) -> Result<(), ConfigError> {
        if allowed.contains(&text) {
            return Ok(());
        }
        let reason = format!("String must be one of: {}", allowed.join(", "));
        Err(ConfigError::invalid(self.name, text, reason))
    }

    fn check_list(&self, items: &[String], allowed: &[&str], may_be_empty: bool) -> Result<(), ConfigError> {
        let name = self.name;
        if items.is_empty() && !may_be_empty {
            let valid = if allowed.is_empty() {
                "any non-empty value".to_owned()
            } else {
                format!("[{}]", allowed.join(", "))
            };
            let text = format!("Configuration '{name}' must not be empty. Valid values include: {valid}");
            return Err(ConfigError::Refused(text));
        }
        self.check_no_item_is_empty(items)?;
        if allowed.is_empty() {
            return Ok(());
        }
        items.iter().try_for_each(|item| self.check_one_of(item, allowed))
    }

    fn check_no_item_is_empty(&self, items: &[String]) -> Result<(), ConfigError> {
        if items.iter().any(String::is_empty) {
            let text = format!("Configuration '{}' values must not be empty.", self.name);
            return Err(ConfigError::Refused(text));
        }
        Ok(())
    }

    fn check_replicas(&self, items: &[String]) -> Result<(), ConfigError> {
        let is_pair = |item: &String| {
            let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            item.split_once(':').is_some_and(|(partition, broker)| number(partition) && number(broker))
        };
        if items.iter().all(|item| item == "*") || items.iter().all(is_pair) {
            return Ok(());
        }
        let reason = format!(
            "{} must be the literal '*' or a list of replicas in the following format: \
             [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            self.name
        );
        Err(ConfigError::invalid(self.name, format!("[{}]", items.join(", ")), reason))
    }

    fn check_auto_offset_reset(&self, text: &str) -> Result<(), ConfigError> {
        if AutoOffsetReset::parse(text).is_some() {
            return Ok(());
        }
        let reason = format!(
            "Invalid value `{text}` for configuration {}. The value must be either 'earliest', 'latest' or of \
             the format 'by_duration:<PnDTnHnMn.nS>'.",
            self.name
        );
        Err(ConfigError::invalid(self.name, text, reason))
    }
}

/// Splits a list at its commas; an empty text is an empty list.
pub(super) fn split_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(',').map(|item| item.trim().to_owned()).collect()
}

/// Where a share group begins on a partition that it has no position for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AutoOffsetReset {
    /// At the end of the log.
    Latest,
    /// At the start of the log.
    Earliest,
    /// At the first record not older than so many milliseconds.
    ByDurationMs(i64),
}

impl AutoOffsetReset {
    /// Reads `latest`, `earliest` or `by_duration:` with an ISO-8601 duration; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "latest" => Some(Self::Latest),
            "earliest" => Some(Self::Earliest),
            _ => {
                let duration = text.strip_prefix("by_duration:")?;
                parse_duration_ms(duration).filter(|ms| 0 <= *ms).map(Self::ByDurationMs)
            }
        }
    }
}
