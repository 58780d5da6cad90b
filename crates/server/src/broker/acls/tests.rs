//! Which rules a filter means.

use super::*;

fn acl(name: &str, pattern_type: i8, principal: &str) -> Acl {
    Acl {
        resource_type: 2,
        resource_name: name.into(),
        pattern_type,
        principal: principal.into(),
        host: "*".into(),
        operation: 3,
        permission: 3,
    }
}

const EVERYTHING: AclFilter<'_> = AclFilter {
    resource_type: ANY,
    resource_name: None,
    pattern_type: ANY,
    principal: None,
    host: None,
    operation: ANY,
    permission: ANY,
};

#[test]
fn patterns_are_matched_as_they_are_meant() {
    let mut acls = Acls::default();
    for kept in [
        acl("tango", pattern::LITERAL, "User:literal"),
        acl("t", pattern::PREFIXED, "User:prefixed"),
        acl(WILDCARD, pattern::LITERAL, "User:all"),
        acl("waltz", pattern::LITERAL, "User:other"),
    ] {
        assert_eq!(acls.decide_create(&kept), Ok(()));
        acls.replay_create(kept);
    }
    let cases: &[(Option<&str>, i8, &[&str])] = &[
        (None, ANY, &["User:all", "User:literal", "User:other", "User:prefixed"]),
        (None, pattern::PREFIXED, &["User:prefixed"]),
        (Some("tango"), pattern::MATCH, &["User:all", "User:literal", "User:prefixed"]),
        (Some("tango"), pattern::LITERAL, &["User:literal"]),
        (Some("tango"), pattern::PREFIXED, &[]),
        (Some("t"), ANY, &["User:prefixed"]),
        (Some("t"), 77, &[]),
    ];
    for (resource_name, pattern_type, wanted) in cases {
        let filter = AclFilter { resource_name: *resource_name, pattern_type: *pattern_type, ..EVERYTHING };
        let mut found: Vec<_> = acls.matching(&filter).iter().map(|acl| acl.principal.to_string()).collect();
        found.sort();
        assert_eq!(found, *wanted, "{resource_name:?} {pattern_type}");
    }
}

#[test]
fn unknown_values_match_nothing_and_are_named() {
    let malformed = [
        AclFilter { resource_type: UNKNOWN, ..EVERYTHING },
        AclFilter { pattern_type: UNKNOWN, ..EVERYTHING },
        AclFilter { operation: UNKNOWN, ..EVERYTHING },
        AclFilter { permission: UNKNOWN, ..EVERYTHING },
    ];
    assert!(malformed.iter().all(AclFilter::is_malformed));
    assert!(!EVERYTHING.is_malformed());
    let odd = AclFilter { operation: 77, ..EVERYTHING };
    assert_eq!(odd.unknown_part(), Some("Unknown entryFilter."));
    assert_eq!(AclFilter { resource_type: 77, ..EVERYTHING }.unknown_part(), Some("Unknown patternFilter."));
    assert_eq!(EVERYTHING.unknown_part(), None);
}
