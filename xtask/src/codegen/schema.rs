//! The message schemas as the generator sees them.

mod names;
mod types;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Failure;
pub(super) use names::snake_case;
pub(super) use types::{Type, Versions};

/// A message with all of its structures.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) api_key: i16,
    pub(super) valid: Versions,
    /// `None` if no version is flexible.
    pub(super) first_flexible: Option<i16>,
    /// The message itself first, then its structures in the order of their first use.
    pub(super) structs: Vec<Struct>,
}

/// A structure: the message itself, or one inside it.
#[derive(Clone, Debug)]
pub(super) struct Struct {
    pub(super) name: String,
    /// The versions in which some field holds it.
    pub(super) reach: Versions,
    pub(super) fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The name in the schema.
    pub(super) schema_name: String,
    /// The name in Rust.
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) versions: Versions,
    pub(super) nullable: Versions,
    pub(super) tag: Option<u32>,
    /// The default as the schema has it; `None` if it has none.
    pub(super) default: Option<String>,
    /// A string of the old form even in flexible versions.
    pub(super) never_flexible: bool,
}

impl Message {
    /// Returns the name of its module.
    pub(super) fn module(&self) -> String {
        snake_case(&self.name)
    }

    /// Returns the structure called `name`.
    pub(super) fn find(&self, name: &str) -> Result<&Struct, Failure> {
        self.structs
            .iter()
            .find(|structure| structure.name == name)
            .ok_or_else(|| format!("{} has no structure {name}", self.name))
    }
}

/// Reads a schema; `None` if no version of the message is left.
pub(super) fn parse(schema: &Value) -> Result<Option<Message>, Failure> {
    let name = text(schema, "name")?;
    let valid = Versions::parse(text(schema, "validVersions")?)?;
    if valid.is_empty() {
        return Ok(None);
    }
    let flexible = Versions::parse(text(schema, "flexibleVersions")?)?;
    let mut parser = Parser { message: name, common: BTreeMap::new(), structs: Vec::new() };
    for structure in array(schema, "commonStructs") {
        parser.common.insert(text(structure, "name")?, structure);
    }
    parser.structure(name, valid, array(schema, "fields"))?;
    let api_key = schema.get("apiKey").and_then(Value::as_i64).unwrap_or(-1);
    Ok(Some(Message {
        name: name.to_owned(),
        api_key: i16::try_from(api_key).map_err(|_| format!("{name}: the key {api_key} is no int16"))?,
        valid,
        first_flexible: if flexible.is_empty() { None } else { Some(flexible.first) },
        structs: parser.structs,
    }))
}

/// Adds the fields and versions of an overlay to the schemas that it names.
pub(super) fn lay_over(overlay: &Value, schemas: &mut [Value]) -> Result<(), Failure> {
    for message in array(overlay, "messages") {
        let schema = schemas
            .iter_mut()
            .find(|schema| schema.get("name") == Some(message))
            .ok_or_else(|| format!("an overlay names {message}, which there is not"))?;
        if let Some(versions) = overlay.get("validVersions") {
            schema["validVersions"] = versions.clone();
        }
        let Some(structure) = overlay.get("struct").and_then(Value::as_str) else {
            continue;
        };
        let fields = fields_of(&mut schema["fields"], structure)
            .ok_or_else(|| format!("an overlay names {structure}, which {message} has not"))?;
        fields.extend(array(overlay, "fields").iter().cloned());
    }
    Ok(())
}

/// Finds the fields of the structure that some field, however deep, holds an array of.
fn fields_of<'a>(fields: &'a mut Value, structure: &str) -> Option<&'a mut Vec<Value>> {
    let wanted = format!("[]{structure}");
    for field in fields.as_array_mut()? {
        if field.get("type").and_then(Value::as_str) == Some(&wanted) {
            return field.get_mut("fields")?.as_array_mut();
        }
        if let Some(inner) = field.get_mut("fields")
            && let Some(found) = fields_of(inner, structure)
        {
            return Some(found);
        }
    }
    None
}

struct Parser<'a> {
    message: &'a str,
    common: BTreeMap<&'a str, &'a Value>,
    structs: Vec<Struct>,
}

impl<'a> Parser<'a> {
    /// Reads a structure that fields hold in versions `reach`, and those inside it.
    fn structure(&mut self, name: &'a str, mut reach: Versions, fields: &'a [Value]) -> Result<(), Failure> {
        if let Some(known) = self.structs.iter_mut().find(|structure| structure.name == name) {
            let hull = known.reach.hull(reach);
            if known.reach == hull {
                return Ok(()); // Also ends the recursion of a structure that holds itself.
            }
            known.reach = hull;
            reach = hull; // Its fields are read anew, for all versions that use it.
        } else {
            self.structs.push(Struct { name: name.to_owned(), reach, fields: Vec::new() });
        }
        let mut parsed = Vec::new();
        for field in fields {
            let Some(field_parsed) = self.field(field, reach)? else {
                continue;
            };
            if let Some(inner) = field_parsed.kind.structure() {
                let (inner, inner_fields) = self.fields_of(inner, field)?;
                self.structure(inner, field_parsed.versions, inner_fields)?;
            }
            parsed.push(field_parsed);
        }
        if let Some(known) = self.structs.iter_mut().find(|structure| structure.name == name) {
            known.fields = parsed;
        }
        Ok(())
    }

    /// Finds the definition of the structure `name` that `field` holds.
    fn fields_of(&self, name: &str, field: &'a Value) -> Result<(&'a str, &'a [Value]), Failure> {
        if let Some((name, common)) = self.common.get_key_value(name) {
            return Ok((name, array(common, "fields")));
        }
        let name = text(field, "type")?.trim_start_matches("[]");
        Ok((name, array(field, "fields")))
    }

    /// Reads a field; `None` if no version within `reach` has it.
    fn field(&self, field: &Value, reach: Versions) -> Result<Option<Field>, Failure> {
        let schema_name = text(field, "name")?;
        let tag = field.get("tag").and_then(Value::as_u64);
        let versions = match (field.get("versions"), tag) {
            (None, Some(_)) => text(field, "taggedVersions")?,
            _ => text(field, "versions")?,
        };
        let versions = Versions::parse(versions)?.and(reach);
        if versions.is_empty() {
            return Ok(None);
        }
        let nullable = field.get("nullableVersions").and_then(Value::as_str).unwrap_or("none");
        let is_topic_id = schema_name.to_lowercase().ends_with("topicid");
        // Numbers stand in the schemas with and without quotes. A null without quotes says nothing to
        // Kafka's generator: only the text "null" does.
        let default = field
            .get("default")
            .filter(|default| !default.is_null())
            .map(|default| default.as_str().map_or_else(|| default.to_string(), str::to_owned));
        let tag = tag
            .map(u32::try_from)
            .transpose()
            .map_err(|_| format!("{}: the tag of {schema_name} is too large", self.message))?;
        Ok(Some(Field {
            schema_name: schema_name.to_owned(),
            name: snake_case(schema_name),
            kind: Type::parse(text(field, "type")?, is_topic_id)?,
            versions,
            nullable: Versions::parse(nullable)?.and(versions),
            tag,
            default,
            never_flexible: field.get("flexibleVersions").is_some_and(|versions| versions == "none"),
        }))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, Failure> {
    value.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key} is missing in {value}"))
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests;
