//! Generates the message structures of `sharemark-protocol` from the schemas in Kafka's published jars
//! and from our own in `crates/protocol/schemas`.

mod emit;
mod schema;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files::{self, Mode};
use crate::{Failure, apis};
use schema::Message;

/// Where generated code goes, from the root of the workspace.
const GENERATED: &str = "crates/protocol/src/generated";

/// Generates everything; in `Mode::Check` fails on any difference to what is there.
pub(crate) fn run(mode: Mode) -> Result<(), Failure> {
    let messages = sources::messages()?;
    let fresh = generate(&messages)?;
    let folder = files::root().join(GENERATED);
    files::create_folder(&folder)?;
    let mut different = Vec::new();
    for (name, text) in &fresh {
        let path = if name == "generated.rs" { folder.with_extension("rs") } else { folder.join(name) };
        if files::update(&path, text, mode)? {
            different.push(name.clone());
        }
    }
    for path in files::list(&folder, "rs")? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if fresh.contains_key(&name) {
            continue;
        }
        if mode == Mode::Write {
            fs::remove_file(&path).map_err(|error| format!("cannot remove {name}: {error}"))?;
        }
        different.push(name);
    }
    println!("{} messages, {} files, {} of them differed", messages.len(), fresh.len(), different.len());
    if mode == Mode::Check && !different.is_empty() {
        return Err(format!("run `cargo xtask codegen`: {} differ", different.join(", ")));
    }
    Ok(())
}

/// Returns each generated file's text by its name, formatted.
fn generate(messages: &[Message]) -> Result<BTreeMap<String, String>, Failure> {
    let mut texts = BTreeMap::new();
    for message in messages {
        texts.insert(format!("{}.rs", message.module()), emit::message(message)?);
    }
    let served: Vec<_> = apis::APIS.iter().map(|api| api.name).collect();
    texts.insert("request_message.rs".to_owned(), emit::request_enum(&served));
    texts.insert("response_message.rs".to_owned(), emit::response_enum(&served));
    texts.insert("generated.rs".to_owned(), emit::module_list(messages));
    format(&texts)
}

/// Formats all texts with one call of rustfmt.
fn format(texts: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Failure> {
    let folder = files::root().join("target/codegen/fresh");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
    }
    // The list of modules names the other files as its children.
    files::create_folder(&folder.join("generated"))?;
    let place = |name: &str| {
        if name == "generated.rs" { folder.join(name) } else { folder.join("generated").join(name) }
    };
    for (name, text) in texts {
        files::write(&place(name), text)?;
    }
    files::run(
        Command::new("rustfmt")
            .args(["--edition", "2024", "--config-path"])
            .arg(files::root().join("rustfmt.toml"))
            .arg(place("generated.rs")),
    )?;
    let mut formatted = BTreeMap::new();
    for name in texts.keys() {
        formatted.insert(name.clone(), emit::permit_long_functions(&read(&place(name))?));
    }
    Ok(formatted)
}

fn read(path: &Path) -> Result<String, Failure> {
    files::read(path)
}
