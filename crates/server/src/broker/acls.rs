//! ACLs: kept and described where an authorizer is configured, not enforced.

use std::collections::BTreeSet;
use std::sync::Arc;

use sharemark_protocol::ErrorCode;

/// How many ACLs there may be. Kafka sets no limit.
const ACL_COUNT_MAX: usize = 100_000;
/// The only name that the resource type of clusters has.
const CLUSTER_NAME: &str = "kafka-cluster";
/// The name of a literal pattern that stands for every resource.
const WILDCARD: &str = "*";

/// What stands for an unknown value; it is never sent.
pub(super) const UNKNOWN: i8 = 0;
/// What stands for any value, in filters alone.
pub(super) const ANY: i8 = 1;
/// The types of resources: topic, group, cluster, transactional id, delegation token, user.
const RESOURCE_TYPES: std::ops::RangeInclusive<i8> = 2..=7;
/// The operations, from "all" to "two-phase commit".
const OPERATIONS: std::ops::RangeInclusive<i8> = 2..=15;
/// Deny and allow.
const PERMISSIONS: std::ops::RangeInclusive<i8> = 2..=3;

/// The types of patterns.
mod pattern {
    /// In a filter: every pattern that matches the name.
    pub(super) const MATCH: i8 = 2;
    pub(super) const LITERAL: i8 = 3;
    pub(super) const PREFIXED: i8 = 4;
}

/// One rule; numbers are those of the wire.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Acl {
    /// The type of the resource.
    pub(super) resource_type: i8,
    /// The name of the resource, or the start of it.
    pub(super) resource_name: Arc<str>,
    /// Whether the name is literal or a prefix.
    pub(super) pattern_type: i8,
    /// Whom it is about.
    pub(super) principal: Arc<str>,
    /// From where.
    pub(super) host: Arc<str>,
    /// To do what.
    pub(super) operation: i8,
    /// Allowed or denied.
    pub(super) permission: i8,
}

impl Acl {
    /// Returns whether it has a value that only filters have; Kafka fails at a request with such a rule as a whole.
    pub(super) fn has_value_of_filters(&self) -> bool {
        [self.resource_type, self.pattern_type, self.operation, self.permission].contains(&ANY)
            || self.pattern_type == pattern::MATCH
    }
}

/// Which rules are meant; `None` and [`ANY`] match everything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct AclFilter<'a> {
    /// The type of the resource.
    pub(super) resource_type: i8,
    /// The name of the resource.
    pub(super) resource_name: Option<&'a str>,
    /// How the name is meant.
    pub(super) pattern_type: i8,
    /// Whom it is about.
    pub(super) principal: Option<&'a str>,
    /// From where.
    pub(super) host: Option<&'a str>,
    /// To do what.
    pub(super) operation: i8,
    /// Allowed or denied.
    pub(super) permission: i8,
}

impl AclFilter<'_> {
    /// Returns whether one of the values is the one that is never sent, for which Kafka closes the connection.
    pub(super) fn is_malformed(&self) -> bool {
        [self.resource_type, self.pattern_type, self.operation, self.permission].contains(&UNKNOWN)
    }

    /// Says which part has a value that Kafka does not know, in the words of a refused removal.
    pub(super) fn unknown_part(&self) -> Option<&'static str> {
        let knows = |value: i8, known: &std::ops::RangeInclusive<i8>| value == ANY || known.contains(&value);
        let known_pattern = (ANY..=pattern::PREFIXED).contains(&self.pattern_type);
        if !knows(self.resource_type, &RESOURCE_TYPES) || !known_pattern {
            return Some("Unknown patternFilter.");
        }
        if !knows(self.operation, &OPERATIONS) || !knows(self.permission, &PERMISSIONS) {
            return Some("Unknown entryFilter.");
        }
        None
    }

    fn matches(&self, acl: &Acl) -> bool {
        let is = |wanted: i8, value: i8| wanted == ANY || wanted == value;
        let named = |wanted: Option<&str>, value: &str| wanted.is_none_or(|wanted| wanted == value);
        is(self.resource_type, acl.resource_type)
            && self.matches_name(acl)
            && named(self.principal, &acl.principal)
            && named(self.host, &acl.host)
            && is(self.operation, acl.operation)
            && is(self.permission, acl.permission)
    }

    fn matches_name(&self, acl: &Acl) -> bool {
        let Some(name) = self.resource_name else {
            return matches!(self.pattern_type, ANY | pattern::MATCH)
                || self.pattern_type == acl.pattern_type;
        };
        match self.pattern_type {
            ANY => *acl.resource_name == *name,
            pattern::MATCH => match acl.pattern_type {
                pattern::PREFIXED => name.starts_with(&*acl.resource_name),
                _ => *acl.resource_name == *name || *acl.resource_name == *WILDCARD,
            },
            exact => exact == acl.pattern_type && *acl.resource_name == *name,
        }
    }
}

/// Why a rule is not kept, in Kafka's words.
pub(super) type Refusal = (ErrorCode, Option<String>);

/// All rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Acls {
    all: BTreeSet<Acl>,
}

impl Acls {
    /// Judges a rule to be kept; changes nothing.
    pub(super) fn decide_create(&self, acl: &Acl) -> Result<(), Refusal> {
        let invalid = |text: &str| Err((ErrorCode::InvalidRequest, Some(text.to_owned())));
        if acl.resource_type == RESOURCE_CLUSTER && *acl.resource_name != *CLUSTER_NAME {
            return invalid("The only valid name for the CLUSTER resource is kafka-cluster");
        }
        if acl.resource_name.is_empty() {
            return invalid("Invalid empty resource name");
        }
        check_values(acl)?;
        if !acl.principal.contains(':') {
            return invalid(&format!(
                "Could not parse principal from `{}` (no colon is present separating the principal type from the \
                 principal name)",
                acl.principal
            ));
        }
        if acl.host.is_empty() {
            return invalid("Host pattern cannot be null or empty");
        }
        if ACL_COUNT_MAX <= self.all.len() && !self.all.contains(acl) {
            return Err((ErrorCode::PolicyViolation, Some("There are too many ACLs".to_owned())));
        }
        Ok(())
    }

    /// Adds a rule.
    pub(super) fn replay_create(&mut self, acl: Acl) {
        self.all.insert(acl);
    }

    /// Takes a rule away.
    pub(super) fn replay_delete(&mut self, acl: &Acl) {
        self.all.remove(acl);
    }

    /// Returns the rules that a filter means, in their order: those of one resource pattern come together.
    pub(super) fn matching(&self, filter: &AclFilter<'_>) -> Vec<Acl> {
        self.all.iter().filter(|acl| filter.matches(acl)).cloned().collect()
    }
}

/// The type of the resource that the cluster is.
const RESOURCE_CLUSTER: i8 = 4;

/// Refuses values that Kafka does not know.
fn check_values(acl: &Acl) -> Result<(), Refusal> {
    let unknown = [
        ("resourceType", RESOURCE_TYPES.contains(&acl.resource_type)),
        ("patternType", matches!(acl.pattern_type, pattern::LITERAL | pattern::PREFIXED)),
        ("operation", OPERATIONS.contains(&acl.operation)),
        ("permissionType", PERMISSIONS.contains(&acl.permission)),
    ];
    match unknown.into_iter().find(|(_, is_known)| !is_known) {
        Some((what, _)) => Err((ErrorCode::InvalidRequest, Some(format!("Invalid {what} UNKNOWN")))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
