//! Writes what `docs/conformance.md` says of Kafka's own tests from the list that the test compares with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Failure;
use crate::files;

const LIST: &str = "tests/conformance/methods.tsv";
const PASSED: &str = "passed";

/// The methods of one class, by what became of them.
type Class<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns a table of the classes and, below it, every method by name.
pub(crate) fn tables() -> Result<String, Failure> {
    let list = files::read(&files::root().join(LIST))?;
    let mut classes: BTreeMap<&str, Class<'_>> = BTreeMap::new();
    for line in list.lines() {
        let parts = line.split_once('\t').and_then(|(name, outcome)| Some((name.rsplit_once('.')?, outcome)));
        let ((class, method), outcome) = parts.ok_or_else(|| format!("{LIST}: what is {line:?}?"))?;
        classes.entry(class).or_default().entry(outcome).or_default().push(method);
    }
    let mut text = String::new();
    let all = list.lines().count();
    let passed: usize = classes.values().map(|class| class.get(PASSED).map_or(0, Vec::len)).sum();
    let _ = writeln!(text, "{passed} of {all} methods in {} classes pass.\n", classes.len());
    text.push_str("| class | passed | the others need |\n| --- | --- | --- |\n");
    for (name, class) in &classes {
        let methods: usize = class.values().map(Vec::len).sum();
        let passed = class.get(PASSED).map_or(0, Vec::len);
        let others: Vec<String> = class
            .iter()
            .filter(|(outcome, _)| **outcome != PASSED)
            .map(|(reason, methods)| format!("{reason}: {}", methods.len()))
            .collect();
        let _ = writeln!(text, "| `{name}` | {passed} of {methods} | {} |", others.join("; "));
    }
    for (name, class) in &classes {
        let _ = writeln!(text, "\n`{name}`\n");
        for (outcome, methods) in class {
            let _ = writeln!(text, "- {outcome}: {}", methods.join(", "));
        }
    }
    Ok(text)
}
