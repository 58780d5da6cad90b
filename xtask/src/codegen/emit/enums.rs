//! The enums over all served requests and answers, and the list of modules.

use std::fmt::Write as _;

use super::super::schema::{Message, snake_case};
use super::MARK;

/// Returns the file of the enum over the served requests.
pub(in crate::codegen) fn request_enum(served: &[&str]) -> String {
    message_enum(served, "Request", "A request of any API that this broker serves.")
}

/// Returns the file of the enum over the answers.
pub(in crate::codegen) fn response_enum(served: &[&str]) -> String {
    message_enum(served, "Response", "An answer of any API that this broker serves.")
}

fn message_enum(served: &[&str], suffix: &str, doc: &str) -> String {
    let enum_name = format!("{suffix}Message");
    let mut text = format!("{MARK}//! {doc}\n\nuse crate::ApiKey;\n");
    text.push_str("use crate::codec::{DecodeError, Message, Reader, Writer};\n");
    for name in served {
        let module = snake_case(&format!("{name}{suffix}"));
        let _ = writeln!(text, "use super::{module}::{name}{suffix};");
    }
    let arms = |arm: &dyn Fn(&str) -> String| served.iter().map(|name| arm(name)).collect::<String>();
    let _ = writeln!(
        text,
        "
        /// {doc}
        #[derive(Clone, Debug, PartialEq)]
        pub enum {enum_name} {{ {variants} }}

        impl {enum_name} {{
            /// Returns the API that it belongs to.
            pub const fn api_key(&self) -> ApiKey {{ match self {{ {keys} }} }}

            /// Appends it to `out`, in the form of `version`.
            pub fn encode(&self, version: i16, out: &mut Writer) {{ match self {{ {encode} }} }}

            /// Reads one of API `key`, in the form of `version`.
            ///
            /// # Errors
            ///
            /// If the version is unknown or the bytes are no such message.
            pub fn decode(key: ApiKey, version: i16, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {{
                Ok(match key {{ {decode} }})
            }}
        }}
        {from}",
        variants = arms(&|name| format!(
            "/// {} of {name}.\n{name}({name}{suffix}),\n",
            if suffix == "Request" { "The request" } else { "The answer" }
        )),
        keys = arms(&|name| format!("Self::{name}(_) => ApiKey::{name},\n")),
        encode = arms(&|name| format!("Self::{name}(message) => message.encode(version, out),\n")),
        decode = arms(&|name| format!(
            "ApiKey::{name} => Self::{name}({name}{suffix}::decode(version, reader)?),\n"
        )),
        from = arms(&|name| format!(
            "impl From<{name}{suffix}> for {enum_name} {{ fn from(message: {name}{suffix}) -> Self {{ Self::{name}(message) }} }}\n\n"
        )),
    );
    text
}

/// Returns the file that names all other generated files.
pub(in crate::codegen) fn module_list(messages: &[Message]) -> String {
    let mut modules: Vec<String> = messages.iter().map(Message::module).collect();
    modules.extend(["request_message".to_owned(), "response_message".to_owned()]);
    modules.sort();
    let mut text = format!("{MARK}//! All messages, one module for each.\n\n");
    for module in &modules {
        let _ = writeln!(text, "pub mod {module};");
    }
    text.push_str("\nuse crate::codec::MessageCodec;\n");
    text.push_str("pub use request_message::RequestMessage;\npub use response_message::ResponseMessage;\n\n");
    text.push_str(
        "/// The codecs of all messages, ordered by name.\npub static CODECS: &[MessageCodec] = &[\n",
    );
    for message in messages {
        let _ = writeln!(text, "MessageCodec::of::<{}::{}>(),", message.module(), message.name);
    }
    text.push_str("];\n");
    text
}
