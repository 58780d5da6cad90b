use serde_json::json;

use crate::support::{ask, server, told};

#[test]
fn it_is_healthy_once_it_is_ready() {
    let server = server();
    assert_eq!(told(&server, "GET", "/healthz", ""), json!({"status": "ready"}));
}

#[test]
fn what_is_wrong_is_told_in_json() {
    let server = server();
    let too_long = " ".repeat((2 << 20) + 1);
    for (method, path, body, status) in [
        ("POST", "/clock/advance", &*too_long, 400),
        ("GET", "/nowhere", "", 404),
        ("POST", "/healthz", "", 405),
        ("GET", "/clock/hold", "", 405),
        ("POST", "/clock/advance", "", 400),
        ("POST", "/clock/advance", "[]", 400),
        ("POST", "/clock/advance", "{}", 400),
        ("POST", "/clock/advance", r#"{"ms": "1"}"#, 400),
        ("POST", "/clock/advance", r#"{"ms": -1}"#, 400),
        ("POST", "/clock/advance", r#"{"ms": 1, "s": 2}"#, 400),
        ("POST", "/clock/advance", r#"{"ms": 99999999999999}"#, 400),
        // The clock runs.
        ("POST", "/clock/advance", r#"{"ms": 1}"#, 409),
    ] {
        let (told, answer) = ask(&server, method, path, body);
        assert_eq!(told, status, "{method} {path} {}: {answer}", body.trim());
        assert!(answer["error"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}: {answer}");
    }
}

#[test]
fn an_embedded_server_has_none_unless_asked() {
    let server = sharemark::Server::builder().start().unwrap();
    assert_eq!(server.control_address(), None);
    assert!(server.metrics().unwrap().ends_with("# EOF\n"), "its verbs are there all the same");
}
