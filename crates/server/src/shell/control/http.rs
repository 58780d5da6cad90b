//! The control endpoint: JSON over HTTP. `docs/openapi.yaml` describes it.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use serde_json::{Map, Value, json as object_of};
use sharemark_protocol::NodeId;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::warn;

use super::{ClockView, Control, ControlError, hold, json, release, render, view};
use super::{
    delete_faults, faults, install_fault, isolate_node, leaders, nodes, rejoin_node, requests,
    share_partition, transaction, transactions,
};
use crate::broker::NodeState;
use crate::shell::desk::Desk;

/// What a scraper is told the metrics are written in.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many requests are shown when nobody says.
const REQUESTS_SHOWN: usize = 20;

/// Serves the control endpoint until the server stops.
pub(in crate::shell) async fn serve(
    listener: TcpListener,
    control: Control,
    mut stopping: watch::Receiver<bool>,
) {
    let stopped = async move {
        // An error means that the server is gone.
        let _stopping = stopping.wait_for(|stopping| *stopping).await;
    };
    if let Err(error) = axum::serve(listener, router(control)).with_graceful_shutdown(stopped).await {
        warn!(%error, "the control endpoint has ended");
    }
}

/// Returns every route: its method, its path and its handler. `docs/openapi.yaml` describes each.
fn routes() -> Vec<(&'static str, &'static str, MethodRouter<Control>)> {
    vec![
        ("get", "/healthz", get(healthz)),
        ("get", "/metrics", get(metrics)),
        ("get", "/clock", get(clock)),
        ("post", "/clock/hold", post(hold_clock)),
        ("post", "/clock/advance", post(advance_clock)),
        ("post", "/clock/release", post(release_clock)),
        ("get", "/share-groups/{group}/{topic}/{partition}", get(show_share_partition)),
        ("get", "/transactions", get(show_transactions)),
        ("get", "/transactions/{id}", get(show_transaction)),
        ("get", "/nodes", get(show_nodes)),
        ("post", "/nodes/{id}/stop", post(stop_node)),
        ("post", "/nodes/{id}/start", post(start_node)),
        ("post", "/nodes/{id}/isolate", post(isolate)),
        ("post", "/nodes/{id}/rejoin", post(rejoin)),
        ("get", "/leaders", get(show_leaders)),
        ("get", "/requests", get(show_requests)),
        ("get", "/faults", get(show_faults)),
        ("post", "/faults", post(add_fault)),
        ("delete", "/faults", delete(remove_faults)),
        ("delete", "/faults/{id}", delete(remove_fault)),
    ]
}

fn router(control: Control) -> Router {
    let router = Router::new();
    routes()
        .into_iter()
        .fold(router, |router, (_, path, handler)| router.route(path, handler))
        .fallback(async || ControlError::NotFound("there is no such path".to_owned()))
        .method_not_allowed_fallback(async || {
            told(StatusCode::METHOD_NOT_ALLOWED, &object_of!({"error": "the path has no such method"}))
        })
        .with_state(control)
}

fn told(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

impl IntoResponse for ControlError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Ended => StatusCode::SERVICE_UNAVAILABLE,
        };
        told(status, &object_of!({"error": self.to_string()}))
    }
}

/// What a request brings; too long a body is refused.
type Body = Result<Bytes, BytesRejection>;

/// What a handler answers.
type Answer = Result<Response, ControlError>;

fn found(body: &Value) -> Answer {
    Ok(told(StatusCode::OK, body))
}

async fn healthz(State(control): State<Control>) -> Answer {
    control.call_from_task(|_| Ok(())).await?;
    found(&object_of!({"status": "ready"}))
}

async fn metrics(State(control): State<Control>) -> Answer {
    let nodes = control.call_from_task(|desk| Ok(desk.broker().metrics())).await?;
    let text = render(nodes, control.meters.clone()).map_err(|_| ControlError::Ended)?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}

async fn clock(State(control): State<Control>) -> Answer {
    clock_answer(control.call_from_task(view).await?)
}

async fn hold_clock(State(control): State<Control>) -> Answer {
    clock_answer(control.call_from_task(hold).await?)
}

async fn release_clock(State(control): State<Control>) -> Answer {
    clock_answer(control.call_from_task(release).await?)
}

async fn advance_clock(State(control): State<Control>, body: Body) -> Answer {
    let body = object(body, &["ms"])?;
    let ms = body.get("ms").and_then(Value::as_i64);
    let ms = ms.ok_or_else(|| ControlError::Invalid("ms must be a whole number".to_owned()))?;
    clock_answer(control.advance_clock_from_task(ms).await?)
}

fn clock_answer(clock: ClockView) -> Answer {
    found(&object_of!({"held": clock.is_held, "nowMs": clock.now_ms}))
}

