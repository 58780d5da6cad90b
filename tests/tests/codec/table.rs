//! The table of served APIs against the generated messages.

use std::fs;
use std::path::Path;

use sharemark_protocol::{APIS, Api, ApiKey, Listed};

use crate::vectors::codec;

#[test]
fn the_table_agrees_with_the_schemas() {
    for api in APIS {
        for suffix in ["Request", "Response"] {
            let codec = codec(&format!("{}{suffix}", api.name));
            assert_eq!(codec.api_key, api.key.to_wire(), "{}", codec.name);
            assert_eq!(*codec.versions_valid.start(), api.served_min, "{}", codec.name);
            assert!(api.announced_max <= *codec.versions_valid.end(), "{}", codec.name);
            assert_eq!(codec.first_flexible, api.first_flexible, "{}", codec.name);
        }
        assert_eq!(ApiKey::from_wire(api.key.to_wire()), Some(api.key));
        assert_eq!(api.key.api(), api);
        assert!(api.announced_min <= api.served_min, "{}", api.name);
    }
    assert!(APIS.is_sorted_by_key(|api| api.key), "ApiVersions lists keys in ascending order");
}

/// `docs/protocol.md` says of every request of Kafka's brokers whether it is served, and in which versions.
#[test]
fn the_page_on_the_protocol_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/protocol.md");
    let page = fs::read_to_string(path).expect("the page is part of the repository");
    let (_, part) = page.split_once("<!-- begin served").unwrap();
    let (table, rest) = part.split_once("<!-- end served -->").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.get(1).is_some_and(|key| key.parse::<i16>().is_ok()))
        .collect();
    assert_eq!(rows.len(), APIS.len(), "run `cargo xtask docs`");
    for (row, api) in rows.iter().zip(APIS) {
        let listed = format!("{}-{}", api.announced_min, api.announced_max);
        let served = format!("{}-{}", api.served_min, api.announced_max);
        let wanted = [&api.key.to_wire().to_string(), api.name, &listed, &served];
        assert_eq!(row[1..5], wanted, "run `cargo xtask docs`");
        assert_eq!(!row[6].is_empty(), api.listed != Listed::Always, "run `cargo xtask docs`");
    }
    let (_, part) = rest.split_once("<!-- begin unserved").unwrap();
    let (unserved, _) = part.split_once("<!-- end unserved -->").unwrap();
    let unserved_count = unserved.matches('(').count();
    let is_kafkas = |api: &&Api| api.key < ApiKey::TxnShareAcknowledge;
    assert_eq!(unserved_count + APIS.iter().filter(is_kafkas).count(), 77, "a Kafka broker lists 77");
    for api in APIS {
        assert!(!unserved.contains(&format!(" {} ({})", api.name, api.key.to_wire())), "{}", api.name);
    }
}
