//! Fetches the schemas: Kafka's out of its jars through Maven, ours from the tree.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::schema::{self, Message};
use crate::Failure;
use crate::files;

/// The release whose protocol we speak.
const KAFKA_VERSION: &str = "4.4.0";
/// The jars that hold message schemas.
const ARTIFACTS: [&str; 4] =
    ["kafka-clients", "kafka-group-coordinator", "kafka-share-coordinator", "kafka-transaction-coordinator"];
/// The Maven goal that unpacks a jar, with its version, so that every run does the same.
const UNPACK: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack";
/// Our own schemas, and in `overlays` below it what we add to Kafka's.
const OWN_SCHEMAS: &str = "crates/protocol/schemas";

/// Returns all messages, ordered by name.
pub(super) fn messages() -> Result<Vec<Message>, Failure> {
    let mut schemas = Vec::new();
    let cache = files::root().join("target/codegen");
    files::create_folder(&cache)?;
    for artifact in ARTIFACTS {
        let folder = cache.join("schemas").join(KAFKA_VERSION).join(artifact);
        if !folder.exists() {
            unpack(artifact, &folder, &cache)?;
        }
        read_schemas(&folder.join("common/message"), &mut schemas)?;
    }
    let own = files::root().join(OWN_SCHEMAS);
    read_schemas(&own, &mut schemas)?;
    let mut overlays = Vec::new();
    read_schemas(&own.join("overlays"), &mut overlays)?;
    for overlay in &overlays {
        schema::lay_over(overlay, &mut schemas)?;
    }
    let mut messages = Vec::new();
    for schema in &schemas {
        messages.extend(schema::parse(schema)?);
    }
    messages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(messages)
}

fn unpack(artifact: &str, folder: &Path, cache: &Path) -> Result<(), Failure> {
    files::run(
        Command::new("mvn")
            .args(["--batch-mode", "--quiet", "-Dstyle.color=never", UNPACK])
            .arg(format!("-Dartifact=org.apache.kafka:{artifact}:{KAFKA_VERSION}"))
            .arg("-Dmdep.unpack.includes=common/message/*.json")
            .arg("-DoverWriteReleases=true")
            .arg(format!("-DoutputDirectory={}", folder.display()))
            // Without a project, Maven leaves its marks in the current folder.
            .current_dir(cache),
    )
}

fn read_schemas(folder: &Path, schemas: &mut Vec<Value>) -> Result<(), Failure> {
    for path in files::list(folder, "json")? {
        let text = without_comments(&files::read(&path)?);
        let schema =
            serde_json::from_str(&text).map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
        schemas.push(schema);
    }
    Ok(())
}

/// Cuts each line at a `//` outside a string; the schemas have no other comments.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_string = false;
        let mut previous = ' ';
        let mut end = line.len();
        for (at, character) in line.char_indices() {
            if character == '"' && previous != '\\' {
                in_string = !in_string;
            }
            if character == '/' && previous == '/' && !in_string {
                end = at - 1;
                break;
            }
            previous = character;
        }
        kept.push_str(&line[..end]);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_end_lines_but_not_strings() {
        assert_eq!(without_comments("a // b\n"), "a \n");
        assert_eq!(without_comments("\"http://x\", // y"), "\"http://x\", \n");
        assert_eq!(without_comments("\"q\\\"// in\" // out"), "\"q\\\"// in\" \n");
    }
}