async fn show_share_partition(
    State(control): State<Control>,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Answer {
    let Path((group, topic, partition)) = path.map_err(|error| ControlError::Invalid(error.body_text()))?;
    let partition = partition
        .parse()
        .map_err(|_| ControlError::Invalid(format!("{partition:?} is no number of a partition")))?;
    let verb = move |desk: &mut dyn Desk| share_partition(desk, &group, &topic, partition);
    found(&json::share_partition(&control.call_from_task(verb).await?))
}

async fn show_transactions(State(control): State<Control>) -> Answer {
    let all = control.call_from_task(transactions).await?;
    found(&Value::Array(all.iter().map(json::transaction).collect()))
}

async fn show_transaction(
    State(control): State<Control>,
    path: Result<Path<String>, PathRejection>,
) -> Answer {
    let Path(id) = path.map_err(|error| ControlError::Invalid(error.body_text()))?;
    let shown = control.call_from_task(move |desk: &mut dyn Desk| transaction(desk, &id)).await?;
    found(&json::transaction(&shown))
}

async fn show_nodes(State(control): State<Control>) -> Answer {
    let all = control.call_from_task(nodes).await?;
    let shown = all.iter().map(|(id, state)| {
        let (running, isolated) = (*state != NodeState::Stopped, *state == NodeState::Isolated);
        object_of!({"id": id.get(), "running": running, "isolated": isolated})
    });
    found(&Value::Array(shown.collect()))
}

async fn stop_node(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    control.clone().stop_node(node_id(&id)?).await?;
    show_nodes(State(control)).await
}

async fn start_node(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    control.clone().start_node(node_id(&id)?).await?;
    show_nodes(State(control)).await
}

async fn isolate(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let id = node_id(&id)?;
    control.call_from_task(move |desk: &mut dyn Desk| isolate_node(desk, id)).await?;
    show_nodes(State(control)).await
}

async fn rejoin(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let id = node_id(&id)?;
    control.call_from_task(move |desk: &mut dyn Desk| rejoin_node(desk, id)).await?;
    show_nodes(State(control)).await
}

fn node_id(id: &str) -> Result<NodeId, ControlError> {
    let id = id.parse().map_err(|_| ControlError::Invalid(format!("{id:?} is no id of a node")))?;
    Ok(NodeId::new(id))
}

async fn show_leaders(State(control): State<Control>) -> Answer {
    let all = control.call_from_task(leaders).await?;
    found(&Value::Array(all.iter().map(json::leader).collect()))
}

async fn show_requests(
    State(control): State<Control>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Answer {
    let Query(query) = query.map_err(|error| ControlError::Invalid(error.body_text()))?;
    let mut last = REQUESTS_SHOWN;
    for (name, value) in query {
        if name != "last" {
            return Err(ControlError::Invalid(format!("no parameter is called {name}")));
        }
        last = value.parse().map_err(|_| ControlError::Invalid(format!("{value:?} is no number")))?;
    }
    let all = control.call_from_task(move |desk: &mut dyn Desk| requests(desk, last)).await?;
    found(&Value::Array(all.iter().map(json::request).collect()))
}

async fn show_faults(State(control): State<Control>) -> Answer {
    let all = control.call_from_task(faults).await?;
    found(&Value::Array(all.iter().map(super::faults::shown).collect()))
}

async fn add_fault(State(control): State<Control>, body: Body) -> Answer {
    let fault = super::faults::read(&object(body, super::faults::FIELDS)?)?;
    let id = control.call_from_task(move |desk: &mut dyn Desk| install_fault(desk, fault)).await?;
    found(&object_of!({"id": id}))
}

async fn remove_faults(State(control): State<Control>) -> Answer {
    control.call_from_task(|desk: &mut dyn Desk| delete_faults(desk, None)).await?;
    found(&object_of!({}))
}

async fn remove_fault(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let id = id.parse().map_err(|_| ControlError::Invalid(format!("{id:?} is no number of a fault")))?;
    control.call_from_task(move |desk: &mut dyn Desk| delete_faults(desk, Some(id))).await?;
    found(&object_of!({}))
}

/// Reads a body that is an object with no other fields than `known`.
fn object(body: Body, known: &[&str]) -> Result<Map<String, Value>, ControlError> {
    let wrong = |problem: String| ControlError::Invalid(problem);
    let body = body.map_err(|error| wrong(error.body_text()))?;
    let value =
        serde_json::from_slice(&body).map_err(|error| wrong(format!("the body is no JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(wrong("the body is no object".to_owned()));
    };
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(wrong(format!("no field is called {name}"))),
        None => Ok(fields),
    }
}

#[cfg(test)]
mod tests;
