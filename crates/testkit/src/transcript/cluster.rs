//! Commands about what belongs to the cluster: features, quotas, credentials, brokers, SASL.

use std::fmt::Write;

use sharemark_protocol::StrBytes;
use sharemark_protocol::messages as m;

use m::alter_client_quotas_request::{AlterClientQuotasRequest, EntityData, EntryData, OpData};
use m::alter_user_scram_credentials_request::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use m::api_versions_request::ApiVersionsRequest;
use m::describe_client_quotas_request::{ComponentData, DescribeClientQuotasRequest};
use m::describe_user_scram_credentials_request::{DescribeUserScramCredentialsRequest, UserName};
use m::sasl_authenticate_request::SaslAuthenticateRequest;
use m::sasl_handshake_request::SaslHandshakeRequest;
use m::unregister_broker_request::UnregisterBrokerRequest;
use m::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};

use super::admin::with_message;
use super::arguments::{Arguments, CommandError};
use super::names::error;
use super::session::Session;
use crate::client::CLIENT_ID;

const TIMEOUT_MS: i32 = 10_000;
const ENTITY_TYPES: [&str; 4] = ["client-id", "ip", "user", "other"];
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const ANY: i8 = 2;

/// `update-features [upgrade|safe|unsafe|type=N] [validate-only] [version=1] feature=level ...`
pub(super) fn update_features(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let named = [("upgrade", 1), ("safe", 2), ("unsafe", 3)];
    let named = named.into_iter().find(|(word, _)| arguments.flag(word)).map_or(1, |(_, number)| number);
    let upgrade_type = arguments.number("type", named)?;
    let validate_only = arguments.flag("validate-only");
    let version = arguments.number("version", 1)?;
    let mut feature_updates = Vec::new();
    for (feature, level) in arguments.rest() {
        feature_updates.push(FeatureUpdateKey {
            feature: feature.into(),
            max_version_level: level.parse().map_err(|_| format!("{level} is no level"))?,
            upgrade_type,
            ..FeatureUpdateKey::default()
        });
    }
    let request = UpdateFeaturesRequest { timeout_ms: TIMEOUT_MS, feature_updates, validate_only };
    let answer = session.call(&request, version)?;
    session.settle();
    let told = with_message(session, answer.error_code, answer.error_message.as_ref());
    let mut output = without_controller(&told) + "\n";
    for result in &answer.results {
        let told = with_message(session, result.error_code, result.error_message.as_ref());
        let _ = writeln!(output, "{} {told}", &*result.feature);
    }
    Ok(output)
}

