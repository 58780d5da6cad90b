//! The examples of `docs/openapi.yaml`: a running server takes each body, and answers in the form of each answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sharemark::Server;

use crate::support::{ask, builder, run, server, told, with_session};

/// Every call but that for metrics, which answers no JSON, in an order in which each succeeds: the method, the path as
/// it is described, and what is asked for. The last ones need more than one node.
const CALLS: [(&str, &str, &str); 19] = [
    ("get", "/healthz", "/healthz"),
    ("get", "/share-groups/{group}/{topic}/{partition}", "/share-groups/g/t/0"),
    ("get", "/transactions", "/transactions"),
    ("get", "/transactions/{id}", "/transactions/x"),
    ("get", "/leaders", "/leaders"),
    ("get", "/requests", "/requests?last=3"),
    ("post", "/faults", "/faults"),
    ("get", "/faults", "/faults"),
    ("delete", "/faults/{id}", "/faults/1"),
    ("delete", "/faults", "/faults"),
    ("post", "/clock/hold", "/clock/hold"),
    ("post", "/clock/advance", "/clock/advance"),
    ("get", "/clock", "/clock"),
    ("post", "/clock/release", "/clock/release"),
    ("get", "/nodes", "/nodes"),
    ("post", "/nodes/{id}/stop", "/nodes/1/stop"),
    ("post", "/nodes/{id}/start", "/nodes/1/start"),
    ("post", "/nodes/{id}/isolate", "/nodes/1/isolate"),
    ("post", "/nodes/{id}/rejoin", "/nodes/1/rejoin"),
];

/// Where an example stands: a path with a method, or `responses` with a name; and whether it is of a body to be sent.
type Place = (String, String, bool);

/// What the description shows.
#[derive(Default)]
struct Described {
    examples: BTreeMap<Place, Value>,
    /// The names of answers that several operations have in common, by path and method.
    shared: BTreeMap<(String, String), String>,
}

impl Described {
    fn read() -> Self {
        let path = sharemark_testkit::process::workspace().join("docs/openapi.yaml");
        let text = std::fs::read_to_string(path).unwrap();
        let mut found = Self::default();
        let (mut section, mut name, mut is_body) = (String::new(), String::new(), false);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let word = line.trim_start();
            let key = || word.trim_end_matches(':').to_owned();
            match line.len() - word.len() {
                2 => section = key(),
                4 => (name, is_body) = (key(), false),
                6 => is_body = word == "requestBody:",
                _ => {}
            }
            if let Some(shared) = word.strip_prefix("\"200\": {$ref: \"#/components/responses/") {
                let shared = shared.trim_end_matches("\"}").to_owned();
                found.shared.insert((section.clone(), name.clone()), shared);
            } else if let Some(begin) = word.strip_prefix("example:") {
                let mut json = begin.to_owned();
                let value = loop {
                    match serde_json::from_str(&json) {
                        Ok(value) => break value,
                        Err(_) => json += lines.next().unwrap(), // An example is JSON to its end.
                    }
                };
                found.examples.insert((section.clone(), name.clone(), is_body), value);
            }
        }
        found
    }

    fn body(&self, method: &str, path: &str) -> Option<&Value> {
        self.examples.get(&(path.to_owned(), method.to_owned(), true))
    }

    fn answer(&self, method: &str, path: &str) -> &Value {
        let shared = self.shared.get(&(path.to_owned(), method.to_owned()));
        let place = match shared {
            Some(name) => ("responses".to_owned(), name.clone(), false),
            None => (path.to_owned(), method.to_owned(), false),
        };
        self.examples.get(&place).unwrap_or_else(|| panic!("{method} {path} has an example"))
    }
}

/// Returns whether an answer has the form of an example: the same fields, and something like each element.
fn is_alike(example: &Value, answer: &Value) -> bool {
    match (example, answer) {
        (Value::Object(example), Value::Object(answer)) => {
            let fields = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
            fields(example) == fields(answer)
                && example.iter().all(|(name, value)| is_alike(value, &answer[name]))
        }
        (Value::Array(example), Value::Array(answer)) => {
            example.iter().all(|element| answer.iter().any(|other| is_alike(element, other)))
        }
        (_, Value::Null) => true,
        _ => std::mem::discriminant(example) == std::mem::discriminant(answer),
    }
}

fn compare(described: &Described, server: &Server, (method, path, concrete): (&str, &str, &str)) {
    let body = described.body(method, path).map_or_else(String::new, Value::to_string);
    let answer = told(server, &method.to_uppercase(), concrete, &body);
    let example = described.answer(method, path);
    assert!(
        is_alike(example, &answer),
        "{method} {path}\n  is described as {example}\n  and answers  {answer}"
    );
}

#[test]
fn examples_are_taken_and_answered_so() {
    let described = Described::read();
    let (one_node, nodes) = CALLS.split_at(14);
    let server = server();
    let (status, refused) = ask(&server, "POST", "/clock/advance", r#"{"ms": 1}"#);
    let wrong = &described.examples[&("responses".to_owned(), "Error".to_owned(), false)];
    assert_eq!((status, &refused), (409, wrong));
    with_session(&server, |session| {
        run(session, "create-topic t");
        run(session, "group-config g share.auto.offset.reset=earliest");
        run(session, "join member=A topics=t");
        run(session, "produce t-0 count=3");
        run(session, "init-producer p1 txn=x");
        run(session, "share-fetch member=A epoch=0 t-0");
        let staged = run(session, "txn-share-acknowledge producer=p1 member=A t-0 accept 0-1");
        assert!(staged.contains("NONE"), "{staged}");
        one_node.iter().for_each(|call| compare(&described, &server, *call));
    });
    let server = builder().config(|config| config.brokers(2)).start().unwrap();
    nodes.iter().for_each(|call| compare(&described, &server, *call));
}

#[test]
fn every_path_has_its_example() {
    let described = Described::read();
    let is_path = |(section, _, _): &&Place| section.starts_with('/');
    let with_own = described.examples.keys().filter(is_path).map(|(path, method, _)| (path, method));
    let found: BTreeSet<_> =
        with_own.chain(described.shared.keys().map(|(path, method)| (path, method))).collect();
    let called: BTreeSet<(String, String)> =
        CALLS.iter().map(|(method, path, _)| ((*path).to_owned(), (*method).to_owned())).collect();
    assert_eq!(found, called.iter().map(|(path, method)| (path, method)).collect());
}
