//! The verbs of faults, and how a fault reads as JSON.

use serde_json::{Map, Value, json};
use sharemark_protocol::{APIS, ApiKey, ErrorCode, NodeId};

use super::ControlError;
use crate::broker::{Command, Fault, FaultAction, FaultPoint, FaultProblem, FaultView};
use crate::shell::desk::Desk;

/// The fields of a fault.
pub(super) const FIELDS: &[&str] = &[
    "at",
    "apis",
    "from",
    "to",
    "node",
    "topic",
    "partition",
    "group",
    "transactionalId",
    "action",
    "error",
    "delayMs",
    "count",
];

/// Why an action cannot be done at a point.
const NOT_THERE: &str = "an append can only be refused (error), and an answer not be repeated";

/// The actions.
const ACTIONS: &str = "error, hold, drop, repeat, disconnect, delay";

impl From<FaultProblem> for ControlError {
    fn from(problem: FaultProblem) -> Self {
        match problem {
            FaultProblem::Unknown => Self::NotFound("there is no such fault".to_owned()),
            FaultProblem::TooMany => Self::Conflict("there are too many faults".to_owned()),
            FaultProblem::NotThere => Self::Invalid(NOT_THERE.to_owned()),
        }
    }
}

/// Installs a fault.
pub(in crate::shell) fn install_fault(desk: &mut dyn Desk, fault: Fault) -> Result<u64, ControlError> {
    let id = desk.command(Command::InstallFault(Box::new(fault)))?;
    Ok(id.unwrap_or_default())
}

/// Shows the faults.
pub(in crate::shell) fn faults(desk: &mut dyn Desk) -> Result<Vec<FaultView>, ControlError> {
    Ok(desk.broker().inspect_faults())
}

/// Deletes one fault, or all.
pub(in crate::shell) fn delete_faults(desk: &mut dyn Desk, id: Option<u64>) -> Result<(), ControlError> {
    desk.command(id.map_or(Command::DeleteFaults, Command::DeleteFault))?;
    Ok(())
}

/// Reads a fault.
pub(super) fn read(fields: &Map<String, Value>) -> Result<Fault, ControlError> {
    let reader = Reader { fields };
    let at = reader.text("at")?.ok_or_else(|| wrong("at is missing"))?;
    let at = FaultPoint::from_name(&at).ok_or_else(|| unknown_point(&at))?;
    let mut fault = Fault::new(at, reader.action()?);
    fault.apis = reader.apis()?;
    fault.from = reader.node("from")?;
    fault.to = reader.node("to")?;
    fault.node = reader.node("node")?;
    fault.topic = reader.text("topic")?;
    fault.partition = reader.small("partition")?;
    fault.group = reader.text("group")?;
    fault.transactional_id = reader.text("transactionalId")?;
    fault.count = match reader.number("count")? {
        None => Some(1),
        Some(-1) => None,
        Some(count) => Some(u64::try_from(count).map_err(|_| wrong("count must be -1 or at least 0"))?),
    };
    Ok(fault)
}

fn wrong(text: impl Into<String>) -> ControlError {
    ControlError::Invalid(text.into())
}

fn unknown_point(name: &str) -> ControlError {
    let points = FaultPoint::ALL.map(|(_, name)| name).join(", ");
    wrong(format!("no point is called {name}, but {points}"))
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Result<Option<String>, ControlError> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(format!("{name} must be a text"))),
        }
    }

    fn number(&self, name: &str) -> Result<Option<i64>, ControlError> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_i64().map(Some).ok_or_else(|| wrong(format!("{name} must be a whole number")))
            }
        }
    }

    fn small(&self, name: &str) -> Result<Option<i32>, ControlError> {
        let number = self.number(name)?.map(i32::try_from);
        number.transpose().map_err(|_| wrong(format!("{name} is out of range")))
    }

    fn node(&self, name: &str) -> Result<Option<NodeId>, ControlError> {
        Ok(self.small(name)?.map(NodeId::new))
    }

    fn apis(&self) -> Result<Vec<ApiKey>, ControlError> {
        let names = match self.fields.get("apis") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(names)) => names,
            Some(_) => return Err(wrong("apis must be a list")),
        };
        let find = |name: &Value| {
            let api = APIS.iter().find(|api| Some(api.name) == name.as_str());
            api.map(|api| api.key).ok_or_else(|| wrong(format!("no API is called {name}")))
        };
        names.iter().map(find).collect()
    }

    fn action(&self) -> Result<FaultAction, ControlError> {
        let name = self.text("action")?.ok_or_else(|| wrong("action is missing"))?;
        let action = match name.as_str() {
            "error" => FaultAction::Error(self.error()?),
            "hold" => FaultAction::Hold,
            "drop" => FaultAction::Drop,
            "repeat" => FaultAction::Repeat,
            "disconnect" => FaultAction::Disconnect,
            "delay" => {
                let ms = self.number("delayMs")?.filter(|ms| (0..=DELAY_MS_MAX).contains(ms));
                FaultAction::Delay(ms.ok_or_else(|| wrong(format!("delayMs must be 0 to {DELAY_MS_MAX}")))?)
            }
            _ => return Err(wrong(format!("no action is called {name}, but {ACTIONS}"))),
        };
        let needs = |field: &str, action: &str| match self.fields.get(field) {
            None | Some(Value::Null) => Ok(()),
            Some(_) if name == action => Ok(()),
            Some(_) => Err(wrong(format!("{field} goes with the action {action} alone"))),
        };
        needs("error", "error")?;
        needs("delayMs", "delay")?;
        Ok(action)
    }

    fn error(&self) -> Result<ErrorCode, ControlError> {
        let name = self.text("error")?.ok_or_else(|| wrong("error is missing"))?;
        ErrorCode::from_name(&name)
            .filter(|error| *error != ErrorCode::None)
            .ok_or_else(|| wrong(format!("no error is called {name}")))
    }
}

/// The longest delay: a day.
const DELAY_MS_MAX: i64 = 86_400_000;

/// Returns a fault as JSON.
pub(super) fn shown(view: &FaultView) -> Value {
    let fault = &view.fault;
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("id", view.id.into());
    put("at", fault.at.name().into());
    if !fault.apis.is_empty() {
        put("apis", fault.apis.iter().map(|api| Value::from(api.api().name)).collect());
    }
    for (name, node) in [("from", fault.from), ("to", fault.to), ("node", fault.node)] {
        if let Some(node) = node {
            put(name, node.get().into());
        }
    }
    if let Some(partition) = fault.partition {
        put("partition", partition.into());
    }
    for (name, text) in
        [("topic", &fault.topic), ("group", &fault.group), ("transactionalId", &fault.transactional_id)]
    {
        if let Some(text) = text {
            put(name, text.as_str().into());
        }
    }
    let (action, more) = match fault.action {
        FaultAction::Error(error) => ("error", Some(("error", json!(error.name())))),
        FaultAction::Hold => ("hold", None),
        FaultAction::Drop => ("drop", None),
        FaultAction::Repeat => ("repeat", None),
        FaultAction::Disconnect => ("disconnect", None),
        FaultAction::Delay(ms) => ("delay", Some(("delayMs", json!(ms)))),
    };
    put("action", action.into());
    if let Some((name, value)) = more {
        put(name, value);
    }
    put("count", fault.count.map_or(json!(-1), |count| json!(count)));
    put("met", view.met.into());
    put("held", view.held.into());
    Value::Object(shown)
}
