//! What is looked at, as JSON.

use serde_json::{Map, Value, json};

use crate::broker::{LeaderView, RecordsView, SharePartitionView, TransactionInspection};
use crate::shell::requests::RequestView;

/// Returns a share partition as JSON.
pub(super) fn share_partition(view: &SharePartitionView) -> Value {
    json!({
        "node": view.node.get(),
        "loaded": view.is_loaded,
        "leaderEpoch": view.leader_epoch.get(),
        "stateEpoch": view.state_epoch.get(),
        "startOffset": view.start_offset,
        "endOffset": view.end_offset,
        "deliveryCompleteCount": view.delivery_complete_count,
        "records": view.records.iter().map(records).collect::<Vec<_>>(),
    })
}

fn records(run: &RecordsView) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("first", run.range.first().get().into());
    put("last", run.range.last().get().into());
    put("state", run.state.name().into());
    put("deliveryCount", run.delivery_count.into());
    if run.in_transition {
        put("inTransition", true.into());
    }
    if let Some(member) = &run.member {
        put("member", member.as_str().into());
    }
    if let Some(ms) = run.lock_ms_left {
        put("lockMsLeft", ms.into());
    }
    if let Some(staged) = run.staged {
        put("producerId", staged.producer.id.get().into());
        put("producerEpoch", staged.producer.epoch.get().into());
        put("stagedState", staged.state.name().into());
    }
    Value::Object(shown)
}

/// Returns a transaction as JSON.
pub(super) fn transaction(shown: &TransactionInspection) -> Value {
    let view = &shown.view;
    let partitions = view.partitions.iter().map(|it| json!({"topic": &*it.topic, "partition": it.partition}));
    json!({
        "transactionalId": &*shown.transactional_id,
        "node": shown.node.get(),
        "state": view.state.name(),
        "producerId": view.producer.id.get(),
        "producerEpoch": view.producer.epoch.get(),
        "partitions": partitions.collect::<Vec<_>>(),
        "ageMs": shown.age_ms,
        "timeoutMs": view.timeout_ms,
    })
}

/// Returns the leader of a partition as JSON.
pub(super) fn leader(view: &LeaderView) -> Value {
    json!({
        "topic": &*view.topic,
        "partition": view.partition,
        "node": view.leader.get(),
        "leaderEpoch": view.leader_epoch.get(),
        "replicas": view.replicas.iter().map(|node| node.get()).collect::<Vec<_>>(),
    })
}

/// Returns a request with its answer as JSON.
pub(super) fn request(view: &RequestView) -> Value {
    json!({
        "number": view.number,
        "node": view.node.get(),
        "connection": view.connection,
        "clientId": view.client_id,
        "api": view.api.api().name,
        "version": view.version,
        "request": view.request,
        "answer": view.answer,
    })
}
