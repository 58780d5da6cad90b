//! SCRAM credentials of users: kept and described; no listener asks for them yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sharemark_protocol::ErrorCode;

/// How many users may have credentials. Kafka sets no limit.
const USER_COUNT_MAX: usize = 100_000;
/// How often a password is hashed, at least and at most.
const ITERATIONS: std::ops::RangeInclusive<i32> = 4096..=16_384;

/// A mechanism.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Returns the mechanism with this number on the wire.
    pub(super) const fn from_wire(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Sha256),
            2 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// Returns the number on the wire.
    pub(super) const fn to_wire(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }
}

/// A credential as a client sends it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ScramCredential {
    /// How often the password was hashed.
    pub(super) iterations: i32,
    /// The salt.
    pub(super) salt: Bytes,
    /// The hashed password.
    pub(super) salted_password: Bytes,
}

/// A change that was judged: a credential of a user to be set, or (`None`) to be taken away.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct ScramChange {
    mechanism: ScramMechanism,
    credential: Option<ScramCredential>,
}

/// Why a credential is not changed, in Kafka's words.
pub(super) type Refusal = (ErrorCode, Option<&'static str>);

/// The credentials of all users.
#[derive(Clone, Debug, Default)]
pub(super) struct ScramCredentials {
    users: BTreeMap<Arc<str>, BTreeMap<ScramMechanism, ScramCredential>>,
}

impl ScramCredentials {
    /// Judges a change for a user; changes nothing.
    pub(super) fn decide(
        &self,
        user: &str,
        mechanism: i8,
        credential: Option<ScramCredential>,
    ) -> Result<ScramChange, Refusal> {
        if user.is_empty() {
            return Err((ErrorCode::UnacceptableCredential, Some("Username must not be empty")));
        }
        let Some(mechanism) = ScramMechanism::from_wire(mechanism) else {
            return Err((ErrorCode::UnsupportedSaslMechanism, Some("Unknown SCRAM mechanism")));
        };
        let known = self.users.get(user);
        match &credential {
            None if known.is_none_or(|known| !known.contains_key(&mechanism)) => {
                let text = "Attempt to delete a user credential that does not exist";
                return Err((ErrorCode::ResourceNotFound, Some(text)));
            }
            Some(new) if new.iterations < *ITERATIONS.start() => {
                return Err((ErrorCode::UnacceptableCredential, Some("Too few iterations")));
            }
            Some(new) if *ITERATIONS.end() < new.iterations => {
                return Err((ErrorCode::UnacceptableCredential, Some("Too many iterations")));
            }
            // Kafka fails to make a key of it.
            Some(new) if new.salted_password.is_empty() => return Err((ErrorCode::UnknownServerError, None)),
            Some(_) if known.is_none() && USER_COUNT_MAX <= self.users.len() => {
                return Err((ErrorCode::PolicyViolation, Some("There are too many users with credentials")));
            }
            Some(_) | None => {}
        }
        Ok(ScramChange { mechanism, credential })
    }

    /// Applies a change.
    pub(super) fn replay(&mut self, user: &str, change: ScramChange) {
        let mut credentials = self.users.remove(user).unwrap_or_default();
        match change.credential {
            Some(credential) => credentials.insert(change.mechanism, credential),
            None => credentials.remove(&change.mechanism),
        };
        if !credentials.is_empty() {
            self.users.insert(user.into(), credentials);
        }
    }

    /// Returns the users that have credentials.
    pub(super) fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(|user| &**user)
    }

    /// Returns the mechanisms of a user, each with how often the password was hashed; `None` if there are none.
    pub(super) fn described(
        &self,
        user: &str,
    ) -> Option<impl Iterator<Item = (ScramMechanism, i32)> + use<'_>> {
        let credentials = self.users.get(user)?;
        Some(credentials.iter().map(|(mechanism, credential)| (*mechanism, credential.iterations)))
    }
}
