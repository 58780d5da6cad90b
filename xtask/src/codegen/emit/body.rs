//! How a structure is encoded and decoded.

use std::fmt::Write as _;

use super::super::schema::{Field, Message, Struct, Type, Versions};
use super::{condition, value};
use crate::Failure;

/// Returns the implementation of `Message` or `Element` for a structure.
pub(super) fn codec_impl(message: &Message, structure: &Struct) -> Result<String, Failure> {
    let emitter = Emitter::new(message, structure);
    let encode = emitter.encode()?;
    let decode = emitter.decode()?;
    if structure.name == message.name {
        return Ok(message_impl(message, &emitter, &encode, &decode));
    }
    let size_min = size_min(message, structure)?;
    if size_min == 0 {
        return Err(format!(
            "{}: {} may take no byte, so no count of it is bounded",
            message.name, structure.name
        ));
    }
    let parameter = |name: &str, body: &str| {
        if has_word(body, name) { name.to_owned() } else { format!("_{name}") }
    };
    Ok(format!(
        "impl Element for {name} {{
            const SIZE_MIN: usize = {size_min};

            fn encode(&self, {encode_version}: i16, {encode_flexible}: bool, out: &mut Writer) {{ {encode} }}

            fn decode({decode_version}: i16, {decode_flexible}: bool, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{ {decode} }}
        }}\n\n",
        name = structure.name,
        encode_version = parameter("version", &encode),
        encode_flexible = parameter("flexible", &encode),
        decode_version = parameter("version", &decode),
        decode_flexible = parameter("flexible", &decode),
    ))
}

fn message_impl(message: &Message, emitter: &Emitter<'_>, encode: &str, decode: &str) -> String {
    let flexible_line = |body: &str| {
        if has_word(body, "flexible") {
            format!("let flexible = {} <= version;", emitter.first_flexible)
        } else {
            String::new()
        }
    };
    let version =
        if has_word(encode, "version") || has_word(encode, "flexible") { "version" } else { "_version" };
    let out = if has_word(encode, "out") { "out" } else { "_out" };
    let first_flexible =
        message.first_flexible.map_or("NEVER_FLEXIBLE".to_owned(), |version| version.to_string());
    format!(
        "impl Message for {name} {{
            const NAME: &'static str = \"{name}\";
            const API_KEY: i16 = {api_key};
            const VERSIONS_VALID: RangeInclusive<i16> = {first}..={last};
            const FIRST_FLEXIBLE: i16 = {first_flexible};

            fn encode(&self, {version}: i16, {out}: &mut Writer) {{ {encode_flexible} {encode} }}

            fn decode(version: i16, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{
                check_version::<Self>(version)?;
                {decode_flexible} {decode}
            }}
        }}\n\n",
        name = message.name,
        api_key = message.api_key,
        first = message.valid.first,
        last = message.valid.last,
        encode_flexible = flexible_line(encode),
        decode_flexible = flexible_line(decode),
    )
}

/// Returns whether code uses the variable `word`; a field of that name does not count.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(|last: char| is_part(last) || last == '.')
            && !after.starts_with(|first: char| is_part(first) || first == ':')
    })
}

struct Emitter<'a> {
    structure: &'a Struct,
    /// The first flexible version; beyond all versions if there is none.
    first_flexible: i16,
}

impl<'a> Emitter<'a> {
    fn new(message: &Message, structure: &'a Struct) -> Self {
        Self { structure, first_flexible: message.first_flexible.unwrap_or(i16::MAX) }
    }