/// Leaves the id of the controller out of a text, which differs between clusters.
fn without_controller(text: &str) -> String {
    let Some((before, after)) = text.split_once("Local controller ") else { return text.to_owned() };
    format!("{before}Local controller N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// `features NAME ...`: the levels in force.
pub(super) fn features(session: &mut Session<'_>, arguments: &mut Arguments) -> Result<String, CommandError> {
    let request = ApiVersionsRequest {
        client_software_name: CLIENT_ID.into(),
        client_software_version: "1".into(),
        ..ApiVersionsRequest::default()
    };
    let answer = session.call(&request, 4)?;
    let mut output = String::new();
    for name in arguments.words_until("") {
        let finalized = answer.finalized_features.iter().find(|feature| *feature.name == *name);
        let level = finalized.map_or(0, |feature| feature.max_version_level);
        let _ = writeln!(output, "{name}={level}");
    }
    Ok(output)
}

/// Returns a name of an entity as it is on the wire; `default` is null, `empty` has no letters.
fn entity_name(session: &Session<'_>, kind: &str, name: &str) -> Option<StrBytes> {
    match name {
        "default" => None,
        "empty" => Some(StrBytes::default()),
        address if kind == "ip" => Some(address.to_owned().into()),
        name => Some(session.names.wire(name)),
    }
}

/// `alter-quotas [user=u] [client-id=c] [ip=a] [other=o] [set=key:value,...] [remove=key,...] [validate-only]
/// [version=1]`
pub(super) fn alter_quotas(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let mut entity = Vec::new();
    for kind in ENTITY_TYPES {
        if let Some(name) = arguments.option(kind) {
            let entity_name = entity_name(session, kind, &name);
            entity.push(EntityData { entity_type: kind.into(), entity_name });
        }
    }
    let mut ops = Vec::new();
    for change in arguments.list("set").unwrap_or_default() {
        let (key, value) = change.split_once(':').ok_or("set takes key:value")?;
        let value = value.parse().map_err(|_| format!("{value} is no number"))?;
        ops.push(OpData { key: key.to_owned().into(), value, remove: false });
    }
    let gone = arguments.list("remove").unwrap_or_default();
    ops.extend(gone.into_iter().map(|key| OpData { key: key.into(), value: 0.0, remove: true }));
    let request = AlterClientQuotasRequest {
        entries: vec![EntryData { entity, ops }],
        validate_only: arguments.flag("validate-only"),
    };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    session.settle();
    let entry = answer.entries.first().ok_or("no entity in the answer")?;
    Ok(with_message(session, entry.error_code, entry.error_message.as_ref()) + "\n")
}

/// `describe-quotas [user=exact:u|default|any] [client-id=...] [ip=...] [other=...] [strict] [version=1]`
///
/// Entities of other runs are left out.
pub(super) fn describe_quotas(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let mut components = Vec::new();
    for kind in ENTITY_TYPES {
        let Some(meant) = arguments.option(kind) else { continue };
        let (match_type, name) = match meant.as_str() {
            "default" => (DEFAULT, None),
            "any" => (ANY, None),
            "exact-null" => (EXACT, None),
            "default-name" => (DEFAULT, Some("x".into())),
            "any-name" => (ANY, Some("x".into())),
            "odd" => (9, None),
            other => {
                let name = other.strip_prefix("exact:").ok_or_else(|| format!("`{other}` is no match"))?;
                (EXACT, entity_name(session, kind, name))
            }
        };
        components.push(ComponentData { entity_type: kind.into(), match_type, r#match: name });
    }
    let request = DescribeClientQuotasRequest { components, strict: arguments.flag("strict") };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    let mut lines = Vec::new();
    for entry in answer.entries.iter().flatten() {
        let is_ours = |name: &StrBytes| session.names.is_ours(name) || name.contains('.');
        if !entry.entity.iter().all(|part| part.entity_name.as_ref().is_none_or(is_ours)) {
            continue;
        }
        let shown = |name: &Option<StrBytes>| match name {
            Some(name) => session.names.shown(name),
            None => "default".to_owned(),
        };
        let mut words: Vec<String> = entry
            .entity
            .iter()
            .map(|part| format!("{}={}", &*part.entity_type, shown(&part.entity_name)))
            .collect();
        let mut values: Vec<String> =
            entry.values.iter().map(|value| format!("{}:{}", &*value.key, value.value)).collect();
        values.sort();
        words.extend(values);
        lines.push(words.join(" ") + "\n");
    }
    lines.sort();
    let told = with_message(session, answer.error_code, answer.error_message.as_ref());
    Ok(format!("{told}\n{}", lines.concat()))
}

/// `alter-credentials [set=user:mechanism:iterations,...] [delete=user:mechanism,...] [no-password]`
pub(super) fn alter_credentials(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let user = |name: &str| if name == "empty" { StrBytes::default() } else { session.names.wire(name) };
    let password: &[u8] = if arguments.flag("no-password") { b"" } else { b"hashed" };
    let mut request = AlterUserScramCredentialsRequest::default();
    for change in arguments.list("delete").unwrap_or_default() {
        let (name, mechanism) = change.split_once(':').ok_or("delete takes user:mechanism")?;
        let mechanism = mechanism.parse().map_err(|_| format!("{mechanism} is no mechanism"))?;
        request.deletions.push(ScramCredentialDeletion { name: user(name), mechanism });
    }
    for change in arguments.list("set").unwrap_or_default() {
        let parts: Vec<&str> = change.split(':').collect();
        let [name, mechanism, iterations] = parts[..] else {
            return Err("set takes user:mechanism:iterations".into());
        };
        request.upsertions.push(ScramCredentialUpsertion {
            name: user(name),
            mechanism: mechanism.parse().map_err(|_| format!("{mechanism} is no mechanism"))?,
            iterations: iterations.parse().map_err(|_| format!("{iterations} is no number"))?,
            salt: b"salt"[..].into(),
            salted_password: bytes::Bytes::copy_from_slice(password),
        });
    }
    let answer = session.call(&request, 0)?;
    session.settle();
    let mut lines: Vec<String> = answer
        .results
        .iter()
        .map(|result| {
            let told = with_message(session, result.error_code, result.error_message.as_ref());
            format!("{:?} {told}\n", session.names.shown(&result.user))
        })
        .collect();
    lines.sort();
    Ok(lines.concat())
}

/// `describe-credentials [user ...]`: of all users of this run, when none is named.
pub(super) fn describe_credentials(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let words = arguments.words_until("");
    let users = words.iter().map(|name| UserName { name: session.names.wire(name) });
    let request = DescribeUserScramCredentialsRequest { users: (!words.is_empty()).then(|| users.collect()) };
    let answer = session.call(&request, 0)?;
    let mut lines = Vec::new();
    for result in answer.results.iter().filter(|result| session.names.is_ours(&result.user)) {
        let told = with_message(session, result.error_code, result.error_message.as_ref());
        let mut line = format!("{} {told}", session.names.shown(&result.user));
        let mut infos: Vec<(i8, i32)> =
            result.credential_infos.iter().map(|info| (info.mechanism, info.iterations)).collect();
        infos.sort_unstable();
        for (mechanism, iterations) in infos {
            let _ = write!(line, " {mechanism}:{iterations}");
        }
        lines.push(line + "\n");
    }
    lines.sort();
    let told = with_message(session, answer.error_code, answer.error_message.as_ref());
    Ok(format!("{told}\n{}", lines.concat()))
}

/// `unregister-broker N`
pub(super) fn unregister_broker(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let id = arguments.word("broker")?;
    let broker_id = id.parse().map_err(|_| format!("{id} is no broker"))?;
    let answer = session.call(&UnregisterBrokerRequest { broker_id }, 0)?;
    Ok(with_message(session, answer.error_code, answer.error_message.as_ref()) + "\n")
}

/// `sasl-handshake MECHANISM [version=1]`
pub(super) fn sasl_handshake(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let request = SaslHandshakeRequest { mechanism: arguments.word("mechanism")?.into() };
    let answer = session.call(&request, arguments.number("version", 1)?)?;
    Ok(format!("{} mechanisms={}\n", error(answer.error_code), answer.mechanisms.len()))
}

/// `sasl-authenticate [version=2]`
pub(super) fn sasl_authenticate(
    session: &mut Session<'_>,
    arguments: &mut Arguments,
) -> Result<String, CommandError> {
    let request = SaslAuthenticateRequest { auth_bytes: b"secret"[..].into() };
    let answer = session.call(&request, arguments.number("version", 2)?)?;
    Ok(with_message(session, answer.error_code, answer.error_message.as_ref()) + "\n")
}
