//! The table of served APIs against the generated messages.

use sharemark_protocol::{APIS, ApiKey};

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