    /// Returns the expression that says whether a version in `versions` is flexible.
    fn flexible(&self, versions: Versions) -> &'static str {
        if self.first_flexible <= versions.first {
            "true"
        } else if versions.last < self.first_flexible {
            "false"
        } else {
            "flexible"
        }
    }

    fn field_flexible(&self, field: &Field) -> &'static str {
        if field.never_flexible { "false" } else { self.flexible(field.versions) }
    }

    fn nullable(field: &Field) -> String {
        condition(field.nullable, field.versions).unwrap_or("true".to_owned())
    }

    fn untagged(&self) -> impl Iterator<Item = &'a Field> {
        self.structure.fields.iter().filter(|field| field.tag.is_none())
    }

    /// Returns the tagged fields in the order of their tags.
    fn tagged(&self) -> Vec<&'a Field> {
        let mut fields: Vec<_> = self.structure.fields.iter().filter(|field| field.tag.is_some()).collect();
        fields.sort_by_key(|field| field.tag);
        fields
    }

    fn encode(&self) -> Result<String, Failure> {
        let mut text = String::new();
        let fields: Vec<&Field> = self.untagged().collect();
        for run in fields.chunk_by(|a, b| a.versions == b.versions) {
            let writes: String = run.iter().map(|field| self.write(field)).collect();
            match condition(run[0].versions, self.structure.reach) {
                None => text.push_str(&writes),
                Some(condition) => {
                    let _ = write!(text, "if {condition} {{ {writes} }}");
                }
            }
            text.push('\n');
        }
        let tags = self.encode_tags()?;
        match self.flexible(self.structure.reach) {
            "false" => {}
            "true" => text.push_str(&tags),
            _ => {
                let _ = write!(text, "if flexible {{ {tags} }}");
            }
        }
        Ok(text)
    }

    fn encode_tags(&self) -> Result<String, Failure> {
        let tagged = self.tagged();
        if tagged.is_empty() {
            return Ok("out.write_no_tags();\n".to_owned());
        }
        let mut text = "let mut tags = out.tags();\n".to_owned();
        for field in tagged {
            if field.kind == Type::Records {
                return Err(format!("{}: records cannot be tagged", field.schema_name));
            }
            let mut when = value::differs(field)?;
            // Inside the branch of flexible versions, the lower bound may be known already.
            let reach = Versions {
                first: self.structure.reach.first.max(self.first_flexible),
                ..self.structure.reach
            };
            if let Some(condition) = condition(field.versions, reach) {
                when = format!("{condition} && {when}");
            }
            let write = self.write(field);
            let write = write.trim_end_matches(';');
            let _ = writeln!(text, "if {when} {{ tags.write({}, |out| {write}); }}", field.tag.unwrap_or(0));
        }
        Ok(text)
    }

    /// Returns the statement that writes a field.
    fn write(&self, field: &Field) -> String {
        let name = &field.name;
        let flexible = self.field_flexible(field);
        let nullable = Self::nullable(field);
        let may_be_null = !field.nullable.is_empty();
        match &field.kind {
            Type::Fixed(fixed) => format!("out.write_{}(self.{name});", fixed.verb),
            Type::String | Type::Bytes | Type::Records => {
                let verb = verb(&field.kind);
                if may_be_null {
                    format!("out.write_nullable_{verb}({flexible}, {nullable}, self.{name}.as_ref());")
                } else {
                    format!("out.write_{verb}({flexible}, &self.{name});")
                }
            }
            Type::Struct(_) if may_be_null && field.tag.is_some() => {
                format!("out.write_tagged_nullable_struct(version, self.{name}.as_ref());")
            }
            Type::Struct(_) if may_be_null => {
                format!("out.write_nullable_struct(version, {flexible}, {nullable}, self.{name}.as_ref());")
            }
            Type::Struct(_) => format!("self.{name}.encode(version, {flexible}, out);"),
            Type::Array(_) if may_be_null => {
                format!("out.write_nullable_array(version, {flexible}, {nullable}, self.{name}.as_deref());")
            }
            Type::Array(_) => format!("out.write_array(version, {flexible}, &self.{name});"),
        }
    }

    fn decode(&self) -> Result<String, Failure> {
        let tagged = self.tagged();
        let mut value = "Self {".to_owned();
        for field in &self.structure.fields {
            let read = self.read(field, "reader");
            let default = value::default(field)?;
            let read = match condition(field.versions, self.structure.reach) {
                _ if field.tag.is_some() => default,
                None => read,
                Some(condition) => format!("if {condition} {{ {read} }} else {{ {default} }}"),
            };
            let _ = write!(value, "{}: {read},", field.name);
        }
        value.push('}');
        let flexible = self.flexible(self.structure.reach);
        if flexible == "false" {
            return Ok(format!("Ok({value})"));
        }
        let (binding, tags) = if tagged.is_empty() {
            ("let value", "reader.skip_tags()?;".to_owned())
        } else {
            ("let mut value", self.decode_tags(&tagged))
        };
        let tags = if flexible == "true" { tags } else { format!("if flexible {{ {tags} }}") };
        Ok(format!("{binding} = {value};\n{tags}\nOk(value)"))
    }

    fn decode_tags(&self, tagged: &[&Field]) -> String {
        let reach =
            Versions { first: self.structure.reach.first.max(self.first_flexible), ..self.structure.reach };
        let mut arms = String::new();
        for field in tagged {
            let guard = condition(field.versions, reach).map_or(String::new(), |when| format!("if {when}"));
            let read = self.read(field, "field");
            let _ = writeln!(arms, "{} {guard} => value.{} = {read},", field.tag.unwrap_or(0), field.name);
        }
        format!(
            "reader.read_tags(|tag, field| {{ match tag {{ {arms} _ => return Ok(false), }} Ok(true) }})?;"
        )
    }

    /// Returns the expression that reads a field from `reader`.
    fn read(&self, field: &Field, reader: &str) -> String {
        let flexible = self.field_flexible(field);
        let nullable = Self::nullable(field);
        let may_be_null = !field.nullable.is_empty();
        match &field.kind {
            Type::Fixed(fixed) => format!("{reader}.read_{}()?", fixed.verb),
            Type::String | Type::Bytes | Type::Records => {
                let verb = verb(&field.kind);
                if may_be_null {
                    format!("{reader}.read_nullable_{verb}({flexible}, {nullable})?")
                } else {
                    format!("{reader}.read_{verb}({flexible})?")
                }
            }
            Type::Struct(_) if may_be_null && field.tag.is_some() => {
                format!("{reader}.read_tagged_nullable_struct(version)?")
            }
            Type::Struct(_) if may_be_null => {
                format!("{reader}.read_nullable_struct(version, {flexible}, {nullable})?")
            }
            Type::Struct(name) => format!("{name}::decode(version, {flexible}, {reader})?"),
            Type::Array(_) if may_be_null => {
                format!("{reader}.read_nullable_array(version, {flexible}, {nullable})?")
            }
            Type::Array(_) => format!("{reader}.read_array(version, {flexible})?"),
        }
    }
}

fn verb(kind: &Type) -> &'static str {
    match kind {
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Records => "records",
        Type::Fixed(_) | Type::Struct(_) | Type::Array(_) => "",
    }
}

/// Returns the fewest bytes that a structure takes in any version.
fn size_min(message: &Message, structure: &Struct) -> Result<usize, Failure> {
    let mut least = usize::MAX;
    for version in structure.reach.first..=structure.reach.last {
        least = least.min(size_min_in(message, structure, version)?);
    }
    Ok(least)
}

fn size_min_in(message: &Message, structure: &Struct, version: i16) -> Result<usize, Failure> {
    let flexible = message.first_flexible.is_some_and(|first| first <= version);
    let mut size = usize::from(flexible);
    for field in
        structure.fields.iter().filter(|field| field.tag.is_none() && field.versions.contains(version))
    {
        let compact = flexible && !field.never_flexible;
        size += match &field.kind {
            Type::Fixed(fixed) => fixed.size,
            Type::Struct(_) if field.nullable.contains(version) => 1,
            Type::Struct(name) => size_min_in(message, message.find(name)?, version)?,
            _ if compact => 1,
            Type::String => 2,
            Type::Bytes | Type::Records | Type::Array(_) => 4,
        };
    }
    Ok(size)
}
