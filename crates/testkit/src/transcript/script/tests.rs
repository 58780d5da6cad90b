use super::*;
use crate::transcript::{CoreTarget, Names, Session, difference, run};
use sharemark::config::BrokerConfig;

const START_MS: i64 = 1_900_000_000_000;

const TEXT: &str = "\
# recorded from Kafka 4.4.0
# A topic and a record.

create-topic t
produce t-0
----
NONE
t-0 NONE base_offset=0

# It can be read.
fetch t-0
----
t-0 NONE high_watermark=1 last_stable_offset=1 log_start=0
0 v0
---- sharemark: test-broker default: never so
other

";

fn run_on_core(text: &str) -> Option<String> {
    let config = BrokerConfig::builder().listen("127.0.0.1:9092").build(&mut Vec::new()).unwrap();
    let mut target = CoreTarget::new(config, START_MS);
    let script = Script::parse(text).unwrap();
    let outcome = run(&script, &mut Session::new(&mut target, Names::new(String::new(), START_MS))).unwrap();
    difference(&script, &outcome)
}

#[test]
fn a_script_is_written_as_it_was_read() {
    let script = Script::parse(TEXT).unwrap();
    assert_eq!(script.origin, Some(Origin::Kafka));
    assert_eq!(script.commands().count(), 3);
    assert_eq!(script.to_string(), TEXT);
}

#[test]
fn what_is_no_script_is_refused() {
    for (text, line) in [
        ("create-topic t\n", 1),
        ("create-topic t\n\n----\nNONE\n", 2),
        ("create-topic t\n# a comment\n----\nNONE\n", 2),
        ("create-topic t\n----\nNONE\n---- sharemark: no such class\nNONE\n", 4),
    ] {
        assert_eq!(Script::parse(text).map_err(|error| error.0), Err(line), "{text}");
    }
}

/// A transcript that nothing can fail would judge nothing.
#[test]
fn what_differs_is_told() {
    let sharemark = "---- sharemark: test-broker default: never so\nother\n";
    assert_eq!(run_on_core(&TEXT.replace(sharemark, "")), None);
    let told = run_on_core(TEXT).expect("Sharemark's own answer is compared");
    assert!(told.contains("fetch t-0") && told.contains("other"), "{told}");
    let told = run_on_core(&TEXT.replace(sharemark, "").replace("base_offset=0", "base_offset=1"));
    assert!(told.is_some_and(|told| told.contains("produce t-0")));
}

#[test]
fn a_command_that_makes_no_sense_is_an_error() {
    let config = BrokerConfig::builder().listen("127.0.0.1:9092").build(&mut Vec::new()).unwrap();
    let mut target = CoreTarget::new(config, START_MS);
    let mut session = Session::new(&mut target, Names::new(String::new(), START_MS));
    for command in ["no-such-command", "create-topic", "fetch t", "fetch t-0 nonsense", "share-fetch ack 0-3"]
    {
        assert!(session.run(command).is_err(), "{command}");
    }
}
