//! Ranges of versions, and the types of fields.

use crate::Failure;

/// A run of versions, both ends included; empty if `last` is below `first`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::codegen) struct Versions {
    pub(in crate::codegen) first: i16,
    pub(in crate::codegen) last: i16,
}

impl Versions {
    /// No version at all.
    pub(in crate::codegen) const NONE: Self = Self { first: 0, last: -1 };

    /// Reads `none`, `3`, `3-5` or `3+`.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let number = |text: &str| text.parse::<i16>().map_err(|_| format!("{text:?} is no version"));
        if text == "none" {
            return Ok(Self::NONE);
        }
        if let Some(first) = text.strip_suffix('+') {
            return Ok(Self { first: number(first)?, last: i16::MAX });
        }
        if let Some((first, last)) = text.split_once('-') {
            return Ok(Self { first: number(first)?, last: number(last)? });
        }
        Ok(Self { first: number(text)?, last: number(text)? })
    }

    /// Returns whether there is no version.
    pub(in crate::codegen) fn is_empty(self) -> bool {
        self.last < self.first
    }

    /// Returns whether `version` belongs to the run.
    pub(in crate::codegen) fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// Returns the versions that both have.
    pub(super) fn and(self, other: Self) -> Self {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        if both.is_empty() { Self::NONE } else { both }
    }

    /// Returns the shortest run that holds both.
    pub(super) fn hull(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The type of a field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::codegen) enum Type {
    /// A type of fixed size.
    Fixed(Fixed),
    /// A string.
    String,
    /// A byte field.
    Bytes,
    /// Record batches.
    Records,
    /// A structure of this name.
    Struct(String),
    /// An array.
    Array(Box<Type>),
}

/// A type of fixed size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::codegen) struct Fixed {
    /// The name in the schema.
    pub(in crate::codegen) schema: &'static str,
    /// The type in Rust.
    pub(in crate::codegen) rust: &'static str,
    /// What follows `read_` and `write_`.
    pub(in crate::codegen) verb: &'static str,
    /// How many bytes it takes.
    pub(in crate::codegen) size: usize,
}

const FIXED: [Fixed; 9] = [
    Fixed { schema: "bool", rust: "bool", verb: "bool", size: 1 },
    Fixed { schema: "int8", rust: "i8", verb: "i8", size: 1 },
    Fixed { schema: "int16", rust: "i16", verb: "i16", size: 2 },
    Fixed { schema: "uint16", rust: "u16", verb: "u16", size: 2 },
    Fixed { schema: "int32", rust: "i32", verb: "i32", size: 4 },
    Fixed { schema: "int64", rust: "i64", verb: "i64", size: 8 },
    Fixed { schema: "float64", rust: "f64", verb: "f64", size: 8 },
    Fixed { schema: "uuid", rust: "[u8; 16]", verb: "uuid", size: 16 },
    Fixed { schema: "uuid of a topic", rust: "TopicId", verb: "topic_id", size: 16 },
];

impl Type {
    /// Reads a type's name; a uuid has a type of its own if it is a topic's id.
    pub(super) fn parse(text: &str, is_topic_id: bool) -> Result<Self, Failure> {
        if let Some(element) = text.strip_prefix("[]") {
            return Ok(Self::Array(Box::new(Self::parse(element, false)?)));
        }
        let wanted = if text == "uuid" && is_topic_id { "uuid of a topic" } else { text };
        if let Some(fixed) = FIXED.iter().find(|fixed| fixed.schema == wanted) {
            return Ok(Self::Fixed(*fixed));
        }
        match text {
            "string" => Ok(Self::String),
            "bytes" => Ok(Self::Bytes),
            "records" => Ok(Self::Records),
            name if name.starts_with(|first: char| first.is_ascii_uppercase()) => {
                Ok(Self::Struct(name.to_owned()))
            }
            unknown => Err(format!("the type {unknown} is unknown")),
        }
    }

    /// Returns the structure that the field holds, alone or in an array.
    pub(in crate::codegen) fn structure(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.structure(),
            Self::Fixed(_) | Self::String | Self::Bytes | Self::Records => None,
        }
    }

    /// Returns what an array is made of; `None` for another type.
    pub(in crate::codegen) fn element(&self) -> Option<&Self> {
        match self {
            Self::Array(element) => Some(element),
            Self::Fixed(_) | Self::String | Self::Bytes | Self::Records | Self::Struct(_) => None,
        }
    }

    /// Returns the name in the schema.
    pub(in crate::codegen) fn schema_name(&self) -> String {
        match self {
            Self::Fixed(fixed) => fixed.schema.to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Records => "records".to_owned(),
            Self::Struct(name) => format!("[`{name}`]"),
            Self::Array(element) => format!("array of {}", element.schema_name()),
        }
    }

    /// Returns the type in Rust.
    pub(in crate::codegen) fn rust(&self) -> String {
        match self {
            Self::Fixed(fixed) => fixed.rust.to_owned(),
            Self::String => "StrBytes".to_owned(),
            Self::Bytes => "Bytes".to_owned(),
            Self::Records => "Records".to_owned(),
            Self::Struct(name) => name.clone(),
            Self::Array(element) => format!("Vec<{}>", element.rust()),
        }
    }
}
