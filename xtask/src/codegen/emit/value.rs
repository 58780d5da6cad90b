//! Default values.

use std::fmt::Write as _;

use super::super::schema::{Field, Message, Struct, Type};
use crate::Failure;

/// Returns whether the default of a field is the one of its Rust type.
pub(super) fn is_rust_default(field: &Field) -> bool {
    if !field.nullable.is_empty() {
        return is_null(field);
    }
    match field.default.as_deref() {
        None | Some("" | "0" | "false") => true,
        Some(_) => false,
    }
}

/// Returns whether a nullable field starts as null. Records do unless the schema says otherwise.
fn is_null(field: &Field) -> bool {
    field.default.as_deref() == Some("null") || (field.default.is_none() && field.kind == Type::Records)
}

/// Returns the expression of a field's default.
pub(super) fn default(field: &Field) -> Result<String, Failure> {
    if !field.nullable.is_empty() && is_null(field) {
        return Ok("None".to_owned());
    }
    let value = match &field.kind {
        Type::Fixed(fixed) => match (fixed.rust, field.default.as_deref()) {
            ("bool", None) => "false".to_owned(),
            ("TopicId", None) => "TopicId::ZERO".to_owned(),
            ("[u8; 16]", None) => "[0; 16]".to_owned(),
            ("f64", None) => "0.0".to_owned(),
            (_, None) => "0".to_owned(),
            ("bool", Some(text)) => text.to_owned(),
            (_, Some(text)) => number(text)?,
        },
        Type::String => match field.default.as_deref() {
            None | Some("") => "StrBytes::new()".to_owned(),
            Some(text) => format!("StrBytes::from_static({text:?})"),
        },
        Type::Bytes => "Bytes::new()".to_owned(),
        Type::Records => "Records::new()".to_owned(),
        Type::Struct(name) => format!("{name}::default()"),
        Type::Array(_) => "Vec::new()".to_owned(),
    };
    Ok(if field.nullable.is_empty() { value } else { format!("Some({value})") })
}

fn number(text: &str) -> Result<String, Failure> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.map_err(|_| format!("the default {text:?} is no number"))?;
    Ok(value.to_string())
}

/// Returns the condition under which a field differs from its default.
pub(super) fn differs(field: &Field) -> Result<String, Failure> {
    let name = &field.name;
    if !field.nullable.is_empty() {
        return Ok(if is_null(field) {
            format!("self.{name}.is_some()")
        } else {
            format!("self.{name} != {}", default(field)?)
        });
    }
    Ok(match (&field.kind, field.default.as_deref()) {
        (Type::Fixed(fixed), Some("true")) if fixed.rust == "bool" => format!("!self.{name}"),
        (Type::Fixed(fixed), _) if fixed.rust == "bool" => format!("self.{name}"),
        (Type::Fixed(_) | Type::Struct(_), _) => format!("self.{name} != {}", default(field)?),
        (Type::String | Type::Bytes | Type::Records | Type::Array(_), _) => {
            format!("!self.{name}.is_empty()")
        }
    })
}

/// Returns the `Default` of a structure, or nothing if it is derived.
pub(super) fn default_impl(_message: &Message, structure: &Struct) -> Result<String, Failure> {
    if structure.fields.iter().all(is_rust_default) {
        return Ok(String::new());
    }
    let mut text = format!("impl Default for {} {{ fn default() -> Self {{ Self {{", structure.name);
    for field in &structure.fields {
        let _ = write!(text, "{}: {},", field.name, default(field)?);
    }
    text.push_str("} } }\n\n");
    Ok(text)
}
