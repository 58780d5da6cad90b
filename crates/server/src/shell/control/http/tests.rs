use std::collections::BTreeSet;

use super::*;

const OPENAPI: &str = include_str!("../../../../../../docs/openapi.yaml");

/// Returns the methods and paths that the description lists.
fn described() -> BTreeSet<(String, String)> {
    let paths = OPENAPI.split_once("\npaths:\n").unwrap().1;
    let paths = paths.split_once("\ncomponents:\n").unwrap().0;
    let mut found = BTreeSet::new();
    let mut path = "";
    for line in paths.lines() {
        if let Some(named) = line.strip_prefix("  /") {
            path = named.trim_end_matches(':');
        } else if let Some(method) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) {
            found.insert((method.trim_end_matches(':').to_owned(), format!("/{path}")));
        }
    }
    found
}

#[test]
fn the_description_names_every_route_and_no_other() {
    let built: BTreeSet<(String, String)> =
        routes().into_iter().map(|(method, path, _)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(built, described());
}

#[test]
fn the_description_names_every_point_and_field_of_a_fault() {
    for (_, name) in crate::broker::FaultPoint::ALL {
        assert!(OPENAPI.contains(&format!("            - {name}\n")), "{name}");
    }
    for field in super::super::faults::FIELDS {
        assert!(
            OPENAPI.contains(&format!("        {field}: "))
                || OPENAPI.contains(&format!("        {field}:\n")),
            "{field}"
        );
    }
}
