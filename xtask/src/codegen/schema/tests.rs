use serde_json::json;

use super::{Versions, lay_over, parse, snake_case};

#[test]
fn names_become_snake_case() {
    assert_eq!(snake_case("MaxWaitMs"), "max_wait_ms");
    assert_eq!(snake_case("timeoutMs"), "timeout_ms");
    assert_eq!(snake_case("ISRNodes"), "isr_nodes");
    assert_eq!(snake_case("Type"), "r#type");
}

#[test]
fn versions_have_four_forms() {
    assert!(Versions::parse("none").unwrap().is_empty());
    assert_eq!(Versions::parse("3").unwrap(), Versions { first: 3, last: 3 });
    assert_eq!(Versions::parse("3-5").unwrap(), Versions { first: 3, last: 5 });
    assert_eq!(Versions::parse("3+").unwrap().first, 3);
    assert!(Versions::parse("x").is_err());
}

#[test]
fn fields_of_no_valid_version_are_left_out_and_overlays_added() {
    let mut schemas = [json!({
        "name": "M", "validVersions": "1-2", "flexibleVersions": "2+",
        "fields": [
            { "name": "Gone", "type": "int32", "versions": "0" },
            { "name": "Batches", "type": "[]B", "versions": "0+", "fields": [
                { "name": "First", "type": "int64", "versions": "0+" }
            ]}
        ]
    })];
    let overlay = json!({
        "messages": ["M"], "validVersions": "1-3", "struct": "B",
        "fields": [{ "name": "Added", "type": "int8", "versions": "3+", "default": -1 }]
    });
    lay_over(&overlay, &mut schemas).unwrap();
    let message = parse(&schemas[0]).unwrap().unwrap();
    assert_eq!(message.valid, Versions { first: 1, last: 3 });
    assert_eq!(message.first_flexible, Some(2));
    assert_eq!(message.structs[0].fields.len(), 1);
    let added = &message.structs[1].fields[1];
    assert_eq!(added.name, "added");
    assert_eq!(added.versions, Versions { first: 3, last: 3 });
}
