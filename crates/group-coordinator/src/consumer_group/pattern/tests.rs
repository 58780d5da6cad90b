use super::*;

fn is_match(pattern: &str, name: &str) -> bool {
    TopicPattern::compile(pattern).unwrap().is_match(name)
}

#[test]
fn a_pattern_matches_the_whole_name() {
    assert!(is_match("foo.*", "foo-bar"));
    assert!(!is_match("foo", "foo-bar"));
    assert!(!is_match("bar", "foo-bar"));
    assert!(is_match("foo|bar", "bar"));
    assert!(!is_match("foo|bar", "foobar"));
    assert!(is_match("^foo$", "foo"));
    assert!(is_match("(?i)FOO", "foo"));
    assert!(is_match("", ""));
}

#[test]
fn what_is_special_elsewhere_is_plain_here() {
    assert!(is_match("\\Qa.b\\E.*", "a.bc"));
    assert!(!is_match("\\Qa.b\\E", "axb"));
    assert!(is_match("\\Qa.b", "a.b"));
    assert!(is_match("a{,2}", "a{,2}"));
    assert!(is_match("a{2}", "aa"));
    assert!(is_match("a{2,}", "aaaa"));
    assert!(is_match("[a&&b]", "b"));
    assert!(is_match("[]a]+", "]a"));
    assert!(is_match("[[a]+", "[a"));
    assert!(is_match("[[:digit:]x]+", "1x2"));
    assert!(is_match("[^[:digit:]]", "x"));
    assert!(is_match("a*?b", "aab"));
}

#[test]
fn what_is_no_pattern_is_refused() {
    for bad in [
        "[", "(", ")", "a)|(b", "*", "a**", "a*+", "a{2}{3}", "\\", "a\\", "[a", "(?=a)", "\\1", "[z-a]",
        "(?<",
    ] {
        assert!(TopicPattern::compile(bad).is_none(), "{bad}");
    }
}

#[test]
fn counts_go_to_a_thousand() {
    for allowed in ["x{1000}", "x{0,1000}", "x{1000,}", "1001", "[{1001}]", "\\Qx{1001}\\E"] {
        assert!(TopicPattern::compile(allowed).is_some(), "{allowed}");
    }
    for refused in ["x{1001}", "x{0,1001}", "x{1001,}", "x{99999999999999999999}"] {
        assert!(TopicPattern::compile(refused).is_none(), "{refused}");
    }
}
