//! What a fresh Kafka needs before its answers say anything: coordinators that are loaded, connections made.

use sharemark_protocol::messages as m;

use m::find_coordinator_request::FindCoordinatorRequest;
use m::share_group_heartbeat_request::ShareGroupHeartbeatRequest;

use super::arguments::CommandError;
use super::session::Session;

/// Looks for a coordinator of each kind, as every client does first: that makes the internal topics.
///
/// # Errors
///
/// If one is never found.
pub fn find_coordinators(session: &mut Session<'_>) -> Result<(), CommandError> {
    for (key_type, key) in [(0, "warm"), (1, "warm"), (2, "warm:AAAAAAAAAAAAAAAAAAAAAQ:0")] {
        let request = FindCoordinatorRequest {
            key_type,
            coordinator_keys: vec![key.into()],
            ..FindCoordinatorRequest::default()
        };
        // Who asks first may be told that there is none yet.
        session.call(&request, 6)?;
        session.settle_until("coordinators", |session| {
            let answer = session.call(&request, 6)?;
            Ok(answer.coordinators.iter().all(|coordinator| coordinator.error_code == 0))
        })?;
    }
    Ok(())
}

/// Makes a Kafka ready for transcripts. Its names must be of a run of their own.
///
/// # Errors
///
/// If it never becomes ready.
pub fn warm_up(session: &mut Session<'_>) -> Result<(), CommandError> {
    find_coordinators(session)?;
    let heartbeat = ShareGroupHeartbeatRequest {
        group_id: "warm".into(),
        member_id: "warm".into(),
        member_epoch: -1,
        ..ShareGroupHeartbeatRequest::default()
    };
    session.settle_until("group coordinator", |session| {
        Ok(!matches!(session.call(&heartbeat, 1)?.error_code, 14..=16))
    })?;
    session.run("create-topic warm")?;
    session.settle_until("transactions", |session| {
        if !session.run("init-producer p txn=warm")?.starts_with("NONE") {
            return Ok(false);
        }
        let produced = session.run("produce warm-0 producer=p")?;
        let ended = session.run("end-txn p commit")?;
        Ok(produced.contains("NONE") && ended.contains("NONE"))
    })?;
    session.run("group-config warm share.auto.offset.reset=earliest")?;
    session.settle_until("share groups", |session| {
        session.run("join group=warm member=W topics=warm")?;
        let fetched = session.run("share-fetch group=warm member=W epoch=0")?;
        session.run("share-fetch group=warm member=W epoch=-1")?;
        Ok(fetched.contains("acquired"))
    })
}
