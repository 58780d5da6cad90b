//! `docs/cases.md` names tests and transcripts; they must be there, and none of ours may be missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use sharemark_testkit::process::workspace;

/// The words between backticks in one column of the table.
fn named(column: usize) -> BTreeSet<String> {
    let page = std::fs::read_to_string(workspace().join("docs/cases.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| B"));
    let cells = rows.filter_map(|row| row.split('|').nth(column));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn transcripts() -> BTreeSet<String> {
    let files = std::fs::read_dir(workspace().join("tests/transcripts")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
    names.filter_map(|name| Some(name.strip_suffix(".txt")?.to_owned())).collect()
}

/// The names of all functions that have no type parameters.
fn functions(folders: &[&str]) -> BTreeSet<String> {
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| workspace().join(folder)).collect();
    let mut names = BTreeSet::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let starts = source.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            names.extend(starts.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
    names
}

#[test]
fn the_page_on_cases_names_what_is_there() {
    let (transcripts, functions) = (transcripts(), functions(&["crates", "tests/tests"]));
    let (shown, waiting) = (named(3), named(4));
    let missing: Vec<_> = shown
        .iter()
        .chain(&waiting)
        .filter(|name| !transcripts.contains(*name) && !functions.contains(*name))
        .collect();
    assert!(missing.is_empty(), "neither transcripts nor tests: {missing:?}");
    let own = transcripts.iter().filter(|name| name.starts_with("case-"));
    let is_case = |name: &&String| {
        let number = name.strip_prefix('b').and_then(|rest| rest.get(..3));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let tests = self::functions(&["tests/tests/cases"]);
    let unnamed: Vec<_> =
        own.chain(tests.iter().filter(is_case)).filter(|name| !shown.contains(*name)).collect();
    assert!(unnamed.is_empty(), "not on the page: {unnamed:?}");
}
