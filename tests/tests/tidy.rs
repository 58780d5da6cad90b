//! Looks at the source itself: lengths of files, words that must not stand in it, purity of the cores.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sharemark_testkit::process::workspace;

const LINES_MAX: usize = 500;
/// Product code that reads no clock, starts no thread and depends on no order of hashing.
const CORES: [&str; 6] = [
    "crates/protocol/src",
    "crates/log/src",
    "crates/share-coordinator/src",
    "crates/txn-coordinator/src",
    "crates/group-coordinator/src",
    "crates/server/src/broker",
];
/// Written so that this file does not hold them itself.
const BANNED: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimplemen", "ted!"),
    concat!("#[ig", "nore"),
    concat!("#[should", "_panic"),
    concat!("#[al", "low("),
];
const BANNED_IN_CORES: [&str; 8] =
    ["Instant::now", "SystemTime", "HashMap", "HashSet", "tokio", "std::thread", "std::net", "thread_rng"];

/// All Rust files below the folders, with their path from the workspace.
fn rust_files(folders: &[&str]) -> Vec<(String, String)> {
    let root = workspace();
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    assert!(!files.is_empty(), "there are files in {folders:?}");
    files
}

fn is_generated(name: &str) -> bool {
    name.contains("/generated/") || name.ends_with("/generated.rs")
}

fn is_test(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|file| file == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "benches")
}

/// The tests beside a file belong to its story.
fn is_unit_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/")
}

#[test]
fn files_are_short() {
    let long: Vec<String> = rust_files(&["crates", "xtask"])
        .into_iter()
        .filter(|(name, _)| !is_generated(name) && !is_test(name))
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| LINES_MAX < *lines)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "a file tells one story in at most {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    let mut found = Vec::new();
    for (name, text) in rust_files(&["crates", "xtask", "tests"]) {
        for (index, line) in text.lines().enumerate() {
            found.extend(
                BANNED
                    .iter()
                    .filter(|word| line.contains(**word))
                    .map(|word| format!("{name}:{}: {word}", index + 1)),
            );
        }
    }
    assert!(found.is_empty(), "words that must not stand in the source:\n{}", found.join("\n"));
}

#[test]
fn cores_are_pure() {
    let mut found = Vec::new();
    for (name, text) in rust_files(&CORES) {
        if is_test(&name) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            found.extend(
                BANNED_IN_CORES
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{name}:{}: {word}", index + 1)),
            );
        }
    }
    assert!(
        found.is_empty(),
        "a core reads no clock, starts no thread and hashes nothing:\n{}",
        found.join("\n")
    );
}

#[test]
fn modules_have_names() {
    let unnamed: Vec<String> = rust_files(&["crates", "xtask", "tests"])
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.ends_with("/mod.rs"))
        .collect();
    assert!(unnamed.is_empty(), "`name.rs` beside `name/`: {unnamed:?}");
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<String> = rust_files(&["crates", "xtask", "tests"])
        .into_iter()
        .filter(|(name, text)| !is_generated(name) && !is_unit_test(name) && !text.starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    assert!(silent.is_empty(), "a file starts with a line that says what it is about: {silent:?}");
}

/// Every page, with its path from the workspace.
fn pages() -> Vec<(String, String)> {
    let root = workspace();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let named = ["README.md", "ARCHITECTURE.md", "tests/README.md"].map(|name| root.join(name));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).unwrap())
    };
    pages.chain(named).map(read).collect()
}

#[test]
fn pages_name_what_is_there() {
    let is_of_a_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let sources = rust_files(&["crates", "xtask", "tests", "fuzz"]);
    let known: BTreeSet<&str> =
        sources.iter().flat_map(|(_, text)| text.split(|letter| !is_of_a_word(letter))).collect();
    let mut found = Vec::new();
    for (page, text) in pages() {
        // Names of tests have three words or more.
        let is_name = |word: &&str| word.chars().all(is_of_a_word) && 2 <= word.matches('_').count();
        let quoted = text.split('`').skip(1).step_by(2).filter(is_name);
        found.extend(quoted.filter(|word| !known.contains(word)).map(|word| format!("{page}: {word}")));
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let folder = workspace().join(&page).parent().unwrap().to_owned();
        let files = links.filter(|link| !link.is_empty() && !link.contains("://"));
        found.extend(files.filter(|link| !folder.join(link).exists()).map(|link| format!("{page}: {link}")));
    }
    assert!(found.is_empty(), "pages name what is not there:\n{}", found.join("\n"));
}

#[test]
fn every_test_target_is_described() {
    let page = std::fs::read_to_string(workspace().join("tests/README.md")).unwrap();
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(workspace().join("tests/tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    let missing: Vec<_> = targets
        .iter()
        .filter(|name| {
            !page.contains(&format!("--test {name}`")) && !page.contains(&format!("--test {name} "))
        })
        .collect();
    assert!(missing.is_empty(), "tests/README.md tells of each test target: {missing:?}");
}
