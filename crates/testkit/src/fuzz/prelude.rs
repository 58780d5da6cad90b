//! What a run of frames can start with, so that one frame reaches far into the broker.

use std::sync::OnceLock;

use super::recorder::record;

/// Two topics, records under a lock, a transaction with output and with staged acknowledgements.
const COMMANDS: &[&str] = &[
    "create-topic t",
    "create-topic out",
    "group-config g share.auto.offset.reset=earliest",
    "join member=A topics=t",
    "produce t-0 count=8",
    "share-fetch member=A",
    "share-acknowledge member=A t-0 accept 0 release 5",
    "init-producer p1 txn=x",
    "produce out-0 producer=p1",
    "txn-share-acknowledge producer=p1 member=A t-0 accept 2-3",
];

/// Returns the events of the prelude.
pub fn prelude() -> &'static [u8] {
    static EVENTS: OnceLock<Vec<u8>> = OnceLock::new();
    EVENTS.get_or_init(|| {
        let commands = COMMANDS.iter().copied();
        let (events, outcome) = record(commands);
        assert!(outcome.iter().all(|text| text.contains("NONE")), "the prelude succeeds: {outcome:?}");
        events.into_bytes()
    })
}
