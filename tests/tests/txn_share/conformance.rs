//! The tables of `docs/conformance.md` name tests; they must be there.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sharemark_testkit::process::workspace;

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

/// The words between backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The transcripts of transactional acknowledgements, without their ending.
fn transcripts() -> BTreeSet<String> {
    let files = std::fs::read_dir(workspace().join("tests/transcripts")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter_map(|name| Some(name.strip_suffix(".txt")?.to_owned()))
        .filter(|name| name.starts_with("txn-share-"))
        .collect()
}

#[test]
fn each_transcript_stands_in_the_tables_and_no_other_does() {
    let text = read("docs/conformance.md");
    let named: BTreeSet<String> = quoted(&text)
        .into_iter()
        .filter(|word| word.starts_with("txn-share-") && !word.contains("..."))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, transcripts());
}

#[test]
fn each_test_that_the_tables_name_is_there() {
    let text = read("docs/conformance.md");
    let names: Vec<&str> = quoted(&text)
        .into_iter()
        .filter(|word| {
            3 <= word.matches('_').count()
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
        .collect();
    assert!(10 < names.len(), "the tables name tests");
    let mut left: Vec<PathBuf> = ["crates", "tests"].map(|folder| workspace().join(folder)).into();
    let mut sources = String::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources += &std::fs::read_to_string(&path).unwrap();
        }
    }
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "there is a test `{name}`");
    }
}
