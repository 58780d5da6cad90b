//! Client quotas: kept and described, not enforced.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use sharemark_protocol::ErrorCode;

/// How many entities may have quotas. Kafka sets no limit.
const ENTITY_COUNT_MAX: usize = 100_000;

/// What a part of an entity is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum EntityType {
    /// A client id.
    ClientId,
    /// An address.
    Ip,
    /// A user.
    User,
}

impl EntityType {
    const ALL: [Self; 3] = [Self::ClientId, Self::Ip, Self::User];

    /// Returns the name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClientId => "client-id",
            Self::Ip => "ip",
            Self::User => "user",
        }
    }

    /// Returns the type with this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Who has quotas: a name for each type, or `None` for the default of that type.
pub(super) type Entity = BTreeMap<EntityType, Option<Arc<str>>>;

/// The quotas of one entity, by name.
pub(super) type Quotas = BTreeMap<&'static str, f64>;

/// Why quotas are not changed, in Kafka's words.
pub(super) type Refusal = (ErrorCode, String);

/// The type of a quota's value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ValueType {
    Int,
    Long,
    Double,
}

/// A quota with the type of its value.
type QuotaKey = (&'static str, ValueType);

const OF_CLIENTS: &[QuotaKey] = &[
    ("consumer_byte_rate", ValueType::Long),
    ("controller_mutation_rate", ValueType::Double),
    ("producer_byte_rate", ValueType::Long),
    ("request_percentage", ValueType::Double),
];
const OF_ADDRESSES: &[QuotaKey] = &[("connection_creation_rate", ValueType::Int)];

/// A change that was judged.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QuotaChange {
    entity: Entity,
    /// The quotas with their new value; `None` takes one away.
    values: Vec<(&'static str, Option<f64>)>,
}

/// What a description asks of one type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Match {
    /// This name.
    Exact(Arc<str>),
    /// The default of the type.
    Default,
    /// Any of the two.
    Any,
}

/// The quotas of all entities.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientQuotas {
    entities: BTreeMap<Entity, Quotas>,
}

impl ClientQuotas {
    /// Judges a change of the quotas of one entity; changes nothing. `None` for a value takes the quota away.
    pub(super) fn decide(
        &self,
        entity: &[(&str, Option<&str>)],
        operations: &[(&str, Option<f64>)],
    ) -> Result<QuotaChange, Refusal> {
        let entity = read_entity(entity)?;
        let keys = if entity.contains_key(&EntityType::Ip) { OF_ADDRESSES } else { OF_CLIENTS };
        let mut values = Vec::with_capacity(operations.len());
        for (name, value) in operations {
            let key = keys.iter().find(|(known, _)| known == name);
            match (key, value) {
                (Some((name, kind)), Some(value)) => {
                    check_value(name, *kind, *value)?;
                    values.push((*name, Some(*value)));
                }
                (Some((name, _)), None) => values.push((*name, None)),
                (None, Some(_)) => return Err(invalid(format!("Invalid configuration key {name}"))),
                (None, None) => {} // It is not there, so it is gone.
            }
        }
        if ENTITY_COUNT_MAX <= self.entities.len() && !self.entities.contains_key(&entity) {
            return Err((ErrorCode::PolicyViolation, "There are too many entities with quotas".to_owned()));
        }
        Ok(QuotaChange { entity, values })
    }

    /// Applies a change.
    pub(super) fn replay(&mut self, change: QuotaChange) {
        let mut quotas = self.entities.remove(&change.entity).unwrap_or_default();
        for (name, value) in change.values {
            match value {
                Some(value) => quotas.insert(name, value),
                None => quotas.remove(name),
            };
        }
        if !quotas.is_empty() {
            self.entities.insert(change.entity, quotas);
        }
    }

    /// Returns the entities that match; `strict` leaves out those with a type that is not asked for.
    pub(super) fn matching<'a>(
        &'a self,
        wanted: &'a BTreeMap<EntityType, Match>,
        strict: bool,
    ) -> impl Iterator<Item = (&'a Entity, &'a Quotas)> {
        self.entities.iter().filter(move |(entity, _)| {
            let fits = wanted.iter().all(|(kind, wanted)| match (entity.get(kind), wanted) {
                (Some(Some(name)), Match::Exact(wanted)) => name == wanted,
                (Some(None), Match::Default) | (Some(_), Match::Any) => true,
                (Some(Some(_)), Match::Default) | (Some(None), Match::Exact(_)) | (None, _) => false,
            });
            fits && !(strict && entity.len() != wanted.len())
        })
    }
}

fn invalid(text: String) -> Refusal {
    (ErrorCode::InvalidRequest, text)
}

fn read_entity(parts: &[(&str, Option<&str>)]) -> Result<Entity, Refusal> {
    if parts.is_empty() {
        return Err(invalid("Invalid empty client quota entity".to_owned()));
    }
    let mut entity = Entity::new();
    for (kind, name) in parts {
        let Some(kind) = EntityType::parse(kind) else {
            return Err(invalid(format!("Unhandled client quota entity type: {kind}")));
        };
        if *name == Some("") {
            return Err(invalid(format!("Empty {} not supported", kind.name())));
        }
        entity.insert(kind, name.map(Into::into));
    }
    if entity.contains_key(&EntityType::Ip) && 1 < entity.len() {
        let text = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId";
        return Err(invalid(text.to_owned()));
    }
    match entity.get(&EntityType::Ip) {
        Some(Some(address)) if !is_address(address) => {
            Err(invalid(format!("{address} is not a valid IP or resolvable host.")))
        }
        Some(_) | None => Ok(entity),
    }
}

/// Returns whether `text` is an address. Names of hosts are not looked up, but for the one that is known.
fn is_address(text: &str) -> bool {
    text == "localhost" || text.parse::<IpAddr>().is_ok()
}

#[expect(clippy::cast_precision_loss, reason = "the bounds of the types, as Java compares them")]
fn check_value(name: &str, kind: ValueType, value: f64) -> Result<(), Refusal> {
    /// How far a whole number may be off, as in Kafka.
    const EPSILON: f64 = 1e-6;
    if value.is_nan() || value <= 0.0 {
        return Err(invalid(format!("Quota {name} must be greater than 0")));
    }
    let (max, shown) = match kind {
        ValueType::Int => (f64::from(i32::MAX), "an INT"),
        ValueType::Long => (i64::MAX as f64, "a LONG"),
        ValueType::Double => return Ok(()),
    };
    if max < value {
        return Err(invalid(format!("Proposed value for {name} is too large for {shown}.")));
    }
    if EPSILON < (value - value.trunc()).abs() {
        return Err(invalid(format!("{name} cannot be a fractional value.")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
